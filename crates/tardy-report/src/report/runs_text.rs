//! Several runs in one table, with a row per run and probe, for the results of many boards or
//! kernels.

use tardy_core::summary::numbers::Numbers;
use tardy_core::units::three_digits;
use tardy_core::warning::{Severity, Warning};
use tardy_results::summary::model::{ProbeSummary, Summary};
use tardy_run::record::State;

use super::screen::Screen;
use super::summary_text::words;
use super::table::Table;

/// A run in the table.
#[derive(Debug)]
pub struct RunRow {
    /// The name that distinguishes the run from the others.
    pub name: String,
    /// The release of the kernel.
    pub kernel: String,
    pub summary: Summary,
}

/// The columns from the most to the least important. If the screen is narrow, the last columns are
/// dropped.
const IMPORTANCE: [&str; 8] = [
    "max",
    "deadline",
    "99.9 %",
    "kernel",
    "median",
    "worst load",
    "probe",
    "samples",
];

/// Returns the table for the screen; the worst rows come first.
#[must_use]
pub fn text(rows: &[RunRow], screen: Screen) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let is_judged = rows.iter().any(|row| row.summary.verdict.is_some());
    let has_loads = rows.iter().any(|row| row.summary.loads.len() > 1);
    let head = [
        "run", "kernel", "probe", "samples", "median", "99.9 %", "max",
    ];
    let words = [
        has_loads.then_some("worst load"),
        is_judged.then_some("deadline"),
    ];
    let mut table =
        Table::new(head.into_iter().chain(words.into_iter().flatten())).words([1, 2, 7, 8]);
    let mut lines: Vec<(&RunRow, &ProbeSummary)> = rows
        .iter()
        .flat_map(|row| row.summary.probes.iter().map(move |probe| (row, probe)))
        .collect();
    // Rows are sorted by probe first, because values of different probes cannot be compared with
    // each other. Rows with equal values keep their order.
    let first = |probe: &str| lines.iter().position(|(_, other)| other.probe == probe);
    let mut order: Vec<(usize, std::cmp::Reverse<i64>, usize)> = lines
        .iter()
        .enumerate()
        .map(|(place, (_, probe))| {
            (
                first(&probe.probe).unwrap_or(0),
                std::cmp::Reverse(
                    probe
                        .numbers
                        .as_ref()
                        .map_or(i64::MIN, |numbers| numbers.max_ns),
                ),
                place,
            )
        })
        .collect();
    order.sort_unstable();
    lines = order
        .into_iter()
        .map(|(_, _, place)| lines[place])
        .collect();
    for (row, probe) in lines {
        let mut cells = vec![row.name.clone(), row.kernel.clone(), probe.probe.clone()];
        match &probe.numbers {
            Some(numbers) => {
                let percentile = |index: usize| {
                    numbers
                        .percentiles
                        .get(index)
                        .map_or_else(String::new, |percentile| {
                            three_digits(percentile.value_ns as f64)
                        })
                };
                cells.extend([
                    numbers.samples.to_string(),
                    percentile(0),
                    percentile(2),
                    three_digits(numbers.max_ns as f64),
                ]);
            }
            None => cells.extend(["0", "", "", ""].map(str::to_owned)),
        }
        if has_loads {
            cells.push(worst_load(&row.summary, probe).unwrap_or_default());
        }
        if is_judged {
            cells.push(judgement(&row.summary, probe));
        }
        table.row(cells);
    }
    let mut text = table.chosen(screen.columns, &IMPORTANCE);
    for row in rows {
        if row.summary.state != State::Finished {
            text.push_str(&format!(
                "! {} did not end as planned: {}\n",
                row.name,
                state(row.summary.state)
            ));
        } else if let Some(warning) = gravest(&row.summary) {
            text.push_str(&format!("! {}: {warning}\n", row.name));
        }
    }
    text
}

/// Returns the most important warning about missing numbers.
fn gravest(summary: &Summary) -> Option<&Warning> {
    summary
        .warnings
        .iter()
        .filter(|warning| warning.severity() == Severity::Incomplete)
        .min_by_key(|warning| warning.rank())
}

/// Returns the load under which the probe's value was largest. If the probe had an even larger
/// value outside of all loads, also states the largest value under the returned load. Returns
/// `None` if there was only one load.
fn worst_load(summary: &Summary, probe: &ProbeSummary) -> Option<String> {
    if summary.loads.len() < 2 {
        return None;
    }
    let max = |numbers: &Option<Numbers>| numbers.as_ref().map(|numbers| numbers.max_ns);
    let of_load = summary.loads.iter().filter_map(|load| {
        Some((
            load,
            max(&load.probes.iter().find(|(name, _)| *name == probe.probe)?.1)?,
        ))
    });
    let (load, largest) = of_load.max_by_key(|(_, max)| *max)?;
    if max(&probe.numbers) == Some(largest) {
        Some(load.name.clone())
    } else {
        Some(format!("{}, {}", load.name, three_digits(largest as f64)))
    }
}

fn judgement(summary: &Summary, probe: &ProbeSummary) -> String {
    let verdict = probe.verdict.as_ref().or(summary
        .verdict
        .as_ref()
        .filter(|_| summary.probes.len() == 1));
    verdict.map_or_else(String::new, |verdict| {
        words::word(verdict.outcome).to_owned()
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::Running => "still running, or killed",
        State::Finished => "finished",
        State::Interrupted => "interrupted",
        State::Stopped => "stopped at a latency above the limit",
        State::EndedByWatchdog => "stopped by the watchdog",
    }
}
