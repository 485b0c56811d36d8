//! Computes the summary from a loaded run.

use std::path::Path;

use tardy_core::accounting::Counts;
use tardy_core::series::{ClockKind, Meaning};
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::summary::numbers::{numbers, percentiles};
use tardy_core::units::Nanos;
use tardy_core::verdict::Verdict;
use tardy_core::verdict::requirement::Requirement;
use tardy_run::record::RunRecord;
use tardy_samples::fitted_lateness::FittedLateness;

use crate::decision::{Decision, MeasuredKernel, PreemptionModel, Question, decision, kernel_name};

use super::model::{
    FittedSummary, GapSummary, InterruptCount, LoadSummary, MarkSummary, ProbeSummary,
    SeriesSummary, Summary,
};
use super::read::{LoadedRun, SeriesData, SummaryError, has_no_times, names, read};
use super::verdict::Judge;
use super::warnings::warnings;
use super::{by_phase, ladder, stated, verdict};

/// Summarises the run in `path`, judged by `requirement`. Fields that `requirement` lacks are taken
/// from the run's plan.
///
/// # Errors
/// Fails with a [`SummaryError`] if the folder, or a series that it names, cannot be read.
pub fn summarize(path: &Path, requirement: &Requirement) -> Result<Summary, SummaryError> {
    Ok(read(path, requirement)?.summary())
}

impl LoadedRun {
    /// Returns the summary of the run.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let (record, series) = (&self.record, &self.series);
        let warnings = warnings(record, series);
        let judge = Judge::new(self, &warnings);
        let loads = by_phase::loads(record, series, &judge);
        let mut probes = self.probe_summaries(&judge, &loads);
        let start = record.started.monotonic_ns;
        let mut summaries: Vec<SeriesSummary> =
            series.iter().map(|read| read.summary(start)).collect();
        if has_no_times(record) {
            let numbers = summaries
                .iter_mut()
                .map(|series| &mut series.numbers)
                .chain(probes.iter_mut().map(|probe| &mut probe.numbers));
            numbers.flatten().for_each(|numbers| numbers.max_at_ns = 0);
        }
        summaries.sort_by_key(|series| {
            (
                std::cmp::Reverse(series.numbers.as_ref().map(|numbers| numbers.max_ns)),
                series.probe.clone(),
                series.cpu,
            )
        });
        let verdict = verdict::of_run(self, &probes);
        Summary {
            run: self.folder.display().to_string(),
            state: record.state,
            clock: record.clock,
            decision: self.decision(&probes, verdict.as_ref()),
            verdict,
            warnings,
            measured_ns: self.measured(),
            started_realtime_ns: record.started.realtime_ns,
            probes,
            series: summaries,
            phases: by_phase::phases(record, series),
            loads,
            is_ranked: by_phase::is_ranked(record),
            load_work: record.load_work.clone(),
            marks: record.marks_ns.iter().map(|&at| mark(record, at)).collect(),
            labels: record.plan.labels.clone(),
            defaults: record.plan.defaults.clone(),
            measured_cpus: record.measured_cpus.clone(),
            machine: record.machine.two_lines(),
            grave_settings: record
                .doctor
                .iter()
                .filter(|finding| finding.is_grave())
                .map(|finding| finding.check.clone())
                .collect(),
            interrupts: interrupts(&record.interference),
            overhead: record.overhead.clone(),
        }
    }

    /// Decides, from this run alone, whether the deadline needs PREEMPT_RT.
    fn decision(&self, probes: &[ProbeSummary], verdict: Option<&Verdict>) -> Option<Decision> {
        let record = &self.record;
        let machine = &record.machine;
        // Probes without a verdict count only if they measure latencies or completion times.
        let is_time = |probe: &&ProbeSummary| {
            probe.verdict.is_some() || ["latency", "completion"].contains(&probe.quantity.as_str())
        };
        let largest = probes
            .iter()
            .filter(is_time)
            .filter_map(|probe| Some(Nanos(probe.numbers.as_ref()?.max_ns)))
            .max()?;
        let model = PreemptionModel::of(machine.kernel.preemption.as_ref())?;
        Some(decision(&Question {
            kernels: vec![MeasuredKernel {
                name: kernel_name(machine),
                model: Some(model),
                outcome: verdict.map(|verdict| verdict.outcome),
                skipped_too_many: verdict.is_some_and(Verdict::fails_by_skipped_periods_alone),
                largest,
                is_idle: record.phases.iter().all(|phase| phase.loads.is_empty()),
                is_virtual_time: record.clock == ClockKind::Virtual,
            }],
            deadline: self.window().map(|window| window.latest),
            is_virtual_machine: machine.virtualization.is_virtual() == Some(true),
            rules: None,
        }))
    }

    fn probe_summaries(&self, judge: &Judge<'_>, loads: &[LoadSummary]) -> Vec<ProbeSummary> {
        let start = self.record.started.monotonic_ns;
        let summary = |name: &str| {
            let of_probe: Vec<&SeriesData> = self
                .series
                .iter()
                .filter(|read| read.descriptor.probe == name)
                .collect();
            let (first, cells) = (
                of_probe[0],
                of_probe.iter().map(|read| &read.whole).collect::<Vec<_>>(),
            );
            let mut all = Cell::default();
            cells.iter().for_each(|cell| all.merge_counts(cell));
            let ladder = || ladder::ladder(judge, &of_probe, &all, self.measured(), loads);
            ProbeSummary {
                probe: name.to_owned(),
                quantity: first.descriptor.quantity.clone(),
                has_no_period: matches!(first.descriptor.meaning, Meaning::Gap { .. }),
                period_ns: first.descriptor.schedule.period(),
                is_skipped_unknown: of_probe.iter().any(|read| read.is_skipped_unknown()),
                numbers: stated::numbers_of_all(
                    &of_probe,
                    numbers(
                        &all,
                        &Dependence::of(&cells),
                        start.get(),
                        first.has_window(),
                    ),
                ),
                counts: of_probe.iter().fold(Counts::default(), |sum, read| {
                    sum.plus(&read.accumulator.counts)
                }),
                verdict: judge.probe(&of_probe, loads),
                ladder: if self.window().is_none() {
                    ladder()
                } else {
                    None
                },
            }
        };
        names(&self.series).into_iter().map(summary).collect()
    }
}

impl SeriesData {
    fn gaps(&self) -> Option<GapSummary> {
        let Meaning::Gap { least } = self.descriptor.meaning else {
            return None;
        };
        // This cell counts only the gaps in the series file. Shorter gaps, which were counted
        // without their time, are only in the histogram.
        let gaps = self.accumulator.whole();
        // For an import without samples, the histogram gives the number of gaps, but their total
        // length is unknown.
        if self.stated.is_some() && self.accumulator.samples == 0 {
            return None;
        }
        let length = Nanos(i64::try_from(gaps.sum).unwrap_or(i64::MAX));
        let share = self
            .observed
            .map(|observed| length.get() as f64 / observed.get() as f64);
        Some(GapSummary {
            least_ns: least,
            count: gaps.latency.count(),
            length_ns: length,
            observed_ns: self.observed,
            share,
        })
    }

    fn summary(&self, start: Nanos) -> SeriesSummary {
        let whole = &self.whole;
        let dependence = Dependence::of(&[whole]);
        let from_histogram = whole.latency.count() > self.accumulator.samples;
        let is_every_sample = self.has_every_sample();
        SeriesSummary {
            probe: self.descriptor.probe.clone(),
            cpu: self.descriptor.cpu,
            schedule: self.descriptor.schedule,
            numbers: stated::numbers(
                self,
                numbers(whole, &dependence, start.get(), self.has_window()),
            ),
            counts: self.accumulator.counts,
            is_skipped_unknown: self.is_skipped_unknown(),
            // If samples between two wake-ups were not stored, the time between them is unknown.
            jitter: if is_every_sample {
                percentiles(&self.accumulator.jitter, &dependence)
            } else {
                Vec::new()
            },
            jitter_max_ns: is_every_sample
                .then(|| self.accumulator.jitter.max())
                .flatten(),
            misses_longest_run: if is_every_sample {
                self.accumulator.miss_runs.longest()
            } else {
                None
            },
            early: self.accumulator.early.count,
            clock_error_ns: match self.descriptor.meaning {
                Meaning::Lateness { clock_error } if clock_error > Nanos::ZERO => Some(clock_error),
                _ => None,
            },
            copy: self.descriptor.copy,
            gaps: self.gaps(),
            fitted: self.fitted.as_ref().map(|fitted| of_fitted(fitted, start)),
            from_histogram,
        }
    }
}

fn mark(record: &RunRecord, at: Nanos) -> MarkSummary {
    let phase = record
        .phases
        .iter()
        .rev()
        .find(|phase| phase.begin_ns <= at);
    MarkSummary {
        at_ns: at - record.started.monotonic_ns,
        phase: phase.map(|phase| phase.name.clone()),
    }
}

fn interrupts(interference: &Option<tardy_run::interference::Interference>) -> Vec<InterruptCount> {
    let lines = interference
        .iter()
        .flat_map(|interference| &interference.interrupts);
    lines
        .map(|line| InterruptCount {
            label: line.label.clone(),
            description: line.description.clone(),
            count: line.total(),
        })
        .collect()
}

/// Converts fitted latencies. `start` is the start of the run on the series' clock.
fn of_fitted(fitted: &FittedLateness, start: Nanos) -> FittedSummary {
    let FittedLateness { grid, lateness } = fitted;
    FittedSummary {
        period_ns: grid.period_ns(),
        expiries: grid.expiries,
        without_event: grid.expiries.saturating_sub(grid.events),
        lateness: numbers(lateness, &Dependence::of(&[lateness]), start.get(), false),
    }
}
