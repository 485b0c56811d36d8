//! The open initiator's end of a link: properties of the path before the first stimulus, and the
//! exchange.
//!
//! A link's exchange is compiled for its type and called once. The loop that polls for answers
//! calls the link directly; a call through a table would be in every poll.

use std::fmt;

use tardy_core::units::Nanos;

use super::exchange::{Initiator, Pace, Rings, Tally, exchange};
use super::respond::Responder;

/// Returns whether the run is over at a due time.
pub type IsOver<'a> = &'a dyn Fn(Nanos) -> bool;

/// The exchange of one link: stimuli from a time on, until the run is over or the other end stops
/// answering.
type Exchange = Box<dyn FnOnce(Pace, Rings, Nanos, IsOver<'_>) -> Tally + Send>;

/// The source of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// The other machine's kernel answers, in softirq: its round trips are never in one table with
    /// those of a process.
    OfTheKernel,
    /// A process gives them.
    OfAProcess,
    /// A process answers, and reports how long it took.
    OfAProcessThatTells,
}

/// The initiator's end of a link, open.
pub struct Initiation {
    /// The lower bound of a round trip, as text.
    pub floor: String,
    /// Whether the path leaves this machine; otherwise it supports no verdict.
    pub is_external: bool,
    /// Who answers.
    pub answers: Answers,
    /// The other end, if this process answers itself.
    pub own_responder: Option<Box<dyn Responder>>,
    pub(super) exchanging: Exchange,
}

impl Initiation {
    /// Makes the end of a link that leaves this machine and is answered by a process without
    /// reports.
    pub(super) fn new(
        mut initiator: impl Initiator + Send + 'static,
        floor: impl fmt::Display,
    ) -> Self {
        // Specialised for the link's type: the polling loop calls it directly.
        let exchanging: Exchange = Box::new(move |pace, rings, start, is_over| {
            exchange(&mut initiator, pace, rings, start, is_over)
        });
        Self {
            floor: floor.to_string(),
            is_external: true,
            answers: Answers::OfAProcess,
            own_responder: None,
            exchanging,
        }
    }

    /// Sends stimuli from `start` on, until `is_over` returns true for the next due time, or the
    /// responder is gone. Closes the rings.
    #[must_use]
    pub fn exchange(self, pace: Pace, rings: Rings, start: Nanos, is_over: IsOver<'_>) -> Tally {
        (self.exchanging)(pace, rings, start, is_over)
    }
}

impl fmt::Debug for Initiation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            floor,
            is_external,
            answers,
            ..
        } = self;
        write!(
            formatter,
            "Initiation {{ floor: {floor}, is_external: {is_external}, answers: {answers:?} }}"
        )
    }
}
