//! Tests the start and the end of measuring threads.

use crate::support::machine;
use crate::support::workplace::{Workplace, finish};

#[test]
fn no_measuring_thread_ends_or_frees_memory_while_another_one_takes_samples() {
    let place = Workplace::new();
    let mut strace = place.prepared(
        machine::program("strace", "strace"),
        [
            "-f",
            "--seccomp-bpf",
            "-o",
            "trace",
            "-e",
            "trace=prctl,clock_nanosleep,munmap,exit",
            env!("CARGO_BIN_EXE_tardy"),
        ],
    );
    // The threads of the first two probes are done after 20 ms, and the thread of the last probe
    // after 400 ms.
    let probes = "--probe parallel:copies=2 --probe timerfd --probe nanosleep:period=20ms";
    let cpu = machine::last_cpu();
    strace.args(
        format!("run --cycles 20 --load none --cpus {cpu} {probes} --quiet --json --out run")
            .split(' '),
    );
    finish(strace).ends_with(0);
    let trace = std::fs::read_to_string(place.path("trace")).unwrap();
    let lines: Vec<(&str, &str)> = trace
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(thread, call)| (thread, call.trim_start()))
        .collect();
    let named = |call: &str| {
        ["parallel/", "timerfd/", "nanosleep/"]
            .iter()
            .any(|name| call.starts_with(&format!("prctl(PR_SET_NAME, \"{name}")))
    };
    let threads: Vec<&str> = lines
        .iter()
        .filter(|(_, call)| named(call))
        .map(|&(thread, _)| thread)
        .collect();
    assert_eq!(threads.len(), 4, "{trace}");
    let of_measuring = |begins: &'static [&'static str]| {
        let threads = &threads;
        move |&(thread, call): &(&str, &str)| {
            threads.contains(&thread) && begins.iter().any(|begin| call.starts_with(begin))
        }
    };
    let sleeps = of_measuring(&["clock_nanosleep(", "<... clock_nanosleep"]);
    let first_sleep = lines.iter().position(&sleeps).unwrap();
    let last_sleep = lines.iter().rposition(&sleeps).unwrap();
    // Calls of munmap before the loop do not count, because a thread returns unneeded heap memory
    // there.
    let first_end = lines[first_sleep..]
        .iter()
        .position(of_measuring(&["munmap(", "exit("]))
        .map(|after| first_sleep + after)
        .unwrap();
    assert!(last_sleep < first_end, "{:?}\n{trace}", lines[first_end]);
}

#[test]
fn no_sample_is_from_before_the_start_of_its_run() {
    let place = Workplace::new();
    let asked = [
        "cyclic",
        "nanosleep:period=1ms",
        "usleep:period=1ms",
        "itimer:period=1ms",
        "parallel:copies=2",
        "timerfd",
        "pipe",
    ];
    let probes: String = asked.map(|probe| format!(" --probe {probe}")).concat();
    let cpu = machine::last_cpu();
    place
        .tardy(&format!(
            "run --cycles 10 --load none --cpus {cpu}{probes} --quiet --out run"
        ))
        .ends_with(0);
    let samples = place.tardy("export -f csv run").ends_with(0).stdout;
    let due = |line: &str| line.split(',').nth(4).unwrap().parse::<i64>().unwrap();
    let early: Vec<&str> = samples
        .lines()
        .skip(1)
        .filter(|line| due(line) < 0)
        .collect();
    assert!(samples.lines().count() > 10 * asked.len(), "{samples}");
    assert_eq!(early, [""; 0]);
}
