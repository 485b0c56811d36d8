//! Draws the table of numbers, in which each series has a row. If not all rows fit, the table shows
//! a picture of all CPUs, and below it the worst series.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use tardy_core::figures::{Figures, FiguresNumbers};
use tardy_core::units::Nanos;

use super::words::{begun, count, name};
use super::{Look, heat};
use crate::content::Content;
use crate::screen::Screen;

/// Maximum width of a series' name.
const NAME_MAX: usize = 24;
/// Maximum width of a time or a count, including the space between columns.
const NUMBER: u16 = 9;

/// With more series than this, a picture of all CPUs replaces the rows of the series.
const ROWS_MAX: usize = 32;
/// Number of series that are listed below the picture of all CPUs, if there is room for them.
const ROWS_WORST: u16 = 8;

/// A column of numbers, and how wide the terminal must be for it.
struct Column {
    head: &'static str,
    from_width: u16,
    text: fn(&Figures) -> String,
}

const COLUMNS: [Column; 8] = [
    Column {
        head: "min",
        from_width: 72,
        text: |figures| time(figures, |numbers| numbers.min),
    },
    Column {
        head: "now",
        from_width: 0,
        text: |figures| {
            figures
                .latest
                .map_or_else(String::new, |latest| latest.to_string())
        },
    },
    Column {
        head: "average",
        from_width: 50,
        text: |figures| time(figures, |numbers| numbers.average),
    },
    Column {
        head: "99.9 %",
        from_width: 0,
        text: |figures| time(figures, |numbers| numbers.high),
    },
    Column {
        head: "max",
        from_width: 0,
        text: |figures| time(figures, |numbers| numbers.max),
    },
    Column {
        head: "skipped",
        from_width: 40,
        text: |figures| count(figures.counts.skipped),
    },
    Column {
        head: "missed",
        from_width: 40,
        text: |figures| figures.misses.map_or_else(String::new, count),
    },
    Column {
        head: "LOST",
        from_width: 0,
        text: |figures| count(figures.counts.lost),
    },
];

fn time(figures: &Figures, of: impl Fn(&FiguresNumbers) -> Nanos) -> String {
    figures
        .numbers
        .as_ref()
        .map_or_else(String::new, |numbers| of(numbers).to_string())
}

/// Returns how many lines the table wants, including its head. It wants one line for each series.
/// If there are more than [`ROWS_MAX`] series, it wants the lines of the picture of all CPUs and
/// those of the worst series instead.
pub(super) fn lines_wanted(content: &Content, width: u16) -> u16 {
    let rows = u16::try_from(content.series.len() + 1).unwrap_or(u16::MAX);
    if content.series.len() > ROWS_MAX {
        heat::lines_for(content.cpus().len(), width) + ROWS_WORST + 1
    } else {
        rows
    }
}

/// Returns how many lines the table gets when the charts need space, too.
pub(super) fn lines_least(content: &Content, width: u16) -> u16 {
    let wanted = lines_wanted(content, width);
    if content.series.len() > ROWS_MAX {
        wanted.saturating_sub(ROWS_WORST / 2)
    } else {
        wanted.min(4)
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: Look) {
    let content = screen.shown();
    if content.series.is_empty() {
        frame.render_widget(Paragraph::new("waiting for the first samples"), area);
        return;
    }
    let is_all = content.series.len() < usize::from(area.height);
    let cpus = content.cpus();
    let heat_lines = if is_all {
        0
    } else {
        heat::lines_for(cpus.len(), area.width).min(area.height.saturating_sub(2))
    };
    let [heat_area, rows_area] =
        Layout::vertical([Constraint::Length(heat_lines), Constraint::Min(1)]).areas(area);
    frame.render_widget(
        Paragraph::new(heat::lines(&cpus, area.width, look)),
        heat_area,
    );
    let mut places = if is_all {
        (0..content.series.len()).collect()
    } else {
        content.worst_first()
    };
    places.truncate(usize::from(rows_area.height).saturating_sub(1));
    // The selected series always has a row, even if it is not among the worst.
    if let (Some(chosen), Some(last)) = (
        screen.selected.filter(|chosen| !places.contains(chosen)),
        places.last_mut(),
    ) {
        *last = chosen;
    }
    frame.render_widget(
        rows(
            content,
            &places,
            screen.selected,
            (is_all, area.width),
            look,
        ),
        rows_area,
    );
}

fn rows(
    content: &Content,
    places: &[usize],
    selected: Option<usize>,
    (is_all, width): (bool, u16),
    look: Look,
) -> Table<'static> {
    let has_misses = content.series.iter().any(|series| series.misses.is_some());
    let has_losses = content.series.iter().any(|series| series.counts.lost > 0);
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| {
            width >= column.from_width
                && (column.head != "missed" || has_misses)
                && (column.head != "LOST" || has_losses)
        })
        .collect();
    let names: Vec<String> = places
        .iter()
        .map(|&place| name(&content.series[place], content.has_several_probes()))
        .collect();
    let left = usize::from(width).saturating_sub(columns.len() * usize::from(NUMBER));
    let name_width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(6, NAME_MAX.min(left.max(6)));
    let row = |(&place, name): (&usize, &String)| {
        let series = &content.series[place];
        let cells = columns.iter().map(|column| {
            let is_alarm = series.misses.is_some_and(|misses| misses > 0)
                && column.head == "missed"
                || column.head == "LOST";
            let text = Line::from((column.text)(series)).right_aligned();
            Cell::from(if is_alarm {
                text.style(look.alarm())
            } else {
                text
            })
        });
        let row = Row::new(std::iter::once(Cell::from(begun(name, name_width))).chain(cells));
        if selected == Some(place) {
            row.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            row
        }
    };
    let head = if is_all { "" } else { "worst" };
    let heads = columns
        .iter()
        .map(|column| Cell::from(Line::from(column.head).right_aligned()));
    let widths = std::iter::once(Constraint::Length(name_width as u16))
        .chain(columns.iter().map(|_| Constraint::Length(NUMBER - 1)));
    Table::new(
        places.iter().zip(&names).map(row),
        widths.collect::<Vec<_>>(),
    )
    .header(
        Row::new(std::iter::once(Cell::from(head)).chain(heads))
            .style(Style::new().add_modifier(Modifier::BOLD)),
    )
    .column_spacing(1)
}
