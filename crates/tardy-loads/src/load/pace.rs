//! Paces threads whose real-time priority exempts them from the kernel's shares: they rest in
//! proportion to the CPU time that they used.
//!
//! A load that lends priorities must pace itself, because no share bounds it.

use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_sys::clock;

/// Minimum rest. A shorter rest costs more CPU time than it saves.
const REST_MIN: Nanos = Nanos::from_micros(100);

/// The pace of one thread.
#[derive(Debug)]
pub(super) struct Pace {
    /// How many ns the thread rests for each ns of CPU time that it used; 0 if no other load runs.
    times: i64,
    cpu_time: i64,
    time: i64,
    owed: Nanos,
}

impl Pace {
    /// Creates the pace of one thread of a load. The load has `threads_on_cpu` threads on each CPU,
    /// and runs at the same time as `beside` other loads. The paced thread itself must call this.
    pub(super) fn new(threads_on_cpu: usize, beside: u32) -> Self {
        let times = if beside == 0 {
            0
        } else {
            threads_on_cpu as i64 * (i64::from(beside) + 1)
        };
        Self {
            times,
            cpu_time: clock::thread_cpu_time(),
            time: clock::monotonic(),
            owed: Nanos::ZERO,
        }
    }

    /// Sleeps if the thread has used more CPU time than its share.
    pub(super) fn rest(&mut self) {
        if self.times == 0 {
            return;
        }
        self.pass(clock::thread_cpu_time(), clock::monotonic());
        if self.owed >= REST_MIN {
            std::thread::sleep(Duration::from_nanos(self.owed.get().unsigned_abs()));
        }
    }

    /// Updates the rest that the thread owes: adds rest for the CPU time that it used, and
    /// subtracts the time that has passed. A thread that waits longer than it owes gets no credit
    /// for the extra time, because it would use the credit all at once.
    fn pass(&mut self, cpu_time: i64, time: i64) {
        let owed = (cpu_time - self.cpu_time).saturating_mul(self.times) - (time - self.time);
        self.owed = (self.owed + Nanos(owed)).max(Nanos::ZERO);
        (self.cpu_time, self.time) = (cpu_time, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_owes_the_time_of_all_threads_and_loads_that_it_shares_with() {
        let mut pace = Pace {
            times: 8 * 3,
            cpu_time: 1000,
            time: 5000,
            owed: Nanos::ZERO,
        };
        pace.pass(1100, 5100);
        assert_eq!(pace.owed, Nanos(100 * 24 - 100));
        pace.pass(1100, 7000);
        assert_eq!(pace.owed, Nanos(400), "its sleep counts as payment");
        pace.pass(1100, 90_000);
        assert_eq!(pace.owed, Nanos::ZERO, "and there is no credit");
        assert_eq!(Pace::new(8, 0).times, 0, "alone it takes what it gets");
    }
}
