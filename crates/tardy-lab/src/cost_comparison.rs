//! The results of an experiment that measures costs: how many instructions one operation takes, for
//! each variant and metric, over all replicas.
//!
//! An instruction count measures the length of the kernel's code. The count does not show by how
//! much a machine becomes slower, so this module never divides a count by a time.

use serde::Serialize;
use tardy_results::cost::summary::{CostSummary, median};
use tardy_run::cost::Group;

use super::comparison::{RunResult, run_result};
use super::experiment::Outcome;
use super::variant::Variant;

/// What instruction counts mean; printed under every comparison of them.
const MEANING: &str = "instructions of one operation: the length of the kernel's code, not its \
                       speed on a machine; caches, memory and parallel CPUs, which affect costs, \
                       are not modelled";
/// What the figures mean if they are times on the host's clock.
const MEANING_OF_TIMES: &str = "times on the host's clock: every figure includes the host's own \
                                work, and no run repeats exactly";

/// The results of all variants, side by side.
#[derive(Debug, Clone, Serialize)]
pub struct CostComparison {
    /// A sentence that explains to the reader what the figures mean.
    pub meaning: &'static str,
    /// `instructions`, or `ns` if the guests did not count instructions.
    pub unit: &'static str,
    /// Number of replicas.
    pub replicas: u32,
    /// The variants in the order of the command line.
    pub variants: Vec<CostVariant>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CostVariant {
    /// The measured variant.
    pub variant: Variant,
    /// One run for each replica.
    pub runs: Vec<RunResult>,
    /// The metrics that at least one run measured, in the order of tables.
    pub metrics: Vec<MetricResult>,
    /// Metrics that no run measured, each with the reason.
    pub left_out: Vec<Absence>,
}

/// The result of one metric over all replicas.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricResult {
    pub name: String,
    /// The metric's group in tables.
    pub group: Group,
    pub operation: String,
    /// Median of the runs' figures over the replicas.
    pub cost: f64,
    /// The figure of each run, in the order of the replicas.
    pub cost_of_runs: Vec<f64>,
    /// The share of the trials' time during which the CPU was idle: the largest share of any run.
    /// While the CPU was idle, the operation waited and executed no instructions.
    pub idle_share: f64,
}

/// A metric that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Absence {
    pub name: String,
    /// Why the metric was not measured.
    pub reason: String,
}

impl CostComparison {
    /// Reads each run with `summarize`. A run that cannot be read counts as failed.
    #[must_use]
    pub fn new(
        variants: &[Variant],
        outcomes: &[Outcome],
        summarize: &dyn Fn(&Outcome) -> Result<CostSummary, String>,
    ) -> Self {
        let mut unit = "instructions";
        let mut result = |(index, variant): (usize, &Variant)| {
            let mut runs = Vec::new();
            let mut summaries = Vec::new();
            for outcome in outcomes.iter().filter(|outcome| outcome.variant == index) {
                let summary = outcome.result.as_ref().ok().map(|_| summarize(outcome));
                runs.push(run_result(
                    outcome,
                    summary.as_ref().and_then(|summary| summary.as_ref().err()),
                ));
                summaries.extend(summary.and_then(Result::ok));
            }
            if let Some(other) = summaries
                .iter()
                .map(|summary| summary.how.unit)
                .find(|of_run| *of_run != "instructions")
            {
                unit = other;
            }
            let (metrics, left_out) = over_ensemble(&summaries);
            CostVariant {
                variant: variant.clone(),
                runs,
                metrics,
                left_out,
            }
        };
        let variants = variants.iter().enumerate().map(&mut result).collect();
        let replicas = outcomes
            .iter()
            .map(|outcome| outcome.replica + 1)
            .max()
            .unwrap_or(0);
        Self {
            meaning: if unit == "instructions" {
                MEANING
            } else {
                MEANING_OF_TIMES
            },
            unit,
            replicas,
            variants,
        }
    }
}

impl CostVariant {
    /// Returns the metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricResult> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// Groups the runs' figures by the name of the metric, and finds the metrics that no run measured.
fn over_ensemble(summaries: &[CostSummary]) -> (Vec<MetricResult>, Vec<Absence>) {
    let mut metrics: Vec<MetricResult> = Vec::new();
    for metric in summaries.iter().flat_map(|summary| &summary.metrics) {
        match metrics.iter_mut().find(|known| known.name == metric.name) {
            Some(known) => {
                known.cost_of_runs.push(metric.cost);
                known.idle_share = known.idle_share.max(metric.idle_share.unwrap_or(0.0));
            }
            None => metrics.push(MetricResult {
                name: metric.name.clone(),
                group: metric.group,
                operation: metric.operation.clone(),
                cost: metric.cost,
                cost_of_runs: vec![metric.cost],
                idle_share: metric.idle_share.unwrap_or(0.0),
            }),
        }
    }
    for metric in &mut metrics {
        metric.cost = median(&metric.cost_of_runs).expect("a metric is here because a run has it");
    }
    let mut left_out: Vec<Absence> = Vec::new();
    for absent in summaries.iter().flat_map(|summary| &summary.left_out) {
        let is_known = left_out.iter().any(|known| known.name == absent.name)
            || metrics.iter().any(|metric| metric.name == absent.name);
        if !is_known {
            left_out.push(Absence {
                name: absent.name.clone(),
                reason: absent.reason.clone(),
            });
        }
    }
    (metrics, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::series::ClockKind;
    use tardy_core::units::Nanos;

    use tardy_results::cost::summary::{CostMethod, MetricSummary};
    use tardy_run::cost::{CacheState, CostSet, LeftOut};
    use tardy_run::record::State;

    fn summary(metrics: &[(&str, f64)], left_out: &[&str]) -> CostSummary {
        let metric = |(name, cost): &(&str, f64)| MetricSummary {
            name: (*name).to_owned(),
            group: Group::Processor,
            operation: String::new(),
            state: CacheState::Warm,
            lmbench: None,
            bytes: None,
            operations: 1,
            cost: *cost,
            min: *cost,
            median: *cost,
            mean: *cost,
            max: *cost,
            standard_deviation: 0.0,
            megabytes_per_second: None,
            idle_share: None,
            values: vec![*cost],
        };
        CostSummary {
            run: String::new(),
            state: State::Finished,
            clock: ClockKind::Virtual,
            started_realtime_ns: Nanos::ZERO,
            warnings: Vec::new(),
            kernel: None,
            machine: Default::default(),
            how: CostMethod {
                set: CostSet::Metrics,
                command: Vec::new(),
                unit: "instructions",
                cpu: None,
                rounds: 1,
                trials: 1,
                trial_length_ns: Nanos(1),
                clock_read_ns: Nanos(1),
            },
            metrics: metrics.iter().map(metric).collect(),
            left_out: left_out
                .iter()
                .map(|name| LeftOut {
                    name: (*name).to_owned(),
                    reason: "missing".into(),
                })
                .collect(),
        }
    }

    #[test]
    fn a_metric_is_the_median_of_the_runs_and_absent_only_where_no_run_has_it() {
        let runs = [
            summary(&[("null-call", 100.0), ("stat", 900.0)], &["fork-sh"]),
            summary(&[("null-call", 104.0)], &["fork-sh", "stat"]),
            summary(&[("null-call", 101.0), ("stat", 901.0)], &["fork-sh"]),
        ];
        let (metrics, left_out) = over_ensemble(&runs);
        let costs: Vec<(&str, f64)> = metrics
            .iter()
            .map(|metric| (metric.name.as_str(), metric.cost))
            .collect();
        assert_eq!(costs, [("null-call", 101.0), ("stat", 900.5)]);
        assert_eq!(metrics[0].cost_of_runs, [100.0, 104.0, 101.0]);
        assert_eq!(
            left_out
                .iter()
                .map(|absent| absent.name.as_str())
                .collect::<Vec<_>>(),
            ["fork-sh"]
        );
    }
}
