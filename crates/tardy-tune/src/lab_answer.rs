//! The result of a search in the lab, as printed and stored.

use crate::search::Outcome;
use serde::Serialize;
use tardy_core::units::Nanos;

/// Kernels that could not be had, with the reason.
pub type MissingKernels = Vec<(String, String)>;

/// The result of the search, as printed and stored.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The meaning of the figures.
    pub meaning: String,
    /// The kernel that all are compared with.
    pub base: String,
    pub release: Option<String>,
    /// `max` or `99.9`.
    pub goal: String,
    pub length_ns: Nanos,
    pub replicas: u32,
    /// Confidence of all statements about effects together.
    pub confidence: f64,
    pub loads: Vec<String>,
    /// The goal of each replica without changes, by load.
    pub as_it_is_ns: Vec<Vec<Nanos>>,
    pub settings: Vec<Row>,
    /// All that lower the goal somewhere and raise it nowhere, if there are several.
    pub together: Option<Row>,
    /// Kernels that could not be had, with the reason.
    pub absent: MissingKernels,
}

/// A setting under every load.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// The words that it adds to the kernel's command line.
    pub words: Vec<String>,
    pub loads: Vec<OfLoad>,
}

#[derive(Debug, Serialize)]
pub struct OfLoad {
    pub load: String,
    /// The goal of each replica.
    pub goal_ns: Vec<Nanos>,
    /// Absent if a side has no replica.
    pub outcome: Option<Outcome>,
    /// Ratio with the setting to without; absent also if inconclusive.
    pub factor: Option<f64>,
    pub factor_interval: Option<[f64; 2]>,
    /// Why replicas have no number.
    pub failures: Vec<String>,
}

impl Row {
    fn has(&self, outcome: Outcome) -> bool {
        self.loads.iter().any(|load| load.outcome == Some(outcome))
    }

    pub fn lowers(&self) -> bool {
        self.has(Outcome::Lowers)
    }

    pub fn raises(&self) -> bool {
        self.has(Outcome::Raises)
    }

    /// Returns the largest factor that it lowers a goal by.
    pub fn gain(&self) -> f64 {
        let lowered = self
            .loads
            .iter()
            .filter(|load| load.outcome == Some(Outcome::Lowers))
            .filter_map(|load| load.factor);
        lowered.fold(1.0, f64::min)
    }
}
