//! Exports runs for other tools; each exporter is one file and one line in [`EXPORTERS`]. Text that
//! comes from runs is untrusted, so each exporter escapes it for its format.

pub mod costs;
mod csv;
pub mod cyclictest;
mod hgrm;
mod json;
mod junit;
mod kcidb;
mod lava;
mod markdown;
mod metric;
mod npy;
mod openmetrics;
pub mod rt_tests_json;
pub mod run;

use std::io::{self, Write};

use tardy_results::summary::read::SummaryError;
use tardy_samples::read_series::SeriesError;

use self::run::ExportedRun;

/// All export formats.
pub const EXPORTERS: &[&dyn Exporter] = &[
    &csv::Csv,
    &npy::Npy,
    &json::Json,
    &hgrm::Hgrm,
    &openmetrics::OpenMetrics,
    &rt_tests_json::RtTestsJson,
    &lava::Lava,
    &kcidb::Kcidb,
    &junit::Junit,
    &markdown::Markdown,
];

/// An export format.
pub trait Exporter: Sync {
    /// Returns the format's name on the command line.
    fn name(&self) -> &'static str;

    /// Returns a one-line description.
    fn about(&self) -> &'static str;

    /// Returns whether the output is binary, and so does not belong on a terminal.
    fn is_binary(&self) -> bool {
        false
    }

    /// Writes the run.
    ///
    /// # Errors
    /// Returns [`ExportError`].
    fn write(
        &self,
        run: &ExportedRun,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError>;
}

/// The user's parameters of an export, in addition to the run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether to write counts by value instead of samples (csv).
    pub is_histogram: bool,
    /// The reporting organisation (kcidb).
    pub origin: Option<String>,
    /// The build that was tested (kcidb).
    pub build_id: Option<String>,
}

/// The reason why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A series of the run cannot be read.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// The run holds costs, which the format cannot express.
    #[error("{run} holds costs of operations, which {format} does not support: choose one of {}", costs::FORMATS.join(", "))]
    CostFormat { run: String, format: String },
    /// The run holds costs that cannot be read.
    #[error(transparent)]
    Cost(#[from] tardy_results::cost::summary::CostSummaryError),
    /// The run has no probe of the requested name.
    #[error("{run} has no probe `{probe}`: it has {has}")]
    NoProbe {
        run: String,
        /// The requested name.
        probe: String,
        /// The names of the run's probes.
        has: String,
    },
    /// The format supports one probe, and the run has several.
    #[error("{format} holds only one probe, but the run has {has}: choose one with --probe")]
    OneProbe {
        format: &'static str,
        /// The names of the run's probes.
        has: String,
    },
    /// The format needs samples, and the run stored none.
    #[error(
        "{0} keeps a histogram instead of samples: export it with --histogram, or in a format that \
         needs no samples"
    )]
    NoSamples(String),
    /// The format needs a parameter that is missing.
    #[error("{format} needs {flag}: {why}")]
    Needs {
        format: &'static str,
        /// The missing flag.
        flag: &'static str,
        why: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
}

/// Returns the exporter of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS
        .iter()
        .copied()
        .find(|exporter| exporter.name() == name)
}
