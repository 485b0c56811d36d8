//! The largest latency so far, against the logarithm of the number of samples. If the line is flat
//! at its end, the run was long enough.

use super::super::data::{ProbeData, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::{kept_note, latency_axis, of_probe, rules, rules_of_all};

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = axes(runs, probe);
    let one = |run: &RunData| {
        let data = run.probe(probe).filter(|probe| probe.has_time())?;
        let note = format!(
            "Each step is a {} that exceeds all earlier ones. If the line still rises at its end, \
             a longer run would find larger values.{}",
            data.quantity,
            kept_note(data)
        );
        let mut chart = Chart::new(
            Kind::RunningMax,
            format!("Largest {} so far", data.quantity),
            note,
            x.clone(),
            y.clone(),
        );
        chart.layers = layers(data);
        chart.rules = rules(data, false);
        chart.table = table(data);
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns a chart with a line per run. For each number n on the x axis, the line shows the largest
/// latency among the first n samples of all CPUs.
pub(super) fn overlaid(runs: &[RunData], probe: &str) -> Option<Chart> {
    let quantity = of_probe(runs, probe)
        .find(|probe| probe.has_time())?
        .quantity
        .clone();
    let (x, y) = axes(runs, probe);
    let note = format!(
        "One line per run: the largest {quantity} of any CPU, against the number of samples per \
         CPU. If a line still rises at its end, a longer run would find larger values."
    );
    let mut chart = Chart::new(
        Kind::RunningMax,
        format!("Largest {quantity} so far, all runs"),
        note,
        x,
        y,
    );
    let head = ["run", "sample", "time", "largest so far, us"]
        .map(str::to_owned)
        .to_vec();
    let mut rows = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let Some(data) = run.probe(probe).filter(|probe| probe.has_time()) else {
            continue;
        };
        let records = of_any(data);
        let Some(&(_, _, largest)) = records.last() else {
            continue;
        };
        let samples = data
            .lanes
            .iter()
            .map(|lane| lane.swept.samples)
            .max()
            .unwrap_or(1);
        let steps = records
            .iter()
            .map(|record| (record.0 as f64, record.2 as f64))
            .chain([(samples as f64, largest as f64)]);
        chart.layers.push(Layer::new(
            &run.name,
            Tone::Series(index),
            Shape::Steps(steps.collect()),
        ));
        for (number, seconds, latency) in records {
            rows.push(vec![
                run.name.clone(),
                number.to_string(),
                words::time(seconds, data.length),
                words::micros(latency),
            ]);
        }
    }
    chart.rules = rules_of_all(runs, probe, false);
    chart.table = Table { head, rows };
    Some(chart)
}

/// Returns the samples that are larger than all samples with smaller numbers on any CPU, ordered by
/// number. Each CPU numbers its samples from the start of the run.
fn of_any(data: &ProbeData) -> Vec<(u64, f64, i64)> {
    let mut records: Vec<(u64, f64, i64)> = data
        .lanes
        .iter()
        .flat_map(|lane| lane.swept.records.iter().copied())
        .collect();
    records.sort_by_key(|record| (record.0, std::cmp::Reverse(record.2)));
    let mut largest = None;
    records.retain(|record| {
        let is_larger = largest.is_none_or(|largest| record.2 > largest);
        if is_larger {
            largest = Some(record.2);
        }
        is_larger
    });
    records
}

fn axes(runs: &[RunData], probe: &str) -> (Axis, Axis) {
    let samples = of_probe(runs, probe)
        .flat_map(|probe| probe.lanes.iter().map(|lane| lane.swept.samples))
        .max()
        .unwrap_or(1);
    let x = Axis::new(
        "samples of a CPU so far (logarithmic)",
        Scale::Log,
        Values::Count,
        (1.0, samples as f64),
    );
    (x, latency_axis(runs, probe))
}

fn layers(data: &ProbeData) -> Vec<Layer> {
    let layer = |(index, lane): (usize, &super::super::data::Lane)| {
        let mut steps: Vec<(f64, f64)> = lane
            .swept
            .records
            .iter()
            .map(|record| (record.0 as f64, record.2 as f64))
            .collect();
        let last = steps.last()?.1;
        steps.push((lane.swept.samples as f64, last));
        Some(Layer::new(
            &lane.name,
            Tone::Series(index),
            Shape::Steps(steps),
        ))
    };
    data.lanes.iter().enumerate().filter_map(layer).collect()
}

fn table(data: &ProbeData) -> Table {
    let head = ["cpu", "sample", "time", "largest so far, us"]
        .map(str::to_owned)
        .to_vec();
    let mut rows = Vec::new();
    for lane in &data.lanes {
        for &(number, seconds, latency) in &lane.swept.records {
            rows.push(vec![
                lane.name.clone(),
                number.to_string(),
                words::time(seconds, data.length),
                words::micros(latency),
            ]);
        }
    }
    Table { head, rows }
}
