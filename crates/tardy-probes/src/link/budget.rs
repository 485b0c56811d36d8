//! Limits the CPU time of a responder, so that a flood of datagrams cannot occupy its CPU. The
//! limit is necessary because the responder has a real-time priority and delays other tasks.
//!
//! In each window of 100 ms, the responder takes at most 5,000 datagrams, and at most 1,000 of
//! these from senders other than its peer. After that it sleeps until the window ends. During this
//! sleep the kernel drops the datagrams that do not fit into the socket's buffer.

use tardy_core::units::Nanos;

/// Length of a window.
pub(super) const WINDOW: Nanos = Nanos::from_millis(100);
/// Maximum number of datagrams per window from senders other than the peer. Datagrams that the
/// responder answers with a challenge count, too. If the responder needs a microsecond for each,
/// all of them together take a hundredth of a CPU.
pub(super) const UNANSWERED_MAX: u32 = 1_000;
/// Maximum number of datagrams per window: one every 20 us. An initiator waits for each answer, so
/// it cannot send faster than this for long.
pub(super) const TAKEN_MAX: u32 = 5_000;

/// The number of datagrams taken in the current window.
#[derive(Debug, Default)]
pub(super) struct Budget {
    began: Option<Nanos>,
    taken: u32,
    unanswered: u32,
}

impl Budget {
    /// Counts a datagram taken at `now`. If the window's budget is used up, returns the time until
    /// which the responder must sleep.
    #[inline]
    pub(super) fn take(&mut self, now: Nanos, is_answered: bool) -> Option<Nanos> {
        let began = match self.began {
            Some(began) if now - began < WINDOW => began,
            _ => {
                *self = Self {
                    began: Some(now),
                    ..Self::default()
                };
                now
            }
        };
        self.taken += 1;
        self.unanswered += u32::from(!is_answered);
        (self.unanswered >= UNANSWERED_MAX || self.taken >= TAKEN_MAX).then_some(began + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many datagrams per second a responder accepts during an endless flood, if it
    /// needs the time `each` to handle one.
    fn taken_in_a_second(each: Nanos, is_answered: bool) -> u32 {
        let (mut budget, mut now, mut taken) = (Budget::default(), Nanos::ZERO, 0);
        while now < Nanos::from_secs(1) {
            taken += 1;
            now = budget.take(now, is_answered).unwrap_or(now + each);
        }
        taken
    }

    #[test]
    fn a_flood_gets_so_many_a_window_and_no_more() {
        let each = Nanos::from_micros(2);
        assert_eq!(taken_in_a_second(each, false), 10 * UNANSWERED_MAX);
        assert_eq!(taken_in_a_second(each, true), 10 * TAKEN_MAX);
    }

    #[test]
    fn what_comes_at_an_initiators_pace_is_taken_without_a_rest() {
        let mut budget = Budget::default();
        for number in 0..100_000 {
            // One datagram every 25 us; one in eight is not from the peer.
            assert_eq!(budget.take(Nanos(number * 25_000), number % 8 != 0), None);
        }
    }

    #[test]
    fn both_kinds_count_together_and_a_window_ends() {
        let mut budget = Budget::default();
        for _ in 1..UNANSWERED_MAX {
            assert_eq!(budget.take(Nanos(7), false), None);
        }
        assert_eq!(budget.take(Nanos(8), true), None);
        assert_eq!(budget.take(Nanos(9), false), Some(Nanos(7) + WINDOW));
        assert_eq!(budget.take(Nanos(7) + WINDOW, false), None, "a new window");
    }
}
