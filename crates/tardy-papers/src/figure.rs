//! Figures of papers that the report redraws with the samples of our runs.

use serde::Deserialize;

/// What a figure draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// For each latency, the share of samples that do not exceed it.
    Cdf,
    /// For each latency, the number of samples; both axes are logarithmic.
    Hist,
    /// Extremes of the latency over the time of the run, a chart per kernel.
    Timeline,
    /// The samples over the time of the run, with one chart per kernel.
    Scatter,
    /// The smallest, median, average and largest latency of each kernel and load, all in one chart.
    Bars,
    /// A sweep: the experiments differ in one number, such as the number of threads, and the chart
    /// shows statistics of each experiment over this number.
    Sweep,
    /// The total delay of work, which is the time from its due time to its completion, over the
    /// length of the work. A model computes it from the latencies of two kernels and the slowdowns
    /// that mckenney2009 published.
    TotalDelay,
}

/// A figure of a paper, and how the report draws it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Number of the figure in the paper.
    pub place: String,
    /// What our version shows, and how it differs from the paper's.
    pub about: String,
    pub kind: FigureKind,
    /// The experiments whose runs are drawn: for a sweep, one for each point; otherwise, a single
    /// experiment.
    pub experiments: Vec<String>,
    /// Kernels, by the names that claims use.
    pub kernels: Vec<String>,
    /// The probe; absent if the experiments have only one.
    pub probe: Option<String>,
    /// Whether there is one chart per kernel, instead of one chart for all kernels.
    #[serde(default)]
    pub is_apart: bool,
    /// The phase or load from which samples are drawn; absent if all samples are drawn.
    pub load: Option<String>,
    /// For a sweep: where each experiment lies on the horizontal axis, in the order of the
    /// experiments.
    #[serde(default)]
    pub at: Vec<u32>,
    /// For a sweep: the title of the horizontal axis.
    #[serde(default)]
    pub axis: String,
    /// For a sweep and for total delay: the curves. For each curve: first its name, then all words
    /// that name its quantity, except the kernel.
    #[serde(default)]
    pub curves: Vec<(String, String)>,
}
