//! `tardy split`: timer resolution, scheduling jitter and non-preemptable sections side by side.

use tardy_report::report::split_text;
use tardy_results::exit::Exit;
use tardy_results::summary::split::split;

use super::output;
use crate::cli::split::SplitArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &SplitArgs) -> Exit {
    let split = match split(&args.runs) {
        Ok(split) => split,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
        }
    };
    let text = if args.json {
        serde_json::to_string_pretty(&split).expect("all keys are text and all numbers finite or null") + "\n"
    } else {
        split_text::text(&split)
    };
    match output::print(&text) {
        Ok(()) if split.isolated.is_empty() => Exit::Inconclusive,
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("tardy: cannot write the split: {error}");
            Exit::Machine
        }
    }
}
