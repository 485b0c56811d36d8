//! `tardy lab`: connects the command line with [`tardy_lab`].

mod app;
pub(super) mod atlas;
mod bisect;
mod check;
mod cost;
mod debug;
mod ensemble;
mod fetch;
mod hunt;
mod list;
mod load_files;
mod progress;
mod request;
mod run;
mod sections;
mod setting;
mod shell;
mod why;

use tardy_results::exit::Exit;

use super::output;
use crate::cli::lab::{Lab, LabCommand};
pub(super) use setting::{LabError, Setting};

/// Runs the subcommand and returns the exit code.
#[must_use]
pub fn run(lab: &Lab) -> Exit {
    let result = match &lab.command {
        LabCommand::Run(arguments) => run::run(arguments),
        LabCommand::Check(arguments) => return check::check(arguments),
        LabCommand::Atlas(arguments) => atlas::run(arguments),
        LabCommand::Bisect(arguments) => bisect::run(arguments),
        LabCommand::Sections(arguments) => sections::run(arguments),
        LabCommand::Why(arguments) => why::run(arguments),
        LabCommand::Hunt(arguments) => hunt::run(arguments),
        LabCommand::App(arguments) => app::run(arguments),
        LabCommand::Debug(arguments) => debug::debug(arguments),
        LabCommand::Shell(arguments) => shell::shell(arguments),
        LabCommand::Fetch(arguments) => fetch::fetch(arguments),
        LabCommand::Kernels(arguments) => list::list(arguments),
    };
    result.unwrap_or_else(|error| {
        output::complain(&error);
        error.exit_code()
    })
}
