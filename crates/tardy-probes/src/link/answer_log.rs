//! Records each stimulus of a responder in the rings of the responder's run.

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_sys::clock;

use crate::recording::ring::Producer;

/// The series of a responder's run.
#[derive(Debug)]
pub struct AnswerLog {
    /// Series of wake-up latencies; only for links whose stimuli the kernel timestamps.
    wake_up: Option<Producer>,
    answer: Producer,
}

impl AnswerLog {
    /// Makes a log that writes into these series. `wake_up` is present if the kernel timestamps the
    /// link's stimuli.
    #[must_use]
    pub fn new(wake_up: Option<Producer>, answer: Producer) -> Self {
        Self { wake_up, answer }
    }

    /// Records a stimulus. `stamp` is the time at which the stimulus arrived, if known. The
    /// responder read the clock at `woken`, and sent its answer at `sent`.
    #[inline]
    pub fn answered(&mut self, stamp: Option<Nanos>, woken: Nanos, sent: Nanos) {
        // A time stamp later than the clock read is possible, because the conversion between the
        // two clocks has an error.
        let due = stamp.map_or(woken, |stamp| stamp.min(woken));
        if let (Some(ring), Some(_)) = (&mut self.wake_up, stamp) {
            ring.begin_cycle();
            ring.push(Sample {
                due,
                latency: woken - due,
                skipped: 0,
            });
        }
        self.answer.begin_cycle();
        self.answer.push(Sample {
            due,
            latency: sent - due,
            skipped: 0,
        });
    }

    /// Ends both series.
    pub fn close(self) {
        let now = Nanos(clock::monotonic());
        if let Some(ring) = self.wake_up {
            ring.close(now);
        }
        self.answer.close(now);
    }
}
