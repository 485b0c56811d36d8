//! Selects which series of a kernel's runs are judged. Also determines the time that the model adds
//! to the values of these series.

use tardy_core::series::Descriptor;
use tardy_core::summary::numbers::Numbers;
use tardy_core::units::Nanos;
use tardy_core::verdict::Evidence;
use tardy_core::verdict::requirement::Requirement;
use tardy_run::plan::ProbePlan;
use tardy_samples::read_series::{SeriesError, SeriesFile};

use super::super::kernels::{Kernel, LatencyRun};
use super::super::task::Task;
use tardy_results::summary::model::{ProbeSummary, Summary};
use tardy_results::summary::read::SummaryError;
use tardy_results::summary::summarize::summarize;

/// Name of the quantity in a series of completions.
const COMPLETION: &str = "completion";
/// Name of the quantity in a series of start latencies.
const START: &str = "latency";

/// The series of one probe of one run, summarised against the deadline.
pub(super) struct JudgedProbe {
    pub(super) summary: Summary,
    /// The probe's name in its series.
    name: String,
    /// The time that the values measure.
    pub(super) measured: MeasuredTime,
    /// The time that the model adds to each value.
    pub(super) added: Nanos,
    /// The requirement for the measured values.
    pub(super) requirement: Requirement,
    /// Scheduling policy and priority of the probe.
    pub(super) scheduling: Option<String>,
    /// Whether the tool limited the C-states of CPUs.
    pub(super) is_kept_awake: bool,
}

/// The times that a series can measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredTime {
    /// The time from the due time of work until the work is done. Contains the time that the work
    /// takes without interruption, if the plan records it.
    Completion(Option<Nanos>),
    /// The start latency.
    Start,
}

impl JudgedProbe {
    pub(super) fn probe(&self) -> &ProbeSummary {
        let found = self
            .summary
            .probes
            .iter()
            .find(|probe| probe.probe == self.name);
        found.expect("the summary has every series of the run")
    }

    /// Returns the number of CPUs on which the probe measured.
    pub(super) fn processors(&self) -> usize {
        self.summary
            .series
            .iter()
            .filter(|series| series.probe == self.name && series.cpu.is_some())
            .count()
    }

    pub(super) fn numbers(&self) -> Option<&Numbers> {
        self.probe().numbers.as_ref()
    }

    /// Returns the evidence on which this run's own verdict is based.
    pub(super) fn evidence(&self) -> Option<&Evidence> {
        self.probe()
            .verdict
            .as_ref()
            .map(|verdict| &verdict.evidence)
    }

    /// Returns the number of misses. If not all misses can be counted, returns the number of known
    /// ones.
    pub(super) fn misses(&self) -> u64 {
        self.numbers()
            .and_then(|numbers| numbers.misses)
            .or(self.evidence().map(|evidence| evidence.misses))
            .unwrap_or(0)
    }
}

/// Returns the runs of `kernel` that can be judged together. Completions are preferred to start
/// latencies. If several runs measured completions, the chosen ones are those whose unit of work is
/// closest in length to the user's work.
pub(super) fn take(
    kernel: &Kernel,
    task: &Task,
    probe: Option<&str>,
    slowdown: Option<f64>,
) -> Result<Vec<JudgedProbe>, SummaryError> {
    let work = task.stretched(slowdown.unwrap_or(0.0));
    let mut chosen: Vec<(&LatencyRun, String, MeasuredTime, Nanos)> = Vec::new();
    for run in &kernel.runs {
        if let Some((name, measured)) = choose(run, task, probe)? {
            let added = match measured {
                MeasuredTime::Completion(length) => work
                    .zip(length)
                    .map_or(Nanos::ZERO, |(work, length)| work - length),
                MeasuredTime::Start => work.unwrap_or(Nanos::ZERO),
            };
            chosen.push((run, name, measured, added));
        }
    }
    let is_completion = |measured: &MeasuredTime| matches!(measured, MeasuredTime::Completion(_));
    let order = |(_, _, measured, added): &(&LatencyRun, String, MeasuredTime, Nanos)| {
        (!is_completion(measured), added.get().abs())
    };
    let Some(best) = chosen.iter().map(order).min() else {
        return Ok(Vec::new());
    };
    chosen.retain(|candidate| order(candidate) == best);
    let first = chosen[0].3;
    chosen.retain(|candidate| candidate.3 == first);
    chosen
        .into_iter()
        .map(|(run, name, measured, added)| summarized(run, task, name, measured, added))
        .collect()
}

/// Returns the run's most informative series about the work, and the quantity that this series
/// measures. The most informative series has completions of the same kind of work; if there is
/// none, a series of start latencies is used. Start latencies on a schedule are preferred, because
/// their skipped due times are known.
fn choose(
    run: &LatencyRun,
    task: &Task,
    probe: Option<&str>,
) -> Result<Option<(String, MeasuredTime)>, SeriesError> {
    let folder = run
        .record
        .samples_folder
        .clone()
        .unwrap_or_else(|| run.folder.join("samples"));
    let mut descriptors: Vec<Descriptor> = Vec::new();
    for series in &run.record.series {
        let known = descriptors.iter().any(|known| known.probe == series.probe);
        if !known && probe.is_none_or(|name| name == series.probe) {
            descriptors.push(
                SeriesFile::open(&folder.join(&series.file))?
                    .descriptor()
                    .clone(),
            );
        }
    }
    let judged = || {
        descriptors
            .iter()
            .filter(|descriptor| !descriptor.is_outside_verdict)
    };
    let completion = judged()
        .filter(|descriptor| descriptor.quantity == COMPLETION)
        .find_map(|descriptor| {
            let planned = planned(run, &descriptor.probe);
            let is_of_kind = task.kind.zip(planned).is_none_or(|(kind, probe)| {
                ["", kind.name()].contains(&probe.parameters.text("kind"))
            });
            let length = planned
                .map(|probe| probe.parameters.duration("length"))
                .filter(|length| *length > Nanos::ZERO);
            is_of_kind.then(|| (descriptor.probe.clone(), MeasuredTime::Completion(length)))
        });
    let starts = || judged().filter(|descriptor| descriptor.quantity == START);
    let start = starts()
        .find(|descriptor| descriptor.schedule.is_grid())
        .or_else(|| starts().next());
    Ok(completion
        .or_else(|| start.map(|descriptor| (descriptor.probe.clone(), MeasuredTime::Start))))
}

/// Returns the planned probe of `series`. The name of a series is the probe's name; if the probe
/// has several series, a dot and the name of the part follow.
fn planned<'a>(run: &'a LatencyRun, series: &str) -> Option<&'a ProbePlan> {
    run.record
        .plan
        .probe(series.split('.').next().unwrap_or(series))
}

fn summarized(
    run: &LatencyRun,
    task: &Task,
    name: String,
    measured: MeasuredTime,
    added: Nanos,
) -> Result<JudgedProbe, SummaryError> {
    let requirement = Requirement {
        misses_allowed: task.misses_allowed(),
        ..Requirement::window(task.window(added))
    };
    let summary = summarize(&run.folder, &requirement)?;
    let scheduling = planned(run, &name).map(|probe| {
        let priority = probe
            .priority
            .map_or_else(String::new, |priority| format!(" {priority}"));
        format!("policy {}{priority}", probe.policy.name())
    });
    let is_kept_awake = run.record.plan.cpu_dma_latency_us == Some(0);
    Ok(JudgedProbe {
        summary,
        name,
        measured,
        added,
        requirement,
        scheduling,
        is_kept_awake,
    })
}
