//! `tardy import`: makes run folders from other tools' output.

use std::path::{Path, PathBuf};

use tardy_formats::import::folder_sink::{ImportResult, import};
use tardy_formats::import::{self, ImportError};
use tardy_results::exit::Exit;

use super::output;
use crate::cli::import::ImportArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &ImportArgs) -> Exit {
    let format = args.format.as_deref().and_then(import::find);
    for file in &args.files {
        match import(file, format, &args.settings(), &folder(args, file)) {
            Ok(made) => {
                if output::print(&text(&made, file)).is_err() {
                    return Exit::Machine;
                }
            }
            Err(error) => {
                output::complain(&error);
                return match error {
                    ImportError::Unwritable { .. } => Exit::Machine,
                    ImportError::Folder(error) if error.is_unwritable() => Exit::Machine,
                    _ => Exit::Usage,
                };
            }
        }
    }
    Exit::Done
}

/// Returns the folder for the run of `file`.
fn folder(args: &ImportArgs, file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    match &args.out {
        Some(out) if args.files.len() == 1 => out.clone(),
        Some(out) => out.join(stem),
        None => {
            let mut name = stem.to_owned();
            name.push("-imported");
            PathBuf::from(name)
        }
    }
}

fn text(made: &ImportResult, file: &Path) -> String {
    let series = if made.series == 1 {
        "1 series".to_owned()
    } else {
        format!("{} series", made.series)
    };
    let mut out = format!(
        "{}: {} from {} ({}), {} samples\n",
        made.folder.display(),
        series,
        file.display(),
        made.format,
        made.samples
    );
    made.notes
        .iter()
        .for_each(|note| out.push_str(&format!("note: {note}\n")));
    out
}
