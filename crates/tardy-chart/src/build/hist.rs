//! The histogram of a run, with lines for its loads or its CPUs.

use tardy_core::units::three_digits;

use super::super::bins::{Bins, resolution};
use super::super::data::{Group, GroupKind, ProbeData, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Mark, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::{a_group_a_run, capital, extent, latency_axis, of_probe, rules, rules_of_all};

const BINS: usize = 160;
/// Number of loads whose lines are visible at first. More lines are hard to distinguish.
const LOADS_SHOWN: usize = 4;

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (bins, x, y) = frame(runs, probe);
    runs.iter()
        .map(|run| Some(chart(run.probe(probe)?, &bins, x.clone(), y.clone())))
        .collect()
}

/// Returns a chart with a line per run, all with the same bins.
pub(super) fn overlaid(runs: &[RunData], probe: &str) -> Option<Chart> {
    let quantity = of_probe(runs, probe).next()?.quantity.clone();
    let (bins, x, y) = frame(runs, probe);
    let title = format!("Histograms of the {quantity}, all runs");
    let note = "Samples of each run in bins of equal width on the axis. Heights depend on the \
                length of a run; to compare shares, use the tails above.";
    let mut chart = Chart::new(Kind::Hist, title, note, x, y);
    for (tone, group) in a_group_a_run(runs, probe) {
        let shape = binned(&bins, &group);
        chart.marks.extend(max_mark(&group, &shape, &bins));
        chart.layers.push(Layer::new(&group.name, tone, shape));
    }
    chart.rules = rules_of_all(runs, probe, true);
    chart.table = table(&chart.layers, &bins);
    Some(chart)
}

/// Returns bins and axes that cover all runs.
fn frame(runs: &[RunData], probe: &str) -> (Bins, Axis, Axis) {
    let (min, max) = extent(runs, probe);
    let resolution = resolution(of_probe(runs, probe).map(|probe| &probe.all().histogram));
    let bins = Bins::over(min, max, Scale::of_latency(min), BINS, resolution);
    let highest = of_probe(runs, probe)
        .flat_map(|probe| bins.counts(&probe.all().histogram))
        .max()
        .unwrap_or(1);
    // The axis starts below 1, so a bin with one sample is visible.
    let y = Axis::new(
        "samples in a bin (logarithmic)",
        Scale::Log,
        Values::Count,
        (0.6, highest as f64 * 1.6),
    );
    (bins, latency_axis(runs, probe), y)
}

fn binned(bins: &Bins, group: &Group) -> Shape {
    let edges = (0..bins.len())
        .map(|index| bins.edges(index).0 as f64)
        .chain([bins.edges(bins.len() - 1).1 as f64])
        .collect();
    Shape::Bins {
        edges,
        counts: bins.counts(&group.histogram),
    }
}

fn chart(data: &ProbeData, bins: &Bins, x: Axis, y: Axis) -> Chart {
    let title = format!("Histogram of the {}", data.quantity);
    let note = format!(
        "{} of {} samples in bins of equal width on the axis.",
        capital(&data.quantity),
        data.all().histogram.count()
    );
    let mut chart = Chart::new(Kind::Hist, title, note, x, y);
    chart.layers = layers(data, |group| binned(bins, group));
    chart.rules = rules(data, true);
    chart.marks = max_mark(data.all(), &chart.layers[0].shape, bins)
        .into_iter()
        .collect();
    chart.table = table(&chart.layers, bins);
    chart
}

fn max_mark(group: &Group, shape: &Shape, bins: &Bins) -> Option<Mark> {
    let max = group.histogram.max()?;
    let count = match shape {
        Shape::Bins { counts, .. } => counts[bins.index(max)] as f64,
        _ => 1.0,
    };
    Some(Mark {
        x: max as f64,
        y: count,
        text: format!("max {}", three_digits(max as f64)),
    })
}

/// Returns a layer for each group. The layer of all samples and the layers of the loads with the
/// largest latencies are visible. The layers of CPUs are visible only if there are no loads.
pub(super) fn layers(data: &ProbeData, shape: impl Fn(&Group) -> Shape) -> Vec<Layer> {
    let mut loads: Vec<&Group> = of(data, GroupKind::Load).collect();
    loads.sort_by_key(|group| std::cmp::Reverse(group.histogram.max()));
    let processors: Vec<&Group> = of(data, GroupKind::Processor).collect();
    let place = |among: &[&Group], group: &Group| {
        among
            .iter()
            .position(|other| other.name == group.name)
            .unwrap_or(0)
    };
    let layer = |group: &Group| {
        let (tone, is_hidden) = match group.what {
            GroupKind::All => (Tone::All, false),
            GroupKind::Load => {
                let rank = place(&loads, group);
                (Tone::Series(rank), rank >= LOADS_SHOWN)
            }
            GroupKind::Processor => (
                Tone::Series(place(&processors, group) + loads.len().min(LOADS_SHOWN)),
                !loads.is_empty(),
            ),
        };
        Layer::new(&group.name, tone, shape(group)).hidden(is_hidden)
    };
    data.groups.iter().map(layer).collect()
}

fn of(data: &ProbeData, what: GroupKind) -> impl Iterator<Item = &Group> {
    data.groups.iter().filter(move |group| group.what == what)
}

fn table(layers: &[Layer], bins: &Bins) -> Table {
    let columns: Vec<(&str, &[u64])> = layers
        .iter()
        .filter_map(|layer| match &layer.shape {
            Shape::Bins { counts, .. } => Some((layer.name.as_str(), counts.as_slice())),
            _ => None,
        })
        .collect();
    let mut head = vec!["from, us".to_owned(), "below, us".to_owned()];
    head.extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    let is_used = |&index: &usize| columns.iter().any(|(_, counts)| counts[index] > 0);
    let row = |index: usize| {
        let (begin, end) = bins.edges(index);
        let counts = columns.iter().map(|(_, counts)| counts[index].to_string());
        [words::micros(begin), words::micros(end)]
            .into_iter()
            .chain(counts)
            .collect()
    };
    Table {
        head,
        rows: (0..bins.len()).filter(is_used).map(row).collect(),
    }
}
