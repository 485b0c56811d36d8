//! `tardy advise`: whether work is in time, and which kernel suits it.

use std::io::{self, IsTerminal};

use serde::Serialize;
use tardy_core::verdict::Outcome;

use super::exit::Exit;
use super::output;
use crate::advise::advice::advice;
use crate::advise::task::Task;
use crate::advise::{kernels, mckenney2009, questions};
use crate::cli::advise::{AdviseArgs, AdviseSource};
use crate::machine::root::Root;
use crate::report;

/// Runs the command.
#[must_use]
pub fn run(args: &AdviseArgs) -> Exit {
    let advised = match args.from {
        Some(AdviseSource::Mckenney2009) => {
            let found = mckenney2009::conclusions();
            Ok((if args.json { json(&found) } else { report::advise::mckenney2009::text(&found) }, Exit::Done))
        }
        None => of_runs(args),
    };
    match advised {
        Ok((text, exit)) => match output::print(&text) {
            Ok(()) => exit,
            Err(error) => {
                eprintln!("tardy: cannot write the advice: {error}");
                Exit::Machine
            }
        },
        Err(error) => {
            eprintln!("tardy: {error}");
            Exit::Usage
        }
    }
}

fn of_runs(args: &AdviseArgs) -> Result<(String, Exit), Box<dyn std::error::Error>> {
    let mut task = args.task.task();
    if task == Task::default() && !args.json && io::stdin().is_terminal() && io::stderr().is_terminal() {
        questions::ask(&mut task, &mut io::stdin().lock(), &mut io::stderr())?;
    }
    task.check()?;
    let kernels = kernels::read(&args.runs)?;
    let advice = advice(&kernels, &task, args.probe.as_deref(), &Root::system())?;
    let exit = match advice.outcome {
        None | Some(Outcome::Passed) => Exit::Done,
        Some(Outcome::Failed) => Exit::Failed,
        Some(Outcome::Inconclusive) => Exit::Inconclusive,
    };
    Ok((if args.json { json(&advice) } else { report::advise::text::text(&advice, output::is_colored()) }, exit))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("all keys are text and all numbers finite or null") + "\n"
}
