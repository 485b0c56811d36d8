//! Checks the headline and the title against the table of latencies.

use super::super::Findings;
use super::super::numbers::{differ, duration_after, exceeds, number_after, unequal, word_after};
use super::verdict::Verdict;
use super::{Latencies, Page, due_times};

/// Checks the rates of misses and the sampling gap against the title.
pub(super) fn check_title(page: &Page, verdict: &Verdict, found: &mut Findings) {
    check_rates(page, verdict, found);
    let gap = duration_after(page.paragraph("sampling gap"), "sampling gap ");
    found.add_if(
        differ(gap, page.period),
        format_args!(
            "title: every {:?} against sampling gap {gap:?}",
            page.period
        ),
    );
}

/// Checks the upper limits of the miss rate. In a run without a miss, the limit at 95 % is at least
/// three misses in the measured time. If there are few due times, the limit is at least the miss
/// rate at which, in 5 % of such short runs, no due time is missed.
fn check_rates(page: &Page, verdict: &Verdict, found: &mut Findings) {
    let (Some(measured), period_ns) = (page.measured, page.period.map_or(0.0, |p| p.ns)) else {
        return;
    };
    // The title's time runs from the first due time to the last wake-up, so it is one period too
    // short.
    let hours = (measured.ns + measured.rounding_ns + period_ns) / 3600e9;
    let due = verdict.due_times.unwrap_or(f64::INFINITY);
    let expected = if due.is_finite() {
        due * (1.0 - 0.05_f64.powf(1.0 / due))
    } else {
        3.0
    };
    for sentence in [verdict.sentence, page.paragraph("A longer run misses")] {
        let rate = number_after(sentence, "fewer than ").unwrap_or(f64::INFINITY);
        found.add_if(
            rate * hours < expected * 0.93,
            format_args!("fewer than {rate} an hour at 95 % against title: {measured:?} measured"),
        );
    }
}

/// Checks the verdict's counts against the row to which they refer.
pub(super) fn check_verdict(latencies: &Latencies, verdict: &Verdict, found: &mut Findings) {
    let (Some(row), Some(due), Some(misses)) = (
        latencies.row_of_verdict(verdict),
        verdict.due_times,
        verdict.misses,
    ) else {
        return;
    };
    let label = &row.label;
    found.add_if(
        unequal(row.count("misses"), Some(misses)),
        format_args!(
            "verdict: {misses} misses against row {label}: misses {:?}",
            row.count("misses")
        ),
    );
    // A narrow table lacks the column of skipped periods.
    let samples = row.count("samples");
    found.add_if(
        samples.is_some_and(|samples| samples > due),
        format_args!("verdict: {due} due times against row {label}: {samples:?} samples"),
    );
    let Some((samples, skipped)) = due_times(row) else {
        return;
    };
    found.add_if(
        due != samples + skipped,
        format_args!(
            "verdict: {due} due times against row {label}: {samples} samples + {skipped} skipped"
        ),
    );
    let (late, in_time, counted) = (
        verdict.skipped_misses,
        verdict.skipped_in_time,
        verdict.skipped_periods,
    );
    let is_wrong = match in_time {
        Some(in_time) => in_time + late != skipped,
        None => late > skipped,
    };
    found.add_if(
        is_wrong || unequal(counted, Some(skipped)),
        format_args!(
            "verdict: {late} skipped missed, {in_time:?} in time, {counted:?} counted against row \
             {label}: skipped {skipped}"
        ),
    );
}

/// Checks the paragraph of the largest latency against the rows.
pub(super) fn check_largest(page: &Page, latencies: &Latencies, found: &mut Findings) {
    let (largest, whole) = (page.largest, latencies.whole);
    let named = word_after(largest, " (CPU ").and_then(|name| latencies.cpu(name));
    found.add_if(
        latencies.is_complete() && largest.contains(" (CPU ") && named.is_none(),
        format_args!("headline: `{largest}` names a CPU without a row"),
    );
    let places = [
        ("Largest latency: ", Some(whole), "max"),
        ("Largest latency: ", named, "max"),
        ("Half of all wake-ups within ", Some(whole), "median"),
        (" 99 % within ", Some(whole), "99 %"),
    ];
    for (pattern, row, column) in places {
        let Some(row) = row else {
            continue;
        };
        let (said, printed) = (duration_after(largest, pattern), row.duration(column));
        found.add_if(
            differ(said, printed),
            format_args!(
                "headline: {pattern}{said:?} against row {}: {column} {printed:?}",
                row.label
            ),
        );
    }
    let max = latencies.max();
    let held = duration_after(page.paragraph("Shortest deadline that held"), "held: ");
    found.add_if(
        exceeds(max, held) || exceeds(held, max.map(|max| max.times(1.02))),
        format_args!(
            "headline: shortest deadline that held {held:?} against row {}: max {max:?}",
            whole.label
        ),
    );
}

/// Checks the largest latency in the answer about PREEMPT_RT and below the chart.
pub(super) fn check_copies_of_the_maximum(
    page: &Page,
    latencies: &Latencies,
    found: &mut Findings,
) {
    let is_axis =
        |line: &&str| line.starts_with("    ") && line.contains('\'') && line.contains(" max ");
    let of_chart = page
        .text
        .lines()
        .find(is_axis)
        .and_then(|line| duration_after(line, " max "));
    let of_answer = duration_after(page.answer, "(largest ");
    let max = latencies.max();
    for (place, value) in [
        ("PREEMPT_RT answer: largest", of_answer),
        ("chart: max", of_chart),
    ] {
        found.add_if(
            differ(value, max),
            format_args!(
                "{place} {value:?} against row {}: max {max:?}",
                latencies.whole.label
            ),
        );
    }
}
