//! Draws a chart as a scene: frame, axes, phases, layers and marks.

use super::area::Area;
use super::model::{Chart, HEAT_LEVELS, Kind, Rule, Tone};
use super::scene::{
    Anchor, Group, Item, SMALL, Scene, Step, Stroke, Text, rectangle, text, text_width,
};
use super::shapes;
use super::words;

const TITLE: f64 = 15.0;
const LEGEND_LINE: f64 = 18.0;
/// Height of the line with the labels of phases. It is above the plot area, so no curve crosses the
/// labels.
const SPAN_LINE: f64 = 16.0;
/// Distance between two lines of labels in the chart.
const LABEL_LINE: f64 = 15.0;
/// Distance between an axis and the labels of its ticks.
const TICK: f64 = 6.0;

/// The elements that are drawn around the plot area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Title and legend, for a stand-alone figure.
    Figure,
    /// Nothing is drawn around the plot area, because the page has the title and the legend. Hidden
    /// layers are part of the drawing but invisible, so that the page can show them later.
    Plot,
}

/// Draws `chart` with a size of `width` by `height` px. Also returns the area between the axes,
/// which scripts need.
#[must_use]
pub fn draw(chart: &Chart, (width, height): (f64, f64), frame: Frame) -> (Scene, Area) {
    let mut items = Vec::new();
    let top = if frame == Frame::Figure {
        title_and_legend(chart, width, &mut items)
    } else {
        0.0
    };
    let area = area(chart, (width, height), top);
    items.push(group("spans", None, spans(chart, &area)));
    items.push(group("axis y", None, y_axis(chart, &area)));
    items.push(group("axis x", None, x_axis(chart, &area)));
    let mut labels = Labels::default();
    let (lines, names): (Vec<Item>, Vec<Item>) = chart
        .rules
        .iter()
        .filter_map(|rule| self::rule(chart, rule, &area, &mut labels))
        .unzip();
    // In a chart of bars, the deadline and similar lines are drawn below the bars, so that they do
    // not cross the numbers. In other charts, these lines are drawn above the layers, which would
    // otherwise hide them.
    let (below, above) = if chart.kind == Kind::Bars {
        (lines, Vec::new())
    } else {
        (Vec::new(), lines)
    };
    items.push(group("rules", None, below));
    let mut layers = Vec::new();
    for (index, layer) in chart.layers.iter().enumerate() {
        if frame == Frame::Plot || !layer.is_hidden {
            let items = shapes::items(chart, layer, &area);
            layers.push(Item::Group(Group {
                class: "layer",
                layer: Some(index),
                is_hidden: layer.is_hidden,
                clip: None,
                items,
            }));
        }
    }
    items.push(group("layers", area.clip(), layers));
    items.push(group(
        "rules",
        None,
        above.into_iter().chain(names).collect(),
    ));
    items.push(group("marks", None, marks(chart, &area, &mut labels)));
    let description = format!("{}. {}", chart.title, chart.note);
    (
        Scene {
            width,
            height,
            description,
            items,
        },
        area,
    )
}

/// Combines several drawings side by side, with one description.
#[must_use]
pub fn beside(scenes: Vec<Scene>) -> Scene {
    let mut all = Scene::default();
    let mut descriptions = Vec::new();
    for scene in scenes {
        let left = all.width;
        all.items
            .extend(scene.items.into_iter().map(|item| moved(item, left)));
        all.width += scene.width;
        all.height = all.height.max(scene.height);
        descriptions.push(scene.description);
    }
    all.description = descriptions.join(" | ");
    all
}

fn moved(item: Item, by: f64) -> Item {
    match item {
        Item::Path {
            mut steps,
            fill,
            stroke,
        } => {
            for step in &mut steps {
                if let Step::Move(x, _) | Step::Line(x, _) = step {
                    *x += by;
                }
            }
            Item::Path {
                steps,
                fill,
                stroke,
            }
        }
        Item::Circle {
            at,
            radius,
            fill,
            stroke,
        } => Item::Circle {
            at: (at.0 + by, at.1),
            radius,
            fill,
            stroke,
        },
        Item::Text(text) => Item::Text(Text {
            at: (text.at.0 + by, text.at.1),
            ..text
        }),
        Item::Group(group) => Item::Group(Group {
            clip: group
                .clip
                .map(|(left, top, width, height)| (left + by, top, width, height)),
            items: group
                .items
                .into_iter()
                .map(|item| moved(item, by))
                .collect(),
            ..group
        }),
    }
}

fn group(class: &'static str, clip: Option<(f64, f64, f64, f64)>, items: Vec<Item>) -> Item {
    Item::Group(Group {
        class,
        layer: None,
        is_hidden: false,
        clip,
        items,
    })
}

pub(super) fn line(from: (f64, f64), to: (f64, f64), tone: Tone, width: f64) -> Item {
    let steps = vec![Step::Move(from.0, from.1), Step::Line(to.0, to.1)];
    Item::Path {
        steps,
        fill: None,
        stroke: Some(Stroke {
            tone,
            width,
            is_dashed: false,
            opacity: 1.0,
        }),
    }
}

/// Draws title and legend, and returns the height that they take.
fn title_and_legend(chart: &Chart, width: f64, items: &mut Vec<Item>) -> f64 {
    let margin = 12.0;
    let mut title = text(
        (margin, 22.0),
        Anchor::Start,
        Tone::Ink,
        fitting(&chart.title, TITLE, width - 2.0 * margin),
    );
    (title.size, title.is_bold) = (TITLE, true);
    items.push(Item::Text(title));
    let (mut x, mut y) = (margin, 42.0);
    if !chart.subtitle.is_empty() {
        items.push(Item::Text(text(
            (x, y - 1.0),
            Anchor::Start,
            Tone::Muted,
            fitting(&chart.subtitle, SMALL, width - 2.0 * margin),
        )));
        y += LEGEND_LINE;
    }
    if let Some(ends) = words::heat_ends(chart) {
        heat_legend(&ends, (x, y), items);
        return y + 6.0;
    }
    let entries: Vec<_> = chart
        .layers
        .iter()
        .filter(|layer| !layer.is_companion && !layer.is_hidden)
        .collect();
    if entries.len() < 2 {
        return y - 12.0;
    }
    for layer in entries {
        let name = fitting(&layer.name, SMALL, width - 2.0 * margin - 20.0);
        let needed = 22.0 + text_width(&name, SMALL) + 14.0;
        if x > margin && x + needed > width - margin {
            (x, y) = (margin, y + LEGEND_LINE);
        }
        let stroke = Stroke {
            tone: layer.tone,
            width: 2.5,
            is_dashed: layer.is_dashed,
            opacity: 1.0,
        };
        let steps = vec![Step::Move(x, y - 4.0), Step::Line(x + 16.0, y - 4.0)];
        items.push(Item::Path {
            steps,
            fill: None,
            stroke: Some(stroke),
        });
        items.push(Item::Text(text(
            (x + 22.0, y),
            Anchor::Start,
            Tone::Ink,
            name,
        )));
        x += needed;
    }
    let hidden = chart
        .layers
        .iter()
        .filter(|layer| !layer.is_companion && layer.is_hidden)
        .count();
    if hidden > 0 {
        items.push(Item::Text(text(
            (x, y),
            Anchor::Start,
            Tone::Muted,
            format!("{hidden} more: --line NAME"),
        )));
    }
    y + 6.0
}

/// Draws a row of all cell colours between the texts of the smallest and the largest value.
fn heat_legend((least, most): &(String, String), (left, y): (f64, f64), items: &mut Vec<Item>) {
    const SWATCH: f64 = 18.0;
    items.push(Item::Text(text(
        (left, y),
        Anchor::Start,
        Tone::Muted,
        least.clone(),
    )));
    let first = left + text_width(least, SMALL) + 8.0;
    for level in 0..HEAT_LEVELS {
        let steps = rectangle(first + level as f64 * SWATCH, y - 10.0, SWATCH, 11.0);
        items.push(Item::Path {
            steps,
            fill: Some((Tone::Heat(level), 1.0)),
            stroke: None,
        });
    }
    let last = first + HEAT_LEVELS as f64 * SWATCH + 8.0;
    items.push(Item::Text(text(
        (last, y),
        Anchor::Start,
        Tone::Muted,
        format!("{most} (logarithmic)"),
    )));
}

/// Returns `text`, shortened if it is wider than `width`.
pub(super) fn fitting(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        if text_width(&short, size) + size * 1.6 > width {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

fn area(chart: &Chart, (width, height): (f64, f64), top: f64) -> Area {
    let wanted = ticks_wanted(height - top);
    let named = chart
        .y
        .ticks(wanted)
        .into_iter()
        .filter(|tick| tick.is_named);
    let widest = named
        .map(|tick| text_width(&words::tick(&chart.y, tick.value), SMALL))
        .fold(0.0, f64::max);
    // The title of the y axis is above the axis.
    let names_of_spans = if chart.spans.is_empty() {
        0.0
    } else {
        SPAN_LINE
    };
    let (left, top) = (
        (widest + TICK + 8.0).round(),
        (top + 24.0 + names_of_spans).round(),
    );
    let lines = if chart.x.categories.is_empty() {
        1.0
    } else {
        2.0
    };
    let bottom = 22.0 + 16.0 * lines;
    Area {
        left,
        top,
        width: (width - left - 14.0).max(40.0),
        height: (height - top - bottom).max(40.0),
    }
}

fn ticks_wanted(height: f64) -> usize {
    (height / 45.0) as usize
}

fn y_axis(chart: &Chart, area: &Area) -> Vec<Item> {
    let mut items = vec![Item::Text(text(
        (
            4.0,
            area.top
                - 10.0
                - if chart.spans.is_empty() {
                    0.0
                } else {
                    SPAN_LINE
                },
        ),
        Anchor::Start,
        Tone::Muted,
        chart.y.title.clone(),
    ))];
    for tick in chart.y.ticks(ticks_wanted(area.height)) {
        let y = area.y(chart, tick.value);
        if tick.is_named {
            items.push(line((area.left, y), (area.right(), y), Tone::Grid, 1.0));
            items.push(Item::Text(text(
                (area.left - TICK, y + 4.0),
                Anchor::End,
                Tone::Muted,
                words::tick(&chart.y, tick.value),
            )));
        }
    }
    items
}

fn x_axis(chart: &Chart, area: &Area) -> Vec<Item> {
    let base = area.bottom();
    let mut items = vec![line(
        (area.left, base),
        (area.right(), base),
        Tone::Muted,
        1.0,
    )];
    let title = text(
        (area.right(), base + 34.0),
        Anchor::End,
        Tone::Muted,
        chart.x.title.clone(),
    );
    if !chart.x.categories.is_empty() {
        items.extend(categories(chart, area));
        items.push(Item::Text(Text {
            at: (title.at.0, title.at.1 + 16.0),
            ..title
        }));
        return items;
    }
    let wanted = (area.width / 85.0) as usize;
    let mut taken = f64::NEG_INFINITY;
    for tick in chart.x.ticks(wanted) {
        let x = area.x(chart, tick.value);
        let length = if tick.is_named { 5.0 } else { 3.0 };
        items.push(line((x, base), (x, base + length), Tone::Muted, 1.0));
        let name = words::tick(&chart.x, tick.value);
        let half = text_width(&name, SMALL) / 2.0;
        if tick.is_named && x - half > taken {
            items.push(line((x, area.top), (x, base), Tone::Grid, 1.0));
            let (at, anchor) = match x {
                x if x + half > area.right() + 12.0 => (area.right() + 12.0, Anchor::End),
                x => (x, Anchor::Middle),
            };
            items.push(Item::Text(text(
                (at, base + 18.0),
                anchor,
                Tone::Muted,
                name,
            )));
            taken = x + half + 8.0;
        }
    }
    items.push(Item::Text(title));
    items
}

/// Returns the labels of categories below their positions. If the labels need much space, every
/// second label is one line lower.
fn categories(chart: &Chart, area: &Area) -> Vec<Item> {
    let names = &chart.x.categories;
    let room = area.width / names.len().max(1) as f64;
    let is_tight = names
        .iter()
        .any(|name| text_width(name, SMALL) > room - 6.0);
    let name = |(index, name): (usize, &String)| {
        let lower = if is_tight && index % 2 == 1 {
            16.0
        } else {
            0.0
        };
        let width = if is_tight { 2.0 * room } else { room };
        let at = (area.x(chart, index as f64), area.bottom() + 18.0 + lower);
        Item::Text(text(
            at,
            Anchor::Middle,
            Tone::Ink,
            fitting(name, SMALL, width - 6.0),
        ))
    };
    names.iter().enumerate().map(name).collect()
}

/// Shades every second phase, and labels each phase if the label fits.
fn spans(chart: &Chart, area: &Area) -> Vec<Item> {
    let mut items = Vec::new();
    for (index, span) in chart.spans.iter().enumerate() {
        let (left, right) = (
            area.x(chart, span.begin).max(area.left),
            area.x(chart, span.end).min(area.right()),
        );
        if right <= left {
            continue;
        }
        if index % 2 == 0 {
            let steps = rectangle(left, area.top, right - left, area.height);
            items.push(Item::Path {
                steps,
                fill: Some((Tone::Shade, 1.0)),
                stroke: None,
            });
        }
        items.push(line(
            (left, area.top),
            (left, area.bottom()),
            Tone::Grid,
            1.0,
        ));
        let name = fitting(&span.name, 11.0, right - left - 4.0);
        if name.chars().count() > 3 || name == span.name {
            items.push(Item::Text(Text {
                size: 11.0,
                ..text(
                    (left + 2.0, area.top - 5.0),
                    Anchor::Start,
                    Tone::Muted,
                    name,
                )
            }));
        }
    }
    items
}

/// Returns the line and the label of a rule; `None` if the rule's value is not on the axis.
fn rule(chart: &Chart, rule: &Rule, area: &Area, labels: &mut Labels) -> Option<(Item, Item)> {
    let axis = if rule.is_vertical { &chart.x } else { &chart.y };
    if !(0.0..=1.0).contains(&axis.fraction(rule.value)) {
        return None;
    }
    let (from, to, mut label) = if rule.is_vertical {
        let x = area.x(chart, rule.value);
        let anchor = if x > area.left + area.width * 0.6 {
            Anchor::End
        } else {
            Anchor::Start
        };
        let beside = if anchor == Anchor::End { -5.0 } else { 5.0 };
        (
            (x, area.top),
            (x, area.bottom()),
            text(
                (x + beside, area.top + 28.0),
                anchor,
                Tone::Alarm,
                rule.text.clone(),
            ),
        )
    } else {
        let y = area.y(chart, rule.value);
        (
            (area.left, y),
            (area.right(), y),
            text(
                (area.left + 6.0, y - 5.0),
                Anchor::Start,
                Tone::Alarm,
                rule.text.clone(),
            ),
        )
    };
    label.at.1 = labels.place(&label, area);
    let stroke = Stroke {
        tone: Tone::Alarm,
        width: 1.2,
        is_dashed: true,
        opacity: 0.9,
    };
    let steps = vec![Step::Move(from.0, from.1), Step::Line(to.0, to.1)];
    Some((
        Item::Path {
            steps,
            fill: None,
            stroke: Some(stroke),
        },
        Item::Text(Text {
            has_halo: true,
            ..label
        }),
    ))
}

/// Minimum distance between two labels on the same line, in px.
const NAME_GAP: f64 = 4.0;

/// The positions of placed labels. A new label is placed where it covers no other label.
#[derive(Default)]
struct Labels {
    /// Left end, right end and line of each placed label.
    taken: Vec<(f64, f64, f64)>,
}

impl Labels {
    /// Returns the line for a label: the preferred line, or the nearest free one above or below it.
    fn place(&mut self, label: &Text, area: &Area) -> f64 {
        let width = label.width();
        let left = match label.anchor {
            Anchor::Start => label.at.0,
            Anchor::Middle => label.at.0 - width / 2.0,
            Anchor::End => label.at.0 - width,
        };
        let wanted = label.at.1;
        let is_free = |line: f64| {
            self.taken.iter().all(|&(from, to, other)| {
                left > to + NAME_GAP
                    || left + width + NAME_GAP < from
                    || (line - other).abs() >= LABEL_LINE
            })
        };
        let is_inside = |line: f64| line - LABEL_LINE > area.top && line < area.bottom();
        let places = (0..8)
            .flat_map(|step| [f64::from(step), -f64::from(step)])
            .map(|step| wanted + step * LABEL_LINE);
        let line = places
            .into_iter()
            .find(|&line| is_free(line) && (line == wanted || is_inside(line)))
            .unwrap_or(wanted);
        self.taken.push((left, left + width, line));
        line
    }
}

fn marks(chart: &Chart, area: &Area, labels: &mut Labels) -> Vec<Item> {
    let mut items = Vec::new();
    for mark in &chart.marks {
        let (x, y) = area.point(chart, mark.x, mark.y);
        let stroke = Stroke {
            tone: Tone::Alarm,
            width: 1.8,
            is_dashed: false,
            opacity: 1.0,
        };
        items.push(Item::Circle {
            at: (x, y),
            radius: 4.5,
            fill: None,
            stroke: Some(stroke),
        });
        let mut label = Text {
            is_bold: true,
            has_halo: true,
            ..text((x, y), Anchor::Middle, Tone::Ink, mark.text.clone())
        };
        let half = label.width() / 2.0;
        let (at, anchor) = match x {
            x if x + half > area.right() => (area.right(), Anchor::End),
            x if x - half < area.left => (area.left + 2.0, Anchor::Start),
            x => (x, Anchor::Middle),
        };
        // The label is above the point, or below the point if there is not enough space.
        let base = if y - area.top > 40.0 {
            y - 10.0
        } else {
            y + 20.0
        };
        (label.at, label.anchor) = ((at, base), anchor);
        label.at.1 = labels.place(&label, area);
        items.push(Item::Text(label));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::model::{Axis, Mark, Values};
    use super::super::scale::Scale;
    use super::*;

    /// Returns left end, right end and line of every label in the chart.
    fn names(items: &[Item]) -> Vec<(f64, f64, f64)> {
        let of_item = |item: &Item| match item {
            Item::Group(group) if ["rules", "marks", "layer"].contains(&group.class) => {
                names(&group.items)
            }
            Item::Text(text) => {
                let width = text.width();
                let left = text.at.0
                    - if text.anchor == Anchor::End {
                        width
                    } else if text.anchor == Anchor::Middle {
                        width / 2.0
                    } else {
                        0.0
                    };
                vec![(left, left + width, text.at.1)]
            }
            _ => Vec::new(),
        };
        items.iter().flat_map(of_item).collect()
    }

    #[test]
    fn names_of_neighbouring_maxima_stand_apart() {
        let axis = |values| Axis::new("", Scale::Linear, values, (0.0, 100.0));
        let mut chart = Chart::new(
            Kind::Timeline,
            "",
            "",
            axis(Values::Seconds),
            axis(Values::Latency),
        );
        // At this distance, labels in regular weight would not touch, but bold labels would.
        chart.marks = [50.0, 60.7]
            .map(|x| Mark {
                x,
                y: 10.0,
                text: "max 7.25 ms".to_owned(),
            })
            .to_vec();
        let names = names(&draw(&chart, (800.0, 360.0), Frame::Plot).0.items);
        assert!(
            names.len() == 2
                && ((names[0].2 - names[1].2).abs() >= LABEL_LINE
                    || names[0].1 + NAME_GAP <= names[1].0),
            "{names:?}"
        );
    }

    #[test]
    fn names_of_moments_and_of_the_maximum_do_not_cover_one_another() {
        let axis = |values| Axis::new("", Scale::Linear, values, (0.0, 100.0));
        let mut chart = Chart::new(
            Kind::Timeline,
            "",
            "",
            axis(Values::Seconds),
            axis(Values::Latency),
        );
        let rule = |value: f64| Rule {
            is_vertical: true,
            value,
            text: format!("mark {value}"),
        };
        chart.rules = vec![rule(40.0), rule(40.5), rule(41.0)];
        chart.marks = vec![Mark {
            x: 41.0,
            y: 97.0,
            text: "max 240 us".to_owned(),
        }];
        let groups: Vec<Item> = draw(&chart, (640.0, 360.0), Frame::Plot).0.items;
        let names = names(&groups);
        assert_eq!(names.len(), 4, "{names:?}");
        for (index, one) in names.iter().enumerate() {
            let clear = |other: &(f64, f64, f64)| {
                one.0 > other.1 || one.1 < other.0 || (one.2 - other.2).abs() >= LABEL_LINE
            };
            assert!(names[..index].iter().all(clear), "{names:?}");
        }
    }

    #[test]
    fn a_deadline_lies_below_the_numbers_of_bars_and_above_the_cells_of_a_heat_map() {
        let axis = |values| Axis::new("", Scale::Linear, values, (0.0, 100.0));
        for (kind, is_below) in [(Kind::Bars, true), (Kind::Heatmap, false)] {
            let mut chart = Chart::new(kind, "", "", axis(Values::Seconds), axis(Values::Latency));
            chart.rules = vec![Rule {
                is_vertical: false,
                value: 50.0,
                text: "deadline".to_owned(),
            }];
            let items = draw(&chart, (640.0, 360.0), Frame::Plot).0.items;
            let place = |wanted: &dyn Fn(&Group) -> bool| {
                items
                    .iter()
                    .position(|item| matches!(item, Item::Group(group) if wanted(group)))
            };
            let layers = place(&|group| group.class == "layers").unwrap();
            let line = place(&|group| {
                group.class == "rules"
                    && group
                        .items
                        .iter()
                        .any(|item| matches!(item, Item::Path { .. }))
            })
            .unwrap();
            let name = place(&|group| {
                group.class == "rules"
                    && group.items.iter().any(|item| matches!(item, Item::Text(_)))
            })
            .unwrap();
            assert!(
                (line < layers) == is_below && name > layers,
                "{kind:?}: {line}, {layers}, {name}"
            );
        }
    }
}
