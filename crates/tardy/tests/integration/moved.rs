//! Tests a probe that another program moves or demotes during the measurement: the run's first
//! warning is about this change, and the run is inconclusive. A second run on the same CPUs is
//! tested, too.

use crate::support;

use serde_json::Value;
use support::machine;
use support::workplace::{RunningCommand, Workplace};
use tardy_sys::{affinity, sched};

/// Waits for the run in the folder `run` to measure, and returns the thread of its probe `cyclic`.
fn probe_of(place: &Workplace, run: &str, running: &mut RunningCommand) -> i32 {
    running.until("it measures", || {
        let state = place.path(run).join("state.jsonl");
        state.exists().then_some(())
    });
    let tasks = format!("/proc/{}/task", running.pid());
    let is_probe = |tid: &i32| {
        std::fs::read_to_string(format!("{tasks}/{tid}/comm"))
            .is_ok_and(|comm| comm.starts_with("cyclic/"))
    };
    running.until("it has a probe", || {
        support::workplace::names(tasks.as_ref())
            .iter()
            .filter_map(|name| name.parse().ok())
            .find(is_probe)
    })
}

fn samples_elsewhere(record: &Value) -> u64 {
    let stretches = record["series"][0]["elsewhere"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    stretches
        .iter()
        .map(|stretch| stretch["samples"].as_u64().unwrap())
        .sum()
}

/// Starts a run on the last CPU, and also returns another CPU. Returns `None` if the machine has
/// only one.
fn run_with_a_cpu_beside(test: &str) -> Option<(Workplace, RunningCommand, u32, u32)> {
    let (cpu, other) = (
        machine::last_cpu(),
        machine::cpus().iter().next().unwrap().0,
    );
    if cpu == other {
        machine::left_out(test, "it needs two CPUs");
        return None;
    }
    let place = Workplace::new();
    let running = place.start(&format!(
        "run --for 3s --period 5ms --load none --cpus {cpu} --deadline 1h --quiet --out run"
    ));
    Some((place, running, cpu, other))
}

#[test]
fn a_probe_that_is_moved_marks_its_samples_and_decides_nothing() {
    let Some((place, mut running, cpu, other)) =
        run_with_a_cpu_beside("a_probe_that_is_moved_marks_its_samples_and_decides_nothing")
    else {
        return;
    };
    let probe = probe_of(&place, "run", &mut running);
    affinity::set(probe, &[other]).unwrap();
    let outcome = running.wait().ends_with(4);
    assert!(
        outcome.stdout.contains("INCONCLUSIVE"),
        "{}",
        outcome.stdout
    );
    let first = outcome.first_warning();
    assert!(
        first.starts_with(&format!("cyclic was moved away from CPU {cpu}: from "))
            && first.contains(&format!(", CPU {other} took ")),
        "{}",
        outcome.stdout
    );
    let record = place.record("run");
    let recorded = record["series"][0]["counts"]["recorded"].as_u64().unwrap();
    assert!(
        (1..=recorded).contains(&samples_elsewhere(&record)),
        "{}",
        record["series"]
    );
    let change = &record["scheduling_changes"][0];
    assert!(
        change["before"]
            .as_str()
            .unwrap()
            .ends_with(&format!("on CPU {cpu}")),
        "{change}"
    );
    assert!(
        change["after"]
            .as_str()
            .unwrap()
            .ends_with(&format!("on CPU {other}")),
        "{change}"
    );
    assert_eq!(place.tardy("show run").ends_with(4).stdout, outcome.stdout);
}

#[test]
fn a_probe_that_is_moved_and_put_back_is_noticed_by_its_samples() {
    let Some((place, mut running, cpu, other)) =
        run_with_a_cpu_beside("a_probe_that_is_moved_and_put_back_is_noticed_by_its_samples")
    else {
        return;
    };
    let probe = probe_of(&place, "run", &mut running);
    affinity::set(probe, &[other]).unwrap();
    // This length is enough for the probe to wake up on the other CPU, even if late.
    std::thread::sleep(std::time::Duration::from_millis(400));
    affinity::set(probe, &[cpu]).unwrap();
    let outcome = running.wait().ends_with(4);
    let record = place.record("run");
    let recorded = record["series"][0]["counts"]["recorded"].as_u64().unwrap();
    assert!(
        (1..recorded).contains(&samples_elsewhere(&record)),
        "{}",
        record["series"]
    );
    assert!(
        outcome.first_warning().contains("was moved away"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_probe_that_is_demoted_decides_nothing() {
    let test = "a_probe_that_is_demoted_decides_nothing";
    if !machine::is_root() {
        return machine::left_out(test, "only root's probes have a priority to lose");
    }
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let mut running = place.start(&format!(
        "run --for 2s --period 5ms --load none --cpus {cpu} --quiet --out run"
    ));
    let probe = probe_of(&place, "run", &mut running);
    sched::set_policy(probe, sched::Policy::Other { nice: 0 }).unwrap();
    // Even without a deadline, the exit code must show that the run is not valid.
    let outcome = running.wait().ends_with(4);
    let changed = format!(
        "the scheduling of the measuring thread cyclic/{cpu} was changed from SCHED_FIFO 95 on \
         CPU {cpu} to SCHED_OTHER on CPU {cpu} (noticed "
    );
    assert!(
        outcome.first_warning().starts_with(&changed),
        "{}",
        outcome.stdout
    );
    assert_eq!(samples_elsewhere(&place.record("run")), 0);
}

#[test]
fn a_run_that_nobody_touches_says_nothing_of_it() {
    let place = Workplace::new();
    place.tardy(
        "run --for 1500ms --period 5ms --load none --probe cyclic --probe futex --probe \
         sched-deadline --quiet --out run",
    );
    let record = place.record("run");
    assert_eq!(
        record["scheduling_changes"],
        Value::Null,
        "{}",
        record["scheduling_changes"]
    );
    for series in record["series"].as_array().unwrap() {
        assert_eq!(series["elsewhere"], Value::Null, "{series}");
    }
}

#[test]
fn a_run_on_cpus_that_another_run_measures_names_that_run() {
    let place = Workplace::new();
    let run = |length: &str, name: &str| {
        format!(
            "run --for {length} --load none --cpus {} --quiet --out {name}",
            machine::last_cpu()
        )
    };
    let mut first = place.start(&run("600s", "first"));
    probe_of(&place, "first", &mut first);
    place.tardy(&run("300ms", "second"));
    let warnings = place.summary("second")["warnings"].clone();
    let is_named =
        |warning: &Value| warning["warning"] == "another-run" && warning["process"] == first.pid();
    assert!(
        warnings.as_array().unwrap().iter().any(is_named),
        "{warnings}"
    );
    first.signal(tardy_sys::signal::INTERRUPT);
    first.wait().ends_with(130);
    place.assert_no_process_is_left();
}
