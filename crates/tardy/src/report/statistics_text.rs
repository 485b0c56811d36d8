//! Statistics as text: a column a series, the layers one below the other and named.

use std::fmt::Write as _;

use tardy_core::summary::numbers::Percentile;

use super::table::Table;
use crate::statistics::read::{Group, Statistics};
use crate::statistics::tail::TailModel;

/// Series shown, worst first; all of them are in the JSON.
const COLUMNS_SHOWN: usize = 4;

/// The text.
#[must_use]
pub fn text(statistics: &Statistics) -> String {
    let mut out = String::new();
    let mut rest = statistics.groups.as_slice();
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|group| group.probe == first.probe).count();
        let (of_probe, after) = rest.split_at(count);
        probe(&mut out, of_probe, statistics.rule_of_thumb_ns);
        rest = after;
    }
    if statistics.rule_of_thumb_ns.is_none() {
        out.push_str("OSADL's rule of thumb (10^5 clock cycles) needs the processor's clock rate: give --mhz\n");
    }
    out
}

fn probe(out: &mut String, groups: &[Group], rule_of_thumb: Option<(f64, f64)>) {
    let series: Vec<&Group> = groups.iter().filter(|group| !group.is_together).collect();
    let together = groups.iter().find(|group| group.is_together);
    let shown: Vec<&Group> = series.iter().take(COLUMNS_SHOWN).copied().chain(together).collect();
    let Some(all) = shown.last() else { return };
    let left_out = series.len().saturating_sub(COLUMNS_SHOWN);
    let more = if left_out > 0 { format!(" ({left_out} more series in --json)") } else { String::new() };
    let _ = writeln!(out, "{} {}: observed{more}", all.probe, all.quantity);
    observed(out, &shown);
    let _ = writeln!(out, "{} {}: bounds at {} %, whatever the distribution", all.probe, all.quantity, all.bounds.confidence * 100.0);
    bounds(out, &shown);
    if let Some((worst, mhz)) = rule_of_thumb {
        let max = all.observed.max_ns as f64;
        let _ = writeln!(
            out,
            "for comparison: OSADL's rule of thumb, 10^5 clock cycles, is {:.1} us at {mhz:.0} MHz; the maximum seen is {:.2} of it",
            worst / 1e3,
            max / worst
        );
    }
    for group in series.iter().take(COLUMNS_SHOWN) {
        match &group.tail {
            Some(tail) => model(out, group, tail),
            None => {
                let _ = writeln!(out, "{}: no model: the time between two due times is not known (see --period of import)", label(group));
            }
        }
    }
}

fn label(group: &Group) -> String {
    match (group.cpu, group.is_together) {
        (_, true) => "together".to_owned(),
        (Some(cpu), _) => format!("cpu {cpu}"),
        (None, _) => group.probe.clone(),
    }
}

fn head(first: &str, shown: &[&Group]) -> Table {
    Table::new(std::iter::once(first.to_owned()).chain(shown.iter().map(|group| label(group))))
}

fn row(table: &mut Table, name: &str, shown: &[&Group], cell: impl Fn(&Group) -> String) {
    table.row(std::iter::once(name.to_owned()).chain(shown.iter().map(|group| cell(group))));
}

fn observed(out: &mut String, shown: &[&Group]) {
    let mut table = head("us", shown);
    let width = shown[0].observed.bucket_ns.exact();
    row(&mut table, "samples", shown, |group| group.observed.samples.to_string());
    row(&mut table, &format!("buckets of {width} in use"), shown, |group| group.observed.buckets.to_string());
    row(&mut table, "min", shown, |group| micros(group.observed.min_ns as f64));
    row(&mut table, "median", shown, |group| micros(group.observed.median_ns as f64));
    row(&mut table, &format!("mode, to {width}"), shown, |group| micros(group.observed.mode_ns as f64));
    row(&mut table, "samples in it", shown, |group| group.observed.mode_samples.to_string());
    row(&mut table, "mean", shown, |group| format!("{:.3}", group.observed.mean_ns / 1e3));
    row(&mut table, "variance, us^2", shown, |group| group.observed.variance_ns2.map_or_else(dash, |value| format!("{:.3}", value / 1e6)));
    row(&mut table, "standard deviation", shown, |group| {
        group.observed.standard_deviation_ns.map_or_else(dash, |value| format!("{:.3}", value / 1e3))
    });
    row(&mut table, "max", shown, |group| micros(group.observed.max_ns as f64));
    for index in 0..shown[0].observed.below.len() {
        let limit = shown[0].observed.below[index].limit_ns.exact();
        row(&mut table, &format!("below {limit}"), shown, |group| {
            group.observed.below.get(index).map_or_else(dash, |below| percent(below.share, below.samples < group.observed.samples))
        });
    }
    row(&mut table, "five nines: 99.999 % up to", shown, |group| {
        group.observed.five_nines_ns.map_or_else(|| "n>=100000".to_owned(), |value| micros(value as f64))
    });
    out.push_str(&table.text());
}

fn bounds(out: &mut String, shown: &[&Group]) {
    let mut table = head("us", shown);
    let longest = shown.iter().map(|group| group.bounds.percentiles.len()).max().unwrap_or(0);
    for index in 0..longest {
        let Some(probability) = shown.iter().find_map(|group| group.bounds.percentiles.get(index)).map(|found| found.probability) else {
            continue;
        };
        let name = format!("{} %", (probability * 1e9).round() / 1e7);
        row(&mut table, &name, shown, |group| group.bounds.percentiles.get(index).map_or_else(dash, interval));
    }
    for index in 0..shown[0].bounds.exceedances.len() {
        let limit = shown[0].bounds.exceedances[index].limit_ns.exact();
        row(&mut table, &format!("above {limit}, at most"), shown, |group| {
            let found = group.bounds.exceedances.get(index);
            found.map_or_else(dash, |found| {
                let an_hour = found.an_hour_upper.map_or_else(String::new, |rate| format!(", {}/h", significant(rate)));
                format!("{:.2e}{an_hour} ({} seen)", found.share_upper, found.samples)
            })
        });
    }
    row(&mut table, "the maximum covers at least", shown, |group| format!("1 - {:.2e}", 1.0 - group.bounds.covered_by_max));
    for index in 0..2 {
        if shown.iter().all(|group| group.bounds.needed.get(index).is_some()) {
            let share = shown[0].bounds.needed[index].share;
            row(&mut table, &format!("to cover 1 - {:.0e}: samples", 1.0 - share), shown, |group| {
                let needed = group.bounds.needed.iter().find(|needed| (needed.share - share).abs() < 1e-12);
                needed.map_or_else(|| "enough".to_owned(), |needed| needed.samples.to_string())
            });
        }
    }
    row(&mut table, "samples that count", shown, |group| {
        let assumed = if group.bounds.is_independence_assumed { " (assumed)" } else { "" };
        format!("{:.0}{assumed}", group.bounds.effective_samples)
    });
    out.push_str(&table.text());
}

fn model(out: &mut String, group: &Group, tail: &TailModel) {
    let label = label(group);
    let horizon = tail.horizon_ns.exact();
    let Some(model) = &tail.model else {
        let failed: Vec<&crate::statistics::tail::Checked> = tail.checks.iter().filter(|checked| !checked.has_passed).collect();
        let _ = writeln!(out, "{label}: no model for {horizon}: {} of {} checks speak against one", failed.len(), tail.checks.len());
        for checked in failed {
            let _ = writeln!(out, "  - {}", checked.check);
        }
        return;
    };
    let between = |interval: Option<tardy_core::statistics::confidence::Interval>| {
        interval.map_or_else(dash, |found| {
            format!("{} to {}", micros(found.lower), if found.upper.is_finite() { micros(found.upper) } else { "no limit".to_owned() })
        })
    };
    let _ = writeln!(
        out,
        "{label}: MODEL, not measured: exceeded once in {horizon} if these conditions last: {} us, 95 % interval {}; {} over all thresholds accepted",
        micros(model.level_ns),
        between(model.level_interval_ns),
        between(model.spread_ns)
    );
    let by_blocks =
        model.level_by_blocks_ns.map_or_else(dash, |(level, interval)| format!("{} us, {}", micros(level), between(Some(interval))));
    let _ = writeln!(
        out,
        "  generalised Pareto above {} us: shape {:.3}, scale {} us; by block maxima {by_blocks}; all {} checks passed",
        micros(model.threshold_ns),
        model.shape,
        micros(model.scale_ns),
        tail.checks.len()
    );
}

/// `23.7 [23.5, 23.9]`; a percentile that so few samples cannot bound is marked, with how many could.
fn interval(percentile: &Percentile) -> String {
    let value = micros(percentile.value_ns as f64);
    let lower = percentile.lower_ns.map_or_else(dash, |lower| micros(lower as f64));
    match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => format!("{value} [{lower}, {}]", micros(upper as f64)),
        (None, Some(needed)) => format!("~{value} [{lower}, n>={needed}]"),
        (None, None) => format!("~{value} [{lower}, -]"),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn micros(nanos: f64) -> String {
    format!("{:.1}", nanos / 1e3)
}

/// A share as percent with enough digits to tell it from all, unless it is all.
fn percent(share: f64, is_partial: bool) -> String {
    let text = format!("{:.4} %", share * 100.0);
    if is_partial && text == "100.0000 %" { format!("100 % - {:.1e}", (1.0 - share) * 100.0) } else { text }
}

fn significant(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
