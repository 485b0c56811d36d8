//! The time line and the histogram, on logarithmic scales.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Sparkline, SparklineBar};
use tardy_core::units::Nanos;

use super::Look;
use super::words::{begun, clock, name, spaced};
use crate::content::Content;
use crate::progress::RunProgress;

/// Width in columns of the numbers to the left of a chart.
const MARGIN: u16 = 9;
/// Number of different heights that a bar can have within one character.
const STEPS: usize = 8;

const ASCII_BARS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "#",
    five_eighths: ":",
    half: ":",
    three_eighths: ":",
    one_quarter: ".",
    one_eighth: ".",
    empty: " ",
};

/// Returns the position of `value` between two bounds on a logarithmic scale, from 0 to `most`.
pub(super) fn level(value: Nanos, (low, high): (Nanos, Nanos), most: usize) -> usize {
    let place = |value: Nanos| (value.get().max(1) as f64).ln();
    let length = place(high) - place(low);
    let share = if length > 0.0 {
        (place(value) - place(low)) / length
    } else {
        1.0
    };
    (share.clamp(0.0, 1.0) * most as f64).round() as usize
}

/// Draws the largest value of each time interval, with phases and marks on the axis below.
pub(super) fn timeline(
    frame: &mut Frame<'_>,
    area: Rect,
    content: &Content,
    progress: &RunProgress,
    selected: Option<usize>,
    look: Look,
) {
    let title = format!(
        "largest value over time, {} (log scale)",
        chosen(content, selected)
    );
    let Some(parts) = parts(frame, area, &title) else {
        return;
    };
    let end = progress.elapsed.max(Nanos(1));
    let values = content
        .track(selected)
        .columns(end, usize::from(parts.bars.width));
    let known = || {
        values
            .iter()
            .flatten()
            .copied()
            .filter(|value| *value > Nanos::ZERO)
    };
    let (Some(low), Some(high)) = (known().min(), known().max()) else {
        frame.render_widget(Paragraph::new("waiting for the first value"), parts.bars);
        return;
    };
    // The smallest value is drawn one step high, so that its bar is visible. If all values are
    // equal, all bars have the full height.
    let most = usize::from(parts.bars.height) * STEPS - 1;
    let latest = progress.window.map(|window| window.latest);
    let bar = |value: &Option<Nanos>| {
        let height = value.map_or(0, |value| level(value, (low, high), most) + 1);
        let is_late = value.is_some_and(|value| latest.is_some_and(|latest| value > latest));
        SparklineBar::from(height as u64).style(if is_late {
            look.alarm()
        } else {
            look.color(Color::Cyan)
        })
    };
    bars(frame, parts.bars, values.iter().map(bar).collect(), look);
    scale(frame, parts.margin, &high.to_string(), &low.to_string());
    frame.render_widget(time_axis(progress, end, parts.axis.width, look), parts.axis);
}

/// Returns the time axis: the label of each phase at its start, and a sign at each mark.
fn time_axis(progress: &RunProgress, end: Nanos, width: u16, look: Look) -> Line<'static> {
    let width = usize::from(width);
    let place = |at: Nanos| {
        ((at.get().max(0) as f64 / end.get() as f64 * width as f64) as usize)
            .min(width.saturating_sub(1))
    };
    let mut axis: Vec<char> = vec![' '; width];
    let edges: Vec<usize> = progress
        .phases
        .iter()
        .map(|phase| place(phase.begin))
        .chain([width])
        .collect();
    for (phase, edges) in progress.phases.iter().zip(edges.windows(2)) {
        let name = if progress.phases.len() > 1 {
            begun(
                &format!("|{}", phase.name),
                edges[1].saturating_sub(edges[0]),
            )
        } else {
            String::new()
        };
        name.chars()
            .enumerate()
            .for_each(|(step, letter)| axis[edges[0] + step] = letter);
    }
    if progress.phases.len() < 2 {
        let right = clock(end);
        let from = width.saturating_sub(right.len());
        right
            .chars()
            .enumerate()
            .filter(|(step, _)| from + step < width)
            .for_each(|(step, letter)| axis[from + step] = letter);
        axis.first_mut().into_iter().for_each(|first| *first = '0');
    }
    for mark in &progress.marks {
        if let Some(letter) = axis.get_mut(place(*mark)) {
            *letter = if look.is_unicode { '▲' } else { '^' };
        }
    }
    Line::from(axis.into_iter().collect::<String>())
}

/// Draws the distribution of the values.
pub(super) fn histogram(
    frame: &mut Frame<'_>,
    area: Rect,
    content: &Content,
    selected: Option<usize>,
    look: Look,
) {
    let title = format!("histogram, {} (log scales)", chosen(content, selected));
    let Some(parts) = parts(frame, area, &title) else {
        return;
    };
    let Some((counts, from, to)) = content
        .shape(selected)
        .columns(usize::from(parts.bars.width))
    else {
        frame.render_widget(Paragraph::new("waiting for the first value"), parts.bars);
        return;
    };
    let highest = counts.iter().copied().max().unwrap_or(1).max(1);
    let most = usize::from(parts.bars.height) * STEPS - 1;
    let bar = |&count: &u64| {
        let height = if count == 0 {
            0
        } else {
            level(Nanos(count as i64), (Nanos(1), Nanos(highest as i64)), most) + 1
        };
        SparklineBar::from(height as u64).style(look.color(Color::Green))
    };
    bars(frame, parts.bars, counts.iter().map(bar).collect(), look);
    scale(frame, parts.margin, &super::words::count(highest), "1");
    frame.render_widget(value_axis(from, to, parts.axis.width), parts.axis);
}

/// Returns the value axis: both ends, and as many round values between them as fit.
fn value_axis(from: Nanos, to: Nanos, width: u16) -> Line<'static> {
    let width = usize::from(width);
    let mut axis: Vec<char> = vec![' '; width];
    let mut write = |text: &str, center: usize| {
        let begin = center
            .saturating_sub(text.len() / 2)
            .min(width.saturating_sub(text.len()));
        let is_free = (begin.saturating_sub(2)..(begin + text.len() + 2).min(width))
            .all(|place| axis[place] == ' ');
        if is_free && text.len() <= width {
            text.chars()
                .enumerate()
                .for_each(|(step, letter)| axis[begin + step] = letter);
        }
    };
    let (first, last) = (from.to_string(), to.to_string());
    write(&first, 0);
    if last != first {
        write(&last, width);
    }
    for power in 0..13 {
        let value = Nanos(10_i64.pow(power));
        if value > from && value < to {
            write(&spaced(value.exact()), level(value, (from, to), width));
        }
    }
    Line::from(axis.into_iter().collect::<String>())
}

/// Returns the name of the series that a chart shows.
fn chosen(content: &Content, selected: Option<usize>) -> String {
    match selected.and_then(|place| content.series.get(place)) {
        Some(series) => name(series, content.has_several_probes()),
        None if content.series.len() == 1 => name(&content.series[0], true),
        None => "all together".to_owned(),
    }
}

/// The parts of the screen in which the parts of a chart are drawn.
struct Parts {
    margin: Rect,
    bars: Rect,
    axis: Rect,
}

fn parts(frame: &mut Frame<'_>, area: Rect, title: &str) -> Option<Parts> {
    let [head, middle, axis] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let columns = [Constraint::Length(MARGIN), Constraint::Min(1)];
    let ([margin, bars], [_, axis]) = (
        Layout::horizontal(columns).areas(middle),
        Layout::horizontal(columns).areas(axis),
    );
    frame.render_widget(
        Line::styled(title.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
        head,
    );
    (bars.width >= 8 && bars.height >= 1).then_some(Parts { margin, bars, axis })
}

fn bars(frame: &mut Frame<'_>, area: Rect, bars: Vec<SparklineBar>, look: Look) {
    let set = if look.is_unicode {
        bar::NINE_LEVELS
    } else {
        ASCII_BARS
    };
    frame.render_widget(
        Sparkline::default()
            .data(bars)
            .max(u64::from(area.height) * STEPS as u64)
            .bar_set(set),
        area,
    );
}

/// Draws two numbers beside the chart: one at its highest line and one at its lowest line. If both
/// numbers have the same text, leaves out the one at the lowest line.
fn scale(frame: &mut Frame<'_>, area: Rect, high: &str, low: &str) {
    let mut lines = vec![Line::from(format!("{high} ")).right_aligned()];
    if area.height > 1 && low != high {
        lines.extend((2..area.height).map(|_| Line::default()));
        lines.push(Line::from(format!("{low} ")).right_aligned());
    }
    frame.render_widget(Paragraph::new(lines), area);
}
