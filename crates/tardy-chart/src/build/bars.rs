//! Charts the latencies under each load. Each run has a bar that shows the smallest, median,
//! average and largest latency, and the 99.9th percentile.

use tardy_core::summary::numbers::Numbers;

use super::super::data::RunData;
use super::super::model::{Axis, Chart, Kind, Layer, Range, Shape, Table, Tone, Values};
use super::super::words;
use super::{latency_axis, of_probe, rules};

/// The bars of a load fill this fraction of the load's space on the axis.
const FILLED: f64 = 0.76;
/// Share of the axis that is left free above the highest bar.
const ROOM_ABOVE: f64 = 0.06;

/// The note that explains a bar.
pub(super) const BAR_READS: &str = "The wide bar ends at 99.9 %, the narrow bar at the largest \
                                    value. Line: median; circle: average.";

pub(super) fn chart(runs: &[RunData], probe: &str) -> Option<Chart> {
    let quantity = of_probe(runs, probe).next()?.quantity.clone();
    let mut loads: Vec<String> = Vec::new();
    for load in runs.iter().flat_map(|run| &run.summary.loads) {
        if !loads.contains(&load.name) {
            loads.push(load.name.clone());
        }
    }
    // If all runs have the same single load, a bar for the whole run would repeat the bar of the
    // load.
    let is_same = |run: &RunData| matches!(run.summary.loads.as_slice(), [only] if of_load(run, probe, &only.name).is_some());
    let has_whole = loads.len() != 1
        || !runs
            .iter()
            .filter(|run| whole(run, probe).is_some())
            .all(is_same);
    if has_whole {
        loads.push("whole run".to_owned());
    }
    let mut x = Axis::new(
        "load",
        super::super::scale::Scale::Linear,
        Values::Category,
        (-0.5, loads.len() as f64 - 0.5),
    );
    x.categories = loads.clone();
    let mut kernels: Vec<String> = runs.iter().map(RunData::kernel).collect();
    kernels.sort();
    kernels.dedup();
    let (by, each) = match (runs.len(), kernels.len()) {
        (1, _) => ("by load", ""),
        (_, 1) => ("by load and run", " Each run has a bar for each load."),
        _ => ("by load and kernel", " Each run has a bar for each load."),
    };
    let note = format!("{BAR_READS}{each}");
    let mut y = latency_axis(runs, probe);
    // The axis needs space for the number above the highest bar.
    let (low, high) = (y.scale.place(y.low), y.scale.place(y.high));
    y.high = y.scale.value(high + (high - low) * ROOM_ABOVE);
    let mut chart = Chart::new(
        Kind::Bars,
        format!("{} {by}", super::capital(&quantity)),
        note,
        x,
        y,
    );
    let width = FILLED / runs.len() as f64;
    let head = [
        "run",
        "kernel",
        "load",
        "samples",
        "min, us",
        "median, us",
        "average, us",
        "99.9 %, us",
        "max, us",
    ];
    chart.table = Table {
        head: head.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for (index, run) in runs.iter().enumerate() {
        let mut ranges = Vec::new();
        for (place, load) in loads.iter().enumerate() {
            let is_whole = has_whole && place + 1 == loads.len();
            let Some(numbers) = (if is_whole {
                whole(run, probe)
            } else {
                of_load(run, probe, load)
            }) else {
                continue;
            };
            let median = numbers
                .percentiles
                .first()
                .map_or(numbers.min_ns, |percentile| percentile.value_ns);
            let x = place as f64 - FILLED / 2.0 + (index as f64 + 0.5) * width;
            let (min, max) = (numbers.min_ns as f64, numbers.max_ns as f64);
            let tail = numbers
                .percentiles
                .get(2)
                .map(|percentile| percentile.value_ns);
            let (average, drawn_tail) = (Some(numbers.mean_ns), tail.map(|tail| tail as f64));
            ranges.push(Range {
                x,
                width: width * 0.86,
                min,
                median: median as f64,
                average,
                tail: drawn_tail,
                max,
                figure: max,
            });
            let average = words::micros(numbers.mean_ns.round() as i64);
            let tail = tail.map_or_else(String::new, words::micros);
            let values = [
                words::micros(numbers.min_ns),
                words::micros(median),
                average,
                tail,
                words::micros(numbers.max_ns),
            ];
            let names = [
                run.name.clone(),
                run.kernel(),
                load.clone(),
                numbers.samples.to_string(),
            ];
            chart
                .table
                .rows
                .push(names.into_iter().chain(values).collect());
        }
        let kernel = run.kernel();
        let name = match runs {
            [_] => kernel,
            // The names of these runs already contain their kernels.
            _ if run.name.contains(&kernel) => run.name.clone(),
            _ => format!("{}, {kernel}", run.name),
        };
        chart
            .layers
            .push(Layer::new(name, Tone::Series(index), Shape::Ranges(ranges)));
    }
    chart.rules = of_probe(runs, probe)
        .next()
        .map_or_else(Vec::new, |data| rules(data, false));
    Some(chart)
}

fn whole<'a>(run: &'a RunData, probe: &str) -> Option<&'a Numbers> {
    run.summary
        .probes
        .iter()
        .find(|summary| summary.probe == probe)?
        .numbers
        .as_ref()
}

fn of_load<'a>(run: &'a RunData, probe: &str, load: &str) -> Option<&'a Numbers> {
    let load = run
        .summary
        .loads
        .iter()
        .find(|summary| summary.name == load)?;
    load.probes
        .iter()
        .find(|(name, _)| name == probe)?
        .1
        .as_ref()
}
