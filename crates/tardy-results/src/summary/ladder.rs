//! The ladder of deadlines, for runs without a deadline: how often each of several common deadlines
//! was missed, and the shortest deadline without a miss. Each rung of the ladder is judged like a
//! deadline that a user gives.

use tardy_core::series::{ClockKind, Meaning};
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::verdict::{Evidence, Window, judge};
use tardy_core::warning::Warning;

use super::model::{Ladder, LoadSummary, Rung, WorstLoad};
use super::read::SeriesData;
use super::stated;
use super::verdict::{Judge, Part};

/// Common deadlines. The ladder also contains the probe's period.
const DEADLINES: [Nanos; 5] = [
    Nanos::from_micros(50),
    Nanos::from_micros(100),
    Nanos::from_micros(200),
    Nanos::from_micros(500),
    Nanos::from_millis(1),
];

/// Returns the ladder of a probe. `all` contains the samples of all the probe's series together.
/// Returns `None` if there are no samples, if the values are not latencies, if misses cannot be
/// counted, if larger latencies than the known maximum may have occurred, or if the time is
/// virtual.
pub(super) fn ladder(
    judge: &Judge<'_>,
    series: &[&SeriesData],
    all: &Cell,
    measured: Nanos,
    loads: &[LoadSummary],
) -> Option<Ladder> {
    let descriptor = series.first()?.descriptor();
    let is_lateness =
        matches!(descriptor.meaning, Meaning::Lateness { .. }) && series[0].is_judged();
    let largest = Nanos(all.latency.max()?);
    // If only the extremes of a series are known, its misses cannot be counted.
    let is_counted = series
        .iter()
        .all(|read| read.whole().latency.count() > 0 || read.counts().expected == 0);
    let is_maximum_unsure = judge
        .run
        .record
        .warnings
        .iter()
        .any(|warning| matches!(warning, Warning::MaximumUnsure { .. }));
    if is_maximum_unsure {
        return None;
    }
    if !is_counted || !is_lateness || descriptor.clock == ClockKind::Virtual {
        return None;
    }
    let parts: Vec<Part<'_>> = series.iter().map(|read| Part::whole(read)).collect();
    let seen = judge.evidence(
        &Requirement::deadline(largest),
        &parts,
        measured,
        judge.stress(),
    );
    let dependence = Dependence::of(&series.iter().map(|read| read.whole()).collect::<Vec<_>>());
    let rung = |deadline| of_deadline(&seen, &dependence, series, all, deadline);
    let mut deadlines = DEADLINES.to_vec();
    deadlines.extend(Some(descriptor.schedule.period()).filter(|period| *period > Nanos::ZERO));
    deadlines.sort_unstable();
    deadlines.dedup();
    let is_work = descriptor.is_work();
    let are_skips_decided = |deadline: &Nanos| {
        let window = Window::deadline(*deadline);
        all.misses_of(&window, is_work).undecided == 0
    };
    let latest = all
        .latency_skipped_at_most
        .max()
        .map_or(largest, |bound| largest.max(Nanos(bound)));
    // If a file contains rounded values, the largest value may differ from the largest latency.
    let is_rounded = |read: &&SeriesData| read.stated.is_some_and(|stated| stated.is_rounded());
    let of_latest = Some(latest.max(Nanos::ZERO))
        .filter(|latest| !series.iter().any(is_rounded) && are_skips_decided(latest))
        .map(rung)
        .filter(|rung| rung.misses_at_least.is_none());
    Some(Ladder {
        rungs: deadlines
            .into_iter()
            .filter(are_skips_decided)
            .map(rung)
            .collect(),
        // Work that was skipped was never done, so it missed every deadline.
        every_deadline_missed: of_latest.as_ref().is_some_and(|rung| rung.misses > 0),
        smallest: of_latest.filter(|rung| rung.misses == 0),
        stress: judge.stress(),
        processors: seen.processors,
        worst_load: worst_load(&descriptor.probe, loads),
    })
}

fn of_deadline(
    seen: &Evidence,
    dependence: &Dependence,
    series: &[&SeriesData],
    all: &Cell,
    deadline: Nanos,
) -> Rung {
    let requirement = Requirement::deadline(deadline);
    let mut evidence = seen.clone();
    let misses = all.misses_of(&counted(deadline, series), series[0].descriptor().is_work());
    (evidence.misses, evidence.misses_skipped) = (misses.all, misses.skipped);
    // How strongly misses cluster depends on the deadline, so it is computed for each deadline.
    evidence.clustering =
        Some(dependence.above(evidence.misses as f64 / evidence.due_times.max(1) as f64));
    let verdict = judge(&requirement, evidence);
    let undecided = stated::undecided(series, Window::deadline(deadline));
    Rung {
        deadline_ns: deadline,
        misses: verdict.evidence.misses,
        misses_at_least: (undecided > 0).then(|| verdict.evidence.misses.saturating_sub(undecided)),
        misses_an_hour_at_most: verdict.misses_an_hour_at_most(),
    }
}

/// Returns the window of latencies that counts as meeting a deadline. If an import has rounded
/// values, the window is narrower: samples that may have missed the deadline lie outside of it and
/// count as misses.
fn counted(deadline: Nanos, series: &[&SeriesData]) -> Window {
    let window = Window::deadline(deadline);
    let of = |read: &&SeriesData| read.stated.map(|stated| stated.maybe_missed(window));
    let windows = series.iter().filter_map(of);
    windows.min_by_key(|window| window.latest).unwrap_or(window)
}

/// Returns the load with the largest value; `None` if there is only one load.
fn worst_load(probe: &str, loads: &[LoadSummary]) -> Option<WorstLoad> {
    let of_load = |load: &LoadSummary| {
        let numbers = load
            .probes
            .iter()
            .find(|(name, _)| name == probe)
            .and_then(|(_, numbers)| numbers.as_ref())?;
        Some(WorstLoad {
            name: load.name.clone(),
            max_ns: Nanos(numbers.max_ns),
        })
    };
    loads
        .iter()
        .filter_map(of_load)
        .max_by_key(|load| load.max_ns)
        .filter(|_| loads.len() > 1)
}
