//! A chart's data for the script of a report page: the numbers that it needs for hovering, zooming
//! and the legend.

use serde_json::{Value, json};

use super::area::Area;
use super::model::{Axis, Chart, Layer, Shape, Values};
use tardy_samples::sweep::Columns;

/// Returns the data of a chart as JSON.
#[must_use]
pub fn chart(chart: &Chart) -> Value {
    json!({
        "kind": chart.kind.name(),
        "x": axis(&chart.x),
        "y": axis(&chart.y),
        "layers": chart.layers.iter().map(layer).collect::<Vec<_>>(),
        "spans": chart.spans.iter().map(|span| json!([span.name, number(span.begin), number(span.end)])).collect::<Vec<_>>(),
        "marks": chart.marks.iter().map(|mark| json!([number(mark.x), number(mark.y), mark.text])).collect::<Vec<_>>(),
    })
}

/// Returns JSON text that can be embedded in a script element: it contains no characters that could
/// end the element or start a comment.
#[must_use]
pub fn embedded(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Returns the rectangle between the axes as text for a data attribute.
#[must_use]
pub fn area(area: &Area) -> String {
    format!(
        "{:.1} {:.1} {:.1} {:.1}",
        area.left, area.top, area.width, area.height
    )
}

fn axis(axis: &Axis) -> Value {
    let values = match axis.values {
        Values::Latency => "latency",
        Values::Seconds => "seconds",
        Values::Count => "count",
        Values::Share => "share",
        Values::OneIn => "one-in",
        Values::Category => "category",
    };
    json!({
        "title": axis.title, "scale": axis.scale, "values": values, "low": number(axis.low), "high": number(axis.high),
        "categories": axis.categories,
    })
}

fn layer(layer: &Layer) -> Value {
    let mut value = json!({"name": layer.name, "companion": layer.is_companion});
    let numbers = |values: &mut dyn Iterator<Item = f64>| values.map(number).collect::<Vec<_>>();
    let points = |kind: &str, points: &[(f64, f64)]| {
        let (x, y) = (
            numbers(&mut points.iter().map(|point| point.0)),
            numbers(&mut points.iter().map(|point| point.1)),
        );
        json!({"shape": kind, "x": x, "y": y})
    };
    let shape = match &layer.shape {
        Shape::Line(line) => points("line", line),
        Shape::Steps(steps) => points("steps", steps),
        Shape::StepsBefore(steps) => points("steps-before", steps),
        Shape::Dots(dots) => points("dots", dots),
        Shape::Bins { edges, counts } => {
            json!({"shape": "bins", "x": numbers(&mut edges.iter().copied()), "y": counts})
        }
        Shape::Band(band) => json!({
            "shape": "band",
            "x": numbers(&mut band.iter().map(|point| point.0)),
            "low": numbers(&mut band.iter().map(|point| point.1)),
            "high": numbers(&mut band.iter().map(|point| point.2)),
        }),
        Shape::Columns(columns) => self::columns(columns),
        Shape::Cells {
            cells,
            are_latencies,
            ..
        } => {
            let cell = |cell: &super::model::Cell| {
                json!([
                    number(cell.x.0),
                    number(cell.x.1),
                    number(cell.y.0),
                    number(cell.y.1),
                    cell.count
                ])
            };
            json!({"shape": "cells", "latencies": are_latencies, "cells": cells.iter().map(cell).collect::<Vec<_>>()})
        }
        Shape::Ranges(ranges) => {
            let range = |range: &super::model::Range| {
                let [average, tail] = [range.average, range.tail].map(|value| value.map(number));
                json!([
                    number(range.x),
                    number(range.width),
                    number(range.min),
                    number(range.median),
                    number(range.max),
                    average,
                    tail
                ])
            };
            json!({"shape": "ranges", "ranges": ranges.iter().map(range).collect::<Vec<_>>()})
        }
    };
    if let (Some(value), Value::Object(shape)) = (value.as_object_mut(), shape) {
        value.extend(shape);
    }
    value
}

/// Converts extremes to two lists in ns, with null for an interval without samples.
fn columns(columns: &Columns) -> Value {
    let min: Vec<Option<i64>> = columns
        .extremes
        .iter()
        .map(|extremes| extremes.map(|pair| pair.0))
        .collect();
    let max: Vec<Option<i64>> = columns
        .extremes
        .iter()
        .map(|extremes| extremes.map(|pair| pair.1))
        .collect();
    json!({"shape": "columns", "begin": columns.begin, "step": columns.step, "min": min, "max": max})
}

/// Converts whole numbers exactly and without a decimal point, and rounds other numbers to six
/// digits.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return json!(value as i64);
    }
    format!("{value:.5e}")
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .map_or(Value::Null, |value| json!(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_run_ends_the_script_element() {
        let text = embedded(&json!({"name": "</script><script>alert(1)</script><!--&"}));
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["name"], "</script><script>alert(1)</script><!--&");
    }

    #[test]
    fn numbers_are_short_and_whole_ones_exact() {
        assert_eq!(
            json!([
                number(123_456_789.0),
                number(0.123_456_789),
                number(f64::NAN)
            ])
            .to_string(),
            "[123456789,0.123457,null]"
        );
    }
}
