//! The largest latency so far against the logarithm of the number of samples: a run was long enough when it no longer rises.

use super::super::data::{ProbeData, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::{kept_note, latency_axis, probes, rules};

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let samples = probes(runs, probe).flat_map(|probe| probe.lanes.iter().map(|lane| lane.swept.samples)).max().unwrap_or(1);
    let x = Axis::new("samples of a CPU so far (logarithmic)", Scale::Log, Values::Count, (1.0, samples as f64));
    let y = latency_axis(runs, probe);
    let one = |run: &RunData| {
        let data = run.probe(probe).filter(|probe| probe.has_time())?;
        let note = format!(
            "Each step is a {} larger than all before it. A line that still rises at its end says that a longer run would find a larger one.{}",
            data.quantity,
            kept_note(data)
        );
        let mut chart = Chart::new(Kind::RunningMax, format!("Largest {} so far", data.quantity), note, x.clone(), y.clone());
        chart.layers = layers(data);
        chart.rules = rules(data, false);
        chart.table = table(data);
        Some(chart)
    };
    runs.iter().map(one).collect()
}

fn layers(data: &ProbeData) -> Vec<Layer> {
    let layer = |(index, lane): (usize, &super::super::data::Lane)| {
        let mut steps: Vec<(f64, f64)> = lane.swept.records.iter().map(|record| (record.0 as f64, record.2 as f64)).collect();
        let last = steps.last()?.1;
        steps.push((lane.swept.samples as f64, last));
        Some(Layer::new(&lane.name, Tone::Series(index), Shape::Steps(steps)))
    };
    data.lanes.iter().enumerate().filter_map(layer).collect()
}

fn table(data: &ProbeData) -> Table {
    let head = ["cpu", "sample", "time", "largest so far, µs"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for lane in &data.lanes {
        for &(number, seconds, latency) in &lane.swept.records {
            rows.push(vec![lane.name.clone(), words::whole(number), words::time(seconds, data.length), words::micros(latency)]);
        }
    }
    Table { head, rows }
}
