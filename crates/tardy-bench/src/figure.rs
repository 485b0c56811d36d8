//! A figure, and the result of measuring it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tardy_sys::affinity;

use crate::failure::{Failure, Result, While};
use crate::program;

/// One promise and how it is measured.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The project's promise, as one sentence in docs/promises.md.
    pub(crate) promise: &'static str,
    pub(crate) measure: fn(&Bench) -> Result<FigureResult>,
}

/// The environment in which figures are measured.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The tool's binary.
    pub(crate) tardy: PathBuf,
    /// Whether runs should be short.
    pub(crate) is_quick: bool,
    /// The commands of the current figure, each once.
    pub(crate) commands: RefCell<Vec<String>>,
}

impl Bench {
    /// Notes a command for the result. Temporary folders and the folders of programs are left out.
    pub(crate) fn note(&self, command: &Command) {
        let line = program::line(command);
        let words = line.split(' ').map(|word| {
            let is_temporary = word.starts_with(&*std::env::temp_dir().to_string_lossy());
            let is_program = word.starts_with('/') && !is_temporary && Path::new(word).is_file();
            match word.rsplit_once('/') {
                Some((_, name)) if is_program => name,
                Some(_) if is_temporary => "FOLDER",
                _ => word,
            }
        });
        self.note_line(&words.collect::<Vec<_>>().join(" "));
    }

    pub(crate) fn note_line(&self, line: &str) {
        let mut commands = self.commands.borrow_mut();
        if !commands.iter().any(|noted| noted == line) {
            commands.push(line.to_owned());
        }
    }

    /// Records the command, runs it, requires success, and returns its output.
    pub(crate) fn capture(&self, command: &mut Command) -> Result<String> {
        self.note(command);
        program::capture(command)
    }

    /// Returns another CPU.
    pub(crate) fn other_cpu(&self, cpu: u32) -> Result<u32> {
        let cpus = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
        cpus.into_iter()
            .find(|&other| other != cpu)
            .ok_or_else(|| Failure::new("this figure needs a second CPU"))
    }

    /// Returns the CPU to measure: the last, because the first serves most interrupts. One must be
    /// left for other tasks.
    pub(crate) fn measured_cpu(&self) -> Result<u32> {
        let cpus = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
        if cpus.len() < 2 {
            return Err(Failure::new(
                "this figure needs a second CPU, for everything but the measuring thread",
            ));
        }
        cpus.last()
            .copied()
            .ok_or_else(|| Failure::new("this process may use no CPU"))
    }
}

/// Returns data shared by several figures: measured when the first of them needs it.
pub(crate) fn measured_once<T>(
    cell: &OnceLock<T>,
    measure: impl FnOnce() -> Result<T>,
) -> Result<&T> {
    match cell.get() {
        Some(measured) => Ok(measured),
        None => {
            let measured = measure()?;
            Ok(cell.get_or_init(|| measured))
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FigureResult {
    /// The figure reached, as set against the promise.
    pub(crate) reached: String,
    /// Rows of cells; the first row is the head.
    pub(crate) tables: Vec<Vec<Vec<String>>>,
    /// How it was measured, and caveats for reading it.
    pub(crate) notes: Vec<String>,
}

/// A row of a table.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Returns the verdict on a promise, as worded in docs/promises.md.
pub(crate) fn holds(is_held: bool) -> &'static str {
    if is_held { "holds" } else { "NOT reached" }
}

/// A temporary folder, removed when the value is dropped.
pub(crate) fn scratch() -> Result<tempfile::TempDir> {
    tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())
}
