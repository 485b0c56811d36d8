//! Checks the deadline and the misses against the latencies.

use super::super::Findings;
use super::super::numbers::{
    Duration, differ, duration_after, exceeds, place_of_percentile, share_of_column,
};
use super::super::tables::{DEADLINE, Row};
use super::verdict::Verdict;
use super::{ALL, Latencies, Page, due_times};

/// Texts that precede the deadline in the answer about PREEMPT_RT.
const IN_THE_ANSWER: [&str; 4] = [
    "met the deadline of ",
    "missed the deadline of ",
    "meets the deadline of ",
    "--deadline ",
];

fn of_verdict(verdict: &Verdict) -> Option<Duration> {
    duration_after(verdict.sentence, "missed the deadline of ")
}

fn of_answer(page: &Page) -> Option<Duration> {
    IN_THE_ANSWER
        .iter()
        .find_map(|pattern| duration_after(page.answer, pattern))
}

/// The printed deadline: the one in the verdict, otherwise the one in the answer about PREEMPT_RT.
pub(super) fn printed(page: &Page, verdict: &Verdict) -> Option<Duration> {
    of_verdict(verdict).or(of_answer(page))
}

pub(super) fn check(page: &Page, latencies: &Latencies, verdict: &Verdict, found: &mut Findings) {
    let (of_verdict, of_answer) = (of_verdict(verdict), of_answer(page));
    found.add_if(
        differ(of_verdict, of_answer),
        format_args!(
            "verdict: deadline {of_verdict:?} against PREEMPT_RT answer: deadline {of_answer:?}"
        ),
    );
    let deadline = printed(page, verdict);
    found.add_if(
        verdict.sentence.contains("deadline is at most the period")
            && exceeds(deadline, page.period),
        format_args!(
            "verdict: deadline {deadline:?} up to the period against title: every {:?}",
            page.period
        ),
    );
    check_maxima(latencies, verdict, deadline, found);
    if !page.is_rounded {
        check_percentiles(latencies, verdict, deadline, found);
    }
    check_table(page, latencies, found);
}

/// Checks that a row has misses if and only if its largest latency exceeds the deadline.
fn check_maxima(
    latencies: &Latencies,
    verdict: &Verdict,
    deadline: Option<Duration>,
    found: &mut Findings,
) {
    for row in latencies
        .cpus
        .iter()
        .copied()
        .chain(latencies.table.row(ALL))
    {
        let of_verdict = verdict
            .misses
            .filter(|_| row.label == latencies.whole.label);
        let Some(misses) = row.count("misses").or(of_verdict) else {
            continue;
        };
        let max = row.duration("max");
        let is_wrong = if misses > 0.0 {
            exceeds(deadline, max)
        } else {
            exceeds(max, deadline)
        };
        found.add_if(
            is_wrong,
            format_args!(
                "row {}: {misses} misses of deadline {deadline:?} against max {max:?}",
                row.label
            ),
        );
    }
}

/// The number of values of a row, and how many of them are misses.
struct Misses<'a> {
    row: &'a Row,
    values: f64,
    misses: f64,
}

/// Returns the misses of the rows in which every value is a sample or a known miss.
fn misses_of_rows<'a>(latencies: &Latencies<'a>, verdict: &Verdict) -> Vec<Misses<'a>> {
    let mut rows = Vec::new();
    for row in latencies.cpus.iter().copied() {
        if let (Some((values, 0.0)), Some(misses)) = (due_times(row), row.count("misses")) {
            rows.push(Misses {
                row,
                values,
                misses,
            });
        }
    }
    let whole = latencies.whole;
    let (Some((samples, skipped)), Some(misses)) = (due_times(whole), whole.count("misses")) else {
        return rows;
    };
    let is_of_whole = latencies
        .row_of_verdict(verdict)
        .is_some_and(|row| row.label == whole.label);
    if is_of_whole {
        rows.push(Misses {
            row: whole,
            values: samples,
            misses: misses - verdict.skipped_misses,
        });
    }
    rows.extend(latencies.with_skipped.map(|row| Misses {
        row,
        values: samples + skipped,
        misses,
    }));
    rows
}

/// Checks that a percentile exceeds the deadline if and only if its rank is among the misses.
fn check_percentiles(
    latencies: &Latencies,
    verdict: &Verdict,
    deadline: Option<Duration>,
    found: &mut Findings,
) {
    for Misses {
        row,
        values,
        misses,
    } in misses_of_rows(latencies, verdict)
    {
        for column in &latencies.percentiles {
            let Some(share) = share_of_column(column) else {
                continue;
            };
            let is_miss = place_of_percentile(share, values) > values - misses;
            let value = row.duration(column);
            let is_wrong = if is_miss {
                exceeds(deadline, value)
            } else {
                exceeds(value, deadline)
            };
            found.add_if(
                is_wrong,
                format_args!(
                    "row {}: {column} {value:?} against {misses} of {values} beyond the deadline \
                     {deadline:?}",
                    row.label
                ),
            );
        }
    }
}

/// Checks the table of misses for several deadlines.
fn check_table(page: &Page, latencies: &Latencies, found: &mut Findings) {
    let Some(table) = page.tables(DEADLINE).next() else {
        return;
    };
    let Some(row) = table.row("misses") else {
        return;
    };
    let steps: Vec<(Duration, f64)> = table
        .columns
        .iter()
        .filter_map(|column| Some((Duration::parse(column)?, row.count(column)?)))
        .collect();
    let rises = |pair: &[(Duration, f64)]| pair[1].0.ns > pair[0].0.ns && pair[1].1 > pair[0].1;
    found.add_if(
        steps.windows(2).any(rises),
        format_args!("row misses: a longer deadline has more misses: {steps:?}"),
    );
    let max = latencies.max();
    for (deadline, misses) in steps {
        let is_wrong = if misses > 0.0 {
            exceeds(Some(deadline), max)
        } else {
            exceeds(max, Some(deadline))
        };
        found.add_if(
            is_wrong,
            format_args!(
                "row misses: {misses} of deadline {deadline:?} against row {}: max {max:?}",
                latencies.whole.label
            ),
        );
    }
}
