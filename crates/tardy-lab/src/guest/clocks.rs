//! Reads the CPU's cycle counter and the clock at the same moment.

use tardy_core::units::Nanos;
use tardy_sys::{clock, cycle_counter};

/// Two readings that no interrupt disturbs differ in length by at most this time. The clock has
/// steps of up to 16 ns (arm64), and an interrupt takes at least 500 instructions of 1 ns.
const TOLERANCE: Nanos = Nanos(100);
/// Maximum number of times that a reading is repeated.
const READINGS_MAX: usize = 20;

/// A reading of the cycle counter between two readings of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    before: Nanos,
    count: u64,
    now: Nanos,
}

/// Reads the CPU's cycle counter, then the clock, without an interrupt in between. In every call,
/// the same number of instructions is executed between these two reads.
pub(super) fn read() -> (u64, Nanos) {
    let Reading { count, now, .. } = undisturbed(read_once);
    (count, now)
}

#[inline(never)]
fn read_once() -> Reading {
    Reading {
        before: Nanos(clock::monotonic()),
        count: cycle_counter::read(),
        now: Nanos(clock::monotonic()),
    }
}

/// Repeats the reading until one is as short as the first one, or until the maximum number of
/// repetitions is reached. Returns the last reading. If an interrupt disturbs the first reading,
/// the second one is shorter, because the next interrupt does not come so soon.
fn undisturbed(mut read: impl FnMut() -> Reading) -> Reading {
    let longest = read().length() + TOLERANCE;
    let mut reading = read();
    for _ in 0..READINGS_MAX {
        if reading.length() <= longest {
            break;
        }
        reading = read();
    }
    reading
}

impl Reading {
    fn length(&self) -> Nanos {
        self.now - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which reading [`undisturbed`] chooses from successive readings of these lengths. The
    /// `count` of each reading is its position in the sequence.
    fn of_lengths(lengths: &[i64]) -> Reading {
        let (mut count, mut now) = (0, Nanos::ZERO);
        undisturbed(|| {
            let before = now;
            now = before + Nanos(lengths[count]);
            count += 1;
            Reading {
                before,
                count: count as u64,
                now,
            }
        })
    }

    #[test]
    fn a_reading_with_an_interrupt_is_not_taken() {
        for (lengths, taken) in [
            (&[300, 301][..], 2),
            (&[9_000, 300], 2),
            (&[300, 9_000, 299], 3),
        ] {
            let reading = of_lengths(lengths);
            assert_eq!((reading.count, reading.length().get() < 400), (taken, true));
        }
    }
}
