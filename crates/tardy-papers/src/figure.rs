//! Figures of papers that the report also draws from the runs.

use serde::Deserialize;

/// The kind of drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Share of samples at or below a latency.
    Cdf,
    /// Number of samples by latency, both axes logarithmic.
    Hist,
    /// Extremes of the latency over the time of the run, a chart per kernel.
    Timeline,
    /// Samples over the time of the run, a chart per kernel.
    Scatter,
    /// Smallest, median, average and largest latency of each kernel and load, in one chart.
    Bars,
    /// Statistics of several experiments, plotted against the number in which the experiments
    /// differ.
    Sweep,
    /// Total delay, plotted against the length of work. A model computes the total delay from the
    /// two kernels' latencies and the slowdowns of mckenney2009.
    TotalDelay,
}

/// A figure of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Number of the figure in the paper.
    pub place: String,
    /// The content of our version, and its differences from the paper's.
    pub about: String,
    pub kind: FigureKind,
    /// The experiments whose runs are drawn: for a sweep one experiment for each point, otherwise a
    /// single experiment.
    pub experiments: Vec<String>,
    /// Kernels, as claims name them.
    pub kernels: Vec<String>,
    /// The probe; absent if the experiments have only one probe.
    pub probe: Option<String>,
    /// Whether each kernel has a separate chart, instead of one chart for all kernels.
    #[serde(default)]
    pub is_apart: bool,
    /// The phase or load whose samples are drawn; absent if all samples are drawn.
    pub load: Option<String>,
    /// For a sweep: the position of each experiment on the horizontal axis, in the order of the
    /// experiments.
    #[serde(default)]
    pub at: Vec<u32>,
    /// For a sweep: the title of this axis.
    #[serde(default)]
    pub axis: String,
    /// For a sweep and for total delay: the curves. Each curve has its name, and the words of its
    /// quantity that follow the kernel.
    #[serde(default)]
    pub curves: Vec<(String, String)>,
}
