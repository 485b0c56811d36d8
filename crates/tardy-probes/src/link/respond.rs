//! The responder: answers each stimulus as soon as it has woken up, and records its own latency.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::answer_log::AnswerLog;

/// How often a responder checks whether to stop.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// The responder's end of a link, open.
pub trait Responder: Debug + Send {
    /// Answers until `is_over`, counts into `answered`, and records each answer in `log` (`note`).
    /// Call it on a thread that is prepared as a probe's.
    ///
    /// # Errors
    /// Returns errors of the link that will not go away: a device that was unplugged.
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()>;
}

/// The results of a responder.
#[derive(Debug)]
pub struct ResponderResult {
    /// Stimuli answered.
    pub answers: u64,
    /// Its wake-up latency for these stimuli: from the kernel's receive stamp to the responder's
    /// clock read. Empty on links without stamps.
    pub wake_up: Histogram,
    /// Time from the kernel's receive stamp to just before the answer was sent.
    pub in_responder: Histogram,
    /// Received data that was not a stimulus.
    pub others: u64,
    /// Stimuli that were not answered: from others than the peer of the session, or without the
    /// secret.
    pub strangers: u64,
    /// Sessions of peers; none on links that only the other end can reach.
    pub sessions: u64,
    /// Number of times that a flood made it sleep to the end of a window.
    pub rests: u64,
    /// Answers that could not be sent.
    pub failures: u64,
}

impl Default for ResponderResult {
    fn default() -> Self {
        let histogram = || Histogram::new(Budget::RECORDER);
        Self {
            answers: 0,
            wake_up: histogram(),
            in_responder: histogram(),
            others: 0,
            strangers: 0,
            sessions: 0,
            rests: 0,
            failures: 0,
        }
    }
}

/// Records an answer that was sent.
#[inline]
pub(super) fn note(log: &mut Option<AnswerLog>, stamp: Option<Nanos>, woken: Nanos) {
    if let Some(log) = log {
        log.answered(stamp, woken, Nanos(clock::monotonic()));
    }
}
