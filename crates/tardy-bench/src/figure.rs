//! A figure: a promise of the project, and the result of its measurement.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tardy_sys::affinity;

use crate::failure::{Failure, Result, While};
use crate::program;

/// A promise, and how it is measured.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Name of the figure on the command line.
    pub(crate) name: &'static str,
    /// The promise, as one sentence in docs/promises.md.
    pub(crate) promise: &'static str,
    pub(crate) measure: fn(&Bench) -> Result<FigureResult>,
}

/// The environment in which figures are measured.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The tool's binary.
    pub(crate) tardy: PathBuf,
    /// Whether to measure only short runs.
    pub(crate) is_quick: bool,
    /// The commands that were run for the current figure, each listed only once.
    pub(crate) commands: RefCell<Vec<String>>,
}

impl Bench {
    /// Records a command for the result, without the names of temporary folders and without the
    /// folders of programs.
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

    /// Records the command, runs it, and returns its output. The command must succeed.
    pub(crate) fn capture(&self, command: &mut Command) -> Result<String> {
        self.note(command);
        program::capture(command)
    }

    /// Returns the CPU to measure: the last one, because the first serves most interrupts. Fails if
    /// the machine has only one CPU, because other tasks would then share it.
    pub(crate) fn measured_cpu(&self) -> Result<u32> {
        let cpus = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
        match cpus[..] {
            [_, .., last] => Ok(last),
            _ => Err(Failure::new(
                "this figure needs a second CPU, for everything but the measuring thread",
            )),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FigureResult {
    /// The measured value, worded like the promise.
    pub(crate) reached: String,
    /// Rows of cells. The first row is the head.
    pub(crate) table: Vec<Vec<String>>,
    /// How the figure was measured, and caveats for the reader.
    pub(crate) notes: Vec<String>,
}

/// Makes a row of a table.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Returns the verdict on a promise, as worded in docs/promises.md.
pub(crate) fn holds(is_held: bool) -> &'static str {
    if is_held { "holds" } else { "NOT reached" }
}

/// Returns the size of a file, or of all files below a folder, in bytes.
pub(crate) fn bytes_of(path: &Path) -> Result<u64> {
    let reading = || format!("reading {}", path.display());
    let metadata = fs::metadata(path).while_doing(reading)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).while_doing(reading)? {
        sum += bytes_of(&entry.while_doing(reading)?.path())?;
    }
    Ok(sum)
}

/// Makes a temporary folder, which is removed on drop.
pub(crate) fn scratch() -> Result<tempfile::TempDir> {
    tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_folder_are_those_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("samples")).unwrap();
        fs::write(folder.path().join("samples/a"), [0; 7]).unwrap();
        fs::write(folder.path().join("b"), [0; 5]).unwrap();
        assert_eq!(bytes_of(folder.path()).unwrap(), 12);
    }
}
