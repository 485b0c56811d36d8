//! Figures of papers of which the report draws ours.

use serde::Deserialize;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Share of samples at or below a latency, all kernels in one.
    Cdf,
    /// How many samples have which latency, both axes logarithmic, all kernels in one.
    Hist,
    /// Latency over the time of the run, a chart per kernel.
    Timeline,
    /// Statistics against a number that differs from experiment to experiment.
    Sweep,
}

/// A figure of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number in the paper.
    pub place: String,
    /// What ours shows, and what it does otherwise.
    pub about: String,
    pub kind: FigureKind,
    /// The experiments whose runs are drawn: of a sweep one a point, otherwise one.
    pub experiments: Vec<String>,
    /// Kernels, as claims name them.
    pub kernels: Vec<String>,
    /// The probe; absent where there is one.
    pub probe: Option<String>,
    /// The phase or load whose samples are drawn; absent for all of them.
    pub load: Option<String>,
    /// Of a sweep: the number of each experiment, in their order.
    #[serde(default)]
    pub at: Vec<u32>,
    /// Of a sweep: what the numbers are, as the axis names them.
    #[serde(default)]
    pub axis: String,
    /// Of a sweep: the curves' names, each with the rest of a quantity behind the kernel.
    #[serde(default)]
    pub curves: Vec<(String, String)>,
}
