//! The result of a search in the lab, as it is printed and stored.

use crate::search::Outcome;
use serde::Serialize;
use tardy_core::units::Nanos;

/// Kernels that could not be obtained, each with the reason.
pub type MissingKernels = Vec<(String, String)>;

/// The result of a search.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// A sentence that explains the numbers.
    pub meaning: String,
    /// The kernel without changes, with which all others are compared.
    pub base: String,
    pub release: Option<String>,
    /// The metric to minimise: `max` or a percentile such as `99.9`.
    pub goal: String,
    pub length_ns: Nanos,
    pub replicas: u32,
    /// Confidence of all statements about effects together.
    pub confidence: f64,
    pub loads: Vec<String>,
    /// The metric's value in each replica without changes, by load.
    pub as_it_is_ns: Vec<Vec<Nanos>>,
    pub settings: Vec<Row>,
    /// The result of all settings that lower the metric under some load and raise it under none,
    /// when they are applied together; absent if there are fewer than two such settings.
    pub together: Option<Row>,
    /// Kernels that could not be obtained, each with the reason.
    pub absent: MissingKernels,
}

/// The results of a setting under every load.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// The words that the setting adds to the kernel's command line.
    pub words: Vec<String>,
    pub loads: Vec<OfLoad>,
}

#[derive(Debug, Serialize)]
pub struct OfLoad {
    pub load: String,
    /// The metric's value in each replica.
    pub goal_ns: Vec<Nanos>,
    /// The effect of the setting under the load; absent if the replicas with or without the setting
    /// are missing.
    pub outcome: Option<Outcome>,
    /// The metric with the setting, divided by the metric without it; absent if the effect is
    /// inconclusive.
    pub factor: Option<f64>,
    pub factor_interval: Option<[f64; 2]>,
    /// For each failed replica, the reason why it has no result.
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

    /// Returns the smallest factor among the loads under which the setting lowers the metric; 1 if
    /// there is no such load.
    pub fn gain(&self) -> f64 {
        let lowered = self
            .loads
            .iter()
            .filter(|load| load.outcome == Some(Outcome::Lowers))
            .filter_map(|load| load.factor);
        lowered.fold(1.0, f64::min)
    }
}
