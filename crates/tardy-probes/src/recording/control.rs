//! The state that the measuring threads share with the rest of the tool.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use tardy_core::cpu::CpuId;
use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;

/// The sample that stopped a run with `--stop-above`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedBy {
    /// The CPU on which the sample was taken.
    pub cpu: Option<CpuId>,
    pub sample: Sample,
}

/// Proof that every measuring thread has taken its last sample. Only [`Control::leave`] makes such
/// a value, so every measuring loop must wait for the others before it ends.
#[derive(Debug)]
pub struct Departure(());

/// The state that all measuring threads of a run share.
#[derive(Debug, Default)]
pub struct Control {
    end: AtomicI64,
    stopped: AtomicBool,
    stopped_by: Mutex<Option<StoppedBy>>,
    warnings: Mutex<Vec<Warning>>,
    trace_marker: Option<Mutex<File>>,
    tracing_on: Option<Mutex<File>>,
    /// Number of threads that have entered and not left yet.
    measuring: Mutex<usize>,
    all_left: Condvar,
}

impl Control {
    /// Makes the control. Threads run until someone calls [`Control::stop`], or until the time
    /// given to [`Control::stop_at`]. When a latency stops the run, the control writes a line to
    /// `trace_marker`, and then a 0 to `tracing_on`.
    #[must_use]
    pub fn new(trace_marker: Option<File>, tracing_on: Option<File>) -> Self {
        Self {
            end: AtomicI64::new(i64::MAX),
            trace_marker: trace_marker.map(Mutex::new),
            tracing_on: tracing_on.map(Mutex::new),
            ..Self::default()
        }
    }

    /// Counts the calling thread as a measuring thread. All threads of a run must enter before any
    /// thread leaves.
    pub fn enter(&self) {
        *self.lock_measuring() += 1;
    }

    /// Sleeps until every thread that entered has taken its last sample. Each thread must call this
    /// after its loop, before it closes a file, frees memory or ends. If threads share a CPU and a
    /// priority, closing and freeing in one of them would delay samples that others still take.
    pub fn leave(&self) -> Departure {
        let mut measuring = self.lock_measuring();
        *measuring = measuring.saturating_sub(1);
        if *measuring == 0 {
            self.all_left.notify_all();
        }
        drop(
            self.all_left
                .wait_while(measuring, |measuring| *measuring > 0)
                .unwrap_or_else(PoisonError::into_inner),
        );
        Departure(())
    }

    fn lock_measuring(&self) -> std::sync::MutexGuard<'_, usize> {
        self.measuring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run at `end`: threads do not wait for samples that are due at `end` or later.
    pub fn stop_at(&self, end: Nanos) {
        self.end.fetch_min(end.get(), Ordering::Relaxed);
    }

    /// Ends all loops at their next wake-up.
    pub fn stop(&self) {
        self.end.store(i64::MIN, Ordering::Relaxed);
    }

    /// Returns the end of the run; due times at or after this time are not counted as skipped. If
    /// [`Control::stop`] stopped the run, returns `Nanos::MAX`, because due times that passed
    /// before the stop are still counted.
    #[cold]
    #[must_use]
    pub fn end(&self) -> Nanos {
        match self.end.load(Ordering::Relaxed) {
            i64::MIN => Nanos::MAX,
            end => Nanos(end),
        }
    }

    /// Returns whether `due` is at the end of the run or later.
    #[inline]
    #[must_use]
    pub fn is_past_end(&self, due: Nanos) -> bool {
        due.get() >= self.end.load(Ordering::Relaxed)
    }

    /// Stops the run because of `sample`. Only the first such sample is stored. Called from a
    /// measuring loop, which then ends.
    #[cold]
    pub fn stop_because_of(&self, cpu: Option<CpuId>, sample: Sample) {
        self.stop();
        if self.stopped.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(file) = &self.trace_marker
            && let Ok(mut file) = file.lock()
        {
            let place = cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            let _ = file.write_all(
                format!(
                    "tardy: latency {} ns{place}, due at {} ns\n",
                    sample.latency.get(),
                    sample.due.get()
                )
                .as_bytes(),
            );
        }
        // The mark must be written before the trace is switched off, because it would not be
        // recorded otherwise.
        if let Some(file) = &self.tracing_on
            && let Ok(mut file) = file.lock()
        {
            let _ = file.write_all(b"0");
        }
        if let Ok(mut stopped_by) = self.stopped_by.lock() {
            *stopped_by = Some(StoppedBy { cpu, sample });
        }
    }

    /// Adds a warning to the run's caveats. Must not be called from a measuring loop, because it
    /// takes a lock.
    pub fn warn(&self, warning: Warning) {
        if let Ok(mut warnings) = self.warnings.lock() {
            warnings.push(warning);
        }
    }

    /// Removes and returns the warnings added by [`Control::warn`].
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.warnings
            .lock()
            .map(|mut warnings| std::mem::take(&mut *warnings))
            .unwrap_or_default()
    }

    /// Returns the sample that stopped the run, if one did.
    #[must_use]
    pub fn stopped_by(&self) -> Option<StoppedBy> {
        self.stopped_by.lock().ok().and_then(|stopped| *stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_marked_before_it_is_switched_off() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || {
            std::fs::OpenOptions::new()
                .append(true)
                .open(file.path())
                .unwrap()
        };
        let control = Control::new(Some(open()), Some(open()));
        let sample = Sample {
            due: Nanos(7),
            latency: Nanos(5000),
            skipped: 0,
        };
        control.stop_because_of(Some(CpuId(1)), sample);
        // A later stop does not replace the first sample.
        control.stop_because_of(None, sample);
        assert_eq!(
            std::fs::read_to_string(file.path()).unwrap(),
            "tardy: latency 5000 ns on CPU 1, due at 7 ns\n0"
        );
    }
}
