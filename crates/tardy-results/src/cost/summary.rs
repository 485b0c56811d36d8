//! Summarises a run folder of kind `cost`.
//!
//! Costs have their own model, because they differ from latencies. A cost is one number. A cost is
//! computed from a few hundred trials, each the sum of many operations, and costs are compared as
//! ratios. A latency is a distribution, and latencies are compared by quantiles, misses and maxima.
//! One model for both, with optional fields, would be longer and harder to read. Costs and
//! latencies share the format of run folders, the search for differing facts, the search for change
//! points, the wording of changes, the tables, the charts and the exporters.

use std::path::Path;

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_run::cost::{
    CacheState, CostRecord, CostSet, CostUnit, Group, IdleTime, LeftOut, MetricRecord,
};
use tardy_run::folder::{self, FolderError};
use tardy_run::record::{RunRecord, State};
use tardy_samples::read_series::{SeriesError, SeriesFile};

/// Why a run cannot be summarised.
#[derive(Debug, thiserror::Error)]
pub enum CostSummaryError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// The run is of another kind.
    #[error("{0} is not a run of kind cost: give a folder that `tardy cost` made")]
    OtherKind(String),
}

/// Summary of a run of kind `cost`.
#[derive(Debug, Clone, Serialize)]
pub struct CostSummary {
    /// The run folder, as the caller gave it.
    pub run: String,
    /// How the run ended.
    pub state: State,
    /// The clock on which all times are based.
    pub clock: ClockKind,
    /// Wall-clock time of the start, in ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Caveats that a reader must know before the numbers.
    pub warnings: Vec<Warning>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// The machine in two lines.
    pub machine: [String; 2],
    /// How the costs were measured.
    #[serde(flatten)]
    pub how: CostMethod,
    /// The metrics, in the order of tables.
    pub metrics: Vec<MetricSummary>,
    /// Metrics that were not measured, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// How costs were measured.
#[derive(Debug, Clone, Serialize)]
pub struct CostMethod {
    /// The set of operations that were measured.
    pub set: CostSet,
    /// The measured command, if the set consists of a command.
    pub command: Vec<String>,
    /// Unit of the costs: `ns`, or `instructions` in an emulated machine whose clock counts
    /// instructions.
    pub unit: &'static str,
    /// The CPU to which the measurement was bound.
    pub cpu: Option<tardy_core::cpu::CpuId>,
    /// Number of rounds; each metric is prepared and measured once per round.
    pub rounds: u32,
    /// Number of trials per metric and round.
    pub trials: u32,
    pub trial_length_ns: Nanos,
    /// Cost of one read of the clock; it is subtracted from each trial.
    pub clock_read_ns: Nanos,
}

/// The cost of one operation of a metric, in the run's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricSummary {
    pub name: String,
    /// The group of the metric in tables.
    pub group: Group,
    pub operation: String,
    /// State of the caches at the start of an operation.
    pub state: CacheState,
    /// The LMbench program that measures the same operation as this metric.
    pub lmbench: Option<String>,
    /// Number of bytes that one operation moves, for bandwidths.
    pub bytes: Option<u64>,
    /// Number of operations per trial.
    pub operations: u64,
    /// The cost: the smallest of the medians of the rounds.
    pub cost: f64,
    /// Smallest trial.
    pub min: f64,
    /// Median of all trials.
    pub median: f64,
    /// Average of all trials.
    pub mean: f64,
    /// Largest trial.
    pub max: f64,
    /// Population standard deviation of all trials.
    pub standard_deviation: f64,
    /// The cost converted to a bandwidth in bytes per microsecond, which are megabytes (10^6) per
    /// second; absent if instructions are counted.
    pub megabytes_per_second: Option<f64>,
    /// Share of the trials' time during which the CPU was idle and executed no instructions;
    /// present only if instructions are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// The value of each trial, in order.
    pub values: Vec<f64>,
}

/// Reads the run in the folder `path`.
///
/// # Errors
/// Fails with a [`CostSummaryError`] if the run cannot be read or is of another kind.
pub fn summarize(path: &Path) -> Result<CostSummary, CostSummaryError> {
    of_record(path, folder::open(path)?)
}

/// Works like [`summarize`], for a record that has already been read.
///
/// # Errors
/// Fails with a [`CostSummaryError`] if the run is of another kind or its values cannot be read.
pub fn of_record(path: &Path, record: RunRecord) -> Result<CostSummary, CostSummaryError> {
    let Some(cost) = record.cost.clone() else {
        return Err(CostSummaryError::OtherKind(path.display().to_string()));
    };
    let mut metrics = Vec::new();
    let mut warnings = record.warnings.clone();
    for metric in &cost.metrics {
        let (trials, damaged) = read_trials(&path.join("samples").join(&metric.file))?;
        if damaged > 0 {
            warnings.push(Warning::DamagedFile {
                file: metric.file.clone(),
                bytes: damaged,
            });
        }
        metrics.extend(metric_summary(metric, &trials, &record, cost.unit));
    }
    Ok(CostSummary {
        run: path.display().to_string(),
        state: record.state,
        clock: record.clock,
        started_realtime_ns: record.started.realtime_ns,
        warnings,
        kernel: record.machine.kernel.release.clone(),
        machine: record.machine.two_lines(),
        how: how(&cost),
        metrics,
        left_out: cost.left_out,
    })
}

fn how(cost: &CostRecord) -> CostMethod {
    CostMethod {
        set: cost.set,
        command: cost.command.clone(),
        unit: match cost.unit {
            CostUnit::Time => "ns",
            CostUnit::Instructions { .. } => "instructions",
        },
        cpu: cost.cpu,
        rounds: cost.rounds,
        trials: cost.trials,
        trial_length_ns: cost.trial_length_ns,
        clock_read_ns: cost.clock_read_ns,
    }
}

/// Returns the start and the value of each trial, and the number of damaged bytes.
fn read_trials(path: &Path) -> Result<(Vec<(Nanos, i64)>, u64), SeriesError> {
    let file = SeriesFile::open(path)?;
    let schedule = file.descriptor().schedule;
    let mut trials = Vec::new();
    let end = file.read(&mut |chunk| {
        trials.extend(
            chunk
                .samples(&schedule)
                .map(|(_, sample)| (sample.due, sample.latency.get())),
        )
    })?;
    Ok((trials, end.damaged_bytes))
}

fn metric_summary(
    metric: &MetricRecord,
    trials: &[(Nanos, i64)],
    record: &RunRecord,
    unit: CostUnit,
) -> Option<MetricSummary> {
    // Stored values are in thousandths of the unit: ps, or 1/1000 instruction.
    let values: Vec<f64> = trials
        .iter()
        .map(|(_, value)| *value as f64 / 1000.0)
        .collect();
    let median_all = median(&values)?;
    let of_round = |begin: Nanos, end: Option<Nanos>| -> Vec<f64> {
        let within = |due: Nanos| due >= begin && end.is_none_or(|end| due < end);
        trials
            .iter()
            .filter(|(due, _)| within(*due))
            .map(|(_, value)| *value as f64 / 1000.0)
            .collect()
    };
    let rounds = record
        .phases
        .iter()
        .filter_map(|phase| median(&of_round(phase.begin_ns, phase.end_ns)));
    let cost = rounds.fold(f64::INFINITY, f64::min);
    let cost = if cost.is_finite() { cost } else { median_all };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / values.len() as f64;
    let bytes_a_second = |bytes: u64| bytes as f64 * 1e3 / cost;
    Some(MetricSummary {
        name: metric.name.clone(),
        group: metric.group,
        operation: metric.operation.clone(),
        state: metric.state,
        lmbench: metric.lmbench.clone(),
        bytes: metric.bytes,
        operations: metric.operations,
        cost,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        median: median_all,
        mean,
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        standard_deviation: variance.sqrt(),
        megabytes_per_second: metric
            .bytes
            .filter(|_| unit == CostUnit::Time && cost > 0.0)
            .map(bytes_a_second),
        idle_share: metric.waiting.map(IdleTime::share),
        values,
    })
}

/// Returns the middle value, or the mean of the two middle values; `None` if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
