//! Checks the table of loads, and the sentence about the worst load.

use super::super::Findings;
use super::super::numbers::{Duration, cpu_list, differ, exceeds};
use super::super::tables::{LOAD, Row, Table};
use super::{Latencies, Page, cpus_of_title};

/// Returns the loads that the sentence names, each with its largest latency.
pub(super) fn named<'a>(page: &Page<'a>) -> Vec<(&'a str, Option<Duration>)> {
    page.worst_load
        .trim_start_matches("worst load: ")
        .split("; ")
        .filter_map(|part| part.rsplit_once(", "))
        .map(|(name, latency)| (name, Duration::parse(latency)))
        .collect()
}

pub(super) fn table<'a>(page: &Page<'a>) -> Option<&'a Table> {
    page.tables(LOAD).next()
}

pub(super) fn rows<'a>(page: &Page<'a>) -> &'a [Row] {
    table(page).map_or(&[], |table| &table.rows)
}

pub(super) fn check(
    page: &Page,
    latencies: &Latencies,
    deadline: Option<Duration>,
    found: &mut Findings,
) {
    check_sentence(page, latencies, found);
    check_rows(page, latencies, deadline, found);
    check_sums(page, latencies, found);
}

/// Checks the sentence against the rows of the named loads.
fn check_sentence(page: &Page, latencies: &Latencies, found: &mut Findings) {
    let (sentence, max) = (page.worst_load, latencies.max());
    let named = named(page);
    let first = named.first().and_then(|(_, latency)| *latency);
    for (name, latency) in named {
        found.add_if(
            exceeds(latency, max) || exceeds(latency, first),
            format_args!(
                "`{sentence}`: {name} is above the first, or above row {}: max {max:?}",
                latencies.whole.label
            ),
        );
        let Some(table) = table(page) else {
            continue;
        };
        let row = table.row(name);
        let of_row = row.and_then(|row| row.duration("max"));
        found.add_if(
            differ(of_row, latency),
            format_args!("`{sentence}` against row {name}: max {of_row:?}"),
        );
        found.add_if(
            row.is_none() && !table.lacks_rows,
            format_args!("`{sentence}`: {name} has no row"),
        );
    }
}

fn check_rows(
    page: &Page,
    latencies: &Latencies,
    deadline: Option<Duration>,
    found: &mut Findings,
) {
    let first = named(page).first().and_then(|(_, latency)| *latency);
    let whole = latencies.max();
    for row in rows(page) {
        let max = row.duration("max");
        found.add_if(
            exceeds(max, first) || exceeds(max, whole),
            format_args!(
                "row {}: max {max:?} against `{}` and row {}: max {whole:?}",
                row.label, page.worst_load, latencies.whole.label
            ),
        );
        found.add_if(
            exceeds(max, deadline) && row.count("misses") == Some(0.0),
            format_args!(
                "row {}: 0 misses of deadline {deadline:?} against max {max:?}",
                row.label
            ),
        );
    }
}

/// Checks that the phases' counts add up to the run's. A sample across a phase boundary belongs to
/// both phases (`tardy_core::summary`), so on each CPU one sample per boundary may count twice,
/// together with its skipped periods.
fn check_sums(page: &Page, latencies: &Latencies, found: &mut Findings) {
    let loads = rows(page);
    let phases: f64 = loads
        .iter()
        .map(|row| row.count("times").unwrap_or(1.0))
        .sum();
    let cpus = cpu_list(cpus_of_title(page)).len().max(1) as f64;
    let edges = (phases - 1.0).max(0.0) * cpus;
    let periods = match (latencies.max(), page.period) {
        (Some(max), Some(period)) => 1.0 + ((max.ns + max.rounding_ns) / period.ns).floor(),
        _ => f64::INFINITY,
    };
    for (column, most_at_an_edge) in [("samples", 1.0), ("misses", periods)] {
        let sum: f64 = loads.iter().filter_map(|row| row.count(column)).sum();
        let whole = latencies.whole.count(column);
        found.add_if(
            whole.is_some_and(|whole| sum > whole + edges * most_at_an_edge),
            format_args!(
                "loads: {column} {sum} in all against row {}: {whole:?}",
                latencies.whole.label
            ),
        );
    }
}
