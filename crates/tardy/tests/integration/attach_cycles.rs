//! Tests the cycles that `tardy attach` finds in a program that records its own blocking calls, and
//! the chains of wake-ups that it finds in a program with a delay at a known link.

use crate::attach::can_trace;
use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::chains::is_delayed_in;
use support::machine;
use support::workplace::{RunningCommand, Workplace, finish};

const CYCLES: usize = 200;
/// Number of cycles with a blocking call, as in tests/data/cycles.c.
const CALLS: usize = CYCLES / 20;

/// A blocking call, timed in ns by the program's own clocks.
#[derive(Debug, Clone, Copy)]
struct Call {
    before: i64,
    after: i64,
    /// CPU time of the thread between `before` and `after`.
    cpu: i64,
}

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Starts tests/data/NAME.c, which waits for a line of input, and follows the program.
fn attached(place: &Workplace, name: &str, kind: &str) -> (Child, RunningCommand) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.c"));
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    );
    cc.arg("-o").arg(name).arg(source);
    finish(cc).ends_with(0);
    let words = [kind, &CYCLES.to_string(), "5000"];
    let mut command = place.prepared(Command::new(place.path(name)), words);
    let program = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut attach = place.start(&format!(
        "attach {} --for 60s --json --out run",
        program.id()
    ));
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    (program, attach)
}

/// Follows the program while it blocks in calls of one kind, and returns its thread, its records
/// and the cycles in the run folder.
fn followed(place: &Workplace, kind: &str) -> (i64, Vec<Call>, Value) {
    let (mut program, attach) = attached(place, "cycles", kind);
    let mut input = program.stdin.take().unwrap();
    writeln!(input).unwrap();
    let mut input = Some(input);
    let output = BufReader::new(program.stdout.take().unwrap());
    let mut calls = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        let words: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [before, after, cpu] = *words else {
            panic!("{line}")
        };
        calls.push(Call { before, after, cpu });
        // The program ends when its input is closed.
        input.take();
    }
    program.wait().unwrap();
    assert_eq!(calls.len(), CALLS);
    let attached = attach.wait().ends_with(0).json();
    let found = place
        .tardy("explain run --above 1ns --json")
        .ends_with(0)
        .json();
    assert_eq!(
        attached["cycles"]["worst"][0], found["worst"][0],
        "the folder has what the screen had"
    );
    eprintln!(
        "{}, {} cycles cut off",
        attached["trace"], attached["cycles"]["cut_off"]
    );
    (program.id().into(), calls, found)
}

/// Checks each of the worst cycles. The parts of a cycle must add up to its response time. The
/// stored and the omitted intervals of a cycle must add up to the time in which the thread was not
/// running.
fn adds_up(found: &Value, thread: i64) {
    let rows = found["threads"].as_array().unwrap();
    let row = rows.iter().find(|row| row["thread"] == thread).unwrap();
    assert_eq!(row["ends_in"]["call"], "clock_nanosleep", "{row}");
    assert!(number(&row["cycles"]) > CYCLES as i64 / 2, "{row}");
    for cycle in found["worst"].as_array().unwrap() {
        let shares = ["wake_up_ns", "running_ns", "preempted_ns", "blocked_ns"]
            .map(|share| number(&cycle[share]));
        let response = number(&cycle["response_ns"]);
        assert_eq!(shares.iter().sum::<i64>(), response, "{cycle}");
        assert!(shares.iter().all(|share| *share >= 0), "{cycle}");
        let listed: i64 = cycle["stretches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stretch| number(&stretch["length_ns"]))
            .sum();
        assert_eq!(
            listed + number(&cycle["left_out_ns"]),
            response - shares[1],
            "{cycle}"
        );
    }
}

/// Checks that in most blocking calls the longest blocked interval has the expected call and waker.
/// Prints the time off the CPU twice: first as the sum of the intervals, then as measured by the
/// program's own clocks.
fn blocks_in(test: &str, kind: &str, call: &str, waker: Option<&str>) {
    if !can_trace(test) {
        return;
    }
    let place = Workplace::new();
    let (thread, calls, found) = followed(&place, kind);
    adds_up(&found, thread);
    let (mut named, mut by_calls, mut by_cycles) = (0, 0, 0);
    for stamps in &calls {
        let mut off_cpu = 0;
        let mut longest: Option<&Value> = None;
        let cycles = found["worst"].as_array().unwrap().iter();
        for cycle in cycles.filter(|cycle| cycle["thread"] == thread) {
            let begin = number(&cycle["begin_ns"]);
            for stretch in cycle["stretches"].as_array().unwrap() {
                let start = begin + number(&stretch["at_ns"]);
                let length = number(&stretch["length_ns"]);
                if start < stamps.before || start + length > stamps.after {
                    continue;
                }
                off_cpu += length;
                if stretch["kind"] == "blocked"
                    && longest.is_none_or(|before| number(&before["length_ns"]) < length)
                {
                    longest = Some(stretch);
                }
            }
        }
        let own = stamps.after - stamps.before - stamps.cpu;
        by_calls += own;
        by_cycles += off_cpu;
        assert!(
            off_cpu <= stamps.after - stamps.before,
            "{kind}: {off_cpu} ns off the CPU in {stamps:?}"
        );
        // A quick disk may answer before the thread sleeps, and another program may delay the
        // thread for longer.
        let is_right = |longest: &Value| {
            let by = longest["by"].as_str();
            longest["place"]["call"] == call
                && waker.is_none_or(|waker| by.is_some_and(|by| by.starts_with(waker)))
        };
        named += usize::from(longest.is_some_and(is_right));
    }
    eprintln!("{kind}: off the CPU for {by_calls} ns by the program, {by_cycles} ns by attach");
    assert!(named > CALLS / 2, "{named} of {CALLS} calls are named");
    let text = place.tardy("explain run --above 1ns").ends_with(0).stdout;
    assert!(text.contains(&format!(" in {call} (")), "{text}");
}

#[test]
fn a_lock_that_a_thread_of_lower_priority_holds_is_named_with_its_holder() {
    blocks_in(
        "a_lock_that_a_thread_of_lower_priority_holds_is_named_with_its_holder",
        "lock",
        "futex",
        Some("holder/"),
    );
}

#[test]
fn a_loop_that_waits_for_its_disk_is_blocked_in_fsync() {
    blocks_in(
        "a_loop_that_waits_for_its_disk_is_blocked_in_fsync",
        "fsync",
        "fsync",
        None,
    );
}

#[test]
fn a_page_that_is_read_from_a_file_is_a_page_fault() {
    blocks_in(
        "a_page_that_is_read_from_a_file_is_a_page_fault",
        "fault",
        "page fault",
        None,
    );
}

#[test]
fn a_full_pipe_is_named_with_the_thread_that_drains_it() {
    blocks_in(
        "a_full_pipe_is_named_with_the_thread_that_drains_it",
        "pipe",
        "write",
        Some("drainer/"),
    );
}

#[test]
fn a_delay_in_a_link_of_a_chain_is_found_in_this_link() {
    if !can_trace("a_delay_in_a_link_of_a_chain_is_found_in_this_link") {
        return;
    }
    for link in ["recv", "control", "motor"] {
        let place = Workplace::new();
        let (mut program, attach) = attached(&place, "chain", link);
        writeln!(program.stdin.take().unwrap()).unwrap();
        program.wait().unwrap();
        let found = attach.wait().ends_with(0).json();
        let chains = found["cycles"]["chains"].as_array().unwrap();
        let right = chains.iter().filter(|chain| is_delayed_in(chain, link));
        let right = right.count();
        // Another program may delay the thread too, and unrelated threads wake one another.
        assert!(right >= 3, "{link}: {right} of {chains:?}");
    }
}

#[test]
fn the_thread_that_had_the_cpu_of_a_virtual_cpu_is_named() {
    const TEST: &str = "the_thread_that_had_the_cpu_of_a_virtual_cpu_is_named";
    if !can_trace(TEST) {
        return;
    }
    let place = Workplace::new();
    // A boot sector that computes after each tick of its timer (18.2 per second):
    // 1: sti; hlt; mov dx, 100; 2: mov cx, 0xffff; 3: loop 3b; dec dx; jnz 2b; jmp 1b
    let mut sector = vec![
        0xfb, 0xf4, 0xba, 100, 0, 0xb9, 0xff, 0xff, 0xe2, 0xfe, 0x4a, 0x75, 0xf8, 0xeb, 0xf1,
    ];
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    std::fs::write(place.path("guest.img"), sector).unwrap();
    let cpu = machine::last_cpu().to_string();
    let pinned = |words: &str| {
        let words = format!("-c {cpu} {words}");
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        place.start_command(machine::program("taskset", "util-linux"), words)
    };
    machine::program("qemu-system-x86_64", "qemu-system-x86");
    let guest = pinned(
        "qemu-system-x86_64 -accel tcg -display none -name guest,debug-threads=on -nodefaults \
         -vga std -drive file=guest.img,format=raw,snapshot=on",
    );
    std::os::unix::fs::symlink("/bin/sh", place.path("hog")).unwrap();
    let hog = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); j=0; while [ $j -lt 20000 ]; do \
               j=$((j+1)); done; sleep 0.02; done";
    std::fs::write(place.path("hog.sh"), hog).unwrap();
    let _hog = pinned("chrt -f 10 ./hog hog.sh");
    let line = format!("attach {} --for 4s --json --out run", guest.pid());
    let found = place.tardy(&line).ends_with(0).json();
    let cycles = found["cycles"]["worst"].as_array().unwrap();
    let delayed = cycles.iter().filter(|cycle| {
        let stretches = cycle["stretches"].as_array().unwrap();
        cycle["name"] == "CPU 0/TCG"
            && stretches.iter().any(|stretch| {
                let by = stretch["by"].as_str();
                by.is_some_and(|by| by.starts_with("hog/")) && number(&stretch["by_ns"]) > 1_000_000
            })
    });
    let delayed = delayed.count();
    assert!(delayed >= 3, "{delayed} of {cycles:#?}");
}
