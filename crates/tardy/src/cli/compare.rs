//! Arguments of `tardy compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_results::compare::margin::Margin;
use tardy_results::compare::model::{QUANTILES, Settings};
use tardy_statistics::confidence::Confidence;

use super::{positive_duration, share};

/// `tardy compare`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Baseline: a run, or a folder of runs that repeat one measurement
    ///
    /// Without NEW, tardy groups the runs in the folder BASE by measurement, and compares the
    /// kernels in each group.
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// Runs or folders of runs, each compared with BASE
    #[arg(value_name = "NEW")]
    pub candidates: Vec<PathBuf>,
    /// Find where the numbers changed, over all runs (including BASE) in the order in which they
    /// started
    #[arg(long)]
    pub over_time: bool,
    /// For two folders of lab runs made with --watch: compare the kernel's sections with IRQs or
    /// preemption off. This is the default for such folders with --format text or json; to compare
    /// latencies instead, give the runs inside the folders
    #[arg(long, conflicts_with = "over_time")]
    pub sections: bool,
    /// For two folders of lab runs made with --watch: show which functions make one kernel slower.
    /// Compares the code that ran before the largest latency of each side or, with --quantiles,
    /// before the latency at that quantile
    #[arg(long, conflicts_with_all = ["over_time", "sections", "deadline", "window"])]
    pub why: bool,
    /// Largest difference that does not matter: a time, or a share of the baseline's value
    #[arg(long, value_name = "TIME|SHARE", default_value_t = Margin::default(), allow_hyphen_values = true)]
    pub margin: Margin,
    #[command(flatten)]
    pub deadline: CompareDeadlineArgs,
    /// Quantiles to compare, as in 0.5,0.999; tardy compares a quantile only if it has an upper
    /// bound on both sides
    ///
    /// By default, tardy compares 0.5, 0.9, 0.99, 0.999, 0.9999 and 0.99999, but only quantiles
    /// with at least 30 independent samples beyond them.
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = quantile, hide_default_value = true)]
    pub quantiles: Option<Vec<f64>>,
    /// Standard deviation between runs of one side, in per cent
    ///
    /// By default, this is computed from the runs if each side has four or more. With fewer runs,
    /// 8.5 % is assumed.
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub between_runs: Option<f64>,
    /// Compare only phases of this name
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// Confidence of each printed interval; verdicts use wider intervals, so that the chance of any
    /// wrong verdict is at most 1 %
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "95%",
        allow_hyphen_values = true
    )]
    pub confidence: Confidence,
    /// Number of resamples in the bootstrap
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub resamples: u32,
    /// Seed of the random numbers: the same runs and seed give identical output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Length of the blocks that the bootstrap resamples; give at least one cycle of the load
    /// [default: computed from each run]
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub block: Option<Nanos>,
    /// Allow a comparison of runs in virtual time with runs in real time
    #[arg(long)]
    pub across_clocks: bool,
    /// Print each quantile with its confidence interval, and every fact (machine, kernel, plan)
    /// that differs
    #[arg(long)]
    pub full: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
}

const AFTER_HELP: &str = "A row is for the whole run or for one load. A row is worse or better if \
                          the confidence interval of a difference lies beyond the margin. A row is \
                          mixed if one number is worse and another better, and equivalent if all \
                          intervals lie within the margin. Otherwise, the row is inconclusive. The \
                          headline counts all rows; `*` marks the number that decides a row. The \
                          chance that any row has a wrong verdict is at most 1 %.
Maxima also differ by chance. The maximum therefore decides a row only if enough samples of one \
                          side are larger than all samples of the other side.
With four or more runs per side (give each side as a folder of runs), each run contributes one \
                          value to each compared number. The interval then includes the \
                          differences between runs.
With fewer runs, blocks of time are resampled, and the interval is widened by --between-runs. With \
                          the default of --between-runs, one run per side cannot show a difference \
                          below about 25 %. To detect a smaller difference, measure four runs per \
                          side, or give --between-runs 0, which ignores differences between runs. \
                          All runs of a side must be repetitions of the same measurement.
Lab runs in virtual time are exact. With one replica per side, the difference is shown without a \
                          confidence interval. With several replicas, each replica contributes one \
                          value to each compared number.
Runs of `tardy cost` are compared metric by metric, as percentages.
Exit codes: 0 no row is worse; 1 a row is worse or mixed; 2 wrong use, or runs that cannot be \
                          compared; 4 no row is worse, but the headline is INCONCLUSIVE or \
                          `inconclusive as a whole`.";

/// The deadline that misses are counted against.
#[derive(Debug, Clone, Args)]
pub struct CompareDeadlineArgs {
    /// Deadline: the largest allowed latency; compare how often it is missed
    #[arg(long, value_name = "TIME", value_parser = positive_duration, conflicts_with = "window", allow_hyphen_values = true)]
    pub deadline: Option<Nanos>,
    /// Range of allowed latencies, as in -111us..+111us
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    pub window: Option<Window>,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For people
    Text,
    /// All numbers
    Json,
    /// Tables for a merge request or a wiki
    Markdown,
    /// Test results for continuous integration
    Junit,
}

impl CompareArgs {
    /// Returns the settings, with sorted quantiles and each quantile once.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let deadline = self.deadline.deadline.map(Window::deadline);
        let mut quantiles = self.quantiles.clone().unwrap_or_else(|| QUANTILES.to_vec());
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup();
        Settings {
            margin: self.margin,
            confidence: self.confidence,
            resamples: self.resamples,
            seed: self.seed,
            window: self.deadline.window.or(deadline),
            quantiles,
            are_quantiles_given: self.quantiles.is_some(),
            between_runs: self.between_runs,
            block: self.block,
            phase: self.phase.clone(),
            is_across_clocks: self.across_clocks,
        }
    }
}

pub(super) fn quantile(text: &str) -> Result<f64, String> {
    share(text)
        .ok()
        // Rounding makes 99.9 % exactly 0.999.
        .map(|share| (share * 1e12).round() / 1e12)
        .filter(|quantile| *quantile > 0.0 && *quantile < 1.0)
        .ok_or_else(|| format!("`{text}` is not a quantile: write a share such as 0.999, or 99.9%"))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text.trim()).trim();
    number
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| {
            format!(
                "`{text}` is not a standard deviation between runs: write a percentage such as 5%"
            )
        })
}
