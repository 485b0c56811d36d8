//! Repeats operations as LMbench does: times them in several trials that are long compared with a
//! clock read, and subtracts the cost of the clock itself.

use std::io;

use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::metric::Work;

/// Maximum number of operations in a trial. With the cheapest operation, such a trial takes half a
/// minute.
const OPERATIONS_MAX: u64 = 1 << 36;
/// The number of operations is computed from a trial only if the trial took at least the requested
/// time divided by this number.
const SHARE_BELIEVED: i64 = 4;
/// Number of pairs of clock reads. The shortest pair gives the cost of a read.
const CLOCK_READS: u32 = 1000;

/// Returns the number of operations that together take `length`; at least one.
///
/// # Errors
/// Returns an error if the work fails.
pub fn calibrate(work: &mut dyn Work, length: Nanos) -> io::Result<u64> {
    // The first operation does work that later operations need not repeat: it maps pages, fills
    // caches and makes connections.
    work.run(1)?;
    let mut operations = 1_u64;
    loop {
        let took = work.run(operations)?.get().max(1);
        let wanted = u128::from(operations) * length.get().max(1) as u128 / took as u128;
        let wanted = u64::try_from(wanted)
            .unwrap_or(OPERATIONS_MAX)
            .clamp(1, OPERATIONS_MAX);
        if took >= length.get() / SHARE_BELIEVED || operations >= OPERATIONS_MAX {
            return Ok(wanted);
        }
        // The time of a single short run is unreliable, so the number of operations grows at most
        // tenfold at a time.
        operations = wanted.min(operations * 10).max(operations + 1);
    }
}

/// Returns the time of one operation in ps, from one trial. Subtracts one read of the clock.
///
/// # Errors
/// Returns an error if the work fails.
pub fn trial(work: &mut dyn Work, operations: u64, clock_read: Nanos) -> io::Result<i64> {
    let took = work.run(operations)? - clock_read;
    Ok(picoseconds_each(took, operations))
}

/// Returns `time` divided by `operations` in ps, rounded, and never below zero.
#[must_use]
pub fn picoseconds_each(time: Nanos, operations: u64) -> i64 {
    let (time, operations) = (
        i128::from(time.get().max(0)) * 1000,
        i128::from(operations.max(1)),
    );
    i64::try_from((time + operations / 2) / operations).unwrap_or(i64::MAX)
}

/// Returns the minimum time between two consecutive reads of the clock, over many pairs.
#[must_use]
pub fn clock_read_cost() -> Nanos {
    let apart = |_| {
        let begin = clock::monotonic();
        clock::monotonic() - begin
    };
    Nanos((0..CLOCK_READS).map(apart).min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated work, which returns at once and reports a fixed time per operation and per run.
    struct FakeWork {
        each: i64,
        fixed: i64,
    }

    impl Work for FakeWork {
        fn run(&mut self, operations: u64) -> io::Result<Nanos> {
            Ok(Nanos(
                self.fixed + self.each * i64::try_from(operations).unwrap(),
            ))
        }
    }

    #[test]
    fn a_trial_is_about_as_long_as_asked_for() {
        for (each, operations) in [
            (100, 100_000),
            (10_000_000, 1),
            (900_000_000, 1),
            (3, 3_333_333),
        ] {
            let found =
                calibrate(&mut FakeWork { each, fixed: 0 }, Nanos::from_millis(10)).unwrap();
            assert!(
                found.abs_diff(operations) <= operations / 100,
                "{found} of {each} ns, wanted {operations}"
            );
        }
    }

    #[test]
    fn work_that_seems_to_take_no_time_ends_all_the_same() {
        assert_eq!(
            calibrate(&mut FakeWork { each: 0, fixed: 0 }, Nanos::from_millis(10)).unwrap(),
            OPERATIONS_MAX
        );
    }

    #[test]
    fn the_clock_is_taken_off_once_a_trial() {
        assert_eq!(
            trial(
                &mut FakeWork {
                    each: 50,
                    fixed: 30
                },
                7,
                Nanos(30)
            )
            .unwrap(),
            50_000
        );
        assert_eq!(
            trial(&mut FakeWork { each: 0, fixed: 10 }, 1, Nanos(30)).unwrap(),
            0
        );
        assert_eq!(picoseconds_each(Nanos(10), 3), 3333);
        assert_eq!(picoseconds_each(Nanos(i64::MAX), 1), i64::MAX);
    }
}
