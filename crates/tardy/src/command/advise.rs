//! `tardy advise`: whether work is in time, and which kernel suits it.

use super::exit::Exit;
use super::output;
use crate::advise::mckenney2009;
use crate::cli::advise::{AdviseArgs, AdviseSource};
use crate::report::advise;

/// Runs the command.
#[must_use]
pub fn run(args: &AdviseArgs) -> Exit {
    let AdviseSource::Mckenney2009 = args.from;
    let found = mckenney2009::conclusions();
    let text = if args.json {
        serde_json::to_string_pretty(&found).expect("all keys are text and all numbers finite or null") + "\n"
    } else {
        advise::mckenney2009::text(&found)
    };
    match output::print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("tardy: cannot write the advice: {error}");
            Exit::Machine
        }
    }
}
