//! Caveats that a reader must know before the numbers.

use tardy_core::accounting::Counts;
use tardy_core::bytes::format_bytes;
use tardy_core::series::Meaning;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_run::record::{PhaseRecord, RunRecord, SeriesRecord, State};

use super::read::{SeriesData, throttling};

/// This limit applies to two shares: skipped periods among all periods, and wake-ups that skip
/// periods among all wake-ups. Above this limit, a period counts as too short.
const MOST_PERIODS: f64 = 0.5;
/// Minimum number of wake-ups that must skip periods before the period counts as too short. Fewer
/// may be stalls, for example of a busy host.
const SKIPPING_MIN: u64 = 20;
/// Number of stalls in one series that suggests throttling.
const STALLS_OF_THROTTLING: u64 = 2;

/// Returns the time up to which all samples are stored, counted from the start of the run. If there
/// are series with a grid of due times, this is the last wake-up of the one that ends first.
/// Otherwise, it is the latest wake-up of all series, because the end of a series without a grid
/// does not show that samples are missing.
fn stored_until(record: &RunRecord, series: &[SeriesData]) -> Option<Nanos> {
    let has_grid = series.iter().any(|read| read.descriptor.schedule.is_grid());
    let counted = series
        .iter()
        .filter(|read| read.descriptor.schedule.is_grid() == has_grid);
    let last = counted.map(|read| read.accumulator.last_wake);
    let until = if has_grid {
        last.min().flatten()
    } else {
        last.max().flatten()
    };
    until.map(|wake| wake - record.started.monotonic_ns)
}

/// Returns a note that states from which time on individual samples exist; `None` if no samples
/// were folded into histograms.
fn single_samples(record: &RunRecord, series: &[SeriesData]) -> Option<Warning> {
    let from = series.iter().filter_map(|read| read.single_from).max()?;
    let since = from.saturating_add(Nanos(-record.started.monotonic_ns.get()));
    let disk = record.plan.disk.map_or_else(String::new, |disk| {
        format!(" (--disk {})", format_bytes(disk))
    });
    let text = if from == Nanos(i64::MAX) {
        format!("all samples are counted in hourly histograms{disk}")
    } else {
        format!(
            "individual samples exist only from {since} into the run; earlier ones are counted in \
             hourly histograms{disk}"
        )
    };
    Some(Warning::Note { text })
}

/// Returns a note that the numbers of phases include only long gaps; `None` unless shorter gaps
/// were counted without their time.
fn gaps_in_phases(record: &RunRecord, read: &SeriesData) -> Option<Warning> {
    let Meaning::Gap { least } = read.descriptor.meaning else {
        return None;
    };
    (read.has_short_gaps() && record.phases.len() > 1).then(|| Warning::Note {
        text: format!(
            "{}: numbers of a phase or load cover only gaps of at least {}, but numbers of the \
             whole run cover every clock read: compare their maxima, not their means or medians",
            read.descriptor.probe,
            least.exact()
        ),
    })
}

/// Returns all warnings about a run, each once and the most important first: those in `run.json`,
/// and those that follow from its series.
pub(super) fn warnings(record: &RunRecord, series: &[SeriesData]) -> Vec<Warning> {
    let mut warnings = record.warnings.clone();
    if record.state == State::Running {
        let stored_until = stored_until(record, series);
        let is_under_way = record.is_under_way(&Root::system());
        warnings.push(if is_under_way {
            Warning::UnderWay { stored_until }
        } else {
            Warning::CutOff { stored_until }
        });
    }
    warnings.extend(single_samples(record, series));
    for read in series {
        let (probe, cpu) = (read.descriptor.probe.clone(), read.descriptor.cpu);
        let counts = read.accumulator.counts;
        warnings.extend(gaps_in_phases(record, read));
        if counts.lost > 0 {
            warnings.push(Warning::SamplesLost {
                probe: probe.clone(),
                cpu,
                lost: counts.lost,
            });
        }
        if !counts.is_exact() {
            let unexplained = i64::try_from(counts.unexplained()).unwrap_or(i64::MAX);
            warnings.push(Warning::AccountingInexact {
                probe: probe.clone(),
                cpu,
                unexplained,
            });
        }
        if read.end.damaged_bytes > 0 {
            warnings.push(Warning::DamagedFile {
                file: read.file.display().to_string(),
                bytes: read.end.damaged_bytes,
            });
        }
        if read.gone > 0 {
            warnings.push(Warning::SamplesGone {
                file: read.file.display().to_string(),
                samples: read.gone,
            });
        }
        let share = counts.skipped as f64 / counts.expected.max(1) as f64;
        if share > MOST_PERIODS && skips_steadily(read) {
            let period = read.descriptor.schedule.period();
            warnings.push(Warning::MostPeriodsSkipped {
                probe: probe.clone(),
                cpu,
                share,
                period,
            });
        }
        let early = read.accumulator.early;
        if early.count > 0 {
            warnings.push(Warning::EarlyWakeUps {
                probe,
                cpu,
                count: early.count,
                earliest: Nanos(early.earliest),
            });
        }
    }
    // Throttling stalls the task once per throttling period, so a single stall does not count as
    // throttling.
    let is_throttled = series
        .iter()
        .any(|read| read.accumulator.stalls >= STALLS_OF_THROTTLING);
    if let (Some(gap), true) = (throttling(record), is_throttled) {
        let windows = series.iter().map(|read| read.accumulator.stalls).sum();
        warnings.push(Warning::LooksLikeThrottling {
            windows,
            length: gap.gap,
            rule: gap.rule.to_string(),
        });
    }
    warnings.extend(
        record
            .series
            .iter()
            .zip(series)
            .filter_map(|(entry, read)| displaced(record, entry, read.accumulator.counts)),
    );
    warnings.extend(
        record
            .scheduling_changes
            .iter()
            .map(|change| Warning::SchedulingChanged {
                thread: change.thread.clone(),
                before: change.before.clone(),
                after: change.after.clone(),
                since_start: change.seen_ns - record.started.monotonic_ns,
            }),
    );
    warnings.sort_by_key(Warning::rank);
    let mut once: Vec<Warning> = Vec::with_capacity(warnings.len());
    for warning in warnings {
        if !once.contains(&warning) {
            once.push(warning);
        }
    }
    once
}

/// Returns a warning about samples that were taken on another CPU than the planned one.
fn displaced(record: &RunRecord, entry: &SeriesRecord, counts: Counts) -> Option<Warning> {
    let first = entry.elsewhere.first()?;
    let was_displaced = |phase: &&PhaseRecord| {
        let end = phase.end_ns.unwrap_or(Nanos::MAX);
        entry
            .elsewhere
            .iter()
            .any(|stretch| stretch.first_due_ns < end && stretch.last_due_ns >= phase.begin_ns)
    };
    let mut phases: Vec<String> = record
        .phases
        .iter()
        .filter(was_displaced)
        .map(|phase| phase.name.clone())
        .collect();
    phases.dedup();
    // A run with a single phase needs no list of phases.
    let phases = if record.phases.len() > 1 {
        phases
    } else {
        Vec::new()
    };
    Some(Warning::Displaced {
        probe: entry.probe.clone(),
        cpu: entry.cpu,
        samples: entry.elsewhere.iter().map(|stretch| stretch.samples).sum(),
        recorded: counts.recorded,
        elsewhere: entry.elsewhere.iter().map(|stretch| stretch.cpu).collect(),
        since_start: first.first_due_ns - record.started.monotonic_ns,
        phases,
    })
}

/// Returns whether wake-ups skip periods regularly. A few long stalls may skip most periods of a
/// short run, although the period is not too short.
fn skips_steadily(read: &SeriesData) -> bool {
    let (samples, skipping) = (read.accumulator.samples, read.accumulator.skipping);
    samples == 0 || skipping >= SKIPPING_MIN && skipping as f64 > samples as f64 * MOST_PERIODS
}
