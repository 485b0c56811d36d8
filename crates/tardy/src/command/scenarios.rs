//! `tardy scenarios`.

use std::fmt::Write as _;

use tardy_measure::scenario::{self, Scenario, built_in};
use tardy_results::exit::Exit;
use tardy_run::nearest::did_you_mean;

use super::output;
use crate::cli::{ScenariosArgs, ScenariosVerb};

/// Runs the command.
#[must_use]
pub fn run(args: &ScenariosArgs) -> Exit {
    let text = match &args.verb {
        None => output::fitted(&list()),
        Some(ScenariosVerb::Show { name }) => match built_in::find(name) {
            Some(built_in) => built_in.text.to_owned(),
            None => {
                let meant = did_you_mean(name, built_in::names());
                say!(
                    "tardy: there is no built-in scenario `{name}`{meant}: `tardy scenarios` \
                     names them"
                );
                return Exit::Usage;
            }
        },
        Some(ScenariosVerb::Check { file }) => match scenario::read(file) {
            Ok(scenario) => format!("{}: {}\n", file.display(), describe(&scenario)),
            Err(error) => {
                output::complain(&error);
                return Exit::Usage;
            }
        },
    };
    output::print(&text).map_or(Exit::Machine, |()| Exit::Done)
}

fn list() -> String {
    let mut out = String::new();
    for built_in in built_in::BUILT_IN {
        let scenario = built_in.scenario();
        let _ = writeln!(
            out,
            "{}\n    {}\n    {}",
            built_in.name,
            scenario.about,
            describe(&scenario)
        );
    }
    out
}

fn describe(scenario: &Scenario) -> String {
    let probes: Vec<String> = scenario
        .probes
        .iter()
        .map(|probe| probe.plan().1.to_string())
        .collect();
    let phases = scenario.phases.len() * scenario.repeats as usize;
    let word = if phases == 1 { "phase" } else { "phases" };
    format!(
        "{}; {phases} {word}, {} in all",
        probes.join(", "),
        scenario.length()
    )
}
