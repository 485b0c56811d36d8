//! The CPU's cycle counter, and the calibration of its rate. The counter can be used only if its
//! rate is the same in all states of the CPU.

use std::sync::OnceLock;

use crate::clock;

/// Why the counter cannot be used as a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotInvariant {
    /// The CPU does not guarantee a constant rate.
    NotPromised,
    /// Programs cannot read a counter on this architecture, or tardy does not support it.
    Unknown,
}

impl std::fmt::Display for NotInvariant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NotPromised => {
                "the CPU does not report an invariant time-stamp counter (CPUID 0x80000007, EDX \
                 bit 8)"
            }
            Self::Unknown => "this architecture has no known cycle counter that programs may read",
        })
    }
}

/// Checks that the counter has one rate in every state of every CPU.
///
/// # Errors
/// Returns [`NotInvariant`] if this is not guaranteed.
#[cfg(target_arch = "x86_64")]
pub fn invariant() -> Result<(), NotInvariant> {
    // AMD64 Architecture Programmer's Manual, volume 3, appendix E.4.7; Intel's manual, volume 3,
    // 18.17.1.
    const LEAF: u32 = 0x8000_0007;
    let last = std::arch::x86_64::__cpuid(0x8000_0000).eax;
    if last >= LEAF && std::arch::x86_64::__cpuid(LEAF).edx & (1 << 8) != 0 {
        Ok(())
    } else {
        Err(NotInvariant::NotPromised)
    }
}

/// Succeeds, because the counter of the generic timer has a fixed rate by definition (Arm ARM,
/// D12.1).
///
/// # Errors
/// The function never fails.
#[cfg(target_arch = "aarch64")]
pub fn invariant() -> Result<(), NotInvariant> {
    Ok(())
}

/// Fails, because tardy does not support the counters of other architectures.
///
/// # Errors
/// Always returns [`NotInvariant::Unknown`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn invariant() -> Result<(), NotInvariant> {
    Err(NotInvariant::Unknown)
}

/// Reads the counter, after all earlier instructions of the program have completed.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn read() -> u64 {
    // SAFETY: lfence only orders instructions, and exists on every x86-64 CPU.
    unsafe { std::arch::x86_64::_mm_lfence() };
    // SAFETY: the counter exists on every x86-64 CPU, and Linux lets programs read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads the counter, after all earlier instructions of the program have completed.
#[cfg(target_arch = "aarch64")]
#[inline]
#[must_use]
pub fn read() -> u64 {
    let count: u64;
    // SAFETY: Linux lets programs read the virtual counter; the instructions touch no memory and no
    // flags.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
    };
    count
}

/// Returns 0, because there is no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
#[must_use]
pub fn read() -> u64 {
    0
}

/// Length of a tick of the counter in CLOCK_MONOTONIC time, and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// Number of ns per tick, multiplied by 2^32.
    scale: u64,
    /// Error of the rate, in parts per billion.
    error_ppb: i64,
    /// Error of a reading relative to the clock, in ns.
    reading_error: i64,
}

/// A reading of both clocks at one moment: (ticks, ns, error in ns).
type Pair = (u64, i64, i64);

/// Duration of a calibration, in ns.
const LENGTH: i64 = 100_000_000;
/// Number of attempts to read both clocks without a disturbance in between.
const ATTEMPTS: usize = 100;

impl Calibration {
    /// The calibration for a counter that already counts ns.
    pub const OF_NANOSECONDS: Self = Self {
        scale: 1 << 32,
        error_ppb: 0,
        reading_error: 0,
    };

    /// Returns the calibration. The first call in a process takes 100 ms.
    #[must_use]
    pub fn of_this_machine() -> Self {
        static CALIBRATION: OnceLock<Calibration> = OnceLock::new();
        *CALIBRATION.get_or_init(|| {
            let first = pair();
            let _ = clock::sleep_until(&clock::Instant::from_nanos(first.1 + LENGTH));
            Self::between(first, pair())
        })
    }

    fn between((ticks, nanos, error): Pair, (ticks_after, nanos_after, error_after): Pair) -> Self {
        let elapsed = u128::from((nanos_after - nanos).unsigned_abs());
        let scale = (elapsed << 32) / u128::from(ticks_after.wrapping_sub(ticks).max(1));
        let error_ppb =
            (i128::from(error + error_after) * 1_000_000_000 / elapsed.max(1) as i128) as i64;
        Self {
            scale: scale as u64,
            error_ppb,
            reading_error: error.max(error_after),
        }
    }

    /// Converts ticks to ns.
    #[inline]
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> i64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as i64
    }

    /// Converts ns to ticks, rounded up.
    #[must_use]
    pub fn ticks(&self, nanos: i64) -> u64 {
        ((u128::from(nanos.unsigned_abs()) << 32).div_ceil(u128::from(self.scale.max(1)))) as u64
    }

    /// Returns the uncertainty of a duration of `nanos`, in ns.
    #[must_use]
    pub fn error_of(&self, nanos: i64) -> i64 {
        (i128::from(nanos) * i128::from(self.error_ppb) / 1_000_000_000) as i64 + self.reading_error
    }
}

/// Reads both clocks many times and returns the reading with the smallest error. A disturbance
/// between two reads only increases the error.
fn pair() -> Pair {
    let attempt = || {
        let before = clock::monotonic();
        let ticks = read();
        let after = clock::monotonic();
        (
            ticks,
            before + (after - before) / 2,
            (after - before + 1) / 2,
        )
    };
    (0..ATTEMPTS)
        .map(|_| attempt())
        .min_by_key(|&(_, _, error)| error)
        .expect("there is at least one attempt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_nanoseconds_that_passed() {
        let calibration =
            Calibration::between((1_000, 5_000, 10), (3_000_001_000, 1_000_005_000, 20));
        assert_eq!(
            calibration.nanos(3_000_000_000),
            999_999_999,
            "3 GHz: the scale is rounded down"
        );
        assert!(calibration.ticks(1_000_000).abs_diff(3_000_000) <= 1);
        assert_eq!(calibration.error_of(1_000_000_000), 30 + 20);
    }

    #[test]
    fn the_counter_of_this_machine_agrees_with_its_clock_where_it_is_invariant() {
        if invariant().is_err() {
            return;
        }
        let calibration = Calibration::of_this_machine();
        let (first, last) = (pair(), {
            std::thread::sleep(std::time::Duration::from_millis(20));
            pair()
        });
        let (by_counter, by_clock) = (calibration.nanos(last.0 - first.0), last.1 - first.1);
        // The tolerance of 1000 parts per million is far above the errors of both clocks, but far
        // below the error of a wrong rate.
        assert!(
            (by_counter - by_clock).abs() <= by_clock / 1000 + first.2 + last.2,
            "{by_counter} against {by_clock}"
        );
    }
}
