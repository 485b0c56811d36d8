//! The initiator's end of an open link: what is known about the path before the first stimulus, and
//! the exchange of stimuli and answers.
//!
//! The exchange is compiled separately for each type of link, so that its polling loop calls the
//! link without an indirect call. An indirect call would lengthen every poll.

use std::fmt;

use tardy_core::units::Nanos;

use super::exchange::{Initiator, Pace, Rings, Tally, exchange};
use super::respond::Responder;

/// A function that returns whether the run has ended by a due time.
pub type IsOver<'a> = &'a dyn Fn(Nanos) -> bool;

/// A function that exchanges stimuli and answers over one link. It sends stimuli from a given time
/// on, until the run ends or the other end stops answering.
type Exchange = Box<dyn FnOnce(Pace, Rings, Nanos, IsOver<'_>) -> Tally + Send>;

/// Who answers the stimuli.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// The other machine's kernel answers, in softirq. Tables never mix round trips that a kernel
    /// answers with round trips that a process answers.
    OfTheKernel,
    /// A process answers.
    OfAProcess,
    /// A process answers, and reports how long it took.
    OfAProcessThatTells,
}

/// The initiator's end of an open link.
pub struct Initiation {
    /// The lower bound of a round trip, as text.
    pub floor: String,
    /// Whether the path leaves this machine. If it does not, verdicts ignore the round trips.
    pub is_external: bool,
    /// Who answers.
    pub answers: Answers,
    /// The responder's end, if the responder runs in this process.
    pub own_responder: Option<Box<dyn Responder>>,
    pub(super) exchanging: Exchange,
}

impl Initiation {
    /// Makes the initiator's end of a link to another machine, where a process answers without
    /// reporting times.
    pub(super) fn new(
        mut initiator: impl Initiator + Send + 'static,
        floor: impl fmt::Display,
    ) -> Self {
        // This closure is compiled for the link's type, so the polling loop calls the link
        // directly.
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
