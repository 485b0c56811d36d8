//! Summarises each phase, and all phases with the same name together.

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::summary::cell::Cell;
use tardy_core::summary::numbers::numbers_together;
use tardy_core::units::Nanos;
use tardy_core::verdict::Verdict;
use tardy_run::record::{LoadWork, PhaseRecord, RunRecord};

use super::model::{LoadShare, LoadSummary, PhaseSummary};
use super::read::{SeriesData, measured, names};
use super::verdict::{Judge, Part};

/// Minimum share of a CPU's time, in percent, that a load must use to count as stressing the CPU.
const STRESSED_PERCENT: i64 = 10;

/// Summarises each phase, in chronological order.
pub(super) fn phases(record: &RunRecord, series: &[SeriesData]) -> Vec<PhaseSummary> {
    let start = record.started.monotonic_ns;
    let last = start + measured(series);
    let summary = |(index, phase): (usize, &PhaseRecord)| {
        let end = phase.end_ns.unwrap_or(last);
        // If the last phase has no planned end and is still running, it is treated as if it ended
        // with its last wake-up.
        let is_open = record.plan.until_stopped
            && phase.end_ns.is_none()
            && index + 1 == record.plan.phases.len();
        let planned_end = if is_open { end } else { phase.planned_ns.1 };
        let not_stressed = if phase.loads.is_empty() {
            CpuList::default()
        } else {
            not_stressed(record, &[index], end - phase.begin_ns)
        };
        PhaseSummary {
            name: phase.name.clone(),
            loads: phase.loads.clone(),
            begin_ns: phase.begin_ns - start,
            end_ns: end - start,
            deviation_ns: (phase.begin_ns - phase.planned_ns.0, end - planned_end),
            probes: numbers_of(series, &[index], &not_stressed, start),
        }
    };
    record.phases.iter().enumerate().map(summary).collect()
}

/// All phases with the same name.
pub(crate) struct OfName<'a> {
    pub(crate) name: &'a str,
    /// Indices of the phases in the run's list.
    pub(crate) phases: Vec<usize>,
    /// Total length.
    length: Nanos,
    /// Those of the measured CPUs that the loads of these phases hardly used, if at all.
    pub(crate) not_stressed: CpuList,
}

/// Groups the phases by name, in the order of their first occurrence. A phase that has not ended
/// lasts until the last sample.
pub(crate) fn by_name<'a>(record: &'a RunRecord, series: &[SeriesData]) -> Vec<OfName<'a>> {
    let last = record.started.monotonic_ns + measured(series);
    let mut names: Vec<&str> = Vec::new();
    for phase in &record.phases {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let of_name = |name: &'a str| {
        let phases: Vec<usize> = (0..record.phases.len())
            .filter(|&index| record.phases[index].name == name)
            .collect();
        let each = |&index: &usize| {
            let (begin, end) = (
                record.phases[index].begin_ns,
                record.phases[index].end_ns.unwrap_or(last),
            );
            end - begin - record.away(begin, end)
        };
        let length = phases
            .iter()
            .map(each)
            .fold(Nanos::ZERO, |sum, length| sum + length);
        let is_idle = record.phases[phases[0]].loads.is_empty();
        let not_stressed = if is_idle {
            CpuList::default()
        } else {
            not_stressed(record, &phases, length)
        };
        OfName {
            name,
            phases,
            length,
            not_stressed,
        }
    };
    names.into_iter().map(of_name).collect()
}

/// Summarises all phases with the same name together. If [`is_ranked`], the worst phases come
/// first.
pub(super) fn loads(
    record: &RunRecord,
    series: &[SeriesData],
    judge: &Judge<'_>,
) -> Vec<LoadSummary> {
    let start = record.started.monotonic_ns;
    let last = start + measured(series);
    let summary = |OfName {
                       name,
                       phases,
                       length,
                       not_stressed,
                   }: OfName<'_>| {
        let loads = record.phases[phases[0]].loads.clone();
        let probes = numbers_of(series, &phases, &not_stressed, start);
        let under_load = |&index: &usize| {
            let (begin, end) = record.under_load(index, None);
            (end.min(last) - begin - record.away(begin, end.min(last))).max(Nanos::ZERO)
        };
        let under_load_ns = phases
            .iter()
            .map(under_load)
            .fold(Nanos::ZERO, |sum, time| sum + time);
        let verdicts = verdicts_of(series, &phases, &not_stressed, |parts| {
            judge.load(parts, under_load_ns, !loads.is_empty())
        });
        let shares = shares(record, &phases, &loads);
        LoadSummary {
            name: name.to_owned(),
            loads,
            phases: phases.len(),
            length_ns: length,
            not_stressed,
            shares,
            probes,
            verdicts,
        }
    };
    let mut summaries: Vec<LoadSummary> =
        by_name(record, series).into_iter().map(summary).collect();
    let worst = |load: &LoadSummary| {
        load.probes
            .iter()
            .filter_map(|(_, numbers)| Some(numbers.as_ref()?.max_ns))
            .max()
    };
    if is_ranked(record) {
        summaries.sort_by_key(|load| std::cmp::Reverse(worst(load)));
    }
    summaries
}

/// Returns how `loads` shared the CPU time that they used together; empty if there is only one
/// load, or if none used any time.
fn shares(record: &RunRecord, phases: &[usize], loads: &[String]) -> Vec<LoadShare> {
    let of_load = |load: &&String| {
        let work = record
            .load_work
            .iter()
            .filter(|work| phases.contains(&work.phase) && work.load == **load);
        work.fold(Nanos::ZERO, |sum, work| sum + work.cpu_time_ns)
    };
    let times: Vec<Nanos> = loads.iter().map(|load| of_load(&load)).collect();
    let all: i64 = times.iter().map(|time| time.get()).sum();
    if loads.len() < 2 || all <= 0 {
        return Vec::new();
    }
    let share = |(load, &time): (&String, &Nanos)| {
        let share = time.get() as f64 / all as f64;
        LoadShare {
            load: load.clone(),
            cpu_time_ns: time,
            share,
            is_small: share < 0.5 / loads.len() as f64,
        }
    };
    loads.iter().zip(&times).map(share).collect()
}

/// Returns whether the loads can be ranked by their effect on the latencies. This requires that the
/// order of the loads was random and that phases were repeated. Otherwise, the effect of a load
/// cannot be distinguished from the effect of its position in the run.
pub(super) fn is_ranked(record: &RunRecord) -> bool {
    let is_repeated = record.phases.iter().any(|phase| {
        record
            .phases
            .iter()
            .filter(|other| other.name == phase.name)
            .count()
            > 1
    });
    record.plan.is_shuffled && is_repeated
}

/// Returns those measured CPUs that the loads of these phases did not stress. Returns an empty list
/// if all loads were planned for CPUs that were not measured, because these CPUs were then left
/// without stress on purpose.
fn not_stressed(record: &RunRecord, phases: &[usize], length: Nanos) -> CpuList {
    let of_plan = |index: &usize| {
        record
            .plan
            .phases
            .get(*index)
            .map_or(&[][..], |phase| &phase.loads)
    };
    let load_cpus: CpuList = phases
        .iter()
        .flat_map(of_plan)
        .flat_map(|load| load.cpus.iter())
        .collect();
    if !load_cpus.is_empty()
        && !record
            .measured_cpus
            .iter()
            .any(|cpu| load_cpus.contains(cpu))
    {
        return CpuList::default();
    }
    record
        .measured_cpus
        .iter()
        .filter(|&cpu| !is_stressed(record, phases, cpu, length))
        .collect()
}

/// Returns whether the loads stressed `cpu`, according to the work that each load counted. If a
/// load uses CPU time and moves between CPUs, it stresses the CPUs that were busy. If a load hardly
/// uses CPU time, such as output to a console, it works through devices and stresses all CPUs. If
/// neither the work nor the use of the CPU is known, the CPU counts as stressed.
fn is_stressed(record: &RunRecord, phases: &[usize], cpu: CpuId, length: Nanos) -> bool {
    let least = Nanos(length.get() / 100 * STRESSED_PERCENT);
    let mut work = record
        .load_work
        .iter()
        .filter(|work| phases.contains(&work.phase))
        .peekable();
    let busy: Vec<Nanos> = phases
        .iter()
        .filter_map(|&phase| record.phases[phase].cpu_busy_ns.get(&cpu).copied())
        .collect();
    let is_busy =
        || busy.is_empty() || busy.iter().fold(Nanos::ZERO, |sum, &time| sum + time) >= least;
    if work.peek().is_none() {
        return is_busy();
    }
    work.any(|work| match work.cpu {
        Some(of_worker) => of_worker == cpu && did_something(work, least),
        None => did_something(work, least) && (work.cpu_time_ns < least || is_busy()),
    })
}

fn did_something(work: &LoadWork, least: Nanos) -> bool {
    work.operations > 0 || work.bytes > 0 || work.cpu_time_ns >= least
}

/// Returns the numbers of each probe in `phases`, without the CPUs in `left_out`.
fn numbers_of(
    series: &[SeriesData],
    phases: &[usize],
    left_out: &CpuList,
    start: Nanos,
) -> Vec<(String, Option<tardy_core::summary::numbers::Numbers>)> {
    let probes = names(series);
    let of_probe = |probe: &str| {
        let counted = series.iter().filter(|read| read.descriptor.probe == probe);
        let counted = counted.filter(|read| {
            read.descriptor
                .cpu
                .is_none_or(|cpu| !left_out.contains(cpu))
        });
        let is_judged = series
            .iter()
            .any(|read| read.descriptor.probe == probe && read.has_window());
        let cells: Vec<Cell> = counted.map(|read| read.of_phases(phases)).collect();
        (
            probe.to_owned(),
            numbers_together(&cells.iter().collect::<Vec<_>>(), start.get(), is_judged),
        )
    };
    probes.into_iter().map(of_probe).collect()
}

/// Returns the verdict on each probe in `phases`, based on all CPUs except those in `left_out`.
/// Probes with samples that were not stored are omitted.
fn verdicts_of(
    series: &[SeriesData],
    phases: &[usize],
    left_out: &CpuList,
    judge: impl Fn(&[Part<'_>]) -> Option<Verdict>,
) -> Vec<(String, Verdict)> {
    let of_probe = |probe: &str| {
        let of_name = || {
            series
                .iter()
                .filter(|read| read.descriptor.probe == probe && read.is_judged())
        };
        if of_name().next().is_none() || of_name().any(|read| !read.has_every_sample()) {
            return None;
        }
        let counted = of_name().filter(|read| {
            read.descriptor
                .cpu
                .is_none_or(|cpu| !left_out.contains(cpu))
        });
        let cells: Vec<(&SeriesData, Cell)> =
            counted.map(|read| (read, read.of_phases(phases))).collect();
        let parts: Vec<Part<'_>> = cells
            .iter()
            .map(|(read, cell)| Part::of_phases(read, cell))
            .collect();
        Some((probe.to_owned(), judge(&parts)?))
    };
    names(series).into_iter().filter_map(of_probe).collect()
}
