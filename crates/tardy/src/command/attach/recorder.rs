//! Counts and stores wake-ups while threads are followed, and acts on misses.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::Duration;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_measure::measure::threshold::Threshold;
use tardy_results::attach::Tally;
use tardy_samples::wake_up_kind::WakeUpKind;
use tardy_sys::signal::{SignalFd, wait_readable_within};
use tardy_trace::wake_ups::WakeUp;
use tardy_tracer::attach::{Observer, SoFar};

use super::writer::FolderWriter;

pub(super) struct Recorder<'a> {
    signals: &'a SignalFd,
    tally: Tally,
    threshold: Option<Threshold>,
    /// The miss for which the next action is taken. It is the largest miss since the last action
    /// or, if the measurement ends at a miss, the first one.
    late: Option<WakeUp>,
    writer: Option<FolderWriter>,
    is_at_threshold: bool,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        signals: &'a SignalFd,
        tally: Tally,
        threshold: Option<Threshold>,
        writer: Option<FolderWriter>,
    ) -> Self {
        Self {
            signals,
            tally,
            threshold,
            late: None,
            writer,
            is_at_threshold: false,
        }
    }

    /// Returns whether a miss ended the measurement.
    pub(super) fn is_at_threshold(&self) -> bool {
        self.is_at_threshold
    }

    /// Returns the counts, the folder, and the problems with actions.
    pub(super) fn finish(self) -> (Tally, Option<FolderWriter>, Vec<String>) {
        let problems = self.threshold.into_iter().flat_map(Threshold::finish);
        let problems = problems.map(|warning| match warning {
            Warning::Problem { text } => text,
            other => other.to_string(),
        });
        (self.tally, self.writer, problems.collect())
    }

    /// Acts on the stored miss, after its trace has been written into the folder.
    fn act(&mut self, so_far: &mut SoFar<'_>) {
        let (Some(threshold), Some(late)) = (&mut self.threshold, self.late.take()) else {
            return;
        };
        if let Some(writer) = &mut self.writer {
            writer.keep_trace(so_far);
        }
        let (latency, due) = (Nanos(late.lateness()), Nanos(late.due));
        threshold.look(Some(CpuId(late.cpu)), latency, due);
        self.is_at_threshold = !threshold.goes_on();
    }
}

impl Observer for Recorder<'_> {
    fn wait(&mut self, pause: Duration) -> bool {
        let _ = wait_readable_within(&[self.signals.as_fd()], Some(pause));
        let is_stopped = matches!(self.signals.take(), Ok(Some(_)));
        is_stopped
            || self.is_at_threshold
            || self.writer.as_ref().is_some_and(FolderWriter::is_gone)
    }

    fn wake_up(&mut self, wake_up: &WakeUp, kind: &WakeUpKind, name: &str) {
        // A miss has ended the measurement, so later wake-ups are not counted.
        if self.is_at_threshold {
            return;
        }
        self.tally.add(wake_up, kind);
        if let Some(writer) = &mut self.writer {
            writer.push(wake_up, kind, name);
        }
        if let Some(threshold) = &self.threshold
            && threshold.is_new(Nanos(wake_up.lateness()))
        {
            let is_first = self.late.is_none();
            let is_larger = |late: WakeUp| late.lateness() < wake_up.lateness();
            if is_first || threshold.goes_on() && self.late.is_some_and(is_larger) {
                self.late = Some(*wake_up);
            }
        }
    }

    fn left(&mut self, threads: &BTreeSet<i32>) {
        if let Some(writer) = &mut self.writer {
            writer.left(threads);
        }
    }

    fn turn(&mut self, mut so_far: SoFar<'_>) {
        self.act(&mut so_far);
        if let Some(writer) = &mut self.writer {
            writer.turn(&mut so_far);
        }
    }
    fn end(&mut self, mut found: SoFar<'_>) {
        self.act(&mut found);
        if let Some(writer) = &mut self.writer {
            writer.keep_trace(&mut found);
        }
    }
}
