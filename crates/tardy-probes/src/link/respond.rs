//! The responder answers each stimulus as soon as it has woken up, and records its own latency.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::answer_log::AnswerLog;

/// Interval at which a responder checks whether to stop.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// The responder's end of an open link.
pub trait Responder: Debug + Send {
    /// Answers until `is_over` is set. Adds its counts to `answered`, and records each answer in
    /// `log` with `note`. Must be called on a thread that is set up like a probe's.
    ///
    /// # Errors
    /// Returns an error if the link fails permanently, for example because its device was
    /// unplugged.
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()>;
}

/// What a responder did.
#[derive(Debug)]
pub struct ResponderResult {
    /// Number of stimuli answered.
    pub answers: u64,
    /// Wake-up latency of the responder for these stimuli: from the kernel's receive time stamp to
    /// the responder's clock read. Empty on links without time stamps.
    pub wake_up: Histogram,
    /// Time from the kernel's receive time stamp to just before (`udp`) or just after (`gpio`) the
    /// answer was sent.
    pub in_responder: Histogram,
    /// Number of received messages that were not requests. On parallel ports: number of pulses that
    /// shared an answer with an earlier pulse.
    pub others: u64,
    /// Number of requests that were not answered because the sender was not the session's peer or
    /// did not know the secret. Stimuli and all other requests count.
    pub strangers: u64,
    /// Number of sessions; 0 on links without sessions, because only the other end can send over
    /// them.
    pub sessions: u64,
    /// How often a flood made the responder sleep until the end of a window.
    pub rests: u64,
    /// Number of answers that could not be sent.
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
