//! Draws the shapes of a chart's layers between its axes.

use super::area::Area;
use super::model::{Cell, Chart, HEAT_LEVELS, Layer, Range, Shape, Tone};
use super::scene::{Anchor, Item, Step, Stroke, Text, rectangle, text};
use super::words;
use tardy_samples::sweep::Columns;

/// Half the side of a dot, in px.
const DOT: f64 = 1.1;

/// Returns the items of a layer.
#[must_use]
pub fn items(chart: &Chart, layer: &Layer, area: &Area) -> Vec<Item> {
    let place = |&(x, y): &(f64, f64)| area.point(chart, x, y);
    match &layer.shape {
        Shape::Line(points) => stroked(layer, straight(points.iter().map(place))),
        Shape::Steps(points) => stroked(layer, stepped(points.iter().map(place))),
        Shape::StepsBefore(points) => stroked(layer, stepped_before(points.iter().map(place))),
        Shape::Bins { edges, counts } => bins(chart, layer, area, edges, counts),
        Shape::Band(band) => vec![filled(layer.tone, 0.14, band_steps(chart, area, band))],
        Shape::Columns(columns) => extremes(chart, layer, area, columns),
        Shape::Dots(points) => {
            let square = |(x, y): (f64, f64)| rectangle(x - DOT, y - DOT, 2.0 * DOT, 2.0 * DOT);
            vec![filled(
                layer.tone,
                0.8,
                points.iter().map(place).flat_map(square).collect(),
            )]
        }
        Shape::Cells { cells, largest, .. } => {
            let least = layer.shape.heat_range().map_or(1, |(least, ..)| least);
            heat(chart, area, cells, (least, *largest))
        }
        Shape::Ranges(ranges) => ranges
            .iter()
            .flat_map(|range| self::range(chart, layer, area, range))
            .collect(),
    }
}

fn straight(points: impl Iterator<Item = (f64, f64)>) -> Vec<Step> {
    points
        .enumerate()
        .map(|(index, (x, y))| {
            if index == 0 {
                Step::Move(x, y)
            } else {
                Step::Line(x, y)
            }
        })
        .collect()
}

fn stepped(points: impl Iterator<Item = (f64, f64)>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut level = None;
    for (x, y) in points {
        match level.replace(y) {
            None => steps.push(Step::Move(x, y)),
            Some(before) => steps.extend([Step::Line(x, before), Step::Line(x, y)]),
        }
    }
    steps
}

fn stepped_before(points: impl Iterator<Item = (f64, f64)>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut from = None;
    for (x, y) in points {
        match from.replace(x) {
            None => steps.push(Step::Move(x, y)),
            Some(before) => steps.extend([Step::Line(before, y), Step::Line(x, y)]),
        }
    }
    steps
}

fn stroked(layer: &Layer, steps: Vec<Step>) -> Vec<Item> {
    let width = if layer.tone == Tone::All { 1.9 } else { 1.5 };
    let stroke = Stroke {
        tone: layer.tone,
        width,
        is_dashed: layer.is_dashed,
        opacity: 1.0,
    };
    vec![Item::Path {
        steps,
        fill: None,
        stroke: Some(stroke),
    }]
}

fn filled(tone: Tone, opacity: f64, steps: Vec<Step>) -> Item {
    Item::Path {
        steps,
        fill: Some((tone, opacity)),
        stroke: None,
    }
}

fn bins(chart: &Chart, layer: &Layer, area: &Area, edges: &[f64], counts: &[u64]) -> Vec<Item> {
    let floor = chart.y.low;
    let height = |count: u64| if count == 0 { floor } else { count as f64 };
    let (Some(&first), Some(&last)) = (edges.first(), edges.last()) else {
        return Vec::new();
    };
    let mut points = vec![area.point(chart, first, floor)];
    points.extend(
        edges
            .iter()
            .zip(counts)
            .map(|(&edge, &count)| area.point(chart, edge, height(count))),
    );
    points.push(area.point(chart, last, floor));
    let outline = stepped(points.into_iter());
    let mut items = Vec::new();
    if layer.tone == Tone::All {
        items.push(filled(
            layer.tone,
            0.08,
            [outline.as_slice(), &[Step::Close]].concat(),
        ));
    }
    items.extend(stroked(layer, outline));
    items
}

fn band_steps(chart: &Chart, area: &Area, band: &[(f64, f64, f64)]) -> Vec<Step> {
    // The band is cut off at the lower end of the axis.
    let lower = band
        .iter()
        .map(|&(x, lower, _)| area.point(chart, x, lower.max(chart.y.low)));
    let upper = band
        .iter()
        .rev()
        .map(|&(x, _, upper)| area.point(chart, x, upper));
    let mut steps = straight(lower.chain(upper));
    steps.push(Step::Close);
    steps
}

/// Merges the time intervals whose centres fall into the same pixel column. Returns each column
/// with its smallest and largest value.
#[must_use]
pub fn by_pixel(columns: &Columns, pixel: impl Fn(f64) -> f64) -> Vec<(f64, i64, i64)> {
    let mut pixels: Vec<(f64, i64, i64)> = Vec::new();
    for (index, extremes) in columns.extremes.iter().enumerate() {
        let Some((min, max)) = *extremes else {
            continue;
        };
        let at = pixel(columns.begin + (index as f64 + 0.5) * columns.step).floor();
        match pixels.last_mut() {
            Some(last) if last.0 >= at => (last.1, last.2) = (last.1.min(min), last.2.max(max)),
            _ => pixels.push((at, min, max)),
        }
    }
    pixels
}

fn extremes(chart: &Chart, layer: &Layer, area: &Area, columns: &Columns) -> Vec<Item> {
    let (mut bars, mut edge) = (Vec::new(), Vec::new());
    let mut previous = f64::NAN;
    for (at, min, max) in by_pixel(columns, |x| area.x(chart, x)) {
        let (x, top) = (at + 0.5, area.y(chart, max as f64));
        bars.extend([
            Step::Move(x, area.y(chart, min as f64).max(top + 1.0)),
            Step::Line(x, top),
        ]);
        // Where data is missing, the line is interrupted.
        edge.push(
            if (x - previous)
                < (3.0 * columns.step / (chart.x.high - chart.x.low) * area.width).max(3.0)
            {
                Step::Line(x, top)
            } else {
                Step::Move(x, top)
            },
        );
        previous = x;
    }
    let stroke = |width, opacity| {
        Some(Stroke {
            tone: layer.tone,
            width,
            is_dashed: false,
            opacity,
        })
    };
    vec![
        Item::Path {
            steps: bars,
            fill: None,
            stroke: stroke(1.0, 0.3),
        },
        Item::Path {
            steps: edge,
            fill: None,
            stroke: stroke(1.1, 1.0),
        },
    ]
}

/// Returns the colour of a count, which depends on the logarithm of the count between `least` and
/// `largest`.
#[must_use]
pub fn heat_level(count: u64, least: u64, largest: u64) -> usize {
    let least = least.max(1);
    if largest <= least {
        return HEAT_LEVELS - 1;
    }
    let share =
        (count.max(least) as f64 / least as f64).ln() / (largest as f64 / least as f64).ln();
    ((share * HEAT_LEVELS as f64) as usize).min(HEAT_LEVELS - 1)
}

/// Minimum width and height of a cell in px, so a single late sample is visible in a run of any
/// length.
const CELL_LEAST: f64 = 2.0;

fn heat(chart: &Chart, area: &Area, cells: &[Cell], (least, largest): (u64, u64)) -> Vec<Item> {
    let mut levels: Vec<Vec<Step>> = vec![Vec::new(); HEAT_LEVELS];
    for cell in cells {
        let ((left, bottom), (right, top)) = (
            area.point(chart, cell.x.0, cell.y.0),
            area.point(chart, cell.x.1, cell.y.1),
        );
        // Adjacent cells touch, because both round their common edge in the same way.
        let (left, right) = (left.round(), right.round().max(left.round() + CELL_LEAST));
        let (top, bottom) = (top.round(), bottom.round().max(top.round() + CELL_LEAST));
        levels[heat_level(cell.count, least, largest)].extend(rectangle(
            left,
            top,
            right - left,
            bottom - top,
        ));
    }
    let levels = levels
        .into_iter()
        .enumerate()
        .filter(|(_, steps)| !steps.is_empty());
    levels
        .map(|(level, steps)| filled(Tone::Heat(level), 1.0, steps))
        .collect()
}

/// Font size of the number at a bar in px, and the width of a character as a fraction of the font
/// size.
const LABEL_SIZE: f64 = 11.0;
const CHARACTER_WIDTH: f64 = 0.56;

/// Width of the part of a bar above the 99.9th percentile, as a fraction of the bar's width.
const TAIL_SHARE: f64 = 0.3;
/// Radius in px of the circle that shows the average.
const AVERAGE: f64 = 3.4;

fn range(chart: &Chart, layer: &Layer, area: &Area, range: &Range) -> Vec<Item> {
    let ((left, bottom), (right, top)) = (
        area.point(chart, range.x - range.width / 2.0, range.min),
        area.point(chart, range.x + range.width / 2.0, range.max),
    );
    let median = area.y(chart, range.median);
    let width = (right - left).max(2.0);
    let stroke = |width| {
        Some(Stroke {
            tone: layer.tone,
            width,
            is_dashed: false,
            opacity: 1.0,
        })
    };
    let body_top = range.tail.map_or(top, |tail| area.y(chart, tail));
    let body = rectangle(left, body_top, width, (bottom - body_top).max(1.0));
    let mut items = vec![Item::Path {
        steps: body,
        fill: Some((layer.tone, 0.3)),
        stroke: stroke(1.2),
    }];
    if range.tail.is_some() {
        // The tail above the 99.9th percentile is a narrow bar whose end is marked.
        let narrow = (width * TAIL_SHARE).max(2.0);
        let tail = rectangle(
            left + (width - narrow) / 2.0,
            top,
            narrow,
            (body_top - top).max(1.0),
        );
        items.push(Item::Path {
            steps: tail,
            fill: Some((layer.tone, 0.12)),
            stroke: stroke(1.2),
        });
        items.push(Item::Path {
            steps: vec![Step::Move(left, top), Step::Line(left + width, top)],
            fill: None,
            stroke: stroke(1.2),
        });
    }
    items.push(Item::Path {
        steps: vec![Step::Move(left, median), Step::Line(left + width, median)],
        fill: None,
        stroke: stroke(3.0),
    });
    if let Some(average) = range.average {
        let at = (left + width / 2.0, area.y(chart, average));
        items.push(Item::Circle {
            at,
            radius: AVERAGE.min(width / 2.0),
            fill: Some(Tone::Surface),
            stroke: stroke(1.6),
        });
    }
    // The number is written above the bar if the bar is wide enough. The table and the tooltip
    // always show the number.
    let words = words::measured(&chart.y, range.figure);
    if words.chars().count() as f64 * LABEL_SIZE * CHARACTER_WIDTH < width {
        let at = ((left + right) / 2.0, area.y(chart, range.figure) - 5.0);
        let label = text(at, Anchor::Middle, Tone::Ink, words);
        items.push(Item::Text(Text {
            size: LABEL_SIZE,
            has_halo: true,
            ..label
        }));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_extreme_is_lost_by_drawing_it_small(values in proptest::collection::vec(proptest::option::of(0_i64..1_000_000), 1..500), width in 1.0_f64..200.0) {
            let extremes: Vec<_> = values.iter().map(|value| value.map(|value| (value / 2, value))).collect();
            let columns = Columns { begin: 0.0, step: 1.0, extremes: extremes.clone() };
            let pixels = by_pixel(&columns, |x| x / values.len() as f64 * width);
            prop_assert!(pixels.len() as f64 <= width + 1.0);
            prop_assert_eq!(pixels.iter().map(|pixel| pixel.2).max(), extremes.iter().flatten().map(|pair| pair.1).max());
            prop_assert_eq!(pixels.iter().map(|pixel| pixel.1).min(), extremes.iter().flatten().map(|pair| pair.0).min());
        }
    }
}
