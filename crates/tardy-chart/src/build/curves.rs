//! Charts latencies against a number that differs between runs, such as the number of threads; each
//! statistic has a curve.

use crate::model::{Axis, Chart, Kind, Layer, Shape, Table, Tone, Values};
use crate::scale::Scale;
use crate::words;

/// A curve: its name, and its points as pairs of the number and a latency in ns.
pub type Curve = (String, Vec<(f64, f64)>);

/// Returns the chart; `None` if no curve has a point. `axis` is the title of the axis with the
/// numbers.
#[must_use]
pub fn chart(title: &str, note: &str, axis: &str, curves: &[Curve]) -> Option<Chart> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let extent = |value: fn(&(f64, f64)) -> f64| {
        points()
            .map(value)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
    };
    let ((first, last), (low, high)) = (extent(|point| point.0), extent(|point| point.1));
    if !first.is_finite() {
        return None;
    }
    let scale = Scale::of_latency(low as i64);
    let x = Axis::new(
        axis,
        Scale::Linear,
        Values::Count,
        (first - 0.25, last + 0.25),
    );
    let room = 1.25;
    let y = Axis::new(
        "latency (logarithmic)",
        scale,
        Values::Latency,
        (if low > 0.0 { low / room } else { low * room }, high * room),
    );
    let mut chart = Chart::new(Kind::TotalDelay, title, note, x, y);
    for (index, (name, points)) in curves.iter().enumerate() {
        chart.layers.push(Layer::new(
            name.as_str(),
            Tone::Series(index),
            Shape::Line(points.clone()),
        ));
        chart
            .layers
            .push(Layer::new("", Tone::Series(index), Shape::Dots(points.clone())).companion());
    }
    chart.table = table(axis, curves);
    Some(chart)
}

/// Returns a table with a row for each number.
fn table(axis: &str, curves: &[Curve]) -> Table {
    let mut numbers: Vec<f64> = curves
        .iter()
        .flat_map(|(_, points)| points)
        .map(|point| point.0)
        .collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let head = std::iter::once(axis.to_owned())
        .chain(curves.iter().map(|(name, _)| format!("{name}, us")))
        .collect();
    let row = |number: &f64| {
        let of = |(_, points): &Curve| {
            points
                .iter()
                .find(|point| point.0 == *number)
                .map(|point| words::micros(point.1.round() as i64))
        };
        std::iter::once(words::count(*number))
            .chain(curves.iter().map(|curve| of(curve).unwrap_or_default()))
            .collect()
    };
    Table {
        head,
        rows: numbers.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statistic_is_a_curve_and_each_number_a_row() {
        let curves = [
            ("mean".to_owned(), vec![(1.0, 2_000.0), (4.0, 2_100.0)]),
            ("max".to_owned(), vec![(4.0, 9_000.0)]),
        ];
        let chart = chart("t", "n", "threads", &curves).unwrap();
        assert_eq!(
            chart.table.rows,
            [["1", "2.000", ""], ["4", "2.100", "9.000"]]
        );
        assert_eq!(
            (chart.layers.len(), chart.x.low, chart.y.low),
            (4, 0.75, 1_600.0)
        );
        assert!(super::chart("t", "n", "threads", &[("max".to_owned(), Vec::new())]).is_none());
    }
}
