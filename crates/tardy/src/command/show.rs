//! `tardy show`: the summary of a run, from its folder.

use std::path::Path;

use tardy_core::verdict::Window;

use super::exit::Exit;
use super::output;
use crate::cli::ShowArgs;
use crate::report::summary_text;
use crate::report::terminal_histogram::{self, Blocks};
use crate::run::folder;
use crate::run::record::RunKind;
use crate::summary::read::read;

/// Runs the command.
#[must_use]
pub fn run(args: &ShowArgs) -> Exit {
    match folder::open(&args.run) {
        Ok(record) if record.kind == RunKind::Cost => super::cost::show(&args.run, args.reference, args.json),
        // What is wrong with the folder is said by who reads it for its summary.
        _ => show(&args.run, args.deadline.window(), args.deadline.misses, args.json),
    }
}

/// Prints the summary of the run in `folder`; `tardy run` ends with it, so that both show the same.
#[must_use]
pub fn show(folder: &Path, window: Option<Window>, misses_allowed: Option<f64>, is_json: bool) -> Exit {
    let run = match read(folder, window, misses_allowed) {
        Ok(run) => run,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
        }
    };
    let summary = run.summary();
    let text = if is_json {
        let mut json = serde_json::to_string_pretty(&summary).expect("all keys are text and all numbers finite or null");
        json.push('\n');
        json
    } else {
        let blocks = Blocks::of_environment();
        summary_text::text(&summary, output::is_colored(), |probe, lines| {
            terminal_histogram::text(&run.of_probe(&probe.probe).latency, &probe.quantity, lines, blocks)
        })
    };
    match output::print(&text) {
        Ok(()) => Exit::of_run(&summary),
        Err(error) => {
            eprintln!("tardy: cannot write the summary: {error}");
            Exit::Machine
        }
    }
}
