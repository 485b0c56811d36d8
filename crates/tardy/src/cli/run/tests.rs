//! Tests of the requests that flags make.

use clap::Parser;
use tardy_core::units::Nanos;
use tardy_measure::request::{contradiction, scenario};
use tardy_measure::scenario::Scenario;
use tardy_run::plan::PolicyName;

use crate::cli::{Cli, Command};

fn asked(flags: &str) -> Scenario {
    let words = ["tardy", "run"].into_iter().chain(flags.split_whitespace());
    let Command::Run(args) = Cli::parse_from(words).command else {
        panic!("not a run")
    };
    scenario(&args.request).unwrap()
}

fn phases(scenario: &Scenario) -> Vec<(&str, i64)> {
    scenario
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.length.get()))
        .collect()
}

#[test]
fn what_would_have_no_effect_is_refused() {
    let refused = |flags: &str| {
        let words = ["tardy", "run"].into_iter().chain(flags.split_whitespace());
        let Command::Run(args) = Cli::parse_from(words).command else {
            panic!("not a run")
        };
        contradiction(&args.request).is_some()
    };
    for flags in [
        "--misses 1e-6",
        "--policy other --priority 50",
        "--load none --load memory",
    ] {
        assert!(refused(flags), "{flags}");
    }
    for flags in [
        "",
        "--misses 1e-6 --deadline 1ms",
        "--misses 0 --window -1us..1us",
        "--policy rr --priority 50",
        "--policy other",
        "--load none",
    ] {
        assert!(!refused(flags), "{flags}");
    }
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn a_probe_that_is_named_has_its_own_period_unless_one_is_given() {
    let period = |flags| asked(flags).probes[0].plan().1.period;
    assert_eq!(period(""), Nanos::from_millis(1));
    assert_eq!(period("--probe media"), period("--probe media --load none"));
    assert!(period("--probe media") > Nanos::from_millis(30));
    assert_eq!(
        period("--probe media --period 40ms"),
        Nanos::from_millis(40)
    );
}

#[test]
fn a_load_comes_after_an_idle_phase_of_at_most_ten_seconds() {
    assert_eq!(
        phases(&asked("--load io")),
        [("idle", 10 * SECOND), ("io", 20 * SECOND)]
    );
    assert_eq!(
        phases(&asked("--load io --load fork --for 6s")),
        [("idle", 2 * SECOND), ("io+fork", 4 * SECOND)]
    );
    assert_eq!(
        phases(&asked("--load none --for 5s")),
        [("idle", 5 * SECOND)]
    );
}

#[test]
fn cycles_are_a_length_of_so_many_periods_in_each_phase() {
    assert_eq!(
        phases(&asked("--cycles 500 --period 2ms")),
        [("idle", SECOND)]
    );
    assert_eq!(
        phases(&asked("--cycles 500 --period 2ms --load none")),
        [("idle", SECOND)]
    );
    let loaded = asked("--cycles 500 --period 2ms --load io --load fork");
    assert_eq!(phases(&loaded), [("idle", SECOND), ("io+fork", SECOND)]);
    assert!(loaded.phases.iter().all(|phase| phase.cycles == Some(500)));
    let of_scenario = asked("--cycles 500 --period 2ms --scenario abeni2002");
    assert!(
        of_scenario.phases.len() > 3
            && of_scenario
                .phases
                .iter()
                .all(|phase| phase.length == Nanos(SECOND))
    );
}

#[test]
fn cycles_of_probes_of_different_periods_take_as_long_as_the_slowest() {
    assert_eq!(
        phases(&asked(
            "--cycles 500 --probe cyclic:period=1ms --probe timerfd:period=2ms"
        )),
        [("idle", SECOND)]
    );
    // The probe `gtod` reads the clock without a period, so cycles take less time.
    assert!(asked("--cycles 1000000 --probe gtod").length() < Nanos(SECOND));
}

#[test]
fn phases_of_a_scenario_are_stretched_to_the_length_asked_for() {
    let usual = asked("");
    assert!(
        usual.length() <= Nanos::from_secs(60),
        "{:?}",
        usual.length()
    );
    let stretched = asked("--for 1h");
    assert_eq!(stretched.phases.len(), usual.phases.len());
    assert_eq!(stretched.length(), Nanos::from_secs(3600));
    assert_eq!(
        asked("--for 10s").length(),
        Nanos::from_secs(10),
        "the report shows how to repeat the run"
    );
}

#[test]
fn flags_go_before_the_scenarios_values() {
    let scenario = asked("--scenario abeni2002 --priority 50 --probe nanosleep");
    let [probe] = scenario.probes.as_slice() else {
        panic!("{:?}", scenario.probes)
    };
    assert_eq!(
        (probe.spec.info.name, probe.priority, probe.period),
        ("nanosleep", Some(50), Some(Nanos::from_micros(100)))
    );
}

#[test]
fn a_probes_own_values_go_before_flags_and_scenario() {
    let scenario = asked(
        "--scenario abeni2002 --priority 50 --period 2ms --probe usleep:period=300us:policy=rr \
         --probe cyclic",
    );
    let plans: Vec<_> = scenario.probes.iter().map(|probe| probe.plan().1).collect();
    let of = |index: usize| {
        (
            plans[index].name.as_str(),
            plans[index].period,
            plans[index].policy,
            plans[index].priority,
        )
    };
    assert_eq!(
        of(0),
        ("usleep", Nanos::from_micros(300), PolicyName::Rr, Some(50))
    );
    assert_eq!(
        of(1),
        ("cyclic", Nanos::from_millis(2), PolicyName::Fifo, Some(50))
    );
}

#[test]
fn a_program_is_measured_alone_or_beside_the_probes_that_are_named() {
    let names = |flags: &str| {
        asked(flags)
            .probes
            .iter()
            .map(|probe| probe.spec.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names("--load none -- ./loop 1000"),
        ["app:command=./loop 1000"]
    );
    assert_eq!(
        names("--probe cyclic --priority 80 -- a:b=c"),
        ["cyclic", "app:command=a:b=c"]
    );
}

#[test]
fn an_unknown_scenario_is_named() {
    let Command::Run(args) = Cli::parse_from(["tardy", "run", "--scenario", "nope"]).command else {
        panic!("not a run")
    };
    assert!(
        scenario(&args.request)
            .unwrap_err()
            .to_string()
            .contains("`nope`")
    );
}
