//! Tables of a summary.

use std::cmp::Reverse;

use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::three_digits;
use tardy_core::verdict::{Outcome, significant};
use tardy_results::summary::model::{LoadSummary, ProbeSummary, SeriesSummary, Summary};

use super::cells::{count, percent, place, time, value};
use super::words::word;
use crate::report::table::Table;

/// Columns of the tables of series and probes, most important first.
pub(super) const IMPORTANCE: &[&str] = &[
    "max",
    "99.9 %",
    "median",
    "misses",
    "worst load",
    "samples",
    "skipped",
    "99 %",
    "value",
    "min",
    "99.999 %",
    "at",
    "mean",
    "99.99 %",
    "longest burst",
    "jitter 99.9 %",
];

/// Columns of the tables of loads, most important first.
pub(super) const IMPORTANCE_OF_LOADS: &[&str] = &[
    "max",
    "median",
    "99.9 %",
    "verdict",
    "misses",
    "samples",
    "not active on",
    "an hour, 95 %",
    "length",
    "99.999 %",
    "times",
];

/// Returns a table of the worst series, all series together, and their bounds; `None` if there are
/// no samples.
pub(super) fn latencies(
    summary: &Summary,
    probe: &ProbeSummary,
    series: &[&SeriesSummary],
    shown: usize,
) -> Option<Table> {
    let all = probe.numbers.as_ref()?;
    let has_misses = all.misses_text().is_some();
    // If the last bucket of an imported file has no upper end, high percentiles are unknown, and
    // the number of known ones differs between series. The series with the most known percentiles
    // determines the columns.
    let of_series = series
        .iter()
        .take(shown)
        .filter_map(|series| Some(series.numbers.as_ref()?.percentiles.as_slice()));
    let columns = of_series
        .chain([all.percentiles.as_slice()])
        .max_by_key(|percentiles| percentiles.len())
        .unwrap_or_default();
    let quantity = if summary.probes.len() > 1 {
        format!("{} {}", probe.probe, probe.quantity)
    } else {
        probe.quantity.clone()
    };
    let mut head = vec![
        quantity,
        "samples".into(),
        "skipped".into(),
        "min".into(),
        "median".into(),
        "mean".into(),
    ];
    head.extend(
        columns
            .iter()
            .skip(1)
            .map(|percentile| percent(percentile.probability)),
    );
    head.extend(["max", "at", "jitter 99.9 %"].map(str::to_owned));
    if has_misses {
        head.extend(["misses", "longest burst"].map(str::to_owned));
    }
    let mut table = Table::new(head);
    for series in series.iter().take(shown) {
        let Some(numbers) = &series.numbers else {
            continue;
        };
        let jitter = series
            .jitter
            .get(2)
            .map_or_else(|| "-".to_owned(), |percentile| time(percentile.value_ns));
        let burst = has_misses.then(|| longest_burst(&[series]));
        table.row(row(
            place(series),
            numbers,
            columns.len(),
            series.is_skipped_unknown,
            jitter,
            burst,
        ));
    }
    if series.len() > shown {
        table.row([format!("{} more in all", series.len() - shown)]);
    }
    if series.len() > 1 {
        // Jitter is a property of one CPU's wake-ups, so the jitter of the worst CPU is shown.
        let jitter = series
            .iter()
            .filter_map(|series| series.jitter.get(2))
            .map(|percentile| percentile.value_ns)
            .max();
        let jitter = jitter.map_or_else(
            || "-".to_owned(),
            |jitter| format!("up to {}", time(jitter)),
        );
        let burst = has_misses.then(|| longest_burst(series));
        table.row(row(
            "all".into(),
            all,
            columns.len(),
            probe.is_skipped_unknown,
            jitter,
            burst,
        ));
    }
    if !all.percentiles.is_empty() {
        table.row(bounds(
            "upper bound (95 %)",
            &all.percentiles,
            columns.len(),
        ));
    }
    if let Some(corrected) = &all.percentiles_corrected {
        let mut cells = vec![
            "with skipped".to_owned(),
            (all.samples + all.skipped).to_string(),
            String::new(),
            String::new(),
        ];
        cells.push(corrected.first().map_or_else(String::new, value));
        cells.push(String::new());
        cells.extend(padded(corrected, columns.len(), value));
        table.row(cells);
    }
    Some(table)
}

/// Returns a table with a row per probe; a row covers all CPUs of the probe, and the worst probe
/// comes first.
pub(super) fn probes(summary: &Summary) -> Table {
    let mut probes: Vec<&ProbeSummary> = summary.probes.iter().collect();
    probes.sort_by_key(|probe| Reverse(probe.numbers.as_ref().map(|numbers| numbers.max_ns)));
    let has_misses = probes.iter().any(|probe| {
        probe
            .numbers
            .as_ref()
            .is_some_and(|numbers| numbers.misses_text().is_some())
    });
    let of_probes = probes
        .iter()
        .filter_map(|probe| Some(probe.numbers.as_ref()?.percentiles.as_slice()));
    let percentiles = of_probes
        .max_by_key(|percentiles| percentiles.len())
        .unwrap_or_default();
    let mut head = vec![
        "probe".to_owned(),
        "value".into(),
        "samples".into(),
        "skipped".into(),
        "min".into(),
        "median".into(),
    ];
    head.push("mean".into());
    head.extend(
        percentiles
            .iter()
            .skip(1)
            .map(|percentile| percent(percentile.probability)),
    );
    head.push("max".into());
    if summary.loads.len() > 1 {
        head.push("worst load".into());
    }
    head.push("at".into());
    if has_misses {
        head.push("misses".into());
    }
    let mut table = Table::new(head);
    for probe in probes {
        let Some(numbers) = &probe.numbers else {
            table.row([probe.probe.clone(), probe.quantity.clone(), "0".to_owned()]);
            continue;
        };
        let mut cells = row(
            probe.probe.clone(),
            numbers,
            percentiles.len(),
            probe.is_skipped_unknown,
            String::new(),
            None,
        );
        cells.insert(1, probe.quantity.clone());
        // Jitter is known only per series, so the cell for all series is removed.
        cells.pop();
        let at = cells.pop().unwrap_or_default();
        if summary.loads.len() > 1 {
            let max =
                |load: &&LoadSummary| numbers_of(load, &probe.probe).map(|numbers| numbers.max_ns);
            cells.push(
                summary
                    .loads
                    .iter()
                    .max_by_key(max)
                    .map_or_else(String::new, |load| load.name.clone()),
            );
        }
        cells.push(at);
        if has_misses {
            cells.push(numbers.misses_text().unwrap_or_else(|| "-".to_owned()));
        }
        table.row(cells);
    }
    table
}

/// Returns how many rows a complete table of loads has; 0 if there was only one phase.
pub(super) fn load_rows(summary: &Summary) -> usize {
    if summary.phases.len() < 2 {
        0
    } else {
        summary.loads.len()
    }
}

/// Returns a table of the loads, worst first, with the numbers of each probe under the load; `None`
/// if there was only one phase.
pub(super) fn loads(summary: &Summary, shown: usize) -> Option<Table> {
    if load_rows(summary) == 0 || shown == 0 {
        return None;
    }
    let has_misses = summary.verdict.is_some();
    let has_verdicts = summary.loads.iter().any(|load| !load.verdicts.is_empty());
    let sorted = worst_first(summary);
    let has_exceptions = sorted
        .iter()
        .take(shown)
        .any(|load| !load.not_stressed.is_empty());
    let mut head = vec!["load", "times", "length"];
    if has_exceptions {
        head.push("not active on");
    }
    head.extend(["samples", "median", "99.9 %", "99.999 %", "max"]);
    if has_misses {
        head.push("misses");
    }
    if has_verdicts {
        head.extend(["an hour, 95 %", "verdict"]);
    }
    let mut table = Table::new(head);
    for load in sorted.iter().take(shown) {
        for (probe, numbers) in &load.probes {
            let label = if summary.probes.len() > 1 {
                format!("{} ({probe})", load.name)
            } else {
                load.name.clone()
            };
            let mut cells = vec![label, load.phases.to_string(), load.length_ns.to_string()];
            if has_exceptions {
                cells.push(if load.not_stressed.is_empty() {
                    String::new()
                } else {
                    load.not_stressed.named()
                });
            }
            if let Some(numbers) = numbers {
                let at = |index: usize| {
                    numbers
                        .percentiles
                        .get(index)
                        .map_or_else(String::new, value)
                };
                cells.extend([
                    numbers.samples.to_string(),
                    at(0),
                    at(2),
                    at(4),
                    time(numbers.max_ns),
                ]);
                if has_misses {
                    cells.push(numbers.misses_text().unwrap_or_else(|| "-".to_owned()));
                }
                if has_verdicts {
                    cells.extend(verdict(load, probe));
                }
            } else {
                cells.push("-".to_owned());
            }
            table.row(cells);
        }
    }
    more(&mut table, sorted.len(), shown);
    Some(table)
}

/// Returns a table of the loads, worst first, with the largest value of each probe; `None` if there
/// was only one phase.
pub(super) fn maxima(summary: &Summary, shown: usize) -> Option<Table> {
    if load_rows(summary) == 0 || shown == 0 {
        return None;
    }
    let has_verdicts = summary.loads.iter().any(|load| !load.verdicts.is_empty());
    let mut head = vec!["max under load".to_owned()];
    head.extend(summary.probes.iter().map(|probe| probe.probe.clone()));
    if has_verdicts {
        head.push("verdict".to_owned());
    }
    let mut table = Table::new(head);
    let sorted = worst_first(summary);
    for load in sorted.iter().take(shown) {
        let max = |probe: &ProbeSummary| {
            numbers_of(load, &probe.probe)
                .map_or_else(|| "-".to_owned(), |numbers| time(numbers.max_ns))
        };
        let mut cells = vec![load.name.clone()];
        cells.extend(summary.probes.iter().map(max));
        if has_verdicts {
            let worst = load
                .verdicts
                .iter()
                .map(|(_, verdict)| verdict.outcome)
                .reduce(Outcome::worse);
            cells
                .push(worst.map_or_else(|| "-".to_owned(), |outcome| word(outcome).to_lowercase()));
        }
        table.row(cells);
    }
    more(&mut table, sorted.len(), shown);
    Some(table)
}

fn more(table: &mut Table, all: usize, shown: usize) {
    if all > shown {
        table.row([format!("{} more", all - shown)]);
    }
}

fn worst_first(summary: &Summary) -> Vec<&LoadSummary> {
    let mut loads: Vec<&LoadSummary> = summary.loads.iter().collect();
    let worst = |load: &&LoadSummary| {
        load.probes
            .iter()
            .filter_map(|(_, numbers)| Some(numbers.as_ref()?.max_ns))
            .max()
    };
    loads.sort_by_key(|load| Reverse(worst(load)));
    loads
}

fn numbers_of<'a>(load: &'a LoadSummary, probe: &str) -> Option<&'a Numbers> {
    load.probes
        .iter()
        .find(|(name, _)| name == probe)?
        .1
        .as_ref()
}

/// Returns the upper bound of a load's misses per hour, and its verdict.
fn verdict(load: &LoadSummary, probe: &str) -> Vec<String> {
    let Some(verdict) = load.verdict_of(probe) else {
        return Vec::new();
    };
    let an_hour = verdict.misses_an_hour_at_most().map_or_else(
        || "-".to_owned(),
        |an_hour| format!("< {}", significant(an_hour)),
    );
    vec![an_hour, word(verdict.outcome).to_lowercase()]
}

/// Returns the length of the longest sequence of consecutive misses in any of the series. For
/// samples whose order was not stored, this length is unknown.
fn longest_burst(series: &[&SeriesSummary]) -> String {
    let longest = series
        .iter()
        .filter_map(|series| series.misses_longest_run)
        .map(|run| run.length)
        .max();
    let is_known = series
        .iter()
        .all(|series| !series.from_histogram && series.counts.unstored == 0);
    longest
        .or(is_known.then_some(0))
        .map_or_else(|| "-".to_owned(), |length| length.to_string())
}

/// Returns cells for the percentiles after the median, so that the row has `columns` percentiles; a
/// dash stands for an unknown one.
fn padded(
    percentiles: &[Percentile],
    columns: usize,
    cell: impl Fn(&Percentile) -> String,
) -> Vec<String> {
    (1..columns)
        .map(|place| percentiles.get(place).map_or_else(|| "-".to_owned(), &cell))
        .collect()
}

fn row(
    label: String,
    numbers: &Numbers,
    columns: usize,
    is_skipped_unknown: bool,
    jitter: String,
    burst: Option<String>,
) -> Vec<String> {
    let skipped = if is_skipped_unknown {
        "-".to_owned()
    } else {
        numbers.skipped.to_string()
    };
    let mut cells = vec![
        label,
        numbers.samples.to_string(),
        skipped,
        time(numbers.min_ns),
    ];
    let unknown = if columns > 0 { "-" } else { "" };
    cells.push(
        numbers
            .percentiles
            .first()
            .map_or_else(|| unknown.to_owned(), value),
    );
    cells.push(three_digits(numbers.mean_ns.round()));
    cells.extend(padded(&numbers.percentiles, columns, value));
    // An import may not state when its maximum occurred.
    let at = if numbers.max_at_ns == 0 {
        "-".to_owned()
    } else {
        time(numbers.max_at_ns)
    };
    cells.extend([time(numbers.max_ns), at, jitter]);
    if let Some(burst) = burst {
        cells.extend([
            numbers.misses_text().unwrap_or_else(|| "-".to_owned()),
            burst,
        ]);
    }
    cells
}

fn bounds(label: &str, percentiles: &[Percentile], columns: usize) -> Vec<String> {
    let mut cells = vec![
        label.to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    let bound = |percentile: &Percentile| match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => time(upper),
        (None, Some(needed)) => format!("n>={}", count(needed)),
        (None, None) => "-".to_owned(),
    };
    cells.push(percentiles.first().map_or_else(String::new, bound));
    cells.push(String::new());
    cells.extend(padded(percentiles, columns, bound));
    cells
}
