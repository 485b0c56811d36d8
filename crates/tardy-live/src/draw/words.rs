//! Texts and numbers of the screen.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tardy_core::bytes::format_bytes;
use tardy_core::figures::Figures;
use tardy_core::units::Nanos;
use tardy_run::record::State;

use super::Look;
use crate::progress::{LoadProgress, RunProgress};

/// Suffix that shows that a text was truncated.
const CUT: &str = "..";

/// Returns the name of a series.
pub(super) fn name(figures: &Figures, with_probe: bool) -> String {
    match (figures.cpu, with_probe) {
        (Some(cpu), false) => format!("CPU {cpu}"),
        (Some(cpu), true) => format!("{} CPU {cpu}", figures.probe),
        (None, _) => figures.probe.clone(),
    }
}

/// Returns `text`; if it is longer than `room` characters, removes its start. The end of a path is
/// more informative.
pub(super) fn ended(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(CUT.len());
    CUT.chars()
        .take(room)
        .chain(text.chars().skip(length - kept))
        .collect()
}

/// Returns `text`; if it is longer than `room` characters, removes its end.
pub(super) fn begun(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars()
        .take(room.saturating_sub(CUT.len()))
        .chain(CUT.chars().take(room))
        .collect()
}

/// Formats a duration as hours, minutes and seconds, as a clock does.
pub(super) fn clock(time: Nanos) -> String {
    let seconds = time.get().max(0) / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Returns how long the run has lasted, and how long it still takes.
pub(super) fn time(progress: &RunProgress) -> String {
    if progress.state != State::Running {
        return clock(progress.elapsed);
    }
    let Some(planned) = progress.planned else {
        return format!("{}, until it is stopped", clock(progress.elapsed));
    };
    let left = planned - progress.elapsed.max(Nanos::ZERO);
    if left >= Nanos::ZERO {
        // The time left is rounded up, so that it is never zero while the run is in progress.
        let left = Nanos(left.get() + 999_999_999);
        format!(
            "{} of {}, {} left",
            clock(progress.elapsed),
            clock(planned),
            clock(left)
        )
    } else {
        format!(
            "{}, {} more than planned",
            clock(progress.elapsed),
            clock(-left)
        )
    }
}

/// Returns the line with the current phase and the work of its loads.
pub(super) fn phase(progress: &RunProgress, width: u16, look: Look) -> Line<'static> {
    let Some(phase) = progress.phases.last() else {
        let why = if progress.elapsed < Nanos::ZERO {
            "about to start"
        } else {
            "warming up"
        };
        return Line::from(why);
    };
    let place = if progress.phases_planned > 1 {
        format!(
            "phase {} of {}: ",
            progress.phases.len(),
            progress.phases_planned
        )
    } else {
        "phase ".to_owned()
    };
    let left = phase
        .end
        .map(|end| end - progress.elapsed)
        .filter(|left| *left >= Nanos::ZERO);
    let left = left.map_or_else(String::new, |left| {
        format!(", {} left", clock(Nanos(left.get() + 999_999_999)))
    });
    let mut spans = vec![
        Span::raw(place),
        Span::styled(phase.name.clone(), Modifier::BOLD),
        Span::raw(left),
    ];
    let mut room = usize::from(width)
        .saturating_sub(spans.iter().map(|span| span.content.chars().count()).sum());
    for load in &progress.loads {
        let text = load_text(load, progress.loads.len() > 1 || load.name != phase.name);
        if text.chars().count() + 3 > room {
            break;
        }
        room -= text.chars().count() + 3;
        spans.push(Span::raw(" | "));
        spans.push(if load.errors > 0 {
            Span::styled(text, look.alarm())
        } else {
            Span::raw(text)
        });
    }
    Line::from(spans)
}

/// Returns the work that a load has done so far, with the load's name if `is_named`.
fn load_text(load: &LoadProgress, is_named: bool) -> String {
    let mut text = if is_named {
        format!("{} ", load.name)
    } else {
        String::new()
    };
    let Some(worked) = load.worked.filter(|worked| *worked > Nanos::ZERO) else {
        return text + "starting";
    };
    text.push_str(&format!("{} operations", count(load.operations)));
    if load.bytes > 0 {
        let rate = (load.bytes as f64 / worked.as_secs_f64()) as u64;
        text.push_str(&format!(", {}/s", rounded_bytes(rate)));
    }
    if load.errors > 0 {
        text.push_str(&format!(", {} FAILED", count(load.errors)));
    }
    text
}

/// Formats a rate in bytes, in the largest unit in which the number has at least two digits.
fn rounded_bytes(bytes: u64) -> String {
    let unit = [1_u64 << 30, 1 << 20, 1 << 10]
        .into_iter()
        .find(|unit| bytes >= unit * 10)
        .unwrap_or(1);
    spaced(format_bytes(bytes / unit * unit))
}

/// Inserts a space between the number and the unit.
pub(super) fn spaced(text: String) -> String {
    match text.find(char::is_alphabetic) {
        Some(place) => format!("{} {}", &text[..place], &text[place..]),
        None => text,
    }
}

/// Formats a count; if it is too long for a column, in millions.
pub(super) fn count(count: u64) -> String {
    if count >= 10_000_000 {
        format!("{}M", count / 1_000_000)
    } else {
        count.to_string()
    }
}
