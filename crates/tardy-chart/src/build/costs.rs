//! Charts the cost of operations: one chart per group of metrics, with a bar per run.

use tardy_results::cost::reference::advantage_percent;
use tardy_results::cost::run::CostRun;
use tardy_results::cost::shown::DisplayUnit;
use tardy_results::cost::summary::MetricSummary;
use tardy_run::cost::Group;

use super::super::model::{Axis, Chart, Kind, Layer, Range, Shape, Table, Tone, Values};
use super::super::scale::Scale;

/// The bars of a metric fill this fraction of the metric's space on the axis.
const FILLED: f64 = 0.76;

/// Returns a chart for each group of metrics in the runs, in the order of [`Group`]. All runs must
/// count in the same unit.
#[must_use]
pub fn charts(runs: &[CostRun]) -> Vec<(Group, Chart)> {
    let mut groups: Vec<Group> = runs
        .iter()
        .flat_map(|run| &run.summary.metrics)
        .map(|metric| metric.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
        .into_iter()
        .filter_map(|group| Some((group, chart(runs, group)?)))
        .collect()
}

fn chart(runs: &[CostRun], group: Group) -> Option<Chart> {
    let names = names(runs, group);
    let unit = shown(runs, runs.iter().find_map(|run| find(run, names.first()?))?);
    let mut x = Axis::new(
        "",
        Scale::Linear,
        Values::Category,
        (-0.5, names.len() as f64 - 0.5),
    );
    let mut bars: Vec<Vec<Range>> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| ranges(runs, run, index, &names))
        .collect();
    let ends = || {
        bars.iter()
            .flatten()
            .flat_map(|range| [range.min, range.max])
            .filter(|value| *value > 0.0)
    };
    let (least, most) = (ends().reduce(f64::min)?, ends().reduce(f64::max)?);
    // The axis has a margin below the bars, and space for a number above the highest bar.
    let room = (most / least).powf(0.03).max(1.02);
    let (low, high) = (least / room, most * room.powi(3));
    for range in bars.iter_mut().flatten() {
        range.min = range.min.max(low);
    }
    // Each tick of a time axis has a unit (ns to s), so the title of a time axis has no unit.
    let (title, values) = if unit.is_time() {
        (
            "time of one operation (logarithmic)".to_owned(),
            Values::Latency,
        )
    } else {
        (format!("{} (logarithmic)", unit.unit), Values::Count)
    };
    let y = Axis::new(title, Scale::Log, values, (low, high));
    x.categories = names.iter().map(|name| (*name).to_owned()).collect();
    let figure = if group == Group::Program {
        "average of all trials"
    } else {
        "cost, which is the smallest of the rounds' medians"
    };
    let note = format!(
        "Each run has a bar from the best to the worst of all trials; the thick line is the \
         {figure}."
    );
    let mut chart = Chart::new(Kind::Bars, format!("Cost of {}", group.title()), note, x, y);
    for ((index, run), ranges) in runs.iter().enumerate().zip(bars) {
        let name = if runs.len() == 1 {
            run.kernel()
        } else {
            format!("{} ({})", run.name, run.kernel())
        };
        chart
            .layers
            .push(Layer::new(name, Tone::Series(index), Shape::Ranges(ranges)));
    }
    chart.table = table(runs, &names);
    Some(chart)
}

/// Returns the names of the group's metrics that at least one run has, in the order in which they
/// first appear.
fn names(runs: &[CostRun], group: Group) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for metric in runs
        .iter()
        .flat_map(|run| &run.summary.metrics)
        .filter(|metric| metric.group == group)
    {
        if !names.contains(&&*metric.name) {
            names.push(&metric.name);
        }
    }
    names
}

fn find<'a>(run: &'a CostRun, name: &str) -> Option<&'a MetricSummary> {
    run.summary
        .metrics
        .iter()
        .find(|metric| metric.name == name)
}

fn shown(runs: &[CostRun], metric: &MetricSummary) -> DisplayUnit {
    DisplayUnit::new(&runs[0].summary, metric)
}

/// Returns the number that a chart shows for a metric. For programs this is the average, as in
/// mckenney2009.
fn figure(metric: &MetricSummary) -> f64 {
    if metric.group == Group::Program {
        metric.mean
    } else {
        metric.cost
    }
}

fn ranges(runs: &[CostRun], run: &CostRun, index: usize, names: &[&str]) -> Vec<Range> {
    let width = FILLED / runs.len() as f64;
    let range = |(place, name): (usize, &&str)| {
        let metric = find(run, name)?;
        let shown = shown(runs, metric);
        // Times are drawn in ns; the ticks contain the unit. A bandwidth is computed from a cost,
        // so the smallest cost gives the largest bandwidth.
        let drawn = |value: f64| {
            if shown.is_time() {
                value
            } else {
                shown.value(value)
            }
        };
        let (one, other) = (drawn(metric.min), drawn(metric.max));
        let x = place as f64 - FILLED / 2.0 + (index as f64 + 0.5) * width;
        let figure = drawn(figure(metric));
        Some(Range {
            x,
            width: width * 0.86,
            min: one.min(other),
            median: figure,
            average: None,
            tail: None,
            max: one.max(other),
            figure,
        })
    };
    // If a cost is computed by subtraction, its minimum can be zero, which has no position on a
    // logarithmic axis. Such a bar starts at the lower end of the axis.
    names
        .iter()
        .enumerate()
        .filter_map(range)
        .filter(|range| range.median > 0.0 && range.max.is_finite())
        .collect()
}

/// Returns a table with a row per metric. With several runs, it shows by how many percent each
/// metric costs more than in the first run.
fn table(runs: &[CostRun], names: &[&str]) -> Table {
    let mut head = vec![
        "metric".to_owned(),
        "one operation".to_owned(),
        "unit".to_owned(),
    ];
    for (index, run) in runs.iter().enumerate() {
        head.extend([run.name.clone(), "best".to_owned(), "worst".to_owned()]);
        if index > 0 {
            head.push(format!("costs more than {}", runs[0].name));
        }
    }
    let row = |name: &&str| {
        let of_any = runs.iter().find_map(|run| find(run, name))?;
        let shown = shown(runs, of_any);
        let mut cells = vec![
            of_any.name.clone(),
            of_any.operation.clone(),
            shown.unit.to_owned(),
        ];
        let first = find(&runs[0], name).map(figure).filter(|cost| *cost > 0.0);
        for (index, run) in runs.iter().enumerate() {
            match find(run, name) {
                None => cells.extend(["–".to_owned(), String::new(), String::new()]),
                Some(metric) => cells.extend(
                    [figure(metric), metric.min, metric.max].map(|value| shown.text(value)),
                ),
            }
            if index > 0 {
                let more = first.zip(find(run, name)).map(|(first, metric)| {
                    format!("{:+.1} %", advantage_percent(first, figure(metric)))
                });
                cells.push(more.unwrap_or_default());
            }
        }
        Some(cells)
    };
    Table {
        head,
        rows: names.iter().filter_map(row).collect(),
    }
}
