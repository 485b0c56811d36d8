//! What a user sees while a run lasts: a line that is rewritten on a terminal, a line every 10 s elsewhere. On standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use tardy_core::units::Nanos;
use terminal_size::{Width, terminal_size_of};

use super::recorder::Progress;

const REDRAW: Nanos = Nanos::from_millis(500);
const LINE: Nanos = Nanos::from_secs(10);
/// CPUs named on the line; the worst come first.
const NAMED_MAX: usize = 6;

/// The live view.
#[derive(Debug)]
pub(super) struct Live {
    style: Style,
    next: Nanos,
    length: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Silent,
    Lines,
    Rewritten,
}

impl Live {
    /// For a run of about `length`, from `start` on.
    pub(super) fn new(is_quiet: bool, start: Nanos, length: Nanos) -> Self {
        let style = match (is_quiet, io::stderr().is_terminal()) {
            (true, _) => Style::Silent,
            (false, true) => Style::Rewritten,
            (false, false) => Style::Lines,
        };
        let next = if style == Style::Lines { start + LINE } else { start };
        Self { style, next, length }
    }

    /// When it wants to be called next.
    pub(super) fn next(&self) -> Nanos {
        if self.style == Style::Silent { Nanos::MAX } else { self.next }
    }

    /// Draws the line if it is time.
    pub(super) fn update(&mut self, now: Nanos, start: Nanos, phase: &str, progress: impl FnOnce() -> Vec<Progress>) {
        if now < self.next() {
            return;
        }
        let mut line = line((now - start).max(Nanos::ZERO), self.length, phase, &progress());
        if self.style == Style::Rewritten {
            // What goes over the edge could not be wiped out.
            let width = terminal_size_of(io::stderr()).map_or(usize::MAX, |(Width(columns), _)| usize::from(columns).saturating_sub(1));
            line = line.chars().take(width).collect();
        }
        let mut out = io::stderr().lock();
        // A closed terminal is no reason to end a run.
        let _ = match self.style {
            Style::Rewritten => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
            _ => writeln!(out, "{line}"),
        };
        let step = if self.style == Style::Rewritten { REDRAW } else { LINE };
        self.next = (self.next + step).max(now);
    }

    /// Clears the line.
    pub(super) fn finish(&self) {
        if self.style == Style::Rewritten {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn line(elapsed: Nanos, length: Nanos, phase: &str, progress: &[Progress]) -> String {
    let seconds = |time: Nanos| time.get() / 1_000_000_000;
    let left = length - elapsed;
    let mut line = if left >= Nanos::ZERO {
        format!("{} s of {} s, {} s left, {phase}", seconds(elapsed), seconds(length), seconds(left))
    } else {
        // As a rule because loads take their time to end, and the next phase waits for it.
        format!("{} s, {} s more than planned, {phase}", seconds(elapsed), seconds(-left))
    };
    let mut worst: Vec<_> = progress.iter().filter_map(|series| Some((series.worst?.latency, series))).collect();
    worst.sort_by_key(|&(latency, series)| (std::cmp::Reverse(latency), series.cpu));
    line.push_str("; worst");
    for (latency, series) in worst.iter().take(NAMED_MAX) {
        let cpu = series.cpu.map_or_else(|| series.probe.clone(), |cpu| format!("CPU {cpu}"));
        let _ = write!(line, "  {cpu}: {latency}");
    }
    let (missed, lost) = progress.iter().fold((0, 0), |sum, series| (sum.0 + series.counts.missed, sum.1 + series.counts.lost));
    if missed > 0 {
        let _ = write!(line, "; {missed} periods skipped");
    }
    if lost > 0 {
        let _ = write!(line, "; {lost} SAMPLES LOST");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::accounting::Counts;
    use tardy_core::cpu::CpuId;
    use tardy_probes::record::series::Worst;

    #[test]
    fn the_worst_processor_comes_first_and_losses_are_loud() {
        let progress = |cpu, latency, lost| Progress {
            probe: "cyclic".into(),
            cpu: Some(CpuId(cpu)),
            counts: Counts { lost, ..Counts::default() },
            worst: Some(Worst { latency: Nanos(latency), due: Nanos(0) }),
        };
        let line = line(Nanos::from_secs(12), Nanos::from_secs(30), "io", &[progress(0, 5_000, 0), progress(1, 70_000, 2)]);
        assert_eq!(line, "12 s of 30 s, 18 s left, io; worst  CPU 1: 70.0 us  CPU 0: 5.00 us; 2 SAMPLES LOST");
    }

    #[test]
    fn time_beyond_the_plan_is_named() {
        assert_eq!(line(Nanos::from_secs(36), Nanos::from_secs(30), "io", &[]), "36 s, 6 s more than planned, io; worst");
    }
}
