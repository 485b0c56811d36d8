//! The three sources of latency in abeni2002 (section 2): timer resolution, scheduling jitter,
//! non-preemptible sections.
//!
//! The values of a source come from those phases that isolate it from the other sources. A source
//! that no phase isolates is listed together with the reason. Sources are never computed by
//! subtraction, because quantiles and maxima of sums cannot be separated.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use tardy_core::series::ClockKind;
use tardy_core::summary::numbers::Numbers;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::Warning;
use tardy_run::folder::{self, folders};
use tardy_run::plan::{LoadPlan, PolicyName, ProbePlan, WaitsFor};
use tardy_run::record::RunRecord;

use super::model::{LoadSummary, Summary};
use super::read::SummaryError;
use super::summarize::summarize;

/// The sources of latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The timer fires later than requested. This source is isolated in an idle system in which the
    /// probe has the highest priority.
    TimerResolution,
    /// A task of higher or equal priority runs. This source is isolated if there is such a task, no
    /// load has a lower priority, and timers have a high resolution.
    SchedulingJitter,
    /// IRQs or preemption are off at the time when the task should start. This source is isolated
    /// in a run under load in which the probe has the highest priority and timers have a high
    /// resolution.
    NonPreemptableSections,
}

/// The values of each source over all runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Breakdown {
    /// Measurements that isolate a source, in the order of the runs.
    pub isolated: Vec<IsolatedSource>,
    /// Probes that no task of higher priority could delay.
    pub excluded: Vec<ExcludedProbe>,
    /// Measurements that mix several sources, or about which too little is known.
    pub mixed: Vec<MixedMeasurement>,
    /// Caveats that a reader must know before the numbers: each has the folder of its run and the
    /// warning.
    #[serde(serialize_with = "as_texts")]
    pub warnings: Vec<(String, Warning)>,
}

fn as_texts<S: Serializer>(
    warnings: &[(String, Warning)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        warnings
            .iter()
            .map(|(run, warning)| (run, warning.to_string())),
    )
}

/// A measurement of one source alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsolatedSource {
    pub source: Source,
    /// Folder of the run.
    pub run: String,
    /// The clock on which the times of the run are based.
    pub clock: ClockKind,
    /// The probe, with its priority.
    pub probe: String,
    pub phase: String,
    /// Loads that ran in the phase.
    pub loads: Vec<String>,
    /// How the source was isolated.
    pub by: String,
    pub numbers: Numbers,
}

/// A probe whose priority is above those of all loads and other probes, so its latencies contain no
/// scheduling jitter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExcludedProbe {
    /// Folder of the run.
    pub run: String,
    /// The probe, with its priority.
    pub probe: String,
}

/// A measurement of more than one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MixedMeasurement {
    /// Folder of the run.
    pub run: String,
    /// The probe, with its priority.
    pub probe: String,
    pub phase: String,
    /// Why no source is isolated.
    pub reason: String,
}

/// Reads runs, or folders of runs, and classifies their measurements.
///
/// # Errors
/// Fails with a [`SummaryError`] if a folder cannot be read.
pub fn breakdown(runs: &[PathBuf]) -> Result<Breakdown, SummaryError> {
    let mut breakdown = Breakdown::default();
    for run in runs.iter().flat_map(|path| folders(path)) {
        breakdown.add(
            &run,
            &folder::open(&run)?,
            &summarize(&run, &Requirement::default())?,
        );
    }
    Ok(breakdown)
}

impl Breakdown {
    fn add(&mut self, path: &Path, record: &RunRecord, summary: &Summary) {
        let run = path.display().to_string();
        self.warnings.extend(
            summary
                .warnings
                .iter()
                .map(|warning| (run.clone(), warning.clone())),
        );
        let tick = summary.warnings.iter().find_map(|warning| match warning {
            Warning::NoHighResolutionTimers { resolution } => Some(*resolution),
            _ => None,
        });
        for plan in record
            .plan
            .probes
            .iter()
            .filter(|plan| plan.waits_for == WaitsFor::Timer)
        {
            let probe = named(plan);
            let mut is_excluded = false;
            for phase in &summary.loads {
                let Some(numbers) = numbers_of(phase, &plan.name) else {
                    let reason =
                        "no samples, or the loads used less than a tenth of each CPU's time"
                            .to_owned();
                    self.mixed.push(MixedMeasurement {
                        run: run.clone(),
                        probe: probe.clone(),
                        phase: phase.name.clone(),
                        reason,
                    });
                    continue;
                };
                match isolated(
                    plan.priority,
                    &other_probes(record, plan),
                    &loads_of(record, &phase.name),
                    tick,
                ) {
                    Ok((source, by)) => {
                        is_excluded |= source != Source::SchedulingJitter;
                        let (phase, loads) = (phase.name.clone(), phase.loads.clone());
                        let (run, probe, clock) = (run.clone(), probe.clone(), record.clock);
                        self.isolated.push(IsolatedSource {
                            source,
                            run,
                            clock,
                            probe,
                            phase,
                            loads,
                            by,
                            numbers: numbers.clone(),
                        });
                    }
                    Err(reason) => self.mixed.push(MixedMeasurement {
                        run: run.clone(),
                        probe: probe.clone(),
                        phase: phase.name.clone(),
                        reason,
                    }),
                }
            }
            if is_excluded {
                self.excluded.push(ExcludedProbe {
                    run: run.clone(),
                    probe,
                });
            }
        }
    }
}

fn named(plan: &ProbePlan) -> String {
    match plan.priority {
        Some(priority) if plan.policy == PolicyName::Rr => {
            format!("{} at SCHED_RR {priority}", plan.name)
        }
        Some(priority) => format!("{} at SCHED_FIFO {priority}", plan.name),
        None => format!("{} at SCHED_OTHER", plan.name),
    }
}

fn numbers_of<'a>(phase: &'a LoadSummary, probe: &str) -> Option<&'a Numbers> {
    phase
        .probes
        .iter()
        .find(|(name, _)| name == probe)
        .and_then(|(_, numbers)| numbers.as_ref())
}

/// A task that may run while a probe waits. It is a load or another probe. Its priority is 0 if it
/// is not a real-time task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Competitor {
    name: String,
    priority: u64,
}

/// Returns the loads of the phases named `phase`; all of these phases have the same loads.
fn loads_of(record: &RunRecord, phase: &str) -> Vec<Competitor> {
    let planned = record
        .plan
        .phases
        .iter()
        .find(|planned| planned.name == phase);
    let beside = |load: &LoadPlan| Competitor {
        name: load.name.clone(),
        priority: load.parameters.number("priority"),
    };
    planned.map_or_else(Vec::new, |planned| {
        planned.loads.iter().map(beside).collect()
    })
}

fn other_probes(record: &RunRecord, plan: &ProbePlan) -> Vec<Competitor> {
    let others = record
        .plan
        .probes
        .iter()
        .filter(|other| other.name != plan.name);
    others
        .map(|other| Competitor {
            name: other.name.clone(),
            priority: other.priority.map_or(0, u64::from),
        })
        .collect()
}

/// Returns the source that is isolated by a probe with this priority, and the way in which it is
/// isolated. If no source is isolated, returns the reason. `tick` is the resolution of the timers;
/// `None` if they are high-resolution timers.
fn isolated(
    priority: Option<u32>,
    probes: &[Competitor],
    loads: &[Competitor],
    tick: Option<Nanos>,
) -> Result<(Source, String), String> {
    let Some(priority) = priority.map(u64::from) else {
        return Err(
            "other tasks can delay an ordinary task at any time: give the probe a real-time \
             priority"
                .to_owned(),
        );
    };
    let above: Vec<String> = loads
        .iter()
        .chain(probes)
        .filter(|beside| beside.priority >= priority)
        .map(|beside| format!("{} at {}", beside.name, beside.priority))
        .collect();
    let has_loads_below = loads.iter().any(|load| load.priority < priority);
    let timers = tick.map_or_else(
        || "high-resolution timers".to_owned(),
        |tick| format!("timers that fire at ticks of {}", tick.exact()),
    );
    match (above.is_empty(), has_loads_below, tick) {
        (true, false, _) => Ok((Source::TimerResolution, format!("idle, {timers}"))),
        (true, true, None) => Ok((Source::NonPreemptableSections, timers)),
        (false, false, None) => Ok((
            Source::SchedulingJitter,
            format!("below {}", above.join(" and ")),
        )),
        (_, _, Some(_)) => Err(format!(
            "{timers} hide all other delays: measure with highres=on"
        )),
        (false, true, None) => Err(format!(
            "the kernel's work for the loads delays the probe, and so does {}: give the probe the \
             highest priority",
            above.join(" and ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(name: &str, priority: u64) -> Vec<Competitor> {
        vec![Competitor {
            name: name.to_owned(),
            priority,
        }]
    }

    const TICK: Option<Nanos> = Some(Nanos::from_millis(4));

    #[test]
    fn each_source_is_alone_where_the_paper_says_so() {
        let source = |priority, probes: &[Competitor], loads: &[Competitor], tick| {
            isolated(priority, probes, loads, tick).map(|(source, _)| source)
        };
        assert_eq!(
            source(Some(98), &[], &[], None),
            Ok(Source::TimerResolution)
        );
        assert_eq!(
            source(Some(98), &[], &[], TICK),
            Ok(Source::TimerResolution)
        );
        assert_eq!(
            source(Some(98), &beside("nanosleep", 50), &beside("io", 0), None),
            Ok(Source::NonPreemptableSections)
        );
        assert_eq!(
            source(Some(98), &[], &beside("busy", 97), None),
            Ok(Source::NonPreemptableSections)
        );
        assert_eq!(
            source(Some(50), &[], &beside("busy", 90), None),
            Ok(Source::SchedulingJitter)
        );
    }

    #[test]
    fn what_is_mixed_says_what_it_is_mixed_with() {
        let reason = |priority, probes: &[Competitor], loads: &[Competitor], tick| {
            isolated(priority, probes, loads, tick).unwrap_err()
        };
        assert!(reason(None, &[], &[], None).contains("ordinary task"));
        assert!(
            reason(Some(98), &[], &beside("io", 0), TICK)
                .contains("ticks of 4ms hide all other delays"),
            "{}",
            reason(Some(98), &[], &beside("io", 0), TICK)
        );
        assert!(
            reason(Some(50), &beside("cyclic", 98), &beside("io", 0), None)
                .contains("cyclic at 98")
        );
    }

    #[test]
    fn a_probe_of_the_same_priority_is_a_competitor() {
        let (source, by) = isolated(Some(95), &beside("timerfd", 95), &[], None).unwrap();
        assert_eq!(
            (source, by.as_str()),
            (Source::SchedulingJitter, "below timerfd at 95")
        );
    }
}
