//! The largest value of each CPU as a character and a colour, for machines with more CPUs than
//! lines.

use ratatui::style::Color;
use ratatui::text::{Line, Span};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::Look;

const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];
/// From the best to the worst; the height of the character has the same meaning.
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
/// Characters before the cells of a line.
const LABEL: usize = 10;

/// Returns the lines that the cells of this many CPUs take, including the legend.
pub(super) fn lines_for(cpus: usize, width: u16) -> u16 {
    if cpus == 0 {
        0
    } else {
        (cpus.div_ceil(cells(width)) + 1) as u16
    }
}

/// CPUs in a line: a multiple of eight, so that a CPU can be found.
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
