//! The parts of a comparison. They are serialised as JSON, and printed as text, Markdown and JUnit.

use serde::{Deserialize, Serialize};
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::record::RunKind;
use tardy_statistics::compare::equivalence::Equivalence;
use tardy_statistics::compare::run_spread::Reach;
use tardy_statistics::confidence::{Confidence, Interval};

use super::facts::FactDifference;
use super::group::Key;
use super::margin::Margin;

/// The comparison of a baseline with one or more candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The worst verdict of all candidates.
    pub verdict: Outcome,
    /// The settings of the comparison.
    pub settings: Settings,
    pub base: SideSummary,
    /// The candidates, in the order of the command line.
    pub candidates: Vec<CandidateComparison>,
}

/// The settings of a comparison. The same settings and runs give identical results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Largest difference that does not matter to the user.
    pub margin: Margin,
    /// Confidence of each interval. Tests use 1 minus this value as their significance level.
    pub confidence: Confidence,
    /// Number of resamples of the bootstrap.
    pub resamples: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The window of latencies that meet the deadline; absent if there is no deadline.
    pub window: Option<Window>,
    /// The quantiles that are compared.
    pub quantiles: Vec<f64>,
    /// Whether the user named the quantiles. A quantile that the user named is compared if both
    /// sides bound it, even if few samples lie beyond it.
    pub are_quantiles_given: bool,
    /// Standard deviation between runs of one side, as a fraction of their mean level. If absent,
    /// it is estimated from the runs; with too few runs, a documented value is used.
    pub between_runs: Option<f64>,
    /// Length of blocks. Length of blocks; if absent, it is chosen for each run.
    #[serde(rename = "block_ns")]
    pub block: Option<Nanos>,
    /// Name of the phases that are compared. If absent, all phases are compared.
    pub phase: Option<String>,
    /// Whether runs whose times come from different clocks may be compared.
    pub is_across_clocks: bool,
}

/// Probability that any verdict of a comparison is wrong. This probability limits the
/// false-discovery rate.
pub const CHANCE_OF_ANY: f64 = 0.01;

/// Quantiles that are compared by default, if enough samples lie beyond them.
pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.999_99];

impl Settings {
    /// Returns the default settings of `tardy compare`.
    #[must_use]
    pub fn usual(window: Option<Window>) -> Self {
        Self {
            margin: Margin::default(),
            confidence: Confidence::NINETY_FIVE,
            resamples: 2000,
            seed: 1,
            window,
            quantiles: QUANTILES.to_vec(),
            are_quantiles_given: false,
            between_runs: None,
            block: None,
            phase: None,
            is_across_clocks: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideSummary {
    /// Name of the side, as given on the command line.
    pub name: String,
    pub runs: Vec<RunFacts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    pub folder: String,
    /// The kind of measurement.
    pub kind: RunKind,
    pub clock: ClockKind,
    /// Wall-clock time of the start, in ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Time from the first due time to the last wake-up.
    pub measured_ns: Nanos,
    /// The machine in one line.
    pub machine: String,
    /// Caveats that a reader must know before the numbers of the run.
    pub warnings: Vec<String>,
}

/// The comparison of a candidate with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateComparison {
    pub side: SideSummary,
    /// The verdict over all tables of the candidate.
    pub verdict: Outcome,
    /// A description of the number that decides the verdict.
    pub reason: String,
    /// Caveats that a reader must know before the numbers.
    pub warnings: Vec<String>,
    /// Other differences between the runs: machine, kernel, plan.
    pub changed: Vec<FactDifference>,
    /// A table for each probe and quantity that both sides have, and for each load.
    pub tables: Vec<Table>,
}

/// The verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The candidate is lower by more than the margin in some numbers, and higher in none.
    Better,
    /// The difference is within the margin.
    Equivalent,
    /// The samples do not suffice to choose between the other verdicts.
    Inconclusive,
    /// The candidate is higher by more than the margin.
    Worse,
    /// Some numbers of the candidate are higher and others lower, each by more than the margin.
    Mixed,
}

impl Outcome {
    /// Returns the text that stands for the verdict in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
        }
    }

    /// Combines several verdicts; `None` if there are none. The result is mixed if one of the
    /// verdicts is mixed, or if one is worse and another is better. Otherwise, it is the first of
    /// these that occurs: worse, better, inconclusive, equivalent.
    #[must_use]
    pub fn of_all(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let both = |one, other| match (one, other) {
            (Self::Mixed, _)
            | (_, Self::Mixed)
            | (Self::Better, Self::Worse)
            | (Self::Worse, Self::Better) => Self::Mixed,
            (Self::Worse, _) | (_, Self::Worse) => Self::Worse,
            (Self::Better, _) | (_, Self::Better) => Self::Better,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            (Self::Equivalent, Self::Equivalent) => Self::Equivalent,
        };
        outcomes.into_iter().reduce(both)
    }

    /// Returns whether any number became worse.
    #[must_use]
    pub fn has_worse(self) -> bool {
        matches!(self, Self::Worse | Self::Mixed)
    }
}

impl From<Equivalence> for Outcome {
    fn from(equivalence: Equivalence) -> Self {
        match equivalence {
            Equivalence::Better => Self::Better,
            Equivalence::Worse => Self::Worse,
            Equivalence::Equivalent => Self::Equivalent,
            Equivalence::Inconclusive { .. } => Self::Inconclusive,
        }
    }
}

/// The spread between the runs of one side: a standard deviation as a fraction of the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BetweenRuns {
    pub share: f64,
    /// Where the value comes from.
    pub source: SpreadSource,
}

/// Where the value of the spread between runs comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadSource {
    Stated,
    /// The value is a constant of this tool. The documentation states this constant.
    Documented,
    /// The value was measured on the compared runs. With fewer than four runs per side, the
    /// measured spread is used only if it exceeds the documented one.
    Runs,
}

/// Minimum number of runs per side for which each run counts as one number. With fewer runs, such a
/// test could never reach 95 % confidence.
pub const RUNS_MIN: usize = 4;

/// Where the intervals come from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Method {
    /// Each run counts as one number.
    Runs,
    /// Both sides have identical samples, because a run is compared with itself, or with its
    /// repetition in virtual time.
    Same,
    /// The runs are in virtual time, and each side has one run. The result of each run is exact for
    /// its command line, so there is no interval.
    Exact,
    /// The runs are in virtual time, with several replicas per side. Each replica counts as one
    /// number.
    Replicas,
    /// The intervals come from resampled blocks of time, and from the spread between runs.
    Blocks {
        /// Number of blocks in the baseline and in the candidate.
        blocks: (usize, usize),
        /// Lengths of the blocks in the baseline and in the candidate.
        length_ns: (Nanos, Nanos),
        /// Whether samples depend on each other over more than a block's length. If so, the
        /// intervals are too narrow for a verdict.
        is_too_short: bool,
    },
    /// Only histograms of the samples are available. The intervals combine the bounds of the
    /// quantile on each side with the spread between runs.
    OrderStatistics,
}

/// The values of one probe on both sides, for the whole runs or under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The key of the compared series.
    pub key: Key,
    /// The verdict over the table's rows, maxima and misses.
    pub verdict: Outcome,
    /// The numbers that decide the verdict; usually there is one. For a mixed verdict, these are a
    /// number that is better and one that is worse. For an inconclusive verdict, this is the number
    /// that is most likely to exceed the margin.
    pub decided_by: Vec<Decider>,
    /// Where the intervals come from.
    pub method: Method,
    /// The spread between runs that is part of the intervals; absent if the intervals are exact, or
    /// if the spread is unknown.
    pub between_runs: Option<BetweenRuns>,
    /// The reason why no row has a verdict; absent if rows have verdicts.
    pub undecided: Option<String>,
    /// Median, 99.9 % quantile and maximum of both sides, even if they were not compared.
    pub overview: Overview,
    /// The baseline's samples.
    pub base: Body,
    /// The candidate's samples.
    pub candidate: Body,
    /// A row for each compared quantile.
    pub rows: Vec<Row>,
    /// The quantiles that were requested but not compared.
    pub not_compared: Vec<NotCompared>,
    /// The largest values of the runs of both sides. More samples tend to have a larger maximum, so
    /// each of these values is the maximum of the same number of samples.
    pub maxima: Option<Maxima>,
    /// Deadline misses; absent if there is no deadline.
    pub misses: Option<Misses>,
}

/// A number on which the verdict of a table depends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decider {
    /// Identifies the number.
    pub number: DecidingNumber,
    /// The verdict on the number.
    pub verdict: Outcome,
}

/// A number that can decide a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidingNumber {
    /// The quantile that belongs to this fraction.
    Quantile(f64),
    /// The largest value.
    Maximum,
    /// The share of due times that missed the deadline.
    Misses,
}

/// Median, 99.9 % quantile and maximum of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    pub median: Pair,
    /// The 99.9 % quantiles.
    pub high: Pair,
    /// The largest values, even if the numbers of samples differ.
    pub max: Pair,
}

/// The values of one number on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Value in the baseline.
    pub base_ns: f64,
    /// Value in the candidate.
    pub candidate_ns: f64,
    /// Whether the samples of both sides give an upper bound of the number.
    pub is_bounded: bool,
    /// Whether the comparison has a verdict on this number, other than "inconclusive".
    #[serde(default)]
    pub is_decided: bool,
}

/// A requested quantile without a row, because a side does not bound it or has too few samples
/// beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NotCompared {
    pub quantile: f64,
    /// Value in the samples of the baseline.
    pub base_ns: f64,
    /// Value in the samples of the candidate.
    pub candidate_ns: f64,
    /// Factor by which the number of samples must grow for a comparison; absent if the factor is
    /// impractical.
    pub data_needed: Option<f64>,
}

/// All samples of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Body {
    pub runs: usize,
    /// Number of samples in all runs.
    pub samples: u64,
    /// Number of skipped periods.
    pub skipped: u64,
    /// The smallest value.
    pub min_ns: i64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The largest value, which grows with the length of a run.
    pub max_ns: i64,
}

/// The comparison of one quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The quantile as a fraction: 0.99 is the value that 99 % of the samples do not exceed.
    pub quantile: f64,
    /// Value in the baseline. If each run counts as one number, this is the median of these
    /// numbers.
    pub base_ns: f64,
    /// Value in the candidate.
    pub candidate_ns: f64,
    /// Candidate minus baseline.
    pub difference_ns: f64,
    /// Interval of the difference; absent if it is unbounded, or if the table is undecided. If each
    /// run counts as one number, this is the interval of the shift between the sides; it is
    /// extended if it does not contain the difference.
    pub interval_ns: Option<Interval>,
    /// How far the spread between runs widens the lower and the upper half of the interval. The
    /// spread and each half are combined like independent errors, by the sum of squares.
    pub between_runs_ns: Reach,
    /// Largest difference that does not matter for this value.
    pub margin_ns: f64,
    /// Probability, from a permutation test, that two equal sides differ by at least this much;
    /// absent if the method has no such test. The interval decides the verdict, not this
    /// probability.
    pub probability: Option<f64>,
    /// The verdict that follows from the interval; absent if there is no interval.
    pub verdict: Option<Outcome>,
    /// Factor by which the number of samples must grow to decide the row; absent if the row is
    /// decided, or if no number of samples would decide it.
    pub data_needed: Option<f64>,
}

/// Largest values for equal numbers of samples on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Maxima {
    /// Each value is the largest of this number of samples.
    pub samples: u64,
    /// A value for each run of the baseline. If a run has more samples, all ways to choose
    /// `samples` of them are considered, and the value is the median of the resulting maxima.
    pub base_ns: Vec<f64>,
    /// A value for each run of the candidate.
    pub candidate_ns: Vec<f64>,
    /// Probability that by chance alone, all values of one side are above all values of the other
    /// side; absent if the values of the sides overlap, or if a side has only one run.
    pub all_above_by_chance: Option<f64>,
    /// Number of the baseline's samples above the candidate's largest sample, and number of the
    /// candidate's samples above the baseline's largest sample. A sample counts only if it is
    /// larger by more than the margin and by more than the usual difference between runs.
    pub beyond: (u64, u64),
    /// Probability that by chance alone, at least this many independent samples lie above the other
    /// side's largest sample.
    pub beyond_by_chance: f64,
    /// The verdict of the test; absent if so few samples lie above the other side's maximum that
    /// this may be chance, or if the user named quantiles.
    pub verdict: Option<Outcome>,
}

/// Deadline misses of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Misses {
    /// Number of misses and of due times in the baseline.
    pub base: (u64, u64),
    /// Number of misses and of due times in the candidate.
    pub candidate: (u64, u64),
    /// The candidate's share of misses divided by the baseline's. With at least four runs per side,
    /// it is the median of the ratios of all pairs of runs. Absent if the baseline has no misses.
    pub ratio: Option<f64>,
    /// Interval of the ratio. An end is absent if it is unbounded.
    pub interval: (f64, Option<f64>),
    /// Probability that by chance alone, the misses are divided between the sides at least as
    /// unevenly. With at least four runs per side, it comes from a permutation test on the runs.
    pub probability: f64,
    /// The verdict; absent if neither side missed the deadline.
    pub verdict: Option<Outcome>,
}
