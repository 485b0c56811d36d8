//! The parts of a comparison; serialised as JSON, printed as text, Markdown and JUnit.

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

/// A baseline against one or more candidates.
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

/// The settings of a comparison: the same settings and runs give the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Differences within it do not matter.
    pub margin: Margin,
    /// Confidence of each interval; a difference counts below the complementary probability.
    pub confidence: Confidence,
    /// Draws of the bootstrap.
    pub resamples: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The window of latencies in time; absent without a deadline.
    pub window: Option<Window>,
    /// Quantiles to compare.
    pub quantiles: Vec<f64>,
    /// Whether the user named them: then each that both sides bound is compared, even with few
    /// samples beyond.
    pub are_quantiles_given: bool,
    /// Standard deviation between runs, as a share of their level; if absent, it is estimated from
    /// the runs, or with too few of them, a documented value is used.
    pub between_runs: Option<f64>,
    /// Length of blocks; if absent, it is chosen from each run.
    #[serde(rename = "block_ns")]
    pub block: Option<Nanos>,
    /// Compares only phases of this name; all if absent.
    pub phase: Option<String>,
    /// Whether runs of different clocks may be compared.
    pub is_across_clocks: bool,
}

/// Probability of any wrong verdict in a comparison; it bounds the false-discovery rate.
pub const CHANCE_OF_ANY: f64 = 0.01;

/// Compared as far as both sides know them.
pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.999_99];

impl Settings {
    /// Returns the default options of `tardy compare`.
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
    /// As given on the command line.
    pub name: String,
    pub runs: Vec<RunFacts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    pub folder: String,
    /// The kind of measurement.
    pub kind: RunKind,
    pub clock: ClockKind,
    /// Wall-clock time of the start, ns since 1970.
    pub started_realtime_ns: Nanos,
    /// From the first due time to the last wake-up.
    pub measured_ns: Nanos,
    /// The machine in one line.
    pub machine: String,
    /// Caveats to read before its numbers.
    pub warnings: Vec<String>,
}

/// A candidate against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateComparison {
    pub side: SideSummary,
    /// The verdict over all its tables.
    pub verdict: Outcome,
    /// The deciding number, in words.
    pub reason: String,
    /// Caveats to read before the numbers.
    pub warnings: Vec<String>,
    /// Other differences: machine, kernel, plan.
    pub changed: Vec<FactDifference>,
    /// One for each shared probe and quantity, and for each load.
    pub tables: Vec<Table>,
}

/// The possible verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Lower by more than the margin, and nowhere higher.
    Better,
    /// The difference is within the margin.
    Equivalent,
    /// The samples do not decide.
    Inconclusive,
    /// Higher by more than the margin.
    Worse,
    /// Higher in one place and lower in another, each by more than the margin.
    Mixed,
}

impl Outcome {
    /// Returns the text in tables.
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

    /// Combines several: mixed if one is worse and another better; otherwise worse or better if one
    /// is, even beside inconclusive ones; otherwise inconclusive if one is.
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

    /// Returns whether any became worse.
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

/// The assumed spread between runs of one side: standard deviation, as a share of the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BetweenRuns {
    pub share: f64,
    /// The source of the estimate.
    pub source: SpreadSource,
}

/// Source of the estimate of how much runs differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadSource {
    Stated,
    /// The documented share.
    Documented,
    /// The runs themselves; with fewer than four per side only if they differ by more than the
    /// documented share.
    Runs,
}

/// Runs per side from which on the run is the unit: fewer cannot exclude chance at 95 %.
pub const RUNS_MIN: usize = 4;

/// The source of the intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Method {
    /// One number per run: the run is the unit of repetition.
    Runs,
    /// Both sides have the same samples: a run against itself, or against its repetition in virtual
    /// time.
    Same,
    /// Virtual time: each run is exact for its command line, and one run per side needs no
    /// interval.
    Exact,
    /// Virtual time with several replicas: one number per replica.
    Replicas,
    /// Blocks of time drawn again, and the spread between runs.
    Blocks {
        /// Blocks of the baseline and of the candidate.
        blocks: (usize, usize),
        /// Their lengths.
        length_ns: (Nanos, Nanos),
        /// Whether samples depend on each other for longer than a block, so that the intervals are
        /// too short to decide.
        is_too_short: bool,
    },
    /// Only histograms are available: the bounds of each side's quantile, combined, and the spread
    /// between runs.
    OrderStatistics,
}

/// One probe's values of both sides, for the whole runs or under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The key of the compared series.
    pub key: Key,
    /// The verdict over its rows.
    pub verdict: Outcome,
    /// The number that decides it; of a mixed one, a number for better and a number for worse; of an
    /// inconclusive one, the number that is most likely to pass the margin.
    pub decided_by: Vec<Decider>,
    /// The source of the intervals.
    pub method: Method,
    /// The part of the intervals that is due to the spread between runs; absent if the intervals
    /// are exact, or if a single run's blocks cannot show it.
    pub between_runs: Option<BetweenRuns>,
    /// Why no row has a verdict; absent if rows have one.
    pub undecided: Option<String>,
    /// Median, 99.9 % and maximum of both sides, whether compared or not.
    pub overview: Overview,
    /// The baseline's samples.
    pub base: Body,
    /// The candidate's samples.
    pub candidate: Body,
    /// The quantiles that both sides bound.
    pub rows: Vec<Row>,
    /// The other requested quantiles.
    pub not_compared: Vec<NotCompared>,
    /// Largest values at equal length.
    pub maxima: Option<Maxima>,
    /// Deadline misses; absent without a deadline.
    pub misses: Option<Misses>,
}

/// A number that decides a table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decider {
    /// Which number.
    pub number: DecidingNumber,
    /// Its verdict.
    pub verdict: Outcome,
}

/// The number that decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidingNumber {
    /// This quantile.
    Quantile(f64),
    /// The largest value.
    Maximum,
    /// The share of due times that missed the deadline.
    Misses,
}

/// Three numbers of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    pub median: Pair,
    /// The 99.9 % quantiles.
    pub high: Pair,
    /// The largest values, independent of the numbers of samples.
    pub max: Pair,
}

/// One number of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The baseline's.
    pub base_ns: f64,
    /// The candidate's.
    pub candidate_ns: f64,
    /// Whether both sides bound it from above.
    pub is_bounded: bool,
    /// Whether the comparison decided the difference: it was compared and is not inconclusive.
    #[serde(default)]
    pub is_decided: bool,
}

/// A quantile that has no row, because a side does not bound it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NotCompared {
    pub quantile: f64,
    /// The baseline's sample of that rank.
    pub base_ns: f64,
    /// The candidate's.
    pub candidate_ns: f64,
    /// Required amount of data as a multiple; absent if it would be impractical.
    pub data_needed: Option<f64>,
}

/// The samples of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Body {
    pub runs: usize,
    /// Samples of all runs.
    pub samples: u64,
    /// Due times skipped.
    pub skipped: u64,
    /// The smallest value.
    pub min_ns: i64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The largest value, which grows with the length of a run.
    pub max_ns: i64,
}

/// One quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The quantile: 0.99 = the value that 99 % of the samples do not exceed.
    pub quantile: f64,
    /// The baseline's value; with repeated runs the median of their values.
    pub base_ns: f64,
    /// The candidate's.
    pub candidate_ns: f64,
    /// Candidate less baseline.
    pub difference_ns: f64,
    /// Interval of the difference; absent if unbounded. With repeated runs, the interval of their
    /// shift, extended to the difference if that lies outside.
    pub interval_ns: Option<Interval>,
    /// The contribution of the spread between runs to each half of the interval, added like
    /// independent errors.
    pub between_runs_ns: Reach,
    /// Difference within which both count as the same.
    pub margin_ns: f64,
    /// Probability of such a difference by chance, by relabelling runs; absent if the method gives
    /// none. The interval decides, not this probability.
    pub probability: Option<f64>,
    /// The verdict by the interval; absent without one.
    pub verdict: Option<Outcome>,
    /// Amount of data that would decide, as a multiple; absent if it is decided, or no amount
    /// would.
    pub data_needed: Option<f64>,
}

/// Largest values of as many samples on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Maxima {
    /// Samples that each run's value is the largest of.
    pub samples: u64,
    /// One for each run of the baseline; for a longer run the median over all ways to choose that
    /// many samples.
    pub base_ns: Vec<f64>,
    /// One for each run of the candidate.
    pub candidate_ns: Vec<f64>,
    /// If all values of one side exceed all of the other: the probability of that by chance.
    pub all_above_by_chance: Option<f64>,
    /// The baseline's samples above the candidate's largest, by more than the margin and by more
    /// than runs differ by, and the candidate's above the baseline's.
    pub beyond: (u64, u64),
    /// Probability of at least this many independent ones by chance.
    pub beyond_by_chance: f64,
    /// The verdict of the test; absent without enough samples beyond, because two maxima differ by
    /// chance.
    pub verdict: Option<Outcome>,
}

/// Deadline misses of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Misses {
    /// Misses and due times of the baseline.
    pub base: (u64, u64),
    /// Misses and due times of the candidate.
    pub candidate: (u64, u64),
    /// Ratio of the candidate's misses to the baseline's, with four runs per side the median of
    /// their ratios; absent if the baseline, or neither, missed.
    pub ratio: Option<f64>,
    /// Interval of the ratio; an absent end means unbounded.
    pub interval: (f64, Option<f64>),
    /// Probability of a split at least as uneven by chance; with four runs per side by relabelling
    /// them.
    pub probability: f64,
    /// The verdict; absent if neither side missed.
    pub verdict: Option<Outcome>,
}
