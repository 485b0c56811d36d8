//! What the samples of each phase come to, and of all phases of the same name together.

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::summary::cell::Cell;
use tardy_core::units::Nanos;
use tardy_core::verdict::Verdict;
use tardy_run::record::{PhaseRecord, RunRecord};

use super::model::{LoadSummary, PhaseSummary};
use super::read::{Read, measured, names, together};
use super::verdict::{Judge, Part};

/// A measured processor of which a phase's loads used less than this, in percent, was not under that load.
const STRESSED_PERCENT: i64 = 10;

/// Each phase by itself, in order of time.
pub(super) fn phases(record: &RunRecord, series: &[Read]) -> Vec<PhaseSummary> {
    let start = record.started.monotonic_ns;
    let last = start + measured(series);
    let summary = |(index, phase): (usize, &PhaseRecord)| {
        let end = phase.end_ns.unwrap_or(last);
        PhaseSummary {
            name: phase.name.clone(),
            loads: phase.loads.clone(),
            begin_ns: phase.begin_ns - start,
            end_ns: end - start,
            deviation_ns: (phase.begin_ns - phase.planned_ns.0, end - phase.planned_ns.1),
            probes: numbers_of(series, &[index], &CpuList::default(), start),
        }
    };
    record.phases.iter().enumerate().map(summary).collect()
}

/// Phases of the same name as one, worst first.
pub(super) fn loads(record: &RunRecord, series: &[Read], judge: &Judge<'_>) -> Vec<LoadSummary> {
    let start = record.started.monotonic_ns;
    let last = start + measured(series);
    let mut names: Vec<&str> = Vec::new();
    for phase in &record.phases {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let summary = |name: &str| {
        let of_name: Vec<usize> = (0..record.phases.len()).filter(|&index| record.phases[index].name == name).collect();
        let length = |&index: &usize| record.phases[index].end_ns.unwrap_or(last) - record.phases[index].begin_ns;
        let length_ns = of_name.iter().map(length).fold(Nanos::ZERO, |sum, length| sum + length);
        let loads = record.phases[of_name[0]].loads.clone();
        let not_stressed = if loads.is_empty() { CpuList::default() } else { not_stressed(record, &of_name, length_ns) };
        let probes = numbers_of(series, &of_name, &not_stressed, start);
        let verdicts = verdicts_of(series, &of_name, &not_stressed, |parts| judge.load(parts, length_ns, !loads.is_empty()));
        LoadSummary { name: name.to_owned(), loads, phases: of_name.len(), length_ns, not_stressed, probes, verdicts }
    };
    let mut summaries: Vec<LoadSummary> = names.into_iter().map(summary).collect();
    let worst = |load: &LoadSummary| load.probes.iter().filter_map(|(_, numbers)| Some(numbers.as_ref()?.max_ns)).max();
    if is_ranked(record) {
        summaries.sort_by_key(|load| std::cmp::Reverse(worst(load)));
    }
    summaries
}

/// One pass in a fixed order cannot tell a load from its place in the run.
pub(super) fn is_ranked(record: &RunRecord) -> bool {
    let is_repeated = record.phases.iter().any(|phase| record.phases.iter().filter(|other| other.name == phase.name).count() > 1);
    record.plan.is_shuffled && is_repeated
}

/// Measured processors that the loads of these phases, `length` in all, hardly used.
fn not_stressed(record: &RunRecord, phases: &[usize], length: Nanos) -> CpuList {
    let least = Nanos(length.get() / 100 * STRESSED_PERCENT);
    record.measured_cpus.iter().filter(|&cpu| load_time(record, phases, cpu).is_some_and(|time| time < least)).collect()
}

/// CPU time that loads used on `cpu`: as their workers say, or where those move between processors, all time that was not idle. `None`
/// where neither is known.
fn load_time(record: &RunRecord, phases: &[usize], cpu: CpuId) -> Option<Nanos> {
    let work = || record.load_work.iter().filter(|work| phases.contains(&work.phase));
    if work().any(|work| work.cpu.is_none()) || work().next().is_none() {
        let busy: Vec<Nanos> = phases.iter().filter_map(|&phase| record.phases[phase].cpu_busy_ns.get(&cpu).copied()).collect();
        return (!busy.is_empty()).then(|| busy.into_iter().fold(Nanos::ZERO, |sum, time| sum + time));
    }
    Some(work().filter(|work| work.cpu == Some(cpu)).fold(Nanos::ZERO, |sum, work| sum + work.cpu_time_ns))
}

/// Each probe's numbers in `phases`, without the processors in `left_out`.
fn numbers_of(
    series: &[Read],
    phases: &[usize],
    left_out: &CpuList,
    start: Nanos,
) -> Vec<(String, Option<tardy_core::summary::numbers::Numbers>)> {
    let probes = names(series);
    let of_probe = |probe: &str| {
        let counted = series.iter().filter(|read| read.descriptor.probe == probe);
        let counted = counted.filter(|read| read.descriptor.cpu.is_none_or(|cpu| !left_out.contains(cpu)));
        let is_judged = series.iter().any(|read| read.descriptor.probe == probe && read.has_window());
        let cells: Vec<Cell> = counted.map(|read| read.accumulator.phases(phases)).collect();
        (probe.to_owned(), together(&cells.iter().collect::<Vec<_>>(), start, is_judged))
    };
    probes.into_iter().map(of_probe).collect()
}

/// What `judge` says of each probe in `phases`, without the processors in `left_out`; nothing of a probe of which not every sample was kept.
fn verdicts_of(
    series: &[Read],
    phases: &[usize],
    left_out: &CpuList,
    judge: impl Fn(&[Part<'_>]) -> Option<Verdict>,
) -> Vec<(String, Verdict)> {
    let of_probe = |probe: &str| {
        let of_name = || series.iter().filter(|read| read.descriptor.probe == probe && read.is_judged());
        if of_name().next().is_none() || of_name().any(|read| !read.has_every_sample()) {
            return None;
        }
        let counted = of_name().filter(|read| read.descriptor.cpu.is_none_or(|cpu| !left_out.contains(cpu)));
        let cells: Vec<(&Read, Cell)> = counted.map(|read| (read, read.accumulator.phases(phases))).collect();
        let parts: Vec<Part<'_>> = cells.iter().map(|(read, cell)| Part::of_phases(read, cell)).collect();
        Some((probe.to_owned(), judge(&parts)?))
    };
    names(series).into_iter().filter_map(of_probe).collect()
}
