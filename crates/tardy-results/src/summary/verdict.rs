//! Derives the verdicts on a run from its samples and the requirement. Each probe and each load is
//! a separate population with its own verdict.

use std::collections::BTreeSet;

use tardy_core::series::Descriptor;
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::verdict::{Evidence, Outcome, Stress, Verdict, judge};
use tardy_core::warning::{Severity, Warning};
use tardy_run::imported::ImportRecord;
use tardy_run::record::RunRecord;

use super::model::{LoadSummary, ProbeSummary};
use super::read::{LoadedRun, SeriesData};
use super::stated;

/// Judges the samples of one run.
pub(super) struct Judge<'a> {
    pub(super) run: &'a LoadedRun,
    stress: Stress,
    degraded: Vec<String>,
    incomplete: Vec<String>,
}

/// Samples of one series, either all of them or those of some phases.
pub(super) struct Part<'a> {
    descriptor: &'a Descriptor,
    cell: &'a Cell,
    due_times: u64,
}

impl<'a> Part<'a> {
    /// Creates the part with all samples of a series. Lost samples were not observed, so they prove
    /// nothing about misses.
    pub(super) fn whole(read: &'a SeriesData) -> Self {
        let (counts, cell, missing) = (read.counts(), read.whole(), read.gone);
        // Samples that are missing in a damaged file also count as not observed.
        let skipped_there = if missing > 0 {
            counts.skipped.saturating_sub(cell.skipped)
        } else {
            0
        };
        let unseen = counts
            .lost
            .saturating_add(missing)
            .saturating_add(skipped_there);
        Self {
            descriptor: read.descriptor(),
            cell,
            due_times: counts.expected.saturating_sub(unseen),
        }
    }

    /// Creates the part of a series whose samples are in `cell`.
    pub(super) fn of_phases(read: &'a SeriesData, cell: &'a Cell) -> Self {
        Self {
            descriptor: read.descriptor(),
            cell,
            due_times: cell.latency.count() + cell.skipped,
        }
    }

    /// Returns the minimum time that the due times cover: one period for each due time. The period
    /// of the last due time counts, although nothing was measured after it.
    fn length(&self) -> Nanos {
        let due_times = i64::try_from(self.due_times).unwrap_or(i64::MAX);
        Nanos(
            self.descriptor
                .schedule
                .period()
                .get()
                .saturating_mul(due_times),
        )
    }
}

impl<'a> Judge<'a> {
    /// Prepares verdicts on a run. `warnings` are all warnings about the run; those about defects
    /// limit the possible conclusions.
    pub(super) fn new(run: &'a LoadedRun, warnings: &[Warning]) -> Self {
        let of = |severity| {
            warnings
                .iter()
                .filter(|warning| warning.severity() == severity)
                .map(Warning::to_string)
                .collect()
        };
        Self {
            run,
            stress: stress(&run.record),
            degraded: of(Severity::Degraded),
            incomplete: of(Severity::Incomplete),
        }
    }

    /// Returns the verdict on a probe over all its series. If a share of misses is allowed, no
    /// single series or load may exceed it.
    pub(super) fn probe(&self, series: &[&SeriesData], loads: &[LoadSummary]) -> Option<Verdict> {
        let requirement = self.run.requirement();
        let first = series
            .first()
            .filter(|read| read.is_judged() && requirement.is_asked())?;
        let of = |series: &[&SeriesData]| {
            let parts: Vec<Part> = series.iter().map(|read| Part::whole(read)).collect();
            let mut evidence = self.evidence(requirement, &parts, self.run.measured(), self.stress);
            evidence.misses += requirement
                .window
                .map_or(0, |window| stated::misses(series, window));
            evidence.misses_undecided += requirement
                .window
                .map_or(0, |window| stated::undecided(series, window));
            evidence.incomplete.extend(self.shortcomings(series));
            // An unknown number of skipped periods must not count as 0.
            evidence.skipped_limited = evidence
                .skipped_limited
                .filter(|&skipped| skipped > 0 || !self.is_limited_and_unknown(series));
            judge(requirement, evidence)
        };
        let together = of(series);
        if together.outcome == Outcome::Failed || requirement.misses_allowed.is_none() {
            return Some(together);
        }
        // If a single CPU or load exceeds the allowed share with certainty, the other CPUs or loads
        // cannot compensate for this.
        let alone = series
            .iter()
            .map(|read| (format!("{} alone", read.place()), of(&[read])));
        let name = &first.descriptor().probe;
        let under = loads.iter().filter_map(|load| {
            Some((
                format!("under {}", load.name),
                load.verdict_of(name)?.clone(),
            ))
        });
        let failed = alone
            .chain(under)
            .find(|(_, verdict)| verdict.outcome == Outcome::Failed);
        Some(failed.map_or(together, |(who, verdict)| Verdict {
            sentence: format!("{who}: {}", verdict.sentence),
            ..verdict
        }))
    }

    /// Returns the verdict on a probe under a load that ran for `length`.
    pub(super) fn load(
        &self,
        parts: &[Part<'_>],
        length: Nanos,
        is_loaded: bool,
    ) -> Option<Verdict> {
        let requirement = self.run.requirement();
        let stress = if is_loaded {
            Stress::Same
        } else {
            Stress::None
        };
        requirement.is_asked().then(|| {
            judge(
                requirement,
                self.evidence(requirement, parts, length, stress),
            )
        })
    }

    /// Returns the evidence from these samples.
    pub(super) fn evidence(
        &self,
        requirement: &Requirement,
        parts: &[Part<'_>],
        measured: Nanos,
        stress: Stress,
    ) -> Evidence {
        let sum = |of: fn(&Part<'_>) -> u64| parts.iter().map(of).sum::<u64>();
        let is_limited = |part: &&Part<'_>| {
            requirement.limits_skipped(part.descriptor.schedule.period(), part.descriptor.is_work())
        };
        let limited: Vec<u64> = parts
            .iter()
            .filter(is_limited)
            .map(|part| part.cell.skipped)
            .collect();
        let dependence = Dependence::of(&parts.iter().map(|part| part.cell).collect::<Vec<_>>());
        Evidence {
            misses: sum(|part| part.cell.misses),
            misses_skipped: sum(|part| part.cell.misses_skipped),
            misses_undecided: sum(|part| part.cell.misses_undecided),
            skipped: sum(|part| part.cell.skipped),
            skipped_limited: (!limited.is_empty()).then(|| limited.iter().sum()),
            due_times: sum(|part| part.due_times),
            extremal_index: dependence.extremal_index(),
            clustering: Some(dependence.misses()),
            processors: parts
                .iter()
                .filter_map(|part| part.descriptor.cpu)
                .collect::<BTreeSet<_>>()
                .len(),
            measured: measured.max(parts.iter().map(Part::length).max().unwrap_or_default()),
            stress,
            degraded: self.degraded.clone(),
            incomplete: self.incomplete.clone(),
        }
    }

    /// Returns whether loads ran during the whole run, and whether they changed.
    pub(super) fn stress(&self) -> Stress {
        self.stress
    }

    /// Returns whether the number of skipped periods is limited but unknown, because the tool that
    /// made the import does not count them. The requirement can limit the number directly, or by a
    /// deadline that is at most the period.
    fn is_limited_and_unknown(&self, series: &[&SeriesData]) -> bool {
        let requirement = self.run.requirement();
        let is_of_timers = self
            .run
            .record
            .imported
            .as_ref()
            .is_some_and(ImportRecord::is_of_timers);
        let is_limited = |read: &SeriesData| {
            let (period, is_work) = (
                read.descriptor().schedule.period(),
                read.descriptor().is_work(),
            );
            // If the period is unknown, it may be longer than the deadline, and the deadline then
            // limits the number.
            requirement.limits_skipped(period, is_work)
                || (period == Nanos::ZERO && requirement.window.is_some() && !is_of_timers)
        };
        series
            .iter()
            .any(|read| is_limited(read) && read.is_skipped_unknown())
    }

    /// Returns the reasons why the series may not show whether the requirement is met.
    fn shortcomings(&self, series: &[&SeriesData]) -> Vec<String> {
        let requirement = self.run.requirement();
        let of_extremes = requirement
            .window
            .and_then(|window| stated::shortcoming(series, window));
        let is_open = requirement.skipped_allowed.is_some() && self.run.record.imported.is_some()
            || self.is_limited_and_unknown(series);
        let of_skipped = is_open.then(|| {
            "the tool that measured the run may not count every skipped period".to_owned()
        });
        let is_undecided = series
            .iter()
            .any(|read| read.whole.misses_undecided > 0 && read.is_judged());
        let of_undecided = is_undecided.then(|| {
            "some skipped periods belong to samples that were not stored, so the latency of these \
             periods is unknown"
                .to_owned()
        });
        of_extremes
            .into_iter()
            .chain(of_skipped)
            .chain(of_undecided)
            .collect()
    }
}

/// Returns the verdict on the run. If there are several probes, this is the worst of their
/// verdicts, preceded by the probe's name. Returns `None` if there is no requirement.
pub(super) fn of_run(run: &LoadedRun, probes: &[ProbeSummary]) -> Option<Verdict> {
    let verdicts: Vec<(&str, &Verdict)> = probes
        .iter()
        .filter_map(|probe| Some((probe.probe.as_str(), probe.verdict.as_ref()?)))
        .collect();
    match verdicts.as_slice() {
        [] => run
            .requirement()
            .is_asked()
            .then(|| judge(run.requirement(), Evidence::default())),
        [(_, verdict)] => Some((*verdict).clone()),
        several => {
            let worst = several
                .iter()
                .map(|(_, verdict)| verdict.outcome)
                .fold(Outcome::Passed, Outcome::worse);
            let mut alike = several
                .iter()
                .filter(|(_, verdict)| verdict.outcome == worst);
            let imported = run.record.imported.as_ref();
            // `tardy attach` writes a series for each kind of wake-up, even for rare kinds. So the
            // verdict with the most misses is preferred or, if several have equally many, the one
            // with the most due times.
            let (probe, verdict) = if imported.is_some_and(ImportRecord::is_of_timers) {
                let weight = |verdict: &Verdict| {
                    let evidence = &verdict.evidence;
                    (evidence.misses, evidence.due_times)
                };
                alike.rev().max_by_key(|(_, verdict)| weight(verdict))?
            } else {
                alike.next()?
            };
            Some(Verdict {
                sentence: format!("{probe}: {}", verdict.sentence),
                ..(*verdict).clone()
            })
        }
    }
}

/// Returns whether loads ran during the measurement, and whether they changed. The loads of an
/// import are unknown.
fn stress(record: &RunRecord) -> Stress {
    let mut loads: Vec<&[String]> = record
        .phases
        .iter()
        .map(|phase| phase.loads.as_slice())
        .collect();
    loads.dedup();
    match loads.as_slice() {
        loads if loads.iter().all(|loads| loads.is_empty()) => Stress::None,
        [_] => Stress::Same,
        _ => Stress::Mixture,
    }
}

#[cfg(test)]
mod tests {
    use tardy_core::cpu::CpuId;
    use tardy_core::series::{ClockKind, Schedule};

    use super::*;

    #[test]
    fn a_rate_is_never_above_the_due_times_of_an_hour() {
        let schedule = Schedule::Grid {
            period: Nanos::from_millis(1),
            start: Nanos::ZERO,
            dither: Nanos::ZERO,
        };
        let descriptor =
            Descriptor::latency("cyclic", Some(CpuId(0)), ClockKind::Hardware, schedule);
        let part = Part {
            descriptor: &descriptor,
            cell: &Cell::default(),
            due_times: 1,
        };
        // The time from the first due time to the last wake-up is 15 us, which is the latency of
        // the only sample.
        let evidence = Evidence {
            due_times: 1,
            misses: 1,
            measured: Nanos::from_micros(15).max(part.length()),
            ..Evidence::default()
        };
        let an_hour = judge(&Requirement::deadline(Nanos(1)), evidence)
            .misses_an_hour_at_most()
            .unwrap();
        assert!(an_hour <= 3_600_000.5, "{an_hour}");
    }
}
