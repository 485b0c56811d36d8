//! `tardy top`: shows the live view of a run that another process makes.

use std::path::{Path, PathBuf};

use tardy_live::growing::GrowingFolder;
use tardy_live::view;
use tardy_machine::root::Root;
use tardy_results::exit::Exit;
use tardy_run::folder;

use super::output;
use crate::cli::TopArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &TopArgs) -> Exit {
    let path = chosen(&args.run);
    let mut folder = match GrowingFolder::open(&path) {
        Ok(folder) => folder,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    if !view::is_possible() {
        say!(
            "tardy: top needs a terminal: `tardy show {}` prints the numbers so far",
            tardy_run::shell::quoted(&path.display().to_string())
        );
        return Exit::Usage;
    }
    match view::watch(&mut folder, output::look()) {
        Ok(()) => Exit::Done,
        Err(error) => {
            output::complain(&error);
            Exit::Machine
        }
    }
}

/// Returns a run in progress in or below `path` or, if there is none, the run that started last.
fn chosen(path: &Path) -> PathBuf {
    let began = |path: &PathBuf| {
        folder::open(path).ok().map(|record| {
            (
                record.is_under_way(&Root::system()),
                record.started.realtime_ns,
            )
        })
    };
    folder::folders(path)
        .into_iter()
        .max_by_key(began)
        .unwrap_or_else(|| path.to_owned())
}
