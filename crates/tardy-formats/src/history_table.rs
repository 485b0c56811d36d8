//! Runs of many boards as one table (Parquet): a row for each run, probe, quantity and load, in
//! place of the runs' folders.
//!
//! Read by DuckDB, polars, pandas and R, and by `tardy history`, also after one of these has
//! filtered it or put tables together: columns are known by name, and others are left alone. Built
//! with the feature `arrow` alone.

#[cfg(feature = "arrow")]
mod parquet;

#[cfg(not(feature = "arrow"))]
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tardy_results::compare::changes::folders_once;
use tardy_results::compare::side::CompareError;
use tardy_results::history::RunCollection;
use tardy_results::history::run::HistoryRun;

#[cfg(feature = "arrow")]
pub use self::parquet::TableWriter;

/// How the name of such a file ends.
pub const EXTENSION: &str = "parquet";

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error(
        "this tardy was built without Parquet: build it with `cargo build --release --features \
         arrow`; tardy history reads the runs' folders as well"
    )]
    NotBuilt,
    #[error("{}: {words}", path.display())]
    Unreadable { path: PathBuf, words: String },
    #[error(transparent)]
    Write(#[from] io::Error),
    #[error(transparent)]
    Run(#[from] CompareError),
}

/// Whether `path` names such a table, by its end.
#[must_use]
pub fn is_table(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == EXTENSION)
}

/// The runs in tables and at or below folders, each once; `each` has them as they are read.
///
/// # Errors
/// [`TableError`] where one cannot be read, clocks differ, or `each` says so.
pub fn collected(
    paths: &[PathBuf],
    mut each: impl FnMut(&HistoryRun) -> Result<(), TableError>,
) -> Result<RunCollection, TableError> {
    let mut runs = RunCollection::default();
    let mut add = |run: &HistoryRun| if runs.add(run)? { each(run) } else { Ok(()) };
    for path in paths {
        if is_table(path) {
            read(path, |run| add(&run))?;
        } else {
            for folder in folders_once(std::slice::from_ref(path)) {
                add(&HistoryRun::read(&folder)?)?;
            }
        }
    }
    Ok(runs)
}

/// Gives the runs in the table at `path` to `each`, in the order of its rows. Memory does not
/// depend on how many there are.
fn read(
    path: &Path,
    each: impl FnMut(HistoryRun) -> Result<(), TableError>,
) -> Result<(), TableError> {
    #[cfg(feature = "arrow")]
    return self::parquet::read(path, each);
    #[cfg(not(feature = "arrow"))]
    {
        let _ = (path, each);
        Err(TableError::NotBuilt)
    }
}

/// Where this build leaves tables out.
#[cfg(not(feature = "arrow"))]
pub struct TableWriter {}

#[cfg(not(feature = "arrow"))]
impl TableWriter {
    /// Says that it cannot.
    ///
    /// # Errors
    /// Always [`TableError::NotBuilt`].
    pub fn new(_: &File) -> Result<Self, TableError> {
        Err(TableError::NotBuilt)
    }

    /// Never called.
    ///
    /// # Errors
    /// Always [`TableError::NotBuilt`].
    pub fn add(&mut self, _: &HistoryRun) -> Result<(), TableError> {
        Err(TableError::NotBuilt)
    }

    /// Never called.
    ///
    /// # Errors
    /// Always [`TableError::NotBuilt`].
    pub fn finish(self) -> Result<(), TableError> {
        Err(TableError::NotBuilt)
    }
}
