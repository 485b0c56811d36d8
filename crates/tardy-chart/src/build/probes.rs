//! All probes of a run in one picture: smallest, median and largest value of each probe, without
//! and with load.

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::summary::numbers::percentiles;

use super::super::data::{GroupKind, ProbeData, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Range, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::bars::BAR_READS;

/// The bars of a probe fill this fraction of the probe's space on the axis.
const FILLED: f64 = 0.76;
/// Share of the axis that is left free at each end. At the upper end, the number at the highest bar
/// needs this space.
const ROOM: f64 = 0.06;

/// The samples that a run took under load, or those that it took without load.
struct Side {
    name: &'static str,
    /// One histogram per probe. A histogram may be empty.
    histograms: Vec<Histogram>,
}

/// Returns a chart for each run, with equal axes; `None` if a run has fewer than two probes.
pub(super) fn charts(runs: &[RunData]) -> Vec<Option<Chart>> {
    let all = || {
        runs.iter()
            .flat_map(measured)
            .map(|probe| &probe.all().histogram)
    };
    let (Some(min), Some(max)) = (
        all().filter_map(Histogram::min).min(),
        all().filter_map(Histogram::max).max(),
    ) else {
        return runs.iter().map(|_| None).collect();
    };
    let scale = Scale::of_latency(min);
    let (low, high) = (scale.place(min as f64), scale.place(max as f64));
    let room = ((high - low) * ROOM).max(0.02);
    let mut quantities: Vec<&str> = Vec::new();
    for probe in runs.iter().flat_map(measured) {
        if !quantities.contains(&probe.quantity.as_str()) {
            quantities.push(&probe.quantity);
        }
    }
    let y = Axis::new(
        format!("{} (logarithmic)", quantities.join(", ")),
        scale,
        Values::Latency,
        (scale.value(low - room), scale.value(high + room)),
    );
    runs.iter().map(|run| chart(run, &y)).collect()
}

fn measured(run: &RunData) -> impl Iterator<Item = &ProbeData> {
    run.probes
        .iter()
        .filter(|probe| probe.all().histogram.count() > 0)
}

fn chart(run: &RunData, y: &Axis) -> Option<Chart> {
    let probes: Vec<&ProbeData> = measured(run).collect();
    if probes.len() < 2 {
        return None;
    }
    let sides: Vec<Side> = [("without load", false), ("with load", true)]
        .into_iter()
        .filter_map(|side| gather(run, &probes, side))
        .collect();
    let mut x = Axis::new(
        "probe",
        Scale::Linear,
        Values::Category,
        (-0.5, probes.len() as f64 - 0.5),
    );
    x.categories = probes.iter().map(|probe| probe.probe.clone()).collect();
    let note = format!("{BAR_READS} The bars with load cover all phases that had a load.");
    let mut chart = Chart::new(
        Kind::Bars,
        "All probes, without and with load",
        note,
        x,
        y.clone(),
    );
    let head = [
        "probe",
        "value",
        "load",
        "samples",
        "min, us",
        "median, us",
        "99.9 %, us",
        "max, us",
        "average, us",
        "standard deviation, us",
    ];
    chart.table = Table {
        head: head.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let width = FILLED / sides.len() as f64;
    for (index, side) in sides.iter().enumerate() {
        let mut ranges = Vec::new();
        for (place, histogram) in side.histograms.iter().enumerate() {
            let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
                continue;
            };
            let percentiles = percentiles(histogram, &probes[place].all().dependence);
            let quantile = |index: usize| {
                percentiles
                    .get(index)
                    .map_or(max, |percentile| percentile.value_ns)
            };
            let x = place as f64 - FILLED / 2.0 + (index as f64 + 0.5) * width;
            let (average, deviation) = moments(histogram);
            let [low, median, tail, high] =
                [min, quantile(0), quantile(2), max].map(|value| value as f64);
            let (average_drawn, tail) = (Some(average as f64), Some(tail));
            ranges.push(Range {
                x,
                width: width * 0.86,
                min: low,
                median,
                average: average_drawn,
                tail,
                max: high,
                figure: high,
            });
            let names = [
                probes[place].probe.clone(),
                probes[place].quantity.clone(),
                side.name.to_owned(),
                histogram.count().to_string(),
            ];
            let values =
                [min, quantile(0), quantile(2), max, average, deviation].map(words::micros);
            chart
                .table
                .rows
                .push(names.into_iter().chain(values).collect());
        }
        chart.layers.push(Layer::new(
            side.name,
            Tone::Series(index),
            Shape::Ranges(ranges),
        ));
    }
    Some(chart)
}

/// Returns the average and the standard deviation of all samples, rounded to whole ns.
fn moments(histogram: &Histogram) -> (i64, i64) {
    let count = histogram.count() as f64;
    let mut sum = 0.0;
    histogram.for_each(|value, times| sum += value as f64 * times as f64);
    let average = sum / count;
    let mut squares = 0.0;
    histogram.for_each(|value, times| squares += (value as f64 - average).powi(2) * times as f64);
    (
        average.round() as i64,
        (squares / count).sqrt().round() as i64,
    )
}

/// Returns the samples of all phases with load, or of all phases without load; `None` if there was
/// no such phase.
fn gather(
    run: &RunData,
    probes: &[&ProbeData],
    (name, is_loaded): (&'static str, bool),
) -> Option<Side> {
    let loads: Vec<&str> = run
        .summary
        .loads
        .iter()
        .filter(|load| load.loads.is_empty() != is_loaded)
        .map(|load| load.name.as_str())
        .collect();
    let is_all = loads.len() == run.summary.loads.len();
    let histogram = |probe: &&ProbeData| {
        // Samples between two phases belong to no load. If all phases are of the same kind, the
        // samples between phases are included as well.
        let groups = probe.groups.iter().filter(|group| {
            if is_all {
                group.what == GroupKind::All
            } else {
                group.what == GroupKind::Load && loads.contains(&group.name.as_str())
            }
        });
        let mut together = Histogram::new(Budget::ANALYSIS);
        groups.for_each(|group| together.merge(&group.histogram));
        together
    };
    let histograms: Vec<Histogram> = probes.iter().map(histogram).collect();
    let is_measured = !loads.is_empty() && histograms.iter().any(|histogram| histogram.count() > 0);
    is_measured.then_some(Side { name, histograms })
}
