//! Reads one side from an argument of `tardy compare`: a run, or a folder of runs that repeat the
//! same measurement.

use std::path::{Path, PathBuf};

use tardy_core::series::ClockKind;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;
use tardy_run::folder::{self, folders};
use tardy_run::record::RunRecord;

use crate::summary::model::Summary;
use crate::summary::read::SummaryError;
use crate::summary::summarize::summarize;

/// One run of a side, without its samples.
#[derive(Debug, Clone)]
pub struct RunSide {
    pub folder: PathBuf,
    /// The contents of the run's `run.json`.
    pub record: RunRecord,
    /// The summary of the run, judged against the requested deadline.
    pub summary: Summary,
}

/// One side of a comparison.
#[derive(Debug, Clone)]
pub struct Side {
    /// Name of the side, as given on the command line.
    pub name: String,
    /// The runs of the side, at least one.
    pub runs: Vec<RunSide>,
}

impl Side {
    /// Reads the runs at `path`, in the order of their names.
    ///
    /// # Errors
    /// Fails with a [`SummaryError`] if there is no run, or if a run cannot be read.
    pub fn read(path: &Path, window: Option<Window>) -> Result<Self, SummaryError> {
        let mut runs = Vec::new();
        for folder in folders(path) {
            runs.push(RunSide::read(&folder, window)?);
        }
        Ok(Self {
            name: path.display().to_string(),
            runs,
        })
    }

    /// Returns the run whose machine and plan are used for the whole side.
    #[must_use]
    pub fn first(&self) -> &RunSide {
        &self.runs[0]
    }
}

impl RunSide {
    /// Reads one run folder.
    ///
    /// # Errors
    /// Fails as [`Side::read`] does.
    pub fn read(folder: &Path, window: Option<Window>) -> Result<Self, SummaryError> {
        let record = folder::open(folder)?;
        let summary = summarize(folder, &Requirement::window(window))?;
        Ok(Self {
            folder: folder.to_owned(),
            record,
            summary,
        })
    }
}

/// Why two sides, or two runs, cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A run could not be read.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A series could not be read.
    #[error(transparent)]
    Series(#[from] tardy_samples::read_series::SeriesError),
    /// A run recorded kernel stacks or ran timerlat. Both increase latencies so much that the run
    /// cannot be compared.
    #[error(
        "{} recorded kernel stacks or ran timerlat (--explain=stacks, --explain=timerlat). This \
         adds tens of microseconds to its latencies, so they cannot be compared: measure again \
         with plain --explain, or without it", _0.display()
    )]
    Stacks(PathBuf),
    /// The times of the runs come from different clocks.
    #[error(
        "{base} has {base_clock} time and {other} {other_clock} time: one is the length of code \
         paths in instructions, the other the time of a machine; give --across-clocks to compare \
         them anyway"
    )]
    Clocks {
        /// Folder of one run.
        base: PathBuf,
        /// The clock of that run, in words.
        base_clock: &'static str,
        /// Folder of the other run.
        other: PathBuf,
        /// The clock of the other run, in words.
        other_clock: &'static str,
    },
    /// One side is a folder with runs that measured different things.
    #[error(
        "the runs of {side} are not repeats of one measurement: {aspect} of {one} ({one_is}) and of \
         {other} ({other_is}) differ; name single runs, or folders of runs with the same settings"
    )]
    Mixed {
        /// Name of the side, as given on the command line.
        side: Box<str>,
        /// The aspect in which the runs differ.
        aspect: &'static str,
        /// Folder of one run.
        one: PathBuf,
        /// Description of the run in `one`.
        one_is: Box<str>,
        /// Folder of the other run.
        other: PathBuf,
        /// Description of the run in `other`.
        other_is: Box<str>,
    },
    /// All runs of the folder repeat the same measurement, so there is only one side.
    #[error("{}", one_side(folder, *runs))]
    OneGroup {
        folder: PathBuf,
        /// Number of runs in the folder.
        runs: usize,
    },
    /// No measurement in the folder was made on two kernels.
    #[error("{} has no measurement that was run on two kernels: {groups}; name the runs to \
             compare", folder.display())]
    NoCounterpart {
        folder: PathBuf,
        /// Description of the groups in the folder.
        groups: String,
    },
    /// The two sides have no series of the same quantity.
    #[error(
        "{base} and {other} share no series ({base}: {base_has}; {other}: {other_has}); compare \
         runs of the same probe"
    )]
    NothingShared {
        base: String,
        base_has: String,
        other: String,
        other_has: String,
    },
    /// A series has only extremes and means.
    #[error(
        "{base} or {other} has only extremes and means, as cyclictest -q prints them: compare \
         needs samples or histograms"
    )]
    NoDistribution {
        /// Name of one side.
        base: String,
        /// Name of the other side.
        other: String,
    },
    /// One side has no phase with the requested name.
    #[error("{side} has no phase `{phase}`: it has {has}")]
    NoPhase {
        side: String,
        /// The requested phase.
        phase: String,
        /// The names of the phases that exist.
        has: String,
    },
}

fn one_side(folder: &Path, runs: usize) -> String {
    let (subject, object) = if runs == 1 {
        (
            "the run".to_owned(),
            "is only one side: name the run to compare it with",
        )
    } else {
        (
            format!("the {runs} runs"),
            "are only one side: name the runs to compare them with",
        )
    };
    format!(
        "{subject} of {} {object}, or give --over-time",
        folder.display()
    )
}

impl CompareError {
    /// Creates the error from two runs and their clocks.
    pub(crate) fn clocks(base: (&Path, ClockKind), other: (&Path, ClockKind)) -> Self {
        let word = |clock: ClockKind| {
            if clock == ClockKind::Virtual {
                "virtual"
            } else {
                "real"
            }
        };
        Self::Clocks {
            base: base.0.to_owned(),
            base_clock: word(base.1),
            other: other.0.to_owned(),
            other_clock: word(other.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_is_told_of_as_one() {
        let text = |runs| {
            CompareError::OneGroup {
                folder: "board7".into(),
                runs,
            }
            .to_string()
        };
        assert_eq!(
            text(1),
            "the run of board7 is only one side: name the run to compare it with, or give \
             --over-time"
        );
        assert_eq!(
            text(3),
            "the 3 runs of board7 are only one side: name the runs to compare them with, or give \
             --over-time"
        );
    }
}
