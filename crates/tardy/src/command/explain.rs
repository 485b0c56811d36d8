//! `tardy explain`: who made a thread late, from a trace.

use std::io;
use std::path::{Path, PathBuf};

use tardy_results::exit::Exit;
use tardy_results::explain::{ExplainError, Explanation, explain};
use tardy_results::report::explain_text;

use super::output;
use crate::cli::explain::ExplainArgs;

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: is a folder: give the trace.dat that trace-cmd recorded", path.display())]
    Folder { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Trace { path: PathBuf, error: ExplainError },
}

/// Runs the command.
#[must_use]
pub fn run(args: &ExplainArgs) -> Exit {
    let explanation = match explained(&args.trace, args) {
        Ok(explanation) => explanation,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
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
    match std::fs::read(&path) {
        Ok(bytes) => explain(&bytes, &args.question()).map_err(|error| CommandError::Trace { path, error }),
        Err(error) => Err(CommandError::Unreadable { path, error }),
    }
}
