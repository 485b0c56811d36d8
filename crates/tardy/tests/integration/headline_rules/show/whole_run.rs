//! Checks the row `all` against the rows of the CPUs, and the rows below it.

use super::super::Findings;
use super::super::numbers::{Duration, cpu_list, differ, exceeds, short_count, unequal};
use super::{Latencies, Page, cpus_of_title, due_times};

pub(super) fn check(page: &Page, latencies: &Latencies, found: &mut Findings) {
    check_cpus_of_title(page, latencies, found);
    if latencies.cpus.len() > 1 && latencies.is_complete() {
        check_sums(latencies, found);
        check_range(latencies, found);
        check_place_of_maximum(latencies, found);
    }
    check_with_skipped(latencies, found);
    check_upper_bound(latencies, found);
}

fn check_cpus_of_title(page: &Page, latencies: &Latencies, found: &mut Findings) {
    let listed = cpu_list(cpus_of_title(page));
    let shown: Vec<u32> = latencies
        .cpus
        .iter()
        .filter_map(|row| row.label.strip_prefix("CPU ")?.parse().ok())
        .collect();
    let is_foreign = shown.iter().any(|cpu| !listed.contains(cpu));
    let lacks_one = latencies.is_complete() && shown.len() != listed.len();
    found.add_if(
        !listed.is_empty() && (is_foreign || lacks_one),
        format_args!("title: CPUs {listed:?} against the rows of CPUs {shown:?}"),
    );
}

fn check_sums(latencies: &Latencies, found: &mut Findings) {
    for column in ["samples", "skipped", "misses"] {
        let sum: Option<f64> = latencies.cpus.iter().map(|row| row.count(column)).sum();
        let whole = latencies.whole.count(column);
        found.add_if(
            unequal(sum, whole),
            format_args!("row all: {column} {whole:?} against the sum of the CPUs {sum:?}"),
        );
    }
}

/// Checks that each value of the row `all` lies between the values of the CPUs.
fn check_range(latencies: &Latencies, found: &mut Findings) {
    for column in ["min", "mean", "max"].iter().chain(&latencies.percentiles) {
        let value = latencies.whole.duration(column);
        let of_cpus: Option<Vec<Duration>> = latencies
            .cpus
            .iter()
            .map(|row| row.duration(column))
            .collect();
        let Some(of_cpus) = of_cpus else {
            continue;
        };
        let by_length = |a: &Duration, b: &Duration| a.ns.total_cmp(&b.ns);
        let low = of_cpus.iter().copied().min_by(by_length);
        let high = of_cpus.iter().copied().max_by(by_length);
        let is_no_edge =
            *column == "max" && differ(value, high) || *column == "min" && differ(value, low);
        found.add_if(
            is_no_edge || exceeds(value, high) || exceeds(low, value),
            format_args!("row all: {column} {value:?} against {low:?} to {high:?} of the CPUs"),
        );
    }
}

fn check_place_of_maximum(latencies: &Latencies, found: &mut Findings) {
    let (max, at) = (latencies.max(), latencies.whole.duration("at"));
    let is_there = latencies
        .cpus
        .iter()
        .any(|row| !differ(row.duration("max"), max) && !differ(row.duration("at"), at));
    found.add_if(
        at.is_some() && !is_there,
        format_args!("row all: max {max:?} at {at:?} is in no row of a CPU"),
    );
}

fn check_with_skipped(latencies: &Latencies, found: &mut Findings) {
    let Some(row) = latencies.with_skipped else {
        return;
    };
    let label = &latencies.whole.label;
    let due = due_times(latencies.whole);
    let pooled = row.count("samples");
    found.add_if(
        unequal(pooled, due.map(|(samples, skipped)| samples + skipped)),
        format_args!("row with skipped: samples {pooled:?} against row {label}: {due:?}"),
    );
    for column in &latencies.percentiles {
        let (value, max) = (row.duration(column), latencies.max());
        found.add_if(
            exceeds(value, max),
            format_args!("row with skipped: {column} {value:?} above row {label}: max {max:?}"),
        );
    }
}

/// Checks that the upper bound of a percentile is not below the percentile, and that it is missing
/// if and only if the percentile is marked with `~`.
fn check_upper_bound(latencies: &Latencies, found: &mut Findings) {
    let (whole, label) = (latencies.whole, &latencies.whole.label);
    for column in &latencies.percentiles {
        let bound = latencies.upper_bound.and_then(|row| row.text(column));
        let (Some(value), Some(bound)) = (whole.duration(column), bound) else {
            continue;
        };
        let known = Duration::parse(bound);
        found.add_if(
            exceeds(Some(value), known) || value.is_unbounded != known.is_none(),
            format_args!(
                "row {label}: {column} {:?} against row upper bound: {bound}",
                whole.text(column)
            ),
        );
        let needed = bound.strip_prefix("n>=").and_then(short_count);
        if let (Some(needed), Some(samples)) = (needed, whole.count("samples")) {
            found.add_if(
                needed < samples * 0.95,
                format_args!("row upper bound: {column} {bound} against {samples} samples"),
            );
        }
    }
}
