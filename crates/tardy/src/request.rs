//! From the command line to the scenario that is meant: flags go before the scenario's own values. Pure but for reading a scenario's file.

use tardy_core::units::Nanos;
use tardy_run::plan::{FLAGS, Origin, PolicyName};

use crate::cli::run::RunArgs;
use crate::scenario::{self, Order, PhaseRequest, ProbeRequest, Scenario, ScenarioError};

/// The idle phase before a load that was named: long enough to see what the machine does by itself, never more than a third of the run.
const IDLE_MAX: Nanos = Nanos::from_secs(10);
/// Length of a run with `--load` and without `--for`.
const LENGTH: Nanos = Nanos::from_secs(30);

/// What in `args` would have no effect, and why; nothing where all of it has one. Names of loads are checked where they are planned.
#[must_use]
pub fn contradiction(args: &RunArgs) -> Option<&'static str> {
    let is_ordinary = args.policy == Some(PolicyName::Other);
    match () {
        () if args.deadline.misses.is_some() && args.deadline.window().is_none() => {
            Some("--misses is the share that may miss a deadline: give --deadline or --window too")
        }
        () if is_ordinary && args.priority.is_some() => Some("--policy other has no priority: leave --priority out, or use fifo or rr"),
        () if args.loads.len() > 1 && args.loads.iter().any(|load| load == "none") => {
            Some("--load none is for no load at all: leave it out beside other loads")
        }
        () => None,
    }
}

/// The scenario that `args` ask for.
///
/// # Errors
/// [`ScenarioError`] where a scenario is named that is not there, or not one.
pub fn scenario(args: &RunArgs) -> Result<Scenario, ScenarioError> {
    let mut scenario = match &args.scenario {
        Some(name) => scenario::find(name)?,
        None => by_flags(args)?,
    };
    override_probes(&mut scenario, args);
    if args.cycles.is_some() {
        scenario.phases.iter_mut().for_each(|phase| phase.cycles = args.cycles);
    }
    scenario.estimate_lengths();
    if let (Some(length), true) = (args.length, args.loads.is_empty()) {
        if scenario.counts_cycles() {
            return Err(ScenarioError::CountsCycles);
        }
        scenario = scenario.stretched_to(length);
    }
    Ok(scenario)
}

fn by_flags(args: &RunArgs) -> Result<Scenario, ScenarioError> {
    if args.loads.is_empty() && args.cycles.is_none() {
        return scenario::find("default");
    }
    let length = args.length.unwrap_or(LENGTH);
    let phases = if args.loads.is_empty() || args.loads == ["none"] {
        vec![idle(length)]
    } else {
        let before = IDLE_MAX.min(Nanos(length.get() / 3));
        let loads = args.loads.iter().filter(|load| *load != "none").cloned().collect();
        vec![idle(before), PhaseRequest { name: args.loads.join("+"), length: length - before, cycles: None, loads }]
    };
    Ok(Scenario {
        name: FLAGS.into(),
        about: "from the command line".into(),
        origin: Origin::Flags,
        file: None,
        order: Order::Fixed,
        repeats: 1,
        warm_up: Nanos::ZERO,
        probes: vec![ProbeRequest::new("cyclic")],
        phases,
    })
}

fn idle(length: Nanos) -> PhaseRequest {
    PhaseRequest { name: "idle".into(), length, cycles: None, loads: Vec::new() }
}

fn override_probes(scenario: &mut Scenario, args: &RunArgs) {
    if !args.probes.is_empty() {
        let like = scenario.probes.first().cloned().unwrap_or_else(|| ProbeRequest::new("cyclic"));
        scenario.probes = args.probes.iter().map(|text| like.renamed(text)).collect();
    }
    if !args.program.is_empty() {
        let app = ProbeRequest::new(&format!("app:command={}", shell_words(&args.program)));
        // With a program alone it is the one that is measured; scenarios and --probe name what is measured beside it.
        if args.probes.is_empty() && args.scenario.is_none() {
            scenario.probes.clear();
        }
        scenario.probes.push(app);
    }
    for probe in &mut scenario.probes {
        probe.period = args.period.or(probe.period);
        probe.policy = args.policy.or(probe.policy);
        probe.priority = args.priority.or(probe.priority);
        probe.dither = args.dither.or(probe.dither);
        probe.clock = args.clock.or(probe.clock);
        probe.align = args.align.or(probe.align);
    }
}

/// The words as a shell reads them back: each in quotes.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn asked(flags: &str) -> Scenario {
        let words = ["tardy", "run"].into_iter().chain(flags.split_whitespace());
        let Command::Run(args) = Cli::parse_from(words).command else { panic!("not a run") };
        scenario(&args).unwrap()
    }

    fn phases(scenario: &Scenario) -> Vec<(&str, i64)> {
        scenario.phases.iter().map(|phase| (phase.name.as_str(), phase.length.get())).collect()
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let refused = |flags: &str| {
            let words = ["tardy", "run"].into_iter().chain(flags.split_whitespace());
            let Command::Run(args) = Cli::parse_from(words).command else { panic!("not a run") };
            contradiction(&args).is_some()
        };
        for flags in ["--misses 1e-6", "--policy other --priority 50", "--load none --load memory"] {
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
        let period = |flags| asked(flags).probes[0].plan().unwrap().1.period;
        assert_eq!(period(""), Nanos::from_millis(1));
        assert_eq!(period("--probe media"), period("--probe media --load none"));
        assert!(period("--probe media") > Nanos::from_millis(30));
        assert_eq!(period("--probe media --period 40ms"), Nanos::from_millis(40));
    }

    #[test]
    fn a_load_comes_after_an_idle_phase_of_at_most_ten_seconds() {
        assert_eq!(phases(&asked("--load io")), [("idle", 10 * SECOND), ("io", 20 * SECOND)]);
        assert_eq!(phases(&asked("--load io --load fork --for 6s")), [("idle", 2 * SECOND), ("io+fork", 4 * SECOND)]);
        assert_eq!(phases(&asked("--load none --for 5s")), [("idle", 5 * SECOND)]);
    }

    #[test]
    fn cycles_are_a_length_of_so_many_periods_in_each_phase() {
        assert_eq!(phases(&asked("--cycles 500 --period 2ms")), [("idle", SECOND)]);
        assert_eq!(phases(&asked("--cycles 500 --period 2ms --load none")), [("idle", SECOND)]);
        let loaded = asked("--cycles 500 --period 2ms --load io --load fork");
        assert_eq!(phases(&loaded), [("idle", SECOND), ("io+fork", SECOND)]);
        assert!(loaded.phases.iter().all(|phase| phase.cycles == Some(500)));
        let of_scenario = asked("--cycles 500 --period 2ms --scenario abeni2002");
        assert!(of_scenario.phases.len() > 3 && of_scenario.phases.iter().all(|phase| phase.length == Nanos(SECOND)));
    }

    #[test]
    fn cycles_of_probes_of_different_periods_take_as_long_as_the_slowest() {
        assert_eq!(phases(&asked("--cycles 500 --probe cyclic:period=1ms --probe timerfd:period=2ms")), [("idle", SECOND)]);
        // Reads of a clock take no periods.
        assert!(asked("--cycles 1000000 --probe gtod").length() < Nanos(SECOND));
    }

    #[test]
    fn phases_of_a_scenario_are_stretched_to_the_length_asked_for() {
        let usual = asked("");
        assert!(usual.length() <= Nanos::from_secs(60), "{:?}", usual.length());
        let stretched = asked("--for 1h");
        assert_eq!(stretched.phases.len(), usual.phases.len());
        assert_eq!(stretched.length(), Nanos::from_secs(3600));
        assert_eq!(asked("--for 10s").length(), Nanos::from_secs(10), "the report tells how to repeat the run");
    }

    #[test]
    fn flags_go_before_the_scenarios_values() {
        let scenario = asked("--scenario abeni2002 --priority 50 --probe nanosleep");
        let [probe] = scenario.probes.as_slice() else { panic!("{:?}", scenario.probes) };
        assert_eq!((probe.name.as_str(), probe.priority, probe.period), ("nanosleep", Some(50), Some(Nanos::from_micros(100))));
    }

    #[test]
    fn a_probes_own_values_go_before_flags_and_scenario() {
        let scenario = asked("--scenario abeni2002 --priority 50 --period 2ms --probe usleep:period=300us:policy=rr --probe cyclic");
        let plans: Vec<_> = scenario.probes.iter().map(|probe| probe.plan().unwrap().1).collect();
        let of = |index: usize| (plans[index].name.as_str(), plans[index].period, plans[index].policy, plans[index].priority);
        assert_eq!(of(0), ("usleep", Nanos::from_micros(300), PolicyName::Rr, Some(50)));
        assert_eq!(of(1), ("cyclic", Nanos::from_millis(2), PolicyName::Fifo, Some(50)));
    }

    #[test]
    fn a_program_is_measured_alone_or_beside_the_probes_that_are_named() {
        let names = |flags: &str| asked(flags).probes.iter().map(|probe| probe.name.clone()).collect::<Vec<_>>();
        assert_eq!(names("--load none -- ./loop 1000"), ["app:command='./loop' '1000'"]);
        assert_eq!(names("--probe cyclic --priority 80 -- a:b=c"), ["cyclic", "app:command='a:b=c'"]);
        assert_eq!(shell_words(&["it's".into(), "a b".into()]), r"'it'\''s' 'a b'");
    }

    #[test]
    fn an_unknown_scenario_is_named() {
        let Command::Run(args) = Cli::parse_from(["tardy", "run", "--scenario", "nope"]).command else { panic!("not a run") };
        assert!(scenario(&args).unwrap_err().to_string().contains("`nope`"));
    }
}
