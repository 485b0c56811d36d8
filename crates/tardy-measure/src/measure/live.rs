//! The progress display of a run: a screen, a line that is rewritten on a terminal, or, if there is
//! no terminal, a line every 10 s. The display is written to standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use tardy_core::units::Nanos;
use tardy_live::feed::Feed;
use tardy_live::progress::RunProgress;
use tardy_live::view::{Look, View};
use tardy_machine::journal::Scratch;
use tardy_run::record::RunRecord;
use tardy_sys::printable::printable;
use terminal_size::{Width, terminal_size_of};

use super::recorder::Progress;

const REDRAW: Nanos = Nanos::from_millis(500);
const LINE: Nanos = Nanos::from_secs(10);
/// Maximum number of CPUs named on the line. The CPUs with the largest latencies come first.
const NAMED_MAX: usize = 6;

/// Receives the name of the phase, the time since the run's start, and the run's planned length.
pub type ProgressListener = Box<dyn FnMut(&str, Nanos, Nanos)>;

/// How a run shows its progress.
pub enum ProgressDisplay {
    Nothing,
    Lines,
    /// A screen, if there is a terminal; otherwise lines.
    Screen(Look),
    /// No display. Each time the run checks its phases, it calls the listener, unless the run is
    /// endless.
    Told(ProgressListener),
}

impl ProgressDisplay {
    pub(super) fn look(&self) -> Option<Look> {
        match self {
            Self::Nothing | Self::Lines | Self::Told(_) => None,
            Self::Screen(look) => Some(*look),
        }
    }
}

/// The progress display of a run in progress.
pub(super) struct Live {
    style: Style,
    listener: Option<ProgressListener>,
    screen: Option<(Arc<Feed>, View)>,
    next: Nanos,
    length: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Silent,
    Lines,
    Rewritten,
    Screen,
}

impl Live {
    /// Starts the display of a run that starts at `start`, with its screen if there is one.
    /// `length` is the run's approximate length; `None` for an endless run.
    pub(super) fn new(
        shown: ProgressDisplay,
        screen: Option<(Arc<Feed>, View)>,
        start: Nanos,
        length: Option<Nanos>,
    ) -> Self {
        let style = match (&shown, io::stderr().is_terminal()) {
            (ProgressDisplay::Nothing | ProgressDisplay::Told(_), _) => Style::Silent,
            _ if screen.is_some() => Style::Screen,
            (_, true) => Style::Rewritten,
            (_, false) => Style::Lines,
        };
        let next = if style == Style::Lines {
            start + LINE
        } else {
            start
        };
        let listener = match shown {
            ProgressDisplay::Told(listener) => Some(listener),
            _ => None,
        };
        Self {
            style,
            listener,
            screen,
            next,
            length,
        }
    }

    /// Returns the time at which [`Self::update`] must be called next.
    pub(super) fn next(&self) -> Nanos {
        if matches!(self.style, Style::Silent | Style::Screen) {
            Nanos::MAX
        } else {
            self.next
        }
    }

    /// Passes the progress of the run to the listener, or prints the line if it is due.
    pub(super) fn update(
        &mut self,
        now: Nanos,
        record: &RunRecord,
        phase: &str,
        run: &Path,
        progress: impl FnOnce() -> Vec<Progress>,
    ) {
        let elapsed = (now - record.started.monotonic_ns).max(Nanos::ZERO);
        if let (Some(tell), Some(length)) = (&mut self.listener, self.length) {
            tell(phase, elapsed, length);
        }
        if let Some((feed, _)) = &self.screen {
            let name = Scratch::purpose(run).map_or_else(
                || run.display().to_string(),
                |purpose| format!("{purpose}, not kept"),
            );
            feed.publish_progress(RunProgress::of(record, name, now));
        }
        if now < self.next() {
            return;
        }
        let line = line(elapsed, self.length, phase, &progress());
        let mut line = printable(&line).into_owned();
        if self.style == Style::Rewritten {
            // If the line were longer than the terminal's width, it could not be erased.
            let width = terminal_size_of(io::stderr()).map_or(usize::MAX, |(Width(columns), _)| {
                usize::from(columns).saturating_sub(1)
            });
            line = line.chars().take(width).collect();
        }
        let mut out = io::stderr().lock();
        // If the terminal was closed, the run must continue.
        let _ = match self.style {
            Style::Rewritten => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
            _ => writeln!(out, "{line}"),
        };
        let step = if self.style == Style::Rewritten {
            REDRAW
        } else {
            LINE
        };
        self.next = (self.next + step).max(now);
    }

    /// Prints the progress of the run and the largest latencies so far, on one line.
    pub(super) fn tell_status(&self, now: Nanos, record: &RunRecord, progress: &[Progress]) {
        let elapsed = (now - record.started.monotonic_ns).max(Nanos::ZERO);
        tardy_sys::say!("{}", line(elapsed, self.length, "status", progress));
    }

    /// Returns the times that the user marked since the last call.
    pub(super) fn marks(&self) -> Vec<Nanos> {
        self.screen
            .as_ref()
            .map(|(feed, _)| feed.take_marks())
            .unwrap_or_default()
    }

    /// Erases the line, or restores the terminal.
    pub(super) fn finish(&mut self) {
        if let Some((_, view)) = self.screen.take() {
            view.finish();
        }
        if self.style == Style::Rewritten {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn line(elapsed: Nanos, length: Option<Nanos>, phase: &str, progress: &[Progress]) -> String {
    let seconds = |time: Nanos| time.get() / 1_000_000_000;
    let mut line = match length.map(|length| (length, length - elapsed)) {
        None => format!("{} s, until it is stopped, {phase}", seconds(elapsed)),
        Some((length, left)) if left >= Nanos::ZERO => {
            format!(
                "{} s of {} s, {} s left, {phase}",
                seconds(elapsed),
                seconds(length),
                seconds(left)
            )
        }
        // The run takes longer than planned. The usual cause is that loads of a phase were slow to
        // stop, so that the next phase started late.
        Some((_, left)) => format!(
            "{} s, {} s more than planned, {phase}",
            seconds(elapsed),
            seconds(-left)
        ),
    };
    let mut worst: Vec<_> = progress
        .iter()
        .filter_map(|series| Some((series.worst?.latency, series)))
        .collect();
    worst.sort_by_key(|&(latency, series)| (std::cmp::Reverse(latency), series.cpu));
    line.push_str(if worst.is_empty() {
        "; no sample yet"
    } else {
        "; worst"
    });
    for (latency, series) in worst.iter().take(NAMED_MAX) {
        let cpu = series
            .cpu
            .map_or_else(|| series.probe.clone(), |cpu| format!("CPU {cpu}"));
        let _ = write!(line, "  {cpu}: {latency}");
    }
    let (skipped, lost) = progress.iter().fold((0, 0), |sum, series| {
        (sum.0 + series.counts.skipped, sum.1 + series.counts.lost)
    });
    if skipped > 0 {
        let _ = write!(line, "; {skipped} periods skipped");
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
    use tardy_probes::recording::series::WorstSample;

    #[test]
    fn the_worst_cpu_comes_first_and_losses_are_loud() {
        let progress = |cpu, latency, lost| Progress {
            probe: "cyclic".into(),
            cpu: Some(CpuId(cpu)),
            counts: Counts {
                lost,
                ..Counts::default()
            },
            worst: Some(WorstSample {
                latency: Nanos(latency),
                due: Nanos(0),
            }),
            period: None,
            is_closed: false,
        };
        let line = line(
            Nanos::from_secs(12),
            Some(Nanos::from_secs(30)),
            "io",
            &[progress(0, 5_000, 0), progress(1, 70_000, 2)],
        );
        assert_eq!(
            line,
            "12 s of 30 s, 18 s left, io; worst  CPU 1: 70.0 us  CPU 0: 5.00 us; 2 SAMPLES LOST"
        );
    }

    #[test]
    fn time_beyond_the_plan_is_named() {
        assert_eq!(
            line(Nanos::from_secs(36), Some(Nanos::from_secs(30)), "io", &[]),
            "36 s, 6 s more than planned, io; no sample yet"
        );
    }
}
