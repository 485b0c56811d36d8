//! A run of kind `cost`, prepared for reports, pictures and exports.

use std::path::Path;

use tardy_run::folder;
use tardy_run::record::{RunKind, RunRecord};

use super::summary::{CostSummary, CostSummaryError, of_record};

#[derive(Debug)]
pub struct CostRun {
    /// Name of the run: the name of its folder.
    pub name: String,
    /// Path of the run's folder, as the caller gave it.
    pub folder: String,
    /// The contents of the run's `run.json`.
    pub record: RunRecord,
    pub summary: CostSummary,
}

impl CostRun {
    /// Reads the run in `path`.
    ///
    /// # Errors
    /// Fails with a [`CostSummaryError`] if the run cannot be read or is of another kind.
    pub fn read(path: &Path) -> Result<Self, CostSummaryError> {
        let record = folder::open(path)?;
        let summary = of_record(path, record.clone())?;
        let name = path
            .file_name()
            .or(path.components().next_back().map(|last| last.as_os_str()));
        let folder = path.display().to_string();
        Ok(Self {
            name: name.map_or_else(
                || folder.clone(),
                |name| name.to_string_lossy().into_owned(),
            ),
            folder,
            record,
            summary,
        })
    }

    /// Returns a short name of the kernel, for captions.
    #[must_use]
    pub fn kernel(&self) -> String {
        self.record
            .machine
            .kernel
            .release
            .clone()
            .unwrap_or_else(|| "unknown kernel".to_owned())
    }
}

/// Returns whether `path` is a run of kind `cost`. Returns false for a path that cannot be read.
#[must_use]
pub fn is_cost(path: &Path) -> bool {
    folder::open(path).is_ok_and(|record| record.kind == RunKind::Cost)
}

/// Reads runs for one chart. All runs must be of kind `cost` and have the same unit.
///
/// # Errors
/// Returns a text that states why a run cannot be read, or why the runs cannot be in one chart.
pub fn read_alike<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Vec<CostRun>, String> {
    let runs = paths
        .into_iter()
        .map(CostRun::read)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    if let Some([one, other]) = runs
        .windows(2)
        .find(|two| two[0].summary.how.unit != two[1].summary.how.unit)
    {
        let (one_unit, other_unit) = (one.summary.how.unit, other.summary.how.unit);
        return Err(format!(
            "the costs of {} are in {one_unit}, those of {} in {other_unit}, so they are not \
             comparable; give runs that used the same clock",
            one.folder, other.folder
        ));
    }
    Ok(runs)
}
