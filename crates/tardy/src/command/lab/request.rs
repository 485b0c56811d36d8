//! Checks the task of the guests on the host before anything is fetched or booted, because a
//! mistake would cost a boot of every guest. A guest that measures gets its request as data, not as
//! a command line.

use clap::Parser;
use tardy_core::units::Nanos;
use tardy_lab::guest_job::{OUTPUT_FOLDER, Program, SCENARIO_PATH, Task};
use tardy_loads::load::{self, LoadRequest};
use tardy_measure::request;
use tardy_measure::scenario::PhaseRequest;
use tardy_run::request::Request;

use super::setting::LabError;
use crate::cli::lab::MeasureArguments;
use crate::cli::{Cli, Command};

/// The value of `--load` that means no load.
pub(super) const NO_LOAD: &str = "none";

/// The scenario if no length, cycles, load or further arguments are given.
const SCENARIO_DEFAULT: &str = "lab";

/// Checks the guests' task. Only the guest itself can notice that it does not meet a requirement.
pub(super) fn check(measure: &MeasureArguments) -> Result<(), LabError> {
    task(measure).map(drop)
}

/// Returns the task of the first replica: a measurement, or the user's own program.
pub(super) fn task(measure: &MeasureArguments) -> Result<Task, LabError> {
    if let Some(added) = measure.add.iter().find(|added| !added.0.source.is_file()) {
        return Err(LabError::Usage(format!(
            "--add: there is no file {}: give a file on this machine",
            added.0.source.display()
        )));
    }
    if let Some(program) = &measure.program {
        check_program(program, measure)?;
        check_loads(measure.load.iter())?;
        return Ok(Task::Run(Program {
            path: Some(program.clone()),
            arguments: measure.arguments.clone(),
        }));
    }
    let request = measured(measure)?;
    Ok(Task::Measure(Box::new(match scenario_file(measure) {
        Some(_) => of_scenario(request),
        None => request,
    })))
}

/// Returns the request to measure, as if this machine would measure.
fn measured(measure: &MeasureArguments) -> Result<Request, LabError> {
    let nothing_said = measure.length.is_none()
        && measure.cycles.is_none()
        && measure.load.is_empty()
        && measure.arguments.is_empty();
    let default = nothing_said.then(|| SCENARIO_DEFAULT.to_owned());
    let asked = Request {
        scenario: measure.scenario.clone().or(default),
        length: measure.length,
        cycles: measure.cycles,
        loads: measure.load.clone(),
        seed: Some(measure.seed),
        ..Request::default()
    };
    read(asked, &measure.arguments)
}

/// Returns the loads of the guests of a run, with the loads of lists instead of the lists.
pub(super) fn loads(measure: &MeasureArguments) -> Result<Vec<LoadRequest>, LabError> {
    let texts = if measure.program.is_some() {
        measure.load.clone()
    } else {
        let request = measured(measure)?;
        let scenario =
            request::scenario(&request).map_err(|error| LabError::Usage(error.to_string()))?;
        let phases = scenario.phases.into_iter();
        phases.flat_map(|phase| phase.loads).collect()
    };
    let parsed: Result<Vec<Vec<LoadRequest>>, _> =
        texts.iter().map(|text| LoadRequest::parse(text)).collect();
    let parsed = parsed.map_err(|error| LabError::Usage(format!("--load: {error}")))?;
    Ok(parsed.into_iter().flatten().collect())
}

/// Returns the request, changed so that the guest follows the scenario file that is part of its
/// job.
pub(super) fn of_scenario(request: Request) -> Request {
    // Loads that can do harm are allowed, because a guest cannot be harmed.
    let harmful = load::LOADS.iter().filter(|load| load.can_do_harm);
    Request {
        scenario: Some(SCENARIO_PATH.to_owned()),
        allow: harmful.map(|load| load.name.to_owned()).collect(),
        ..request
    }
}

/// Virtual time from the start of a phase to the first counted work of its load in a guest. Shorter
/// phases have no sample. Measured with kernel 6.1 on the lab's machine: phases of `fork` and
/// `hackbench` had no sample in 2.2 s, but had some in 4 s. For `memory`, phases of 0.7 s had no
/// sample and phases of 0.9 s had some; for all other loads, the two times were 0.18 s and 0.23 s.
const FIRST_WORK: [(&str, Nanos); 3] = [
    ("fork", Nanos::from_secs(4)),
    ("hackbench", Nanos::from_secs(4)),
    ("memory", Nanos::from_secs(1)),
];
/// The same virtual time as in [`FIRST_WORK`], for every other load, and for several loads that run
/// at the same time and share resources.
const FIRST_WORK_OF_OTHERS: Nanos = Nanos::from_millis(400);

/// Returns the length of a run, in whole seconds, in which every phase is long enough for its load.
/// Also returns the load that needs the longest run. Returns `None` if the requested length
/// suffices.
pub(super) fn length_needed(measure: &MeasureArguments) -> Option<(Nanos, String)> {
    let asked = measure.length.filter(|_| measure.program.is_none())?;
    let Ok(Task::Measure(request)) = task(measure) else {
        return None;
    };
    let times = |phase: &PhaseRequest| {
        let (load, needed) = first_work(&phase.loads)?;
        Some((needed.as_secs_f64() / phase.length.as_secs_f64(), load))
    };
    let scenario = request::scenario(&request).ok()?;
    let (times, load) = scenario
        .phases
        .iter()
        .filter_map(times)
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    let seconds = (asked.as_secs_f64() * times).ceil() as i64;
    (times > 1.0).then(|| (Nanos::from_secs(seconds), load))
}

/// For loads that run at the same time, returns their names as one text, and the virtual time until
/// their first counted work in a guest; `None` without a load.
pub(super) fn first_work(loads: &[String]) -> Option<(String, Nanos)> {
    match loads {
        [] => None,
        [load] => {
            let name = load.split(':').next().unwrap_or(load);
            let known = FIRST_WORK.iter().find(|(known, _)| *known == name);
            let needed = known.map_or(FIRST_WORK_OF_OTHERS, |known| known.1);
            Some((name.to_owned(), needed))
        }
        several => Some((several.join("+"), FIRST_WORK_OF_OTHERS)),
    }
}

/// Returns the scenario's file; `None` for a built-in scenario.
pub(super) fn scenario_file(measure: &MeasureArguments) -> Option<&str> {
    measure
        .scenario
        .as_deref()
        .filter(|name| name.contains('/') || name.ends_with(".toml"))
}

/// Checks that the guest will contain the program, because a guest has only tardy and the added
/// files.
fn check_program(program: &str, measure: &MeasureArguments) -> Result<(), LabError> {
    let path = program.trim_start_matches('/');
    let is_added = measure.add.iter().any(|added| added.0.path == path);
    if is_added || ["init", "bin/tardy"].contains(&path) {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "--program: the guest has no {program}: copy it there with --add FILE:{program}"
    )))
}

/// Returns a guest's request: `asked`, together with the further arguments for `tardy run`. Refuses
/// what `tardy run` would refuse.
pub(super) fn read(asked: Request, further: &[String]) -> Result<Request, LabError> {
    let asked = Request {
        out: Some(OUTPUT_FOLDER.into()),
        ..asked
    };
    let words = ["tardy", "run"].map(str::to_owned).into_iter();
    let words = words.chain(asked.words()).chain(further.iter().cloned());
    let cli = Cli::try_parse_from(words)
        .map_err(|error| LabError::Usage(first_sentence(&error.to_string())))?;
    let Command::Run(args) = cli.command else {
        return Err(LabError::Usage(
            "a guest measures with `tardy run`".to_owned(),
        ));
    };
    if args.on.is_given() {
        return Err(LabError::Usage(
            "--on: a guest measures itself: leave out --on".to_owned(),
        ));
    }
    let request = args.request;
    if let Some(reason) = request::contradiction(&request) {
        return Err(LabError::Usage(reason.to_owned()));
    }
    let scenario =
        request::scenario(&request).map_err(|error| LabError::Usage(error.to_string()))?;
    check_loads(
        scenario
            .phases
            .iter()
            .flat_map(|phase| &phase.loads)
            .chain(&request.allow),
    )?;
    Ok(request)
}

fn check_loads<'a>(mut loads: impl Iterator<Item = &'a String>) -> Result<(), LabError> {
    loads
        .try_for_each(|load| LoadRequest::parse(load).map(drop))
        .map_err(|error| LabError::Usage(format!("--load: {error}")))
}

/// Returns clap's message without its usage, which would describe another command.
fn first_sentence(message: &str) -> String {
    let first = message.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lab::LabCommand;

    fn checked(words: &str) -> Result<(), String> {
        let line = format!("tardy lab run --kernel debian:6.1 --out runs {words}");
        let Command::Lab(lab) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("not the lab")
        };
        let LabCommand::Run(arguments) = lab.command else {
            panic!("not a run")
        };
        check(&arguments.measure).map_err(|error| format!("{:?}: {error}", error.exit_code()))
    }

    #[test]
    fn what_a_guest_would_refuse_is_refused_before_it_boots() {
        for (words, reason) in [
            ("--load nosuch", "nosuch"),
            ("--scenario nosuch", "nosuch"),
            ("--load io -- --nosuch", "--nosuch"),
            ("--load io -- --probe nosuch", "nosuch"),
            ("--cycles 100 -- --for 2s", "--for"),
            ("-- --misses 0.1", "--deadline"),
            ("--program /init --load nosuch", "nosuch"),
            ("--program /bin/mine", "--add FILE:/bin/mine"),
            (
                "--add Cargo.toml:/bin/other --program /bin/mine",
                "no /bin/mine",
            ),
            (
                "--add nosuch:/bin/mine --program /bin/mine",
                "there is no file nosuch",
            ),
        ] {
            let refused = checked(words).unwrap_err();
            assert!(
                refused.starts_with("Usage: ") && refused.contains(reason),
                "{words}: {refused}"
            );
        }
    }

    #[test]
    fn each_phase_of_a_built_in_scenario_lasts_until_its_load_works() {
        for built_in in tardy_measure::scenario::built_in::BUILT_IN {
            let asked = Request {
                scenario: Some(built_in.name.to_owned()),
                ..Request::default()
            };
            for phase in request::scenario(&asked).unwrap().phases {
                // A phase that is given in cycles has no length.
                let Some((load, needed)) =
                    first_work(&phase.loads).filter(|_| phase.cycles.is_none())
                else {
                    continue;
                };
                assert!(
                    phase.length >= needed,
                    "{}: {load} works after {needed}, its phase lasts {}",
                    built_in.name,
                    phase.length
                );
            }
        }
    }

    #[test]
    fn a_guest_gets_its_request_as_a_value() {
        let line = "tardy lab run --kernel debian:6.1 --out runs --scenario own/mine.toml --seed 7 \
                    --cycles 50 -- --probe futex --label a=b -- ./loop 'x";
        let Command::Lab(lab) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("not the lab")
        };
        let LabCommand::Run(mut arguments) = lab.command else {
            panic!("not a run")
        };
        assert!(task(&arguments.measure).is_err(), "there is no such file");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let scenario = "name = \"mine\"\n[[probe]]\nname = \"cyclic\"\n[[phase]]\nname = \
                        \"idle\"\nlength = \"1s\"\n";
        std::fs::write(&file, scenario).unwrap();
        arguments.measure.scenario = Some(file.display().to_string());
        let task = task(&arguments.measure).unwrap();
        let stored = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&stored).unwrap(), task);
        let Task::Measure(request) = task else {
            panic!("not a measurement")
        };
        assert_eq!(request.scenario.as_deref(), Some(SCENARIO_PATH));
        assert_eq!((request.seed, request.cycles), (Some(7), Some(50)));
        assert_eq!(request.program, ["./loop", "'x"]);
        assert_eq!(request.probes, ["futex"]);
    }

    #[test]
    fn cycles_under_load_and_all_that_is_right_boots() {
        for words in [
            "",
            "--cycles 100 --load io",
            "--scenario abeni2002 --cycles 50",
            "--for 2s -- --probe futex",
            "--program /init --load io",
            "--add Cargo.toml:bin/mine --program /bin/mine",
        ] {
            assert_eq!(checked(words), Ok(()), "{words}");
        }
    }

    /// Without this test, `tardy reproduce` would find a mistake only after minutes.
    #[test]
    fn what_the_papers_experiments_ask_of_guests_is_right() {
        use tardy_papers::experiment::{Extent, Place};
        let mut checked = 0;
        for experiment in tardy_papers::claim::papers()
            .iter()
            .flat_map(|paper| &paper.experiments)
        {
            for extent in [Extent::Quick, Extent::Full] {
                let Some(words) = experiment.command(Place::Lab, extent, 1) else {
                    continue;
                };
                let at = words.iter().position(|word| word == "--").unwrap();
                let (before, behind) = words.split_at(at);
                let line = ["tardy"]
                    .into_iter()
                    .chain(before.iter().map(String::as_str))
                    .chain(["--out", "x"]);
                let Command::Lab(lab) =
                    Cli::parse_from(line.chain(behind.iter().map(String::as_str))).command
                else {
                    panic!("not the lab")
                };
                let LabCommand::Run(arguments) = lab.command else {
                    panic!("not a run")
                };
                if arguments.cost.is_none() {
                    assert!(
                        check(&arguments.measure).is_ok(),
                        "{}: {}",
                        experiment.name,
                        check(&arguments.measure).unwrap_err()
                    );
                    checked += 1;
                }
            }
        }
        assert!(checked >= 30, "{checked}");
    }
    #[test]
    fn a_length_that_is_too_short_for_a_load_is_known_before_a_guest_boots() {
        let needed = |words: &str| {
            let line = format!("tardy lab run --kernel debian:6.1 --out runs {words}");
            let Command::Lab(lab) = Cli::parse_from(line.split_whitespace()).command else {
                panic!("not the lab")
            };
            let LabCommand::Run(arguments) = lab.command else {
                panic!("not a run")
            };
            length_needed(&arguments.measure)
        };
        for (words, asked, of) in [
            ("--load hackbench", "2s", "hackbench"),
            ("--load fork", "2s", "fork"),
            ("--load procfs", "100ms", "procfs"),
            ("", "2s", "hackbench"),
        ] {
            let (length, load) = needed(&format!("{words} --for {asked}")).unwrap();
            assert_eq!(load, of, "{words}");
            let seconds = length.get() / 1_000_000_000;
            assert_eq!(
                needed(&format!("{words} --for {seconds}s")),
                None,
                "{words}"
            );
        }
        for enough in [
            "--load procfs --for 900ms",
            "--load none --for 10ms",
            "--load hackbench",
        ] {
            assert_eq!(needed(enough), None, "{enough}");
        }
    }
}
