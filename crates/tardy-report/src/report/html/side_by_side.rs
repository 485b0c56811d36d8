//! Tables that contain several runs. Each row is a run, or one load of a run. Any number of runs
//! fits without being cut off.

use maud::{Markup, html};
use tardy_core::summary::numbers::{Numbers, PERCENTILES, Percentile};

use super::figure;
use super::unit::time;
use tardy_chart::data::RunData;
use tardy_chart::model::Table;

/// Returns the tables of each probe that any of the runs has.
pub(super) fn tables(runs: &[RunData]) -> Markup {
    let mut probes: Vec<(&str, &str)> = Vec::new();
    for probe in runs.iter().flat_map(|run| &run.summary.probes) {
        if !probes.iter().any(|(name, _)| *name == probe.probe) {
            probes.push((&probe.probe, &probe.quantity));
        }
    }
    html! {
        @for (probe, quantity) in probes {
            h3 { (quantity) " of " (probe) ", all CPUs" }
            (figure::table(&of_runs(runs, probe), ""))
            @if let Some(table) = of_loads(runs, probe) {
                h3 { "by load" }
                (figure::table(&table, ""))
            }
        }
    }
}

const HEAD: [&str; 9] = [
    "samples", "skipped", "median", "99 %", "99.9 %", "99.99 %", "99.999 %", "max", "misses",
];

fn of_runs(runs: &[RunData], probe: &str) -> Table {
    let row = |run: &RunData| {
        let found = run.summary.probes.iter().find(|found| found.probe == probe);
        let cells =
            found.and_then(|found| Some(cells(found.numbers.as_ref()?, found.is_skipped_unknown)));
        std::iter::once(run.name.clone())
            .chain(cells.into_iter().flatten())
            .collect()
    };
    Table {
        head: std::iter::once("run")
            .chain(HEAD)
            .map(str::to_owned)
            .collect(),
        rows: runs.iter().map(row).collect(),
    }
}

/// Returns a table of loads, in the order of the first run that has them. If a run lacks a load,
/// its row shows this.
fn of_loads(runs: &[RunData], probe: &str) -> Option<Table> {
    let mut loads: Vec<&str> = Vec::new();
    for load in runs
        .iter()
        .filter(|run| run.summary.loads.len() > 1)
        .flat_map(|run| &run.summary.loads)
    {
        if !loads.contains(&load.name.as_str()) {
            loads.push(&load.name);
        }
    }
    if loads.is_empty() {
        return None;
    }
    let mut rows = Vec::new();
    for name in loads {
        for (place, run) in runs.iter().enumerate() {
            let load = run.summary.loads.iter().find(|load| load.name == name);
            let numbers = load.and_then(|load| {
                load.probes
                    .iter()
                    .find(|(found, _)| found == probe)?
                    .1
                    .as_ref()
            });
            let mut row = vec![
                if place == 0 {
                    name.to_owned()
                } else {
                    String::new()
                },
                run.name.clone(),
            ];
            match numbers {
                Some(numbers) => row.extend(cells(numbers, false)),
                None => row.push("–".to_owned()),
            }
            rows.push(row);
        }
    }
    Some(Table {
        head: ["load", "run"]
            .into_iter()
            .chain(HEAD)
            .map(str::to_owned)
            .collect(),
        rows,
    })
}

fn cells(numbers: &Numbers, is_skipped_unknown: bool) -> Vec<String> {
    let value = |percentile: &Percentile| {
        format!(
            "{}{}",
            if percentile.is_bounded() { "" } else { "~" },
            time(percentile.value_ns)
        )
    };
    let skipped = if is_skipped_unknown {
        "–".to_owned()
    } else {
        numbers.skipped.to_string()
    };
    let mut cells = vec![numbers.samples.to_string(), skipped];
    let known = |place: usize| {
        numbers
            .percentiles
            .get(place)
            .map_or_else(|| "–".to_owned(), value)
    };
    cells.extend((0..PERCENTILES.len()).map(known));
    cells.extend([
        time(numbers.max_ns),
        numbers.misses_text().unwrap_or_else(|| "–".to_owned()),
    ]);
    cells
}
