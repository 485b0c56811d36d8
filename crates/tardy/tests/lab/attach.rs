//! Tests `tardy attach` in guests, where every length is exact: known delays of each kind of
//! wake-up, known delays in the links of a chain, calls that block, and the cost of following a
//! program.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::hostile::{run_script_on, scripts_run};
use super::{REAL_TIME, STOCK, kernel, lab_is_there, modules};
use crate::support::chains::is_delayed_in;
use crate::support::document;
use tardy_lab::injection::{Context, MODULE_NAME};

/// The kernels on which the proof in docs/attach.md was made.
const KERNELS: [&str; 6] = [
    STOCK,
    REAL_TIME,
    "debian:6.12",
    "debian:6.12-rt",
    "debian:7.3",
    "debian:7.3-rt",
];
/// The ways in which a thread of tests/data/woken.c waits.
const WAYS: [&str; 5] = ["timer", "futex", "pipe", "epoll", "signal"];

/// Compiles tests/data/NAME.c as a static program, and returns the value of `--add` that puts it
/// into a guest as /bin/NAME.
fn compiled(folder: &Path, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.c"));
    let program = folder.join(name);
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-static"])
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    format!("{}:/bin/{name}", program.display())
}

/// Part of a script. It starts a program, which waits for a line of input, and follows it with
/// `tardy attach`. Once samples can be recorded, it writes the line, and waits until both have
/// ended. The program's output is in /run/out/NAME.stamps, the result in /run/out/NAME.json, and
/// the run folder is /run/out/NAME.
fn followed(name: &str, program: &str) -> String {
    let out = format!("/run/out/{name}");
    format!(
        "mkfifo /run/{name}\nexec 3<>/run/{name}\n{program} </run/{name} >{out}.stamps 3>&- \
         &\nprogram=$!\n/init attach $program --for 100s --json --out {out} >{out}.json \
         2>{out}.err 3>&- &\nuntil [ -d {out}/samples ]; do usleep 10000; done\necho >&3\nexec \
         3>&-\nwait\n"
    )
}

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The result of `tardy attach` that the guest left.
fn result(left: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(left.join(format!("{name}.json"))).unwrap();
    let said = std::fs::read_to_string(left.join(format!("{name}.err")));
    assert!(!text.is_empty(), "{said:?}");
    document::read(&text)
}

/// The explanation of all cycles in a run folder.
fn cycles(run: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(["explain", "--above", "1ns", "--json"])
        .arg(run)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    document::read(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn a_delay_in_a_link_of_a_chain_is_found_in_this_link_each_time() {
    if !scripts_run("a chain with a delay in each link") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "chain");
    let links = ["recv", "control", "motor"];
    // 2040 cycles have 102 delays. The first two come before tardy knows where the threads wait, so
    // their chains may lack the first links; the result has the 100 slowest chains.
    let script: String = links
        .iter()
        .map(|link| followed(link, &format!("/bin/chain {link} 2040 5000")))
        .collect();
    let left = run_script_on(REAL_TIME, folder.path(), &["--add", &program], &script);
    for link in links {
        let found = result(&left, link);
        let chains = found["cycles"]["chains"].as_array().unwrap();
        let right = chains.iter().filter(|chain| is_delayed_in(chain, link));
        assert_eq!(
            (right.count(), chains.len()),
            (100, 100),
            "{link}: {chains:#?}"
        );
    }
}

/// A wake-up, as the program of tests/data/woken.c recorded it.
#[derive(Debug)]
struct WakeUp {
    way: String,
    context: String,
    is_delayed: bool,
    /// Due time, or time of the call that wakes the thread.
    reference: i64,
    /// Time at which the thread ran.
    end: i64,
}

impl WakeUp {
    fn length(&self) -> i64 {
        self.end - self.reference
    }
}

fn stamps(left: &Path, name: &str) -> Vec<WakeUp> {
    let path = left.join(format!("{name}.stamps"));
    let text = std::fs::read_to_string(&path).unwrap();
    let stamp = |line: &str| {
        let [way, context, is_delayed, reference, end] = *line.split(' ').collect::<Vec<_>>()
        else {
            panic!("{line}")
        };
        WakeUp {
            way: way.to_owned(),
            context: context.to_owned(),
            is_delayed: is_delayed == "1",
            reference: reference.parse().unwrap(),
            end: end.parse().unwrap(),
        }
    };
    text.lines().map(stamp).collect()
}

/// The cycle that started with this wake-up of a thread of tests/data/woken.c.
fn cycle_of<'a>(found: &'a Value, wake_up: &WakeUp) -> Option<&'a Value> {
    found["worst"].as_array().unwrap().iter().find(|cycle| {
        let begin = number(&cycle["begin_ns"]);
        cycle["name"] == *wake_up.way && (wake_up.reference..wake_up.end).contains(&begin)
    })
}

/// Statistics of all delays: the largest deviation of a measured length, and, for each way of
/// waiting and each context of the delay, the number of delays that did not make the thread late.
#[derive(Debug, Default)]
struct Delays {
    delays: usize,
    longest_deviation: i64,
    not_late: BTreeMap<(String, String), usize>,
    wrong: Vec<String>,
}

/// Delays the wake-ups of a program in each way and context on these kernels.
fn delays_on(kernels: &[&str]) -> BTreeMap<String, Delays> {
    let contexts = Context::ALL.map(Context::name).join(" ");
    // The script switches transparent huge pages off, because khugepaged would delay some wake-ups,
    // too.
    let script = format!(
        "echo never >/sys/kernel/mm/transparent_hugepage/enabled\n{}",
        followed("woken", &format!("/bin/woken 8 {contexts}"))
    );
    let mut all = BTreeMap::new();
    for &source in kernels {
        let folder = tempfile::tempdir().unwrap();
        let release = kernel(source).unwrap().release().unwrap().to_owned();
        let module = modules().join(release).join(MODULE_NAME);
        let further = [
            "--add",
            &compiled(folder.path(), "woken"),
            "--module",
            module.to_str().unwrap(),
        ];
        let left = run_script_on(source, folder.path(), &further, &script);
        let found = cycles(&left.join("woken"));
        let mut delays = Delays::default();
        for wake_up in stamps(&left, "woken").iter().filter(|one| one.is_delayed) {
            delays.delays += 1;
            let culprit = match wake_up.way.as_str() {
                _ if wake_up.context == "softirq" => "softirq TASKLET",
                "timer" => "injector/",
                _ => "waker/",
            };
            let length = wake_up.length();
            // The delay lasts until 3.5 ms after the due time, or until 4 ms after the call.
            if length < 1_000_000 {
                let key = (wake_up.way.clone(), wake_up.context.clone());
                *delays.not_late.entry(key).or_default() += 1;
                continue;
            }
            let Some(cycle) = cycle_of(&found, wake_up) else {
                delays.wrong.push(format!("no cycle for {wake_up:?}"));
                continue;
            };
            let waited = &cycle["stretches"][0];
            let deviation = (number(&waited["length_ns"]) - length).abs();
            delays.longest_deviation = delays.longest_deviation.max(deviation);
            let is_named = waited["by"]
                .as_str()
                .is_some_and(|by| by.starts_with(culprit));
            if waited["kind"] != "wake-up" || !is_named || deviation > (length / 50).max(2_000) {
                delays.wrong.push(format!("{wake_up:?}: {cycle}"));
            }
        }
        eprintln!("{source}: {delays:#?}");
        all.insert(source.to_owned(), delays);
    }
    all
}

/// Checks that each delay is found with its culprit and its length. There is one exception: in the
/// contexts that `not_late` lists, the kernel lets the thread `timer` preempt the code that causes
/// the delay. In these contexts, `timer` must never be late.
fn are_found(found: &BTreeMap<String, Delays>, not_late: &BTreeMap<&str, Vec<&str>>) {
    for (source, delays) in found {
        assert!(delays.wrong.is_empty(), "{source}: {:#?}", delays.wrong);
        assert_eq!(delays.delays, 5 * 6 * 8, "{source}");
        let expected: BTreeMap<(String, String), usize> = not_late[&**source]
            .iter()
            .map(|context| (("timer".to_owned(), (*context).to_owned()), 8))
            .collect();
        assert_eq!(delays.not_late, expected, "{source}");
    }
}

fn delays_can_be_made(test: &str) -> bool {
    lab_is_there(test, true) && scripts_run(test)
}

#[test]
fn a_delay_of_a_wake_up_of_any_kind_is_laid_to_its_culprit_at_its_length() {
    if delays_can_be_made("delays of each kind of wake-up") {
        are_found(&delays_on(&KERNELS[..2]), &not_late());
    }
}

#[test]
#[ignore = "boots six kernels; needs `cargo xtask inject` with each of them"]
fn a_delay_is_laid_to_its_culprit_on_six_kernels() {
    if delays_can_be_made("delays of each kind of wake-up on six kernels") {
        are_found(&delays_on(&KERNELS), &not_late());
    }
}

/// For each kernel, the contexts that the thread `timer` can preempt.
fn not_late() -> BTreeMap<&'static str, Vec<&'static str>> {
    let preempted = |kernel: &str| match kernel {
        _ if kernel.ends_with("-rt") => vec!["softirq", "spinlock", "plain"],
        // In Debian's 7.3, a real-time thread preempts other threads in the kernel. The older stock
        // kernels start with the model voluntary.
        "debian:7.3" => vec!["plain"],
        _ => Vec::new(),
    };
    KERNELS.map(|kernel| (kernel, preempted(kernel))).into()
}

#[test]
fn time_off_the_cpu_in_a_blocking_call_is_that_of_the_programs_own_clocks() {
    if !scripts_run("blocking calls in a guest") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "cycles");
    let kinds = [
        ("lock", "futex", "holder/"),
        ("pipe", "write", "drainer/"),
        ("fsync-small", "fsync", ""),
        ("fsync", "fsync", ""),
        ("fault", "page fault", ""),
    ];
    // The disk answers after 3 ms. Without a file system on it, no call would block.
    let disk = "mkdir /run/disk && mke2fs -b 4096 /dev/nullb0 65536 >/dev/null && mount -t ext4 \
                /dev/nullb0 /run/disk && cd /run/disk || { dmesg | tail; exit 1; } >&2\n";
    let script: String = [disk.to_owned()]
        .into_iter()
        .chain(
            kinds
                .iter()
                .map(|(kind, ..)| followed(kind, &format!("/bin/cycles {kind} 100 10000"))),
        )
        .collect();
    let further = [
        "--add",
        &program,
        // ext4 asks the kernel for this module when it mounts.
        "--module",
        "crc32c_generic",
        "--module",
        "ext4",
        "--module",
        "null_blk:irqmode=2:completion_nsec=3000000:memory_backed=1",
    ];
    let left = run_script_on(REAL_TIME, folder.path(), &further, &script);
    for (kind, call, waker) in kinds {
        let found = cycles(&left.join(kind));
        let text = std::fs::read_to_string(left.join(format!("{kind}.stamps"))).unwrap();
        let mut largest: f64 = 0.0;
        let mut calls = 0;
        for line in text.lines() {
            let words: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [before, after, cpu] = *words else {
                panic!("{line}")
            };
            let own = after - before - cpu;
            let (mut off_cpu, mut parts) = (0, 0);
            let mut within = Vec::new();
            for cycle in found["worst"].as_array().unwrap() {
                let begin = number(&cycle["begin_ns"]);
                let end = begin + number(&cycle["response_ns"]);
                if cycle["name"] == "cycles" && begin <= before && after <= end {
                    // fsync waits for each page, and a cycle lists only its 32 longest parts.
                    off_cpu += number(&cycle["left_out_ns"]);
                    parts += number(&cycle["left_out"]);
                }
                for stretch in cycle["stretches"].as_array().unwrap() {
                    let start = begin + number(&stretch["at_ns"]);
                    let length = number(&stretch["length_ns"]);
                    if cycle["name"] == "cycles" && before <= start && start + length <= after {
                        off_cpu += length;
                        parts += 1;
                        within.push(stretch);
                    }
                }
            }
            let is_named = within.iter().any(|stretch| {
                let by = stretch["by"].as_str();
                stretch["place"]["call"] == call && by.is_some_and(|by| by.starts_with(waker))
            });
            calls += 1;
            assert!(is_named, "{kind}: {line}: {within:#?}");
            let deviation = (off_cpu - own).abs();
            largest = largest.max(deviation as f64 / own as f64);
            // In each switch, the kernel's CPU time clock reads the time some hundred instructions
            // before the kernel writes the event (kernel/sched/core.c, __schedule).
            let allowed = (own / 50).max(1_000 * parts);
            assert!(
                deviation <= allowed,
                "{kind}: {line}: {off_cpu} in {parts} parts"
            );
        }
        eprintln!(
            "{kind}: {calls} calls, deviation at most {:.3} %",
            100.0 * largest
        );
        assert_eq!(calls, 5, "{kind}");
    }
}

/// Median length of the wake-ups for each way of waiting, in instructions.
fn instructions(left: &Path, name: &str) -> [i64; 5] {
    let stamps = stamps(left, name);
    WAYS.map(|way| {
        let of_way = stamps.iter().filter(|one| one.way == way);
        let mut lengths: Vec<i64> = of_way.map(WakeUp::length).collect();
        lengths.sort_unstable();
        // An instruction takes 4 ns.
        lengths[lengths.len() / 2] / 4
    })
}

/// For each way of waiting, the number of instructions that `tardy attach` adds to a wake-up: first
/// in the program that it follows, then in another program that runs at the same time.
fn added_on(source: &str) -> [[i64; 5]; 2] {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "woken");
    let script = format!(
        "echo | /bin/woken 100 none >/run/out/alone.stamps\n{}\
         sleep 1000 &\nsleeper=$!\n/init attach $sleeper --for 100s --json --out /run/out/other \
         >/run/out/other.json 2>/run/out/other.err &\nattach=$!\n\
         until [ -d /run/out/other/samples ]; do usleep 10000; done\n\
         echo | /bin/woken 100 none >/run/out/beside.stamps\nkill -INT $attach\nwait $attach\n\
         kill $sleeper\n",
        followed("followed", "/bin/woken 100 none")
    );
    let left = run_script_on(source, folder.path(), &["--add", &program], &script);
    let [alone, followed, beside] =
        ["alone", "followed", "beside"].map(|name| instructions(&left, name));
    eprintln!("{source}: alone {alone:?}, followed {followed:?}, beside {beside:?}");
    [followed, beside].map(|with| std::array::from_fn(|way| with[way] - alone[way]))
}

#[test]
fn following_adds_few_instructions_to_a_wake_up() {
    if !scripts_run("instructions added to a wake-up") {
        return;
    }
    // Limits for wake-ups by a timer and by a thread, first in the followed program, then in
    // another program that runs at the same time. On PREEMPT_RT, most wake-ups by a thread also
    // wait for a lock that the waker holds.
    let limits = [
        (STOCK, [[5000, 3000], [4000, 2000]]),
        (REAL_TIME, [[5000, 20_000], [4000, 6500]]),
    ];
    for (source, limits) in limits {
        let added = added_on(source);
        eprintln!("{source}: followed and beside: {added:?}");
        for ([timer, threads @ ..], [of_timer, of_thread]) in added.into_iter().zip(limits) {
            assert!(
                timer <= of_timer && threads.iter().all(|&added| added <= of_thread),
                "{source}: {added:?}"
            );
        }
    }
}
