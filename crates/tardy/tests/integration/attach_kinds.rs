//! Tests the kinds of wake-ups that `tardy attach` distinguishes, with a program whose second
//! thread is woken in known calls and counts its own sleeps.

use crate::attach::can_trace;
use crate::support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{RunningCommand, Workplace, finish};
use tardy_core::series::Reference;

const ROUNDS: u64 = 100;
const CALLS: [&str; 7] = [
    "read",
    "futex",
    "epoll_wait",
    "recvfrom",
    "rt_sigtimedwait",
    "mq_timedreceive",
    "io_uring_enter",
];

/// Starts tests/data/wakers.c under the command `before`. The program waits for a line of input.
fn wakers(place: &Workplace, before: &[&str]) -> Child {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wakers.c");
    let mut cc = place.prepared(
        machine::program("cc", "build-essential"),
        ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    );
    cc.arg("-o").arg("wakers").arg(source);
    finish(cc).ends_with(0);
    let program = place.path("wakers").display().to_string();
    let rounds = ROUNDS.to_string();
    let words = [before, &[&program, &rounds]].concat();
    let mut command = place.prepared(Command::new(words[0]), &words[1..]);
    command.stdin(Stdio::piped()).spawn().unwrap()
}

/// Starts `tardy attach` for a program, and waits until it records.
fn attach(place: &Workplace, process: u32, flags: &str) -> RunningCommand {
    let line = format!("attach {process} --for 60s --json --out run {flags}");
    let mut attach = place.start(&line);
    attach.until("it records", || {
        place.path("run/samples").is_dir().then_some(())
    });
    attach
}

/// Lets the program run to its end, and returns how often its waiting thread slept in each call.
fn sleeps(mut program: Child) -> BTreeMap<String, u64> {
    let mut input = program.stdin.take().unwrap();
    writeln!(input).unwrap();
    let mut input = Some(input);
    let mut sleeps = BTreeMap::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let (call, count) = line.split_once(' ').unwrap();
        sleeps.insert(format!("{call}-thread"), count.parse().unwrap());
        if sleeps.len() == CALLS.len() {
            // The program ends when its input is closed.
            input.take();
        }
    }
    program.wait().unwrap();
    assert_eq!(sleeps.len(), CALLS.len());
    sleeps
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks the rows of the waiting thread: every sleep that the program counted ended in one
/// wake-up, either of the kind of its call or without a known call.
fn has_each_kind(found: &Value, sleeps: &BTreeMap<String, u64>) {
    let rows = found["threads"].as_array().unwrap();
    let of_waiter = rows.iter().filter(|row| row["name"] == "waiter");
    let mut kinds: BTreeMap<String, u64> = of_waiter
        .map(|row| {
            assert_eq!(row["woken_by"], "thread", "{row}");
            let kind = row["kind"].as_str().unwrap().to_owned();
            (kind, count(&row["wake_ups"]))
        })
        .collect();
    // Two sorts of wake-ups have no known call: the first wake-up, because its sleep began before
    // the measurement, and the wake-ups of a thread that was woken before it slept.
    let unknown = kinds.remove("thread").unwrap();
    assert!(kinds.keys().eq(sleeps.keys()), "{kinds:?}");
    let missing: u64 = kinds.iter().map(|(kind, found)| sleeps[kind] - found).sum();
    assert_eq!(
        unknown,
        missing + 1,
        "{kinds:?} {sleeps:?} {}",
        found["wakings"]
    );
    let wakings = &found["wakings"];
    let ends = ["measured", "no_entry", "unknown_timer", "lost", "pending"];
    let sum: u64 = ends.iter().map(|end| count(&wakings[end])).sum();
    assert_eq!(count(&wakings["wakings"]), sum, "{wakings}");
    let measured: u64 = rows.iter().map(|row| count(&row["wake_ups"])).sum();
    assert_eq!(
        (count(&wakings["measured"]), count(&found["wake_ups"])),
        (measured, measured),
        "{wakings}"
    );
}

#[test]
fn each_kind_of_wake_up_by_another_thread_is_a_row_with_every_wake_up() {
    if !can_trace("each_kind_of_wake_up_by_another_thread_is_a_row_with_every_wake_up") {
        return;
    }
    let place = Workplace::new();
    let program = wakers(&place, &[]);
    let attach = attach(&place, program.id(), "--deadline 1h");
    let sleeps = sleeps(program);
    let found = attach.wait().ends_with(0).json();
    assert!(
        sleeps.values().all(|&count| count >= ROUNDS),
        "the program sleeps in each round: {sleeps:?}"
    );
    has_each_kind(&found, &sleeps);
    assert_eq!(found["verdict"]["outcome"], "passed", "{found}");
    // Every row passed, so the verdict of the whole folder repeats the verdict of one of its rows.
    let judged = &found["verdict"]["evidence"]["due_times"];
    let rows = found["threads"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["wake_ups"] == *judged),
        "{judged}"
    );
    for worst in found["worst"].as_array().unwrap() {
        let parts = worst["parts"].as_object().unwrap().values();
        let sum: i64 = parts.map(|part| part.as_i64().unwrap()).sum();
        assert_eq!(sum, worst["lateness_ns"].as_i64().unwrap(), "{worst}");
        let by = worst["by"].as_str().unwrap_or_default();
        assert!(
            worst["name"] != "waiter" || by.starts_with("wakers/"),
            "{worst}"
        );
    }
    let stored = series::all(&place.path("run"));
    for (kind, &count) in &sleeps {
        let probe = format!("waiter.{kind}");
        let one = stored.iter().find(|one| one.descriptor.probe == probe);
        let one = one.unwrap_or_else(|| panic!("no {probe}"));
        assert_eq!(one.samples.len() as u64, count, "{probe}");
        assert_eq!(one.descriptor.reference, Reference::Waking);
    }
    let shown = place.tardy("show run --json").ends_with(0).json();
    assert_eq!(shown["series"].as_array().unwrap().len(), stored.len());
    place
        .tardy("plot run --probe waiter.futex-thread --kind ccdf -o tail.svg")
        .ends_with(0);
    let compared = place.tardy("compare run run --format json");
    assert!([0, 1, 4].contains(&compared.code()), "{compared:?}");
    let csv = place.tardy("export run --format csv").ends_with(0).stdout;
    assert!(csv.contains("waiter.futex-thread,"), "{csv}");
    place.tardy("report run --html run.html").ends_with(0);
}

/// Starts a program in a PID namespace whose /proc has the numbers of that namespace.
const UNSHARED: [&str; 6] = [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
];

/// Returns the child of a process that has only one.
fn child_of(process: u32) -> Option<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).ok()?;
    children.split(' ').next()?.parse().ok()
}

#[test]
fn a_program_in_a_pid_namespace_is_followed_from_outside_by_its_number_there_or_here() {
    let test = "a_program_in_a_pid_namespace_is_followed_from_outside_by_its_number_there_or_here";
    if !can_trace(test) {
        return;
    }
    drop(machine::program("unshare", "util-linux"));
    let place = Workplace::new();
    let unshare = wakers(&place, &UNSHARED);
    let start = std::time::Instant::now();
    let threads = |process: u32| {
        let found = std::fs::read_dir(format!("/proc/{process}/task"));
        found.map_or(0, |found| found.count())
    };
    let program = loop {
        if let Some(program) = child_of(unshare.id())
            && threads(program) == 2
        {
            break program;
        }
        assert!(start.elapsed().as_secs() < 30, "it does not start");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    // The program's second thread has number 2 in its namespace.
    let attach = attach(&place, program, "--thread 2");
    let sleeps = sleeps(unshare);
    let found = attach.wait().ends_with(0).json();
    has_each_kind(&found, &sleeps);
    let threads = found["threads"].as_array().unwrap();
    assert!(
        threads.iter().all(|row| row["name"] == "waiter"),
        "{threads:?}"
    );
    assert_eq!(found["process"]["thread"], threads[0]["thread"]);
}

#[test]
fn in_a_pid_namespace_nothing_is_followed_by_numbers_that_the_trace_does_not_have() {
    let test = "in_a_pid_namespace_nothing_is_followed_by_numbers_that_the_trace_does_not_have";
    if !can_trace(test) {
        return;
    }
    let place = Workplace::new();
    let inside = |options: &[&str], process: u32| {
        let mut unshare = place.prepared(machine::program("unshare", "util-linux"), options);
        unshare.arg(env!("CARGO_BIN_EXE_tardy"));
        let process = process.to_string();
        unshare.args(["attach", &process, "--for", "1s", "--json"]);
        finish(unshare)
    };
    let refused = inside(&["--pid", "--fork", "--mount-proc"], 1).ends_with(3);
    assert!(refused.stderr.contains("PID namespace"), "{refused:?}");
    // Without `--mount-proc`, the namespace sees the outer /proc, which has the same thread IDs as
    // the trace.
    let program = wakers(&place, &[]);
    let found = inside(&["--pid", "--fork"], program.id());
    assert_eq!(found.ends_with(4).json()["wake_ups"], 0);
    drop(Stopped(program));
}

/// A program that is killed on drop.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
