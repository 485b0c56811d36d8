//! A chart's numbers as CSV: a line for each point, bin, interval, cell or bar. The column names
//! contain the units.

use std::fmt::Write as _;

use super::model::{Axis, Chart, Layer, Shape, Values};

/// Quotes a field if necessary. Text that starts like a formula gets an apostrophe, so that a
/// spreadsheet does not evaluate it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Returns the numbers of the named charts, which must have the same axes.
#[must_use]
pub fn text(charts: &[(&str, &Chart)]) -> String {
    let Some((_, first)) = charts.first() else {
        return String::new();
    };
    let are_latencies = first.layers.iter().any(|layer| {
        matches!(
            layer.shape,
            Shape::Cells {
                are_latencies: true,
                ..
            }
        )
    });
    let (x, y, value) = (
        unit(&first.x),
        unit(&first.y),
        if are_latencies {
            "latency_ns"
        } else {
            "samples"
        },
    );
    let mut out =
        format!("chart,series,shape,x_{x},x_end_{x},y_{y},y_low_{y},y_high_{y},{value}\n");
    for (name, chart) in charts {
        for layer in &chart.layers {
            lines(&mut out, name, chart, layer);
        }
        for rule in &chart.rules {
            let (x, y) = if rule.is_vertical {
                (Some(rule.value), None)
            } else {
                (None, Some(rule.value))
            };
            Line {
                x,
                y,
                ..Line::default()
            }
            .write(&mut out, [name, &rule.text, "rule"], chart);
        }
    }
    out
}

/// Returns the unit of the values on `axis`, for a column name.
fn unit(axis: &Axis) -> &'static str {
    match axis.values {
        Values::Latency => "ns",
        Values::Seconds => "s",
        Values::Count => "count",
        Values::Share => "share",
        Values::OneIn => "one_in",
        Values::Category => "name",
    }
}

/// A line of the file. Fields that a shape does not have stay empty.
#[derive(Default)]
struct Line {
    x: Option<f64>,
    x_end: Option<f64>,
    y: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    value: Option<u64>,
}

impl Line {
    fn write(&self, out: &mut String, names: [&str; 3], chart: &Chart) {
        let [name, series, shape] = names.map(quoted);
        let number = |axis: &Axis, value: Option<f64>| match (value, axis.values) {
            (None, _) => String::new(),
            // The bars of a category are close to the category's whole number on the axis, so
            // rounding the position of a bar gives its category.
            (Some(value), Values::Category) => axis
                .categories
                .get(value.round().max(0.0) as usize)
                .map_or_else(String::new, |name| quoted(name)),
            (Some(value), _) => value.to_string(),
        };
        let (x, x_end) = (number(&chart.x, self.x), number(&chart.x, self.x_end));
        let [y, low, high] = [self.y, self.low, self.high].map(|value| number(&chart.y, value));
        let value = self
            .value
            .map_or_else(String::new, |value| value.to_string());
        let _ = writeln!(
            out,
            "{name},{series},{shape},{x},{x_end},{y},{low},{high},{value}"
        );
    }
}

fn lines(out: &mut String, name: &str, chart: &Chart, layer: &Layer) {
    let mut write = |shape: &str, line: Line| line.write(out, [name, &layer.name, shape], chart);
    match &layer.shape {
        Shape::Line(points) | Shape::Dots(points) => {
            let shape = if matches!(layer.shape, Shape::Dots(_)) {
                "point"
            } else {
                "line"
            };
            points.iter().for_each(|&(x, y)| {
                write(
                    shape,
                    Line {
                        x: Some(x),
                        y: Some(y),
                        ..Line::default()
                    },
                )
            });
        }
        Shape::Steps(points) => {
            points.iter().for_each(|&(x, y)| {
                write(
                    "holds-on",
                    Line {
                        x: Some(x),
                        y: Some(y),
                        ..Line::default()
                    },
                )
            });
        }
        Shape::StepsBefore(points) => {
            points.iter().for_each(|&(x, y)| {
                write(
                    "holds-back",
                    Line {
                        x: Some(x),
                        y: Some(y),
                        ..Line::default()
                    },
                )
            });
        }
        Shape::Bins { edges, counts } => {
            for (edges, &count) in edges.windows(2).zip(counts) {
                write(
                    "bin",
                    Line {
                        x: Some(edges[0]),
                        x_end: Some(edges[1]),
                        y: Some(count as f64),
                        ..Line::default()
                    },
                );
            }
        }
        Shape::Band(points) => {
            for &(x, low, high) in points {
                write(
                    "band",
                    Line {
                        x: Some(x),
                        low: Some(low),
                        high: Some(high),
                        ..Line::default()
                    },
                );
            }
        }
        Shape::Columns(columns) => {
            let place = |index: usize| columns.begin + index as f64 * columns.step;
            for (index, extremes) in columns.extremes.iter().enumerate() {
                let Some((low, high)) = *extremes else {
                    continue;
                };
                let (x, x_end) = (Some(place(index)), Some(place(index + 1)));
                write(
                    "stretch",
                    Line {
                        x,
                        x_end,
                        low: Some(low as f64),
                        high: Some(high as f64),
                        ..Line::default()
                    },
                );
            }
        }
        Shape::Cells { cells, .. } => {
            for cell in cells {
                let (x, x_end, low, high) = (
                    Some(cell.x.0),
                    Some(cell.x.1),
                    Some(cell.y.0),
                    Some(cell.y.1),
                );
                write(
                    "cell",
                    Line {
                        x,
                        x_end,
                        low,
                        high,
                        value: Some(cell.count),
                        ..Line::default()
                    },
                );
            }
        }
        Shape::Ranges(ranges) => {
            for range in ranges {
                let (low, high) = (Some(range.min), Some(range.max));
                write(
                    "bar",
                    Line {
                        x: Some(range.x),
                        y: Some(range.median),
                        low,
                        high,
                        ..Line::default()
                    },
                );
                for (shape, value) in [("average", range.average), ("99.9%", range.tail)] {
                    if value.is_some() {
                        write(
                            shape,
                            Line {
                                x: Some(range.x),
                                y: value,
                                ..Line::default()
                            },
                        );
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Cell, Kind, Range, Rule, Tone};
    use super::super::scale::Scale;
    use super::*;
    use tardy_samples::sweep::Columns;

    fn chart(x: Values, y: Values, shape: Shape) -> Chart {
        let axis = |values| Axis::new("", Scale::Linear, values, (0.0, 1.0));
        let mut chart = Chart::new(Kind::Bars, "", "", axis(x), axis(y));
        chart
            .layers
            .push(Layer::new("CPU 0, worst", Tone::All, shape));
        chart
    }

    fn csv(chart: &Chart) -> String {
        text(&[("a", chart)])
    }

    #[test]
    fn every_shape_has_its_numbers() {
        let stretches = Columns {
            begin: 1.0,
            step: 0.5,
            extremes: vec![Some((-3, 9)), None, Some((4, 5))],
        };
        let of_shape = |x, y, shape| {
            csv(&chart(x, y, shape))
                .lines()
                .skip(1)
                .map(|line| line.replace("a,\"CPU 0, worst\",", ""))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of_shape(Values::Seconds, Values::Latency, Shape::Columns(stretches)),
            ["stretch,1,1.5,,-3,9,", "stretch,2,2.5,,4,5,"]
        );
        assert_eq!(
            of_shape(
                Values::Latency,
                Values::Share,
                Shape::Band(vec![(5.0, 0.25, 0.5)])
            ),
            ["band,5,,,0.25,0.5,"]
        );
        assert_eq!(
            of_shape(
                Values::Latency,
                Values::Count,
                Shape::Bins {
                    edges: vec![1.0, 2.0, 4.0],
                    counts: vec![7, 0]
                }
            ),
            ["bin,1,2,7,,,", "bin,2,4,0,,,"]
        );
        let cell = Cell {
            x: (0.0, 1.0),
            y: (10.0, 20.0),
            count: 3,
        };
        let cells = |are_latencies| Shape::Cells {
            cells: vec![cell],
            largest: 3,
            are_latencies,
        };
        assert_eq!(
            of_shape(Values::Seconds, Values::Latency, cells(false)),
            ["cell,0,1,,10,20,3"]
        );
        assert!(
            csv(&chart(Values::Seconds, Values::Count, cells(true))).starts_with(
                "chart,series,shape,x_s,x_end_s,y_count,y_low_count,y_high_count,latency_ns\n"
            )
        );
        assert_eq!(
            of_shape(
                Values::Seconds,
                Values::Latency,
                Shape::Steps(vec![(1.0, 2.0)])
            ),
            ["holds-on,1,,2,,,"]
        );
    }

    #[test]
    fn bars_are_named_and_limits_are_lines_of_their_own() {
        let range = Range {
            x: 0.8,
            width: 0.2,
            min: 1.0,
            median: 2.0,
            average: Some(2.25),
            tail: Some(2.5),
            max: 3.0,
            figure: 3.0,
        };
        let mut chart = chart(
            Values::Category,
            Values::Latency,
            Shape::Ranges(vec![range]),
        );
        chart.x.categories = vec!["idle".to_owned(), "io,disk".to_owned()];
        chart.rules.push(Rule {
            is_vertical: false,
            value: 200_000.0,
            text: "deadline 200 us".to_owned(),
        });
        let csv = csv(&chart);
        let bar = [
            "bar,\"io,disk\",,2,1,3,",
            "average,\"io,disk\",,2.25,,,",
            "99.9%,\"io,disk\",,2.5,,,",
        ]
        .map(|line| format!("a,\"CPU 0, worst\",{line}\n"));
        assert!(
            csv.contains(&bar.concat()) && csv.ends_with("a,deadline 200 us,rule,,,200000,,,\n"),
            "{csv}"
        );
    }

    #[test]
    fn names_cannot_break_out_of_their_field() {
        assert_eq!(quoted("io"), "io");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
    }
}
