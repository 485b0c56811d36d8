//! Checks each row of the tables of latencies and of loads by itself.

use super::super::Findings;
use super::super::numbers::{
    Duration, differ, exceeds, number_after, place_of_percentile, share_of_column,
};
use super::super::tables::{LATENCY, LOAD, Row, Table};
use super::verdict::Verdict;
use super::{Latencies, Page, UPPER_BOUND, is_cpu};

/// Factor by which rounding to two digits may reduce a rate, with a small margin.
const RATE_ROUNDING: f64 = 0.95;
/// Upper limit, at 95 % confidence, of the expected number of misses if a run has none: three (the
/// rule of three), minus a small margin.
const EXPECTED_UNSEEN: f64 = 2.8;

pub(super) fn check(page: &Page, verdict: &Verdict, found: &mut Findings) {
    let is_plain = Latencies::of(page).is_some();
    for table in page.tables(LATENCY).chain(page.tables(LOAD)) {
        for row in table.rows.iter().filter(|row| row.label != UPPER_BOUND) {
            check_values(page, table, row, found);
            check_misses(verdict, row, found);
            check_time(page, row, found);
            check_rate(row, found);
            if is_plain && is_cpu(row) {
                check_due_times(page, row, found);
            }
        }
    }
}

/// Checks that the values rise from the smallest to the largest, and that a percentile of the
/// highest rank equals the largest.
fn check_values(page: &Page, table: &Table, row: &Row, found: &mut Findings) {
    let label = &row.label;
    let rises = |column: &&String| {
        ["min", "max"].contains(&column.as_str()) || share_of_column(column).is_some()
    };
    let rising: Vec<(&String, Duration)> = table
        .columns
        .iter()
        .filter(rises)
        .filter_map(|column| Some((column, row.duration(column)?)))
        .collect();
    for pair in rising.windows(2) {
        found.add_if(
            pair[0].1.is_above(pair[1].1),
            format_args!("row {label}: {:?} above {:?}", pair[0], pair[1]),
        );
    }
    let (max, Some(samples)) = (row.duration("max"), row.count("samples")) else {
        return;
    };
    for (column, value) in rising {
        let is_last = share_of_column(column)
            .is_some_and(|share| place_of_percentile(share, samples) >= samples);
        found.add_if(
            is_last && !page.is_rounded && differ(Some(value), max),
            format_args!(
                "row {label}: {column} of {samples} samples is the largest, {value:?} against max \
                 {max:?}"
            ),
        );
    }
}

fn check_misses(verdict: &Verdict, row: &Row, found: &mut Findings) {
    let Some(misses) = row.count("misses") else {
        return;
    };
    let label = &row.label;
    let burst = row.count("longest burst");
    found.add_if(
        burst.is_some_and(|burst| burst > misses || (burst == 0.0) != (misses == 0.0)),
        format_args!("row {label}: misses {misses} against longest burst {burst:?}"),
    );
    let is_forbidden = misses > 0.0 && verdict.allowed.is_none();
    found.add_if(
        verdict.is_passed() && is_forbidden,
        format_args!("verdict PASSED against row {label}: misses {misses}"),
    );
    let own = row.text("verdict").unwrap_or("");
    found.add_if(
        own == "failed" && misses == 0.0 && !verdict.fails_by_skipped_periods()
            || own == "passed" && is_forbidden,
        format_args!("row {label}: verdict {own} against misses {misses}"),
    );
}

/// Checks that the largest latency lies within the measured time.
fn check_time(page: &Page, row: &Row, found: &mut Findings) {
    let (at, measured) = (row.duration("at"), page.measured);
    found.add_if(
        exceeds(at, measured.map(|measured| measured.times(1.01))),
        format_args!(
            "title: {measured:?} measured against row {}: at {at:?}",
            row.label
        ),
    );
}

/// Checks the upper limit of misses per hour against the row's misses and length.
fn check_rate(row: &Row, found: &mut Findings) {
    let rate = row
        .text("an hour, 95 %")
        .and_then(|text| number_after(text, "< "));
    let (Some(rate), Some(length), Some(misses)) =
        (rate, row.duration("length"), row.count("misses"))
    else {
        return;
    };
    let hours = (length.ns + length.rounding_ns) / 3600e9 * row.count("times").unwrap_or(1.0);
    found.add_if(
        rate * hours < (misses * RATE_ROUNDING).max(EXPECTED_UNSEEN),
        format_args!(
            "row {}: < {rate} an hour against {misses} misses in {length:?}",
            row.label
        ),
    );
}

/// Checks that a CPU has no more due times than periods fit into the measured time.
fn check_due_times(page: &Page, row: &Row, found: &mut Findings) {
    let (Some(measured), Some(period)) = (page.measured, page.period) else {
        return;
    };
    let due = row.count("samples").unwrap_or(0.0) + row.count("skipped").unwrap_or(0.0);
    found.add_if(
        page.title.contains(": cyclic every") && due > measured.ns / period.ns * 1.02 + 3.0,
        format_args!(
            "title: every {period:?}, {measured:?} measured against row {}: {due} due times",
            row.label
        ),
    );
}
