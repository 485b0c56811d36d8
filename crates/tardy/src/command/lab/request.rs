//! What the guests are to measure, read on the host before anything is fetched or booted: a mistake
//! in it would else cost a boot of every guest.

use clap::Parser;
use tardy_loads::load::LoadRequest;
use tardy_measure::request;

use super::ensemble::{SCENARIO_PATH, program, scenario_file};
use super::setting::LabError;
use crate::cli::lab::MeasureArguments;
use crate::cli::{Cli, Command};

/// Reads the guests' command line as they will; what a guest lacks only it can tell.
pub(super) fn check(measure: &MeasureArguments) -> Result<(), LabError> {
    if let Some(added) = measure.add.iter().find(|added| !added.0.source.is_file()) {
        return Err(LabError::Usage(format!(
            "--add: there is no file {}: give one of this machine",
            added.0.source.display()
        )));
    }
    if let Some(program) = &measure.program {
        check_program(program, measure)?;
        return check_loads(measure.load.iter());
    }
    // The scenario's file lies elsewhere in the guest.
    let here = |word: String| {
        if word == SCENARIO_PATH {
            scenario_file(measure).map_or(word, str::to_owned)
        } else {
            word
        }
    };
    check_run(program(measure, 0).arguments.into_iter().map(here))
}

/// A guest has what was added and tardy itself, nothing else.
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

/// Reads the arguments of a guest's `tardy run` as the guest will.
pub(super) fn check_run(words: impl IntoIterator<Item = String>) -> Result<(), LabError> {
    let words = std::iter::once("tardy".to_owned()).chain(words);
    let cli = Cli::try_parse_from(words)
        .map_err(|error| LabError::Usage(first_sentence(&error.to_string())))?;
    let Command::Run(args) = cli.command else {
        return Ok(());
    };
    let request = &args.request;
    if let Some(reason) = request::contradiction(request) {
        return Err(LabError::Usage(reason.to_owned()));
    }
    let scenario =
        request::scenario(request).map_err(|error| LabError::Usage(error.to_string()))?;
    check_loads(
        scenario
            .phases
            .iter()
            .flat_map(|phase| &phase.loads)
            .chain(&request.allow),
    )
}

fn check_loads<'a>(mut loads: impl Iterator<Item = &'a String>) -> Result<(), LabError> {
    loads
        .try_for_each(|load| LoadRequest::parse(load).map(drop))
        .map_err(|error| LabError::Usage(format!("--load: {error}")))
}

/// Of what clap says, without its usage, which is that of another command.
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
                "no file nosuch",
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

    /// `tardy reproduce` would else find a mistake after minutes.
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
}
