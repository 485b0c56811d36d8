//! Draws a screen as a grid of characters. If the terminal is too small, the least important parts
//! are dropped first.

mod charts;
mod heat;
mod table;
mod words;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph};
use tardy_core::units::Nanos;
use tardy_run::record::State;

use crate::content::Content;
use crate::progress::RunProgress;
use crate::screen::{Owner, Screen};

/// What the terminal is able to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether the terminal shows characters other than ASCII.
    pub is_unicode: bool,
    /// Whether the terminal shows colours and the user wants them.
    pub is_colored: bool,
}

impl Look {
    fn color(self, color: Color) -> Style {
        if self.is_colored {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Returns the style for a value outside its limit.
    fn alarm(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Minimum width of the screen, in columns, at which charts are drawn side by side.
const WIDE: u16 = 110;
/// Minimum and maximum number of lines of a chart, including its title and axis.
const CHART_LINES: (u16, u16) = (4, 12);
/// Minimum number of lines of a chart on a screen that also has room for the table's minimum. On
/// smaller screens, the minimum in [`CHART_LINES`] applies.
const CHART_LINES_WANTED: u16 = 6;
/// Number of lines above the table, and number of lines that list the keys.
const HEAD_LINES: u16 = 3;
const FOOT_LINES: u16 = 1;

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, screen: &Screen, look: Look) {
    let area = frame.area();
    let content = screen.shown();
    let Some(progress) = &content.progress else {
        frame.render_widget(Paragraph::new("waiting for the run to start"), area);
        return;
    };
    let is_wide = area.width >= WIDE;
    let charts = if is_wide { 1 } else { 2 };
    let room = area.height.saturating_sub(HEAD_LINES + FOOT_LINES);
    let rows = table::lines_wanted(content, area.width);
    // The table gets all the lines that it wants, as long as the charts keep their minimum. The
    // charts get the remaining lines.
    let is_roomy = room >= charts * CHART_LINES_WANTED + table::lines_least(content, area.width);
    let least = charts
        * if is_roomy {
            CHART_LINES_WANTED
        } else {
            CHART_LINES.0
        };
    let table_lines = rows.min(room.saturating_sub(least)).max(room.min(2));
    let chart_lines = ((room - table_lines.min(room)) / charts).min(CHART_LINES.1);
    let [head, body, chart_area, _, foot] = Layout::vertical([
        Constraint::Length(HEAD_LINES),
        Constraint::Length(table_lines),
        Constraint::Length(chart_lines * charts),
        Constraint::Min(0),
        Constraint::Length(FOOT_LINES),
    ])
    .areas(area);
    draw_head(frame, head, screen, progress, look);
    table::draw(frame, body, screen, look);
    if chart_lines >= CHART_LINES.0 {
        let parts = if is_wide {
            Layout::horizontal([Constraint::Percentage(58), Constraint::Fill(1)])
                .spacing(2)
                .areas(chart_area)
        } else {
            Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(chart_area)
        };
        let [timeline, histogram]: [Rect; 2] = parts;
        charts::timeline(frame, timeline, content, progress, screen.selected, look);
        charts::histogram(frame, histogram, content, screen.selected, look);
    }
    frame.render_widget(foot_line(screen, content, area.width, look), foot);
}

/// Draws what the run measures, how far it is, what the loads have done, and a progress bar.
fn draw_head(
    frame: &mut Frame<'_>,
    area: Rect,
    screen: &Screen,
    progress: &RunProgress,
    look: Look,
) {
    let [title, phase, bar] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
    let time = words::time(progress);
    let state = match (screen.is_paused(), progress.state) {
        (true, _) => Some("VIEW PAUSED"),
        (_, State::Running) if progress.is_cut_off => Some("CUT OFF"),
        (_, State::Running) if screen.is_ending => Some("ending"),
        (_, State::Running) => None,
        (_, State::Finished) => Some("finished"),
        (_, State::Interrupted) => Some("interrupted"),
        (_, State::Stopped) => Some("stopped"),
        (_, State::EndedByWatchdog) => Some("stopped by the watchdog"),
    };
    let room = usize::from(area.width)
        .saturating_sub(time.chars().count() + state.map_or(0, |state| state.len() + 3) + 2);
    let mut spans = vec![Span::styled(
        words::ended(&progress.run, room),
        Style::new().add_modifier(Modifier::BOLD),
    )];
    if let Some(state) = state {
        spans.extend([
            Span::raw("  "),
            Span::styled(
                format!(" {state} "),
                Style::new().add_modifier(Modifier::REVERSED),
            ),
        ]);
    }
    frame.render_widget(Line::from(spans), title);
    frame.render_widget(Line::from(time).right_aligned(), title);
    frame.render_widget(words::phase(progress, area.width, look), phase);
    let planned = progress.planned.filter(|planned| *planned > Nanos::ZERO);
    let done = planned.map_or(0.0, |planned| {
        progress.elapsed.get() as f64 / planned.get() as f64
    });
    let (filled, empty) = if look.is_unicode {
        ("━", "─")
    } else {
        ("=", "-")
    };
    let gauge = LineGauge::default()
        .filled_symbol(filled)
        .unfilled_symbol(empty)
        .filled_style(look.color(Color::Cyan))
        .ratio(done.clamp(0.0, 1.0));
    frame.render_widget(gauge, bar);
}

/// Returns the line with the keys, or the question that waits for an answer.
fn foot_line(screen: &Screen, content: &Content, width: u16, look: Look) -> Line<'static> {
    if screen.is_asking {
        return Line::styled(
            "Stop the run now? Everything measured is kept.  y yes  any other key no",
            Style::new().add_modifier(Modifier::REVERSED),
        );
    }
    if !screen.has_keys {
        return Line::from(
            "Ctrl-C stops the run; other keys work only if standard input is a terminal",
        );
    }
    let end = if screen.owner == Owner::Own {
        "end"
    } else {
        "quit"
    };
    let mut keys = vec![(
        "space",
        if screen.is_paused() {
            "resume"
        } else {
            "pause"
        },
    )];
    if content.series.len() > 1 {
        keys.extend([("n", "next"), ("p", "previous"), ("a", "all")]);
    }
    if screen.owner == Owner::Own {
        keys.push(("m", "mark"));
    }
    keys.push(("q", end));
    // If the line is too long, the key for the previous series is left out, because the key for the
    // next one also reaches every series.
    let length = |keys: &[(&str, &str)]| {
        keys.iter()
            .map(|(key, word)| key.len() + word.len() + 3)
            .sum::<usize>()
    };
    if length(&keys) > usize::from(width) {
        keys.retain(|&(key, _)| key != "p");
    }
    let mut spans = Vec::new();
    for (key, word) in keys {
        spans.push(Span::styled(
            key,
            look.color(Color::Cyan).add_modifier(Modifier::BOLD),
        ));
        spans.push(Span::raw(format!(" {word}  ")));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests;
