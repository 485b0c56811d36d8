//! Tests which samples of a run belong to its loads, and the result of a run whose loads are
//! missing.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

use crate::support;

use serde_json::{Value, json};
use support::machine;
use support::made_run::MadeRun;
use support::workplace::{RunningCommand, Workplace, finish};
use tardy_sys::process;

const LATE: i64 = 500_000;
const EARLY: i64 = 10_000;

fn work(
    phase: usize,
    load: &str,
    cpu: Option<u32>,
    operations: u64,
    cpu_time: i64,
    worked: Option<(i64, i64)>,
) -> Value {
    let mut work = json!({"phase": phase, "load": load, "cpu": cpu, "operations": operations, "bytes": 0, "errors": 0, "cpu_time_ns": cpu_time});
    if let Some((begin, end)) = worked {
        let at = |milliseconds: i64| support::made_run::START.get() + milliseconds * 1_000_000;
        work["begin_ns"] = at(begin).into();
        work["end_ns"] = at(end).into();
    }
    work
}

/// A run of two CPUs for 4 s: 2 s idle, then 2 s with `load`. The samples from 2.5 s to 3.5 s are
/// late.
fn made(load: &'static str, load_work: Value) -> MadeRun {
    let latencies: Vec<i64> = (0..4000)
        .map(|sample| {
            if (2500..3500).contains(&sample) {
                LATE
            } else {
                EARLY
            }
        })
        .collect();
    MadeRun {
        phases: vec![("idle", 0, 2), (load, 2, 4)],
        load_work,
        ..MadeRun::new(vec![latencies.clone(), latencies])
    }
}

fn row(summary: &Value, name: &str) -> Value {
    summary["loads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|load| load["name"] == name)
        .unwrap()
        .clone()
}

#[test]
fn samples_before_and_after_a_load_worked_are_not_in_its_row() {
    let place = Workplace::new();
    let worked = Some((2500, 3500));
    made(
        "io",
        json!([
            work(1, "io", Some(0), 5, 900_000_000, worked),
            work(1, "io", Some(1), 5, 900_000_000, worked)
        ]),
    )
    .write(&place.path("run"));
    let summary = place.summary("run");
    let numbers = &row(&summary, "io")["probes"][0][1];
    assert_eq!(
        (&numbers["samples"], &numbers["min_ns"]),
        (&json!(2000), &json!(LATE)),
        "the load's samples, and no others"
    );
    assert_eq!(
        summary["phases"][1]["probes"][0][1]["samples"], 2000,
        "the lab's tables are made of phases"
    );
    assert_eq!(
        summary["probes"][0]["numbers"]["samples"], 8000,
        "all of them are in the whole run"
    );
    let csv = place.tardy("export run --format csv").ends_with(0).stdout;
    assert_eq!(
        csv.lines()
            .filter(|line| line.split(',').nth(3) == Some("io"))
            .count(),
        2000
    );
}

#[test]
fn a_load_that_worked_on_one_cpu_for_longer_has_more_samples_there() {
    let place = Workplace::new();
    let load_work = json!([
        work(1, "io", Some(0), 5, 900_000_000, Some((2000, 4000))),
        work(1, "io", Some(1), 5, 0, Some((2500, 3000)))
    ]);
    made("io", load_work).write(&place.path("run"));
    assert_eq!(
        row(&place.summary("run"), "io")["probes"][0][1]["samples"],
        2000 + 500
    );
}

#[test]
fn samples_of_several_loads_are_those_while_all_of_them_worked() {
    let place = Workplace::new();
    let both = |load: &str, worked| {
        [0, 1].map(|cpu| work(1, load, Some(cpu), 5, 900_000_000, Some(worked)))
    };
    let load_work: Vec<Value> = both("io", (2100, 3500))
        .into_iter()
        .chain(both("fork", (2500, 3900)))
        .collect();
    made("io+fork", load_work.into()).write(&place.path("run"));
    assert_eq!(
        row(&place.summary("run"), "io+fork")["probes"][0][1]["samples"],
        2000
    );
}

#[test]
fn a_run_of_an_older_tool_counts_whole_phases() {
    let place = Workplace::new();
    made(
        "io",
        json!([
            work(1, "io", Some(0), 5, 900_000_000, None),
            work(1, "io", Some(1), 5, 900_000_000, None)
        ]),
    )
    .write(&place.path("run"));
    assert_eq!(
        row(&place.summary("run"), "io")["probes"][0][1]["samples"],
        4000
    );
}

#[test]
fn a_load_that_needs_no_cpu_time_stresses_by_what_it_does() {
    let place = Workplace::new();
    // Output to a console needs hardly any CPU time, and its work belongs to no particular CPU.
    made(
        "console",
        json!([work(1, "console", None, 300, 2_000_000, None)]),
    )
    .write(&place.path("output"));
    let console = row(&place.summary("output"), "console");
    assert_eq!(
        (
            &console["not_stressed"],
            &console["probes"][0][1]["samples"]
        ),
        (&json!(""), &json!(4000)),
        "{console}"
    );
    // A load that worked on one CPU only.
    made(
        "io",
        json!([
            work(1, "io", Some(0), 5, 1_000_000, None),
            work(1, "io", Some(1), 0, 1_000_000, None)
        ]),
    )
    .write(&place.path("one"));
    let one = row(&place.summary("one"), "io");
    assert_eq!(
        (&one["not_stressed"], &one["probes"][0][1]["samples"]),
        (&json!("1"), &json!(2000)),
        "{one}"
    );
}

/// Starts a run of one judged phase with a load, and waits until the load works.
fn loaded(place: &Workplace, length: &str) -> RunningCommand {
    let run = place.path("run");
    let mut running = place.start(&format!(
        "run --load busy:length=1ms:period=20ms:record={} --for {length} --period 20ms --deadline \
         50s --misses 0.9 --out run",
        place.path("marks").display()
    ));
    let has_marks = || {
        std::fs::read_dir(place.folder()).unwrap().any(|file| {
            file.unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("marks")
        })
    };
    running.until("its load works", || {
        (has_marks() && run.join("run.json").exists()).then_some(())
    });
    running
}

/// Checks that the run has the planned number of due times on each CPU, even if loads failed.
#[track_caller]
fn assert_lasts_as_planned(place: &Workplace, due_times: u64) {
    let phases = &place.record("run")["phases"];
    for series in place.summary("run")["series"].as_array().unwrap() {
        assert_eq!(
            series["counts"]["expected"], due_times,
            "{series}, phases: {phases}"
        );
    }
}

#[track_caller]
fn assert_says_what_was_not_under_load(outcome: &support::workplace::Outcome) {
    let verdict = outcome.stdout.lines().nth(1).unwrap();
    assert!(
        verdict.starts_with("INCONCLUSIVE: ") && verdict.contains("because of the warnings below)"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .first_warning()
            .contains("the loads did not run for"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_run_whose_guardian_was_killed_is_inconclusive_and_says_how_much_was_not_under_load() {
    let place = Workplace::new();
    let mut running = loaded(&place, "6s");
    process::kill(running.guardian(), process::KILL).unwrap();
    let outcome = running.wait().ends_with(4);
    assert_says_what_was_not_under_load(&outcome);
    assert!(
        outcome.stdout.contains("the load supervisor died"),
        "{}",
        outcome.stdout
    );
    assert_lasts_as_planned(&place, 300);
}

#[test]
fn a_run_whose_load_dies_until_it_is_given_up_is_inconclusive() {
    let place = Workplace::new();
    let mut running = place.start(
        "run --load exec:false --for 8s --period 20ms --deadline 50s --misses 0.9 --out run",
    );
    running.until("it ends", || {
        place.path("run/run.json").exists().then_some(())
    });
    let outcome = running.wait().ends_with(4);
    assert_says_what_was_not_under_load(&outcome);
}

/// The load's command fails too rarely for the load to be given up.
#[test]
fn a_run_whose_load_only_fails_is_inconclusive() {
    let place = Workplace::new();
    let failing = place.path("failing");
    std::fs::write(&failing, "#!/bin/sh\nsleep 0.9\nexit 1\n").unwrap();
    std::fs::set_permissions(
        &failing,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let outcome = place.tardy(&format!(
        "run --load exec:{} --for 3s --period 20ms --deadline 50s --misses 0.9 --out run",
        failing.display()
    ));
    let outcome = outcome.ends_with(4);
    assert_says_what_was_not_under_load(&outcome);
    assert!(
        outcome.first_warning().contains("failed every time"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_stopped_guardian_keeps_no_run_from_ending_in_time() {
    let place = Workplace::new();
    let mut running = loaded(&place, "4s");
    let guardian = running.guardian();
    process::kill(guardian, process::STOP).unwrap();
    let state = || {
        tardy_run::folder::open(&place.path("run"))
            .ok()
            .map(|record| record.state)
    };
    running.until("the run ends", || {
        (state() == Some(tardy_run::record::State::Finished)).then_some(())
    });
    running.wait();
    assert_lasts_as_planned(&place, 200);
    assert!(
        process::kill(guardian, 0).is_err(),
        "the guardian still runs"
    );
}

/// As on a virtual machine that the host pauses, the tool, its supervisor and the load are stopped
/// past the end of the phase.
#[test]
fn a_machine_that_stood_still_costs_no_loads() {
    let place = Workplace::new();
    let scenario = "name = \"still\"\n[[probe]]\nname = \"cyclic\"\nperiod = \
                    \"20ms\"\n[[phase]]\nname = \"busy\"\nlength = \"2s\"\nloads = \
                    [\"busy:length=1ms:period=20ms\"]\n[[phase]]\nname = \"after\"\nlength = \
                    \"1s\"\nloads = [\"busy:length=1ms:period=20ms\"]\n";
    std::fs::write(place.path("still.toml"), scenario).unwrap();
    let mut running = place.start("run --scenario still.toml --out run");
    let processes = [running.pid(), running.guardian()];
    let is_at_work = || {
        tardy_run::folder::open(&place.path("run")).is_ok_and(|record| !record.phases.is_empty())
    };
    running.until("the first phase", || is_at_work().then_some(()));
    for process in processes {
        process::kill(process, process::STOP).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(5000));
    for process in processes {
        process::kill(process, process::CONTINUE).unwrap();
    }
    let outcome = running.wait().ends_with(0);
    assert!(!outcome.stdout.contains("supervisor"), "{}", outcome.stdout);
    assert_eq!(
        tardy_run::folder::open(&place.path("run"))
            .unwrap()
            .phases
            .len(),
        2
    );
}

#[test]
fn a_run_with_a_stopped_guardian_obeys_signals() {
    for signal in [tardy_sys::signal::INTERRUPT, tardy_sys::signal::TERMINATE] {
        let place = Workplace::new();
        let mut running = loaded(&place, "600s");
        process::kill(running.guardian(), process::STOP).unwrap();
        running.signal(signal);
        let state = || {
            tardy_run::folder::open(&place.path("run"))
                .ok()
                .map(|record| record.state)
        };
        running.until("the run ends", || {
            (state() == Some(tardy_run::record::State::Interrupted)).then_some(())
        });
        running.wait();
    }
}

/// A busy machine may end a run late, which makes it longer. So it suffices that one of several
/// runs is exact, but in no run may a load work in the next phase.
#[test]
fn a_run_with_loads_measures_as_long_as_was_asked_for() {
    let place = Workplace::new();
    let scenario = "name = \"three\"\nabout = \"three phases\"\n[[probe]]\nname = \
                    \"cyclic\"\nperiod = \"10ms\"\n[[phase]]\nname = \"idle\"\nlength = \
                    \"1s\"\n[[phase]]\nname = \"one\"\nlength = \"1s\"\nloads = \
                    [\"fork\"]\n[[phase]]\nname = \"other\"\nlength = \"1s\"\nloads = [\"io\"]\n";
    std::fs::write(place.path("three.toml"), scenario).unwrap();
    let expected = |run: &str| -> Vec<u64> {
        let summary = place
            .tardy(&format!("run --scenario three.toml --json --out {run}"))
            .ends_with(0)
            .json();
        let record = tardy_run::folder::open(&place.path(run)).unwrap();
        for work in &record.load_work {
            assert!(
                work.begin_ns.unwrap() >= record.phases[work.phase].begin_ns,
                "{work:?}"
            );
            let next = record.phases.get(work.phase + 1);
            assert!(
                next.is_none_or(|next| work.end_ns.unwrap() <= next.begin_ns),
                "a load runs into the next phase: {work:?}"
            );
        }
        summary["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|series| series["counts"]["expected"].as_u64().unwrap())
            .collect()
    };
    let mut seen = Vec::new();
    for attempt in 0..5 {
        seen.push(expected(&format!("run{attempt}")));
        assert!(
            seen[attempt].iter().all(|count| *count >= 300),
            "a due time every 10 ms of 3 s, the phases' ends included: {seen:?}"
        );
        if seen[attempt].iter().all(|count| *count == 300) {
            return;
        }
    }
    panic!("every run was longer than 3 s: {seen:?}");
}

/// Finds the control groups of the loads of process `tool`, in all hierarchies.
fn groups_of(tool: i32) -> Vec<std::path::PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter(|line| {
        line.split(' ')
            .nth(2)
            .is_some_and(|kind| kind.starts_with("cgroup"))
    });
    let below = points
        .filter_map(|line| std::fs::read_dir(line.split(' ').nth(1)?).ok())
        .flatten()
        .filter_map(Result::ok);
    below
        .map(|group| group.path())
        .filter(|group| group.to_string_lossy().contains(&format!("share-{tool}-")))
        .collect()
}

#[test]
fn loads_that_run_together_have_shares_that_are_told_and_no_group_is_left() {
    let place = Workplace::new();
    for is_killed in [false, true] {
        let mut running = place.start(&format!(
            "run --load fork --load io --for 3s --period 10ms --json --out run{is_killed}"
        ));
        let tool = running.pid();
        let run = place.path(&format!("run{is_killed}"));
        let works = || tardy_run::folder::open(&run).is_ok_and(|record| record.phases.len() == 2);
        running.until("its loads are started", || works().then_some(()));
        if is_killed {
            running.signal(process::KILL);
        }
        let outcome = running.wait();
        if !is_killed {
            let loads = row(&outcome.ends_with(0).json(), "fork+io");
            let shares: Vec<f64> = loads["shares"]
                .as_array()
                .unwrap()
                .iter()
                .map(|share| share["share"].as_f64().unwrap())
                .collect();
            assert!(
                shares.len() == 2 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
                "{loads}"
            );
        }
        let start = std::time::Instant::now();
        while !groups_of(tool).is_empty() {
            assert!(
                start.elapsed() < support::workplace::PATIENCE,
                "left: {:?}",
                groups_of(tool)
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_load_with_less_than_half_of_an_equal_share_is_marked() {
    let place = Workplace::new();
    let load_work = json!([
        work(1, "io", Some(0), 5, 900_000_000, None),
        work(1, "fork", Some(0), 5, 100_000_000, None)
    ]);
    made("io+fork", load_work).write(&place.path("run"));
    let text = place.tardy("show run").ends_with(0).stdout;
    assert!(
        text.contains("io+fork: fork got less than half of an equal share of CPU time\n"),
        "{text}"
    );
    let text = place.tardy("show run --full").ends_with(0).stdout;
    assert!(
        text.contains(
            "io+fork, CPU time by load in %: io 90.0, fork 10.0! (! less than half of an equal \
             share)"
        ),
        "{text}"
    );
}

#[test]
fn a_loads_process_exists_from_before_the_first_sample_until_after_the_last_one() {
    let place = Workplace::new();
    let mut strace = place.prepared(
        machine::program("strace", "strace"),
        [
            "-f",
            "--seccomp-bpf",
            "-s",
            "100",
            "-o",
            "trace",
            "-e",
            "trace=execve,prctl,clock_nanosleep,write",
            env!("CARGO_BIN_EXE_tardy"),
        ],
    );
    // A worker that has not ended within a twentieth of its phase is killed. In a phase of 20 s
    // that is one second, which is enough on a busy machine.
    let scenario = "name = \"ends\"\nabout = \"loads that end while a probe measures\"\n[[probe]]\n\
                    name = \"cyclic\"\nperiod = \"10ms\"\n[[phase]]\nname = \"before\"\nlength = \
                    \"300ms\"\n[[phase]]\nname = \"busy\"\nlength = \"20s\"\nloads = [\"fpu\", \
                    \"mmap-lock\"]\n[[phase]]\nname = \"idle\"\nlength = \"300ms\"\n";
    std::fs::write(place.path("ends.toml"), scenario).unwrap();
    let cpu = machine::last_cpu();
    strace
        .args(format!("run --scenario ends.toml --cpus {cpu} --quiet --json --out run").split(' '));
    finish(strace).ends_with(0);
    let trace = std::fs::read_to_string(place.path("trace")).unwrap();
    let lines: Vec<(&str, &str)> = trace
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(process, call)| (process, call.trim_start()))
        .collect();
    let of = |begin: &str| -> Vec<&str> {
        lines
            .iter()
            .filter(|(_, call)| call.starts_with("execve(") || call.starts_with("prctl("))
            .filter(|(_, call)| call.contains(begin))
            .map(|&(process, _)| process)
            .collect()
    };
    let (workers, threads) = (of("\"tardy-load-"), of("\"cyclic/"));
    let of_workers: Vec<_> = lines
        .iter()
        .filter(|(process, _)| workers.contains(process))
        .collect();
    assert!(workers.len() >= 2 && threads.len() == 1, "{of_workers:#?}");
    let is_sleep = |(thread, call): &(&str, &str)| {
        threads.contains(thread) && call.contains("clock_nanosleep")
    };
    let first_sleep = lines.iter().position(is_sleep).unwrap();
    let last_sleep = lines.iter().rposition(is_sleep).unwrap();
    let is_start =
        |(process, call): &(&str, &str)| workers.contains(process) && call.contains("execve(");
    let last_start = lines.iter().rposition(is_start).unwrap();
    assert!(last_start < first_sleep, "{of_workers:#?}");
    let ends: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, (process, call))| workers.contains(process) && call.starts_with("+++"))
        .map(|(index, _)| index)
        .collect();
    assert_eq!(ends.len(), workers.len(), "{of_workers:#?}");
    assert!(ends.iter().all(|&end| end > last_sleep), "{of_workers:#?}");
    // Each worker prints the time at which it saw the request to end.
    let mut seen: Vec<i64> = lines
        .iter()
        .filter(|(process, _)| workers.contains(process))
        .filter_map(|(_, call)| call.split_once("{\\\"resting\\\":")?.1.split_once('}'))
        .map(|(at, _)| at.parse().unwrap())
        .collect();
    let record = place.record("run");
    let mut ends: Vec<i64> = record["load_work"]
        .as_array()
        .unwrap()
        .iter()
        .map(|work| work["end_ns"].as_i64().unwrap())
        .collect();
    assert_eq!(seen.len(), workers.len(), "{of_workers:#?}");
    seen.sort_unstable();
    ends.sort_unstable();
    assert_eq!(ends, seen);
}
