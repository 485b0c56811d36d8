//! What a search in the lab comes to, as it is printed and kept.

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_tune::search::Outcome;

/// Kernels that could not be had, with the reason.
pub(super) type Absent = Vec<(String, String)>;

/// What the search comes to, as it is printed and kept.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// What the figures mean.
    pub(super) meaning: String,
    /// The kernel that all are compared with.
    pub(super) base: String,
    pub(super) release: Option<String>,
    /// `max` or `99.9`.
    pub(super) goal: String,
    pub(super) length_ns: Nanos,
    pub(super) replicas: u32,
    /// Of all that is said of effects together.
    pub(super) confidence: f64,
    pub(super) loads: Vec<String>,
    /// The goal of each replica as it is, by load.
    pub(super) as_it_is_ns: Vec<Vec<Nanos>>,
    pub(super) settings: Vec<Row>,
    /// All that lower the goal somewhere and raise it nowhere, where there are several.
    pub(super) together: Option<Row>,
    /// Kernels that could not be had, with the reason.
    pub(super) absent: Absent,
}

/// A setting under every load.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// What it adds to the kernel's command line.
    pub(super) words: Vec<String>,
    pub(super) loads: Vec<OfLoad>,
}

#[derive(Debug, Serialize)]
pub(super) struct OfLoad {
    pub(super) load: String,
    /// The goal of each replica.
    pub(super) goal_ns: Vec<Nanos>,
    /// Absent where a side has no replica.
    pub(super) outcome: Option<Outcome>,
    /// With the setting, over without; absent also where nothing can be said.
    pub(super) factor: Option<f64>,
    pub(super) factor_interval: Option<[f64; 2]>,
    /// Why replicas have no number.
    pub(super) failures: Vec<String>,
}

impl Row {
    fn has(&self, outcome: Outcome) -> bool {
        self.loads.iter().any(|load| load.outcome == Some(outcome))
    }

    pub(super) fn lowers(&self) -> bool {
        self.has(Outcome::Lowers)
    }

    pub(super) fn raises(&self) -> bool {
        self.has(Outcome::Raises)
    }

    /// The largest factor that it lowers a goal by.
    pub(super) fn gain(&self) -> f64 {
        let lowered = self.loads.iter().filter(|load| load.outcome == Some(Outcome::Lowers)).filter_map(|load| load.factor);
        lowered.fold(1.0, f64::min)
    }
}
