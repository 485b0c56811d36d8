//! `tardy explain`: who made a thread late, from a trace.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use tardy_report::report::explain_text;
use tardy_results::exit::Exit;
use tardy_results::explain::{ExplainError, Explanation, explain};

use super::output;
use crate::cli::explain::{DueSource, ExplainArgs};

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: is a folder: give the trace.dat that trace-cmd recorded", path.display())]
    Folder { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Trace { path: PathBuf, error: ExplainError },
    #[error("--period is not used with --due-from hrtimer: leave one of the two out")]
    TwoSources,
    #[error("{}: {error}", path.display())]
    Perfetto { path: PathBuf, error: io::Error },
}

impl CommandError {
    fn exit(&self) -> Exit {
        if matches!(self, Self::Perfetto { .. }) { Exit::Machine } else { Exit::Usage }
    }
}

/// Runs the command.
#[must_use]
pub fn run(args: &ExplainArgs) -> Exit {
    let explanation = match explained(&args.trace, args) {
        Ok(explanation) => explanation,
        Err(error) => {
            eprintln!("tardy: {error}");
            return error.exit();
        }
    };
    let text = if args.json {
        serde_json::to_string_pretty(&explanation).expect("all keys are text and all numbers finite") + "\n"
    } else {
        explain_text::text(&explanation, args.question().above.get())
    };
    match output::print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("tardy: cannot write the explanation: {error}");
            Exit::Machine
        }
    }
}

fn explained(path: &Path, args: &ExplainArgs) -> Result<Explanation, CommandError> {
    let path = path.to_owned();
    if path.is_dir() {
        return Err(CommandError::Folder { path });
    }
    if args.period.is_some() && args.due_from == Some(DueSource::Hrtimer) {
        return Err(CommandError::TwoSources);
    }
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(CommandError::Unreadable { path, error }),
    };
    let question = args.question();
    let explained = match &args.perfetto {
        None => explain(&bytes, &question, None),
        Some(place) => output::replace(place, |file| explain(&bytes, &question, Some(&mut BufWriter::new(file)))),
    };
    explained.map_err(|error| match (error, &args.perfetto) {
        (ExplainError::Perfetto(error), Some(place)) => CommandError::Perfetto { path: place.clone(), error },
        (error, _) => CommandError::Trace { path, error },
    })
}
