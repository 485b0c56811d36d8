//! Stores which timers are set, and describes the timer whose function a CPU executes.

use foldhash::HashMap;

/// Maximum number of timers that are stored.
const SET_MAX: usize = 1 << 18;
/// When this many timers are stored, overdue timers are removed for the first time.
const SET_USUAL: usize = 1 << 12;
/// If a timer is still stored this many ns after its expiry, it is overdue: it must have been
/// cancelled.
const OVERDUE_NS: i64 = 1_000_000_000;

/// A timer that a thread has set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) expires: i64,
    pub(super) soft_expires: i64,
    pub(super) mode: Option<i64>,
    /// The thread that set the timer.
    pub(super) by: i32,
}

/// A timer whose function a CPU executes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpiringTimer {
    pub(super) time: u64,
    pub(super) now: i64,
    pub(super) function: u64,
    pub(super) timer: Option<Timer>,
    pub(super) interrupt: Option<u64>,
    /// The thread that was interrupted by the timer's function. A wake-up in the context of any
    /// other thread does not come from this function.
    pub(super) pid: i32,
    pub(super) is_in_interrupt: bool,
}

/// The timers that are set, by address. They include cancelled timers, because runs with
/// `--explain` do not record that a timer is cancelled.
#[derive(Debug)]
pub(super) struct SetTimers {
    timers: HashMap<u64, Timer>,
    /// When this many timers are stored, overdue ones are removed.
    full: usize,
}

impl Default for SetTimers {
    fn default() -> Self {
        Self {
            timers: HashMap::default(),
            full: SET_USUAL,
        }
    }
}

impl SetTimers {
    /// Stores a timer that is set at `now`, in ns on the monotonic clock.
    pub(super) fn insert(&mut self, address: u64, timer: Timer, now: u64) {
        if self.timers.len() >= self.full {
            self.forget_overdue(now);
        }
        self.timers.insert(address, timer);
    }

    pub(super) fn remove(&mut self, address: u64) -> Option<Timer> {
        self.timers.remove(&address)
    }

    /// Forgets timers that were due before `time`, in ns of the monotonic clock. The lost events
    /// may include the expiry of such a timer, and the event that set it again. In that case, the
    /// stored due time would be a whole period too early.
    pub(super) fn lose(&mut self, time: u64) {
        let time = time.cast_signed();
        self.timers.retain(|_, timer| timer.soft_expires > time);
    }

    /// Removes the timers that are overdue. Then sets the limit for the next round to twice the
    /// remaining number of timers, so that the cost per timer stays a few instructions.
    fn forget_overdue(&mut self, now: u64) {
        let oldest = now.cast_signed().saturating_sub(OVERDUE_NS);
        self.timers.retain(|_, timer| timer.expires > oldest);
        if self.timers.len() > SET_MAX / 2 {
            self.timers.clear();
        }
        self.full = (2 * self.timers.len()).max(SET_USUAL);
        self.timers.shrink_to(self.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_at(expires: i64) -> Timer {
        Timer {
            expires,
            soft_expires: expires,
            mode: None,
            by: 1,
        }
    }

    #[test]
    fn cancelled_timers_are_forgotten_and_pending_ones_are_not() {
        let (mut set, step) = (SetTimers::default(), 1_000_000);
        let pending = u64::MAX;
        set.insert(pending, due_at(i64::MAX), 0);
        for number in 0..1_000_000 {
            let now = number * step;
            set.insert(number, due_at((now + step).cast_signed()), now);
            assert!(set.timers.len() <= SET_USUAL);
        }
        assert!(
            set.timers.capacity() <= 4 * SET_USUAL,
            "{}",
            set.timers.capacity()
        );
        assert!(set.remove(pending).is_some() && set.remove(0).is_none());
        assert!(set.remove(999_999).is_some());
    }

    #[test]
    fn timers_that_are_never_due_have_a_bound() {
        let mut set = SetTimers::default();
        for number in 0..1_000_000 {
            set.insert(number, due_at(i64::MAX), 0);
            assert!(set.timers.len() <= SET_MAX);
        }
        assert!(set.remove(999_999).is_some());
    }
}
