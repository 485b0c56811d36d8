//! Charts the results of boards over many builds, and marks the build at which they changed.

use tardy_results::history::{History, LastingChange, Series};

use super::super::model::{Axis, Chart, Kind, Layer, Rule, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;

/// Maximum number of lines that are drawn for a change. More lines are hard to distinguish.
const SHOWN: usize = 7;

/// Returns a chart of the series that `change` affects most; `None` if none of them has a value.
#[must_use]
pub fn chart(found: &History, change: &LastingChange) -> Option<Chart> {
    let mut series: Vec<&Series> = change
        .series
        .iter()
        .map(|&place| &found.series[place])
        .collect();
    let by = |series: &Series| {
        mean(&series.values_ns[change.from..])
            .zip(mean(&series.values_ns[..change.from]))
            .map_or(0.0, |(after, before)| after - before)
    };
    series.sort_by(|a, b| by(b).abs().total_cmp(&by(a).abs()));
    series.truncate(SHOWN);
    let values = || {
        series
            .iter()
            .flat_map(|series| series.values_ns.iter().flatten().copied())
    };
    let (low, high) = values().fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return None;
    }
    let scale = Scale::of_latency(low as i64);
    let (low, high) = (scale.place(low), scale.place(high));
    let room = ((high - low) * 0.08).max(0.02);
    let builds = &found.builds;
    let last = builds.len().saturating_sub(1);
    let title = format!(
        "build, from {} (0) to {} ({last})",
        builds.first()?.name,
        builds[last].name
    );
    let x = Axis::new(
        title,
        Scale::Linear,
        Values::Count,
        (-0.5, last as f64 + 0.5),
    );
    let y = Axis::new(
        "latency (logarithmic)",
        scale,
        Values::Latency,
        (scale.value(low - room), scale.value(high + room)),
    );
    let left = change.series.len() - series.len();
    let more = if left > 0 {
        format!(
            " Only the {} numbers that changed most are drawn; {left} more are not.",
            series.len()
        )
    } else {
        String::new()
    };
    let note = format!(
        "Each point is a build. The line marks the start of the change, at {}.{more}",
        builds[change.from].name
    );
    let mut chart = Chart::new(Kind::Timeline, super::capital(&change.what), note, x, y);
    for (index, series) in series.iter().enumerate() {
        let points: Vec<(f64, f64)> = series
            .values_ns
            .iter()
            .enumerate()
            .filter_map(|(build, value)| Some((build as f64, (*value)?)))
            .collect();
        let name = format!(
            "{} % of {} on {}",
            words::share(series.quantile).trim_end_matches([' ', '%']),
            series.key,
            series.board
        );
        chart.layers.push(Layer::new(
            name,
            Tone::Series(index),
            Shape::Line(points.clone()),
        ));
        chart
            .layers
            .push(Layer::new("", Tone::Series(index), Shape::Dots(points)).companion());
    }
    chart.rules.push(Rule {
        is_vertical: true,
        value: change.from as f64 - 0.5,
        text: format!("since {}", builds[change.from].name),
    });
    chart.table = table(found, &series);
    Some(chart)
}

fn mean(values: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = values
        .iter()
        .flatten()
        .map(|value| value.max(1.0).ln())
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Returns a table with a row per build.
fn table(found: &History, series: &[&Series]) -> Table {
    let name = |series: &&Series| {
        format!(
            "{} on {}, {}, us",
            series.key,
            series.board,
            words::share(series.quantile)
        )
    };
    let head = std::iter::once("build".to_owned())
        .chain(series.iter().map(name))
        .collect();
    let row = |(place, build): (usize, &tardy_results::history::Build)| {
        let values = series.iter().map(|series| {
            series.values_ns[place]
                .map_or_else(String::new, |value| words::micros(value.round() as i64))
        });
        std::iter::once(build.name.clone()).chain(values).collect()
    };
    Table {
        head,
        rows: found.builds.iter().enumerate().map(row).collect(),
    }
}
