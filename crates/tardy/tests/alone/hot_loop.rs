//! What the measuring thread does between arm and disarm: sleep, read the clock, hand the sample over, and nothing else.

use crate::support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_measure::scenario::ProbeRequest;
use tardy_probes::probe::{Member, OpenContext, ProbeInfo, ProbeSpec, Ready};
use tardy_probes::record::control::Control;
use tardy_probes::record::ring::ring;
use tardy_run::plan::ThreadPlan;
use tardy_run::system_clock::ThreadClocks;

use support::machine;
use support::workplace::{Workplace, finish};

/// The promise: user-space instructions a sample in the measuring thread, with recording on. The clock read is a system call under callgrind,
/// which hides the vDSO; cyclictest and jitterdebugger are counted in the same way.
const INSTRUCTIONS_MAX: f64 = 90.0;

/// The binary that users run: cargo's test profile inlines nothing across crates.
pub(crate) fn released_binary() -> PathBuf {
    if !cfg!(debug_assertions) {
        return PathBuf::from(env!("CARGO_BIN_EXE_tardy"));
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "--profile", "counted", "--package", "tardy", "--bin", "tardy", "--message-format", "json-render-diagnostics"]);
    let built = finish(cargo).ends_with(0);
    let executable = |line: &str| serde_json::from_str::<Value>(line).ok()?["executable"].as_str().map(PathBuf::from);
    built.stdout.lines().filter_map(executable).next_back().expect("cargo names the executable that it built")
}

/// (instructions in the loop, samples recorded) of a run of so many cycles.
fn count_instructions(place: &Workplace, tardy: &Path, cycles: u32) -> (u64, u64) {
    let (run, counts) = (format!("run-{cycles}"), format!("callgrind-{cycles}"));
    let mut valgrind = place.prepared(machine::program("valgrind", "valgrind"), ["--tool=callgrind", "--separate-threads=yes"]);
    // Only what happens in the probe's loop and below it is counted, whatever else the same thread number is used for later.
    valgrind.arg("--toggle-collect=tardy_probes::probe::cyclic::measure*").arg(format!("--callgrind-out-file={counts}")).arg(tardy);
    let cpu = machine::last_cpu().to_string();
    valgrind.args(["run", "--cycles", &cycles.to_string(), "--cpus", &cpu, "--period", "2ms", "--quiet", "--json", "--out", &run]);
    let summary = finish(valgrind).json();
    let files = place.names().into_iter().filter(|name| name.starts_with(&format!("{counts}-")));
    let totals = |name: String| {
        let text = std::fs::read_to_string(place.path(&name)).unwrap();
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse::<u64>().ok()).unwrap_or(0)
    };
    let counted: Vec<u64> = files.map(totals).filter(|&total| total > 0).collect();
    assert_eq!(counted.len(), 1, "one thread measures: {counted:?}");
    (counted[0], summary["probes"][0]["counts"]["recorded"].as_u64().unwrap())
}

#[test]
fn a_sample_takes_at_most_90_user_instructions() {
    let _turn = crate::turn();
    let place = Workplace::new();
    let tardy = released_binary();
    let (short, few) = count_instructions(&place, &tardy, 200);
    let (long, many) = count_instructions(&place, &tardy, 1200);
    assert!(many > few + 100, "{few} samples, then {many}: too few to compare");
    let a_sample = (long - short) as f64 / (many - few) as f64;
    println!("user instructions a sample, recording on: {a_sample:.1} (promised: at most {INSTRUCTIONS_MAX})");
    assert!(a_sample > 20.0, "{a_sample:.1} instructions cannot be the whole loop");
    assert!(a_sample <= INSTRUCTIONS_MAX, "{a_sample:.1} user instructions a sample");
}

/// What strace shows where the vDSO cannot read the clock source.
const MONOTONIC_READ: &str = "clock_gettime(CLOCK_MONOTONIC,";

/// Names of the system calls of each thread, in order; the clock read's with its clock.
fn system_calls(trace: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut threads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // A call in two parts was counted when it began; signals and exits are no calls.
        if call.starts_with(['<', '+', '-']) {
            continue;
        }
        let name = if call.starts_with(MONOTONIC_READ) { MONOTONIC_READ } else { call.split('(').next().unwrap_or_default() };
        threads.entry(thread).or_default().push(name);
    }
    threads
}

#[test]
fn the_measuring_thread_makes_no_system_call_but_its_sleep() {
    let _turn = crate::turn();
    // (probe, its sleep, sleeps without a sample: usleep waits for the run's start, itimer's first activation only begins an interval)
    let probes = [
        ("cyclic", "clock_nanosleep", 0),
        ("nanosleep", "clock_nanosleep", 0),
        ("usleep", "clock_nanosleep", 1),
        ("timerfd", "read", 0),
        ("itimer", "rt_sigtimedwait", 1),
        // Work in registers is none of the kernel's business.
        ("work", "clock_nanosleep", 0),
    ];
    for (probe, sleep, more) in probes {
        let place = Workplace::new();
        let cpu = machine::last_cpu();
        let mut strace = place.prepared(machine::program("strace", "strace"), ["-f", "-o", "trace", env!("CARGO_BIN_EXE_tardy")]);
        strace.args(format!("run --cycles 60 --period 10ms --probe {probe} --cpus {cpu} --quiet --json --out run").split(' '));
        let recorded = finish(strace).json()["probes"][0]["counts"]["recorded"].as_u64().unwrap();
        let trace = std::fs::read_to_string(place.path("trace")).unwrap();
        let threads = system_calls(&trace);
        // Other threads read files, too, but none so often without anything between.
        let in_a_row = |calls: &Vec<&str>| {
            let calls = calls.iter().filter(|name| **name != MONOTONIC_READ).copied().collect::<Vec<_>>();
            calls.split(|name| *name != sleep).map(<[_]>::len).max().unwrap_or(0) as u64
        };
        let longest = threads.values().map(in_a_row).max().unwrap();
        assert_eq!(longest, recorded + more, "each sample of {probe} has its {sleep}, and nothing comes between them");
    }
}

#[test]
fn no_page_faults_in_the_loop_where_memory_may_be_locked() {
    let _turn = crate::turn();
    let test = "no_page_faults_in_the_loop_where_memory_may_be_locked";
    if !machine::is_root() {
        return machine::left_out(test, "memory can be locked by root only");
    }
    let place = Workplace::new();
    place.tardy("run --for 1s --period 500us --force --load io --load fork --probe cyclic --probe nanosleep --quiet --json --out run");
    for thread in place.record("run")["overhead"]["threads"].as_array().unwrap() {
        assert_eq!(thread["faults"], 0, "{thread}");
    }
}

/// What the threads of one place of `probe` allocate from the start to the end of a run of so many ms, and the samples that came of it;
/// `room` of a series fit into its ring at once.
fn allocations(probe: &'static ProbeInfo, text: &str, dither: Nanos, room: usize, length_ms: i64) -> (u64, u64) {
    let (_, mut plan) = ProbeRequest::new(ProbeSpec::parse(text).unwrap()).plan();
    plan.dither = dither;
    let schedule = probe.schedule(plan.period, Nanos::ZERO, dither);
    let thread = ThreadPlan { cpu: None, copy: None, schedule, seed: 1, cycles: None, stop_above: None, clocks: ThreadClocks::default() };
    let (producers, consumers): (Vec<_>, Vec<_>) = probe.series.iter().map(|_| ring(room)).unzip();
    let measured_cpus = machine::cpus();
    let mut opened = (probe.open)(OpenContext { probe: &plan, thread: &thread, measured_cpus: &measured_cpus, producers }).unwrap();
    if let Some(finish) = opened.finish.take() {
        finish.call().unwrap();
    }
    let control = Control::new(None, None);
    let line = std::sync::Barrier::new(opened.members.len());
    let allocated = std::thread::scope(|scope| {
        let run = |member: Member| {
            let (control, line) = (&control, &line);
            // From the moment when all threads of the place are there and prepared, as in a run, however late that is.
            let start = move || {
                line.wait();
                let start = Nanos(tardy_sys::clock::monotonic());
                control.stop_at(start + Nanos::from_millis(length_ms));
                start
            };
            let run = move || allocation_counter::measure(|| (member.run)(Ready::new(control, start)).unwrap()).count_total;
            std::thread::Builder::new().spawn_scoped(scope, run).unwrap()
        };
        let running: Vec<_> = opened.members.into_iter().map(run).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    (allocated, consumers.into_iter().map(|mut consumer| consumer.drain_up_to(u64::MAX, |_| {})).sum())
}

#[test]
fn the_loop_allocates_nothing_even_when_samples_are_lost() {
    let _turn = crate::turn();
    let host = Host::of_this_machine();
    // The signal of `itimer` would end the test's process, whose other threads do not block it; its loop is that of `nanosleep`.
    for probe in tardy_probes::probe::PROBES.iter().filter(|probe| probe.name != "itimer") {
        // What times other programs and machines has tests of its own.
        if probe.parameters.iter().any(|parameter| parameter.needed) {
            continue;
        }
        let text = format!("{}:period=200us", probe.name);
        let (_, plan) = ProbeRequest::new(ProbeSpec::parse(&text).unwrap()).plan();
        if let Err(refusal) = (probe.resolve)(&plan, &host) {
            machine::left_out(&format!("the_loop_allocates_nothing_even_when_samples_are_lost: {}", probe.name), &format!("{refusal:?}"));
            continue;
        }
        for (dither, room) in [(Nanos::ZERO, 4096), (Nanos::from_micros(100), 4096), (Nanos::ZERO, 4)] {
            // Preparing a thread may allocate; a loop that did would do it more often in a longer run.
            let (short, taken) = allocations(probe, &text, dither, room, 50);
            let (long, _) = allocations(probe, &text, dither, room, 100);
            assert!(taken > 0, "{}: the loop took samples", probe.name);
            assert_eq!(short, long, "{} with a ring of {room}", probe.name);
        }
    }
}
