//! Checks that the measuring thread only sleeps, reads the clock and hands the sample over between
//! arm and disarm.

use crate::support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_measure::scenario::ProbeRequest;
use tardy_probes::probe::{Cycles, Member, OpenContext, ProbeInfo, ProbeSpec, StartGate};
use tardy_probes::recording::control::Control;
use tardy_probes::recording::ring::ring;
use tardy_run::plan::ThreadPlan;
use tardy_run::system_clock::ThreadClocks;

use support::machine;
use support::workplace::{Workplace, finish};

/// The promised maximum number of user-space instructions per sample in the measuring thread while
/// it records samples. Callgrind hides the vDSO, so the clock read is a system call; the
/// instructions of cyclictest and jitterdebugger are counted in the same way.
const INSTRUCTIONS_MAX: f64 = 90.0;

/// Builds the same binary as the README's first command, but keeps the symbols by which callgrind
/// selects functions. The test profile is unsuitable, because it inlines nothing across crates.
/// `cargo xtask build` is also unsuitable, because its binary executes fewer instructions. Only the
/// package `tardy` is recompiled.
pub(crate) fn released_binary() -> PathBuf {
    if let Some(built) = std::env::var_os("TARDY_TEST_RELEASE") {
        return PathBuf::from(built);
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args([
        "build",
        "--release",
        "--package",
        "tardy",
        "--bin",
        "tardy",
        "--config",
        "profile.release.package.tardy.strip=false",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let built = finish(cargo).ends_with(0);
    let executable = |line: &str| {
        serde_json::from_str::<Value>(line).ok()?["executable"]
            .as_str()
            .map(PathBuf::from)
    };
    built
        .stdout
        .lines()
        .filter_map(executable)
        .next_back()
        .expect("cargo names the executable that it built")
}

/// Runs `cycles` cycles and returns (instructions in the loop, samples recorded).
fn count_instructions(place: &Workplace, tardy: &Path, cycles: u32) -> (u64, u64) {
    let (run, counts) = (format!("run-{cycles}"), format!("callgrind-{cycles}"));
    let mut valgrind = place.prepared(
        machine::program("valgrind", "valgrind"),
        ["--tool=callgrind", "--separate-threads=yes"],
    );
    // Counts only the probe's loop and its callees, even if the same thread number is used again
    // later.
    valgrind
        .arg("--toggle-collect=tardy_probes::probe::cyclic::measure*")
        .arg(format!("--callgrind-out-file={counts}"))
        .arg(tardy);
    let cpu = machine::last_cpu().to_string();
    valgrind.args([
        "run",
        "--cycles",
        &cycles.to_string(),
        "--cpus",
        &cpu,
        "--period",
        "2ms",
        "--quiet",
        "--json",
        "--out",
        &run,
    ]);
    let summary = finish(valgrind).json();
    let files = place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(&format!("{counts}-")));
    let totals = |name: String| {
        let text = std::fs::read_to_string(place.path(&name)).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix("totals: ")?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let counted: Vec<u64> = files.map(totals).filter(|&total| total > 0).collect();
    assert_eq!(counted.len(), 1, "one thread measures: {counted:?}");
    (
        counted[0],
        summary["probes"][0]["counts"]["recorded"].as_u64().unwrap(),
    )
}

#[test]
fn a_sample_takes_at_most_90_user_instructions() {
    let _turn = crate::turn();
    let place = Workplace::new();
    let tardy = released_binary();
    let (short, few) = count_instructions(&place, &tardy, 200);
    let (long, many) = count_instructions(&place, &tardy, 1200);
    assert!(
        many > few + 100,
        "{few} samples, then {many}: too few to compare"
    );
    let a_sample = (long - short) as f64 / (many - few) as f64;
    println!(
        "user instructions per sample, recording on: {a_sample:.1} (promised: at most \
         {INSTRUCTIONS_MAX})"
    );
    assert!(
        a_sample > 20.0,
        "{a_sample:.1} instructions cannot be the whole loop"
    );
    assert!(
        a_sample <= INSTRUCTIONS_MAX,
        "{a_sample:.1} user instructions per sample"
    );
}

/// System calls that read the clock. strace shows them on a machine whose clock source the vDSO
/// cannot read.
const CLOCK_READS: [&str; 3] = [
    "clock_gettime(CLOCK_MONOTONIC,",
    "clock_gettime(CLOCK_REALTIME,",
    "gettimeofday(",
];

/// The system calls of a probe's threads in one run.
struct Calls {
    /// Number of calls, by thread (without its CPU) and name of the call.
    of_threads: BTreeMap<String, BTreeMap<String, u64>>,
    threads: u64,
    recorded: u64,
}

impl Calls {
    /// Counts the calls in a run of `probe` that takes `periods` periods.
    fn count(probe: &ProbeInfo, parameters: &str, periods: u32) -> Self {
        let place = Workplace::new();
        // The probe `response` needs one CPU for each end of its link.
        let cpus = if probe.name == "response" {
            machine::cpus().to_string()
        } else {
            machine::last_cpu().to_string()
        };
        let has_cycles = probe.cycles == Cycles::Own && probe.has_period();
        let length = if has_cycles {
            format!("--cycles {periods}")
        } else {
            format!("--for {}ms", periods * 10)
        };
        let mut strace = place.prepared(
            machine::program("strace", "strace"),
            ["-f", "-o", "trace", env!("CARGO_BIN_EXE_tardy")],
        );
        let run = format!(
            "run --load none {length} --period 10ms --cpus {cpus} --quiet --json --out run \
             --probe {}",
            probe.name
        );
        strace.args(format!("{run}{parameters}").split(' '));
        let summary = finish(strace).json();
        let trace = std::fs::read_to_string(place.path("trace")).unwrap();
        let mut calls = Self {
            of_threads: BTreeMap::new(),
            threads: 0,
            recorded: 0,
        };
        calls.recorded = summary["probes"][0]["counts"]["recorded"].as_u64().unwrap();
        // Each thread first sets its name: `PROBE/CPU` or `PROBE.ROLE/CPU`, cut after 15 bytes.
        let mut names: BTreeMap<&str, String> = BTreeMap::new();
        for line in trace.lines() {
            let Some((thread, call)) = line.split_once(' ') else {
                continue;
            };
            let call = call.trim_start();
            if let Some(name) = call
                .strip_prefix("prctl(PR_SET_NAME, \"")
                .and_then(|rest| rest.split('"').next())
                && name.starts_with(probe.name)
            {
                calls.threads += 1;
                names.insert(
                    thread,
                    name.split('/').next().unwrap_or_default().to_owned(),
                );
            }
            // A line about a signal, an exit or the second part of a call is not a new call.
            let is_call = !call.starts_with(['<', '+', '-'])
                && !CLOCK_READS.iter().any(|read| call.starts_with(read));
            if let (Some(name), true) = (names.get(thread), is_call) {
                let of_thread = calls.of_threads.entry(name.clone()).or_default();
                *of_thread
                    .entry(call.split('(').next().unwrap_or_default().to_owned())
                    .or_default() += 1;
            }
        }
        assert!(
            calls.threads > 0,
            "the trace has no thread of {}",
            probe.name
        );
        calls
    }

    fn of(&self, thread: &str, call: &str) -> u64 {
        self.of_threads
            .get(thread)
            .and_then(|calls| calls.get(call))
            .copied()
            .unwrap_or(0)
    }
}

/// In a longer run, a thread makes more of the calls of its loop, but not more of the calls that
/// prepare and end the thread.
#[test]
fn no_measuring_loop_makes_a_system_call_that_its_probe_does_not_name() {
    let _turn = crate::turn();
    // Threads wait for one another at the start and the end, so these calls vary a little.
    const CHANCE: u64 = 4;
    let host = Host::of_this_machine();
    let has_tracefs = ["tracing", "debug/tracing"].iter().any(|folder| {
        Path::new("/sys/kernel")
            .join(folder)
            .join("events")
            .exists()
    });
    for probe in tardy_probes::probe::PROBES {
        let named: Vec<&str> = if has_tracefs {
            [probe.system_calls, probe.traced_system_calls].concat()
        } else {
            probe.system_calls.to_vec()
        };
        let parameters = match probe.name {
            "response" => ":loopback",
            "media" => ":simulated",
            _ => "",
        };
        // The loop belongs to the measured program. Tests of `tardy-app` cover the functions that
        // the program calls.
        if probe.cycles == Cycles::OfAProgram {
            continue;
        }
        let (_, plan) =
            ProbeRequest::new(ProbeSpec::parse(&format!("{}{parameters}", probe.name)).unwrap())
                .plan();
        if let Err(refusal) = (probe.resolve)(&plan, &host) {
            machine::left_out(
                &format!("no_measuring_loop_makes_a_system_call: {}", probe.name),
                &format!("{refusal:?}"),
            );
            continue;
        }
        let short = Calls::count(probe, parameters, 30);
        // The longer run must take many more samples than the short run. If the loop made one
        // unnamed call per sample, the difference would then be larger than chance explains. On a
        // busy machine a probe skips most of its periods.
        let is_longer = |long: &Calls| long.recorded >= short.recorded + 5 * CHANCE * long.threads;
        let long = [90, 300, 1000]
            .into_iter()
            .map(|periods| Calls::count(probe, parameters, periods))
            .find(is_longer);
        let long =
            long.unwrap_or_else(|| panic!("{}: a run of 1000 periods has few samples", probe.name));
        let mut of_loop: BTreeMap<&str, u64> = BTreeMap::new();
        for (thread, calls) in &long.of_threads {
            for (call, &often) in calls {
                let more = often.saturating_sub(short.of(thread, call));
                if named.contains(&call.as_str()) {
                    *of_loop.entry(call).or_default() += more;
                } else {
                    let by_chance = CHANCE * long.threads;
                    assert!(
                        more <= by_chance,
                        "the loop of {thread} calls {call} {more} times more in a longer run, and \
                         {} does not name it",
                        probe.name
                    );
                }
            }
        }
        for call in named {
            assert!(
                of_loop.get(call).is_some_and(|&often| often > 0),
                "{} names {call}, and its loop does not call it: {:?}",
                probe.name,
                long.of_threads
            );
        }
        if let ([sleep], true) = (probe.system_calls, probe.has_period()) {
            // A thread's last sleep may have no sample.
            let (sleeps, samples) = (of_loop[sleep], long.recorded - short.recorded);
            assert!(
                sleeps.abs_diff(samples) <= 2 * long.threads,
                "{}: {sleeps} times {sleep} for {samples} samples",
                probe.name
            );
        }
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
    place.tardy(
        "run --for 1s --period 500us --force --load io --load fork --probe cyclic --probe \
         nanosleep --quiet --json --out run",
    );
    for thread in place.record("run")["overhead"]["threads"]
        .as_array()
        .unwrap()
    {
        assert_eq!(thread["faults"], 0, "{thread}");
    }
}

/// Runs one instance of `probe` for `length_ms` ms, and counts the allocations of its threads from
/// the start to the end of the run, and the samples that the run took. The ring of a series holds
/// `room` samples.
fn allocations(
    probe: &'static ProbeInfo,
    text: &str,
    dither: Nanos,
    room: usize,
    length_ms: i64,
) -> (u64, u64) {
    let (_, mut plan) = ProbeRequest::new(ProbeSpec::parse(text).unwrap()).plan();
    plan.dither = dither;
    let schedule = probe.schedule(plan.period, Nanos::ZERO, dither);
    let thread = ThreadPlan {
        cpu: None,
        copy: None,
        schedule,
        seed: 1,
        cycles: None,
        stop_above: None,
        clocks: ThreadClocks::default(),
    };
    let (producers, consumers): (Vec<_>, Vec<_>) = probe.series.iter().map(|_| ring(room)).unzip();
    let measured_cpus = machine::cpus();
    let mut opened = (probe.open)(OpenContext {
        probe: &plan,
        thread: &thread,
        measured_cpus: &measured_cpus,
        producers,
    })
    .unwrap();
    if let Some(finish) = opened.finish.take() {
        finish.call().unwrap();
    }
    let control = Control::new(None, None);
    let line = std::sync::Barrier::new(opened.members.len());
    let allocated = std::thread::scope(|scope| {
        let run = |member: Member| {
            let (control, line) = (&control, &line);
            // The time starts when all threads of the instance are prepared, as in a run.
            let start = move || {
                line.wait();
                let start = Nanos(tardy_sys::clock::monotonic());
                control.stop_at(start + Nanos::from_millis(length_ms));
                start
            };
            let run = move || {
                allocation_counter::measure(|| {
                    (member.run)(StartGate::new(control, start)).unwrap();
                })
                .count_total
            };
            std::thread::Builder::new()
                .spawn_scoped(scope, run)
                .unwrap()
        };
        let running: Vec<_> = opened.members.into_iter().map(run).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    (
        allocated,
        consumers
            .into_iter()
            .map(|mut consumer| consumer.drain_up_to(u64::MAX, |_| {}))
            .sum(),
    )
}

#[test]
fn the_loop_allocates_nothing_even_when_samples_are_lost() {
    let _turn = crate::turn();
    let host = Host::of_this_machine();
    // `itimer` is left out. The probe's signal would end the test's process, because the other
    // threads do not block it. The loop of `itimer` is the same as that of `nanosleep`.
    for probe in tardy_probes::probe::PROBES
        .iter()
        .filter(|probe| probe.name != "itimer")
    {
        // Probes that measure other programs or machines have separate tests.
        if probe.parameters.iter().any(|parameter| parameter.needed) {
            continue;
        }
        let text = format!("{}:period=200us", probe.name);
        let (_, plan) = ProbeRequest::new(ProbeSpec::parse(&text).unwrap()).plan();
        if let Err(refusal) = (probe.resolve)(&plan, &host) {
            machine::left_out(
                &format!(
                    "the_loop_allocates_nothing_even_when_samples_are_lost: {}",
                    probe.name
                ),
                &format!("{refusal:?}"),
            );
            continue;
        }
        for (dither, room) in [
            (Nanos::ZERO, 4096),
            (Nanos::from_micros(100), 4096),
            (Nanos::ZERO, 4),
        ] {
            // Preparing a thread may allocate. If the loop allocated, a longer run would allocate
            // more often.
            let (short, taken) = allocations(probe, &text, dither, room, 50);
            let (long, _) = allocations(probe, &text, dither, room, 100);
            assert!(taken > 0, "{}: the loop took samples", probe.name);
            assert_eq!(short, long, "{} with a ring of {room}", probe.name);
        }
    }
}
