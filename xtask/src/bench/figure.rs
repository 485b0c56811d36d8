//! What a figure is, and what measuring it gives.

use std::path::PathBuf;

use crate::failure::Result;

/// One promise and how it is measured.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its title in the document.
    pub(crate) title: &'static str,
    /// What is promised.
    pub(crate) promise: &'static str,
    /// Measures it.
    pub(crate) measure: fn(&Bench) -> Result<Measured>,
}

/// What figures are measured with.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The tool's binary.
    pub(crate) tardy: PathBuf,
    /// Whether runs are to be short.
    pub(crate) is_quick: bool,
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// The figure reached, as set against the promise.
    pub(crate) reached: String,
    /// Commands that were run.
    pub(crate) commands: Vec<String>,
    /// Rows of cells; the first row is the head.
    pub(crate) tables: Vec<Vec<Vec<String>>>,
    /// How it was measured, and what must be known to read it.
    pub(crate) notes: Vec<String>,
}

/// A row of a table.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
