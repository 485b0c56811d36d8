//! Shows the largest value of each CPU as a character and a colour, on machines that have more CPUs
//! than the table has lines.

use ratatui::style::Color;
use ratatui::text::{Line, Span};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::Look;

const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];
/// The colours for values, from small to large. The height of the character also shows the size of
/// the value.
const COLORS: [Color; 8] = [
    Color::Blue,
    Color::Blue,
    Color::Cyan,
    Color::Green,
    Color::Green,
    Color::Yellow,
    Color::Magenta,
    Color::Red,
];
/// Number of characters that come before the cells in each line.
const LABEL: usize = 10;

/// Returns how many lines the cells of `cpus` CPUs take, including the legend.
pub(super) fn lines_for(cpus: usize, width: u16) -> u16 {
    if cpus == 0 {
        0
    } else {
        (cpus.div_ceil(cells(width)) + 1) as u16
    }
}

/// Returns how many CPUs a line shows. The number is a multiple of eight, so a CPU is easy to find.
fn cells(width: u16) -> usize {
    (usize::from(width).saturating_sub(LABEL) / 8 * 8).max(8)
}

pub(super) fn lines(cpus: &[(CpuId, Option<Nanos>)], width: u16, look: Look) -> Vec<Line<'static>> {
    let values = || {
        cpus.iter()
            .filter_map(|(_, value)| value.filter(|value| *value > Nanos::ZERO))
    };
    let (Some(low), Some(high)) = (values().min(), values().max()) else {
        return Vec::new();
    };
    let glyphs = if look.is_unicode { UNICODE } else { ASCII };
    let level = |value: Nanos| super::charts::level(value, (low, high), glyphs.len() - 1);
    let cell = |&(_, value): &(CpuId, Option<Nanos>)| match value {
        None => Span::raw(" "),
        Some(value) => {
            let level = level(value);
            Span::styled(glyphs[level].to_string(), look.color(COLORS[level]))
        }
    };
    let mut lines = vec![Line::from(vec![
        Span::raw(format!("max of each CPU: {low} ")),
        Span::styled(glyphs[0].to_string(), look.color(COLORS[0])),
        Span::raw(" to "),
        Span::styled(glyphs[7].to_string(), look.color(COLORS[7])),
        Span::raw(format!(" {high}")),
    ])];
    for line in cpus.chunks(cells(width)) {
        let label = match line {
            [only] => only.0.to_string(),
            [first, .., last] => format!("{}-{}", first.0, last.0),
            [] => String::new(),
        };
        let label = Span::raw(format!("{label:<LABEL$}"));
        lines.push(Line::from_iter(
            std::iter::once(label).chain(line.iter().map(cell)),
        ));
    }
    lines
}
