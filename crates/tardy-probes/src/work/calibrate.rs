//! Finds the number of steps that take a given time. The minimum of many trials is used, because
//! disturbances only make a trial longer.

use std::io;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

/// Minimum length of a trial. With this length, the two clock reads around it take less than a
/// thousandth of its time.
const TRIAL_MIN: Nanos = Nanos::from_micros(100);
const TRIALS_OF_A_STEP: u64 = 25;
/// Number of trials of the whole unit, if all of them together take less than
/// [`TRIALS_LENGTH_MAX`].
const TRIALS_OF_THE_UNIT: i64 = 25;
const TRIALS_LENGTH_MAX: Nanos = Nanos::from_millis(200);
const TRIALS_OF_THE_UNIT_MIN: i64 = 3;
const UNIT_CORRECTED_MAX: Nanos = Nanos::from_millis(1);
const STEPS_MAX: u64 = 1 << 48;

/// What a calibration found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Number of steps of the unit.
    pub steps: u64,
    /// The shortest time that the unit took, including one clock read.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
}

impl Calibration {
    /// Returns by how much the unit deviates from the requested length, relative to that length. It
    /// exceeds a few percent if a single step takes longer than the unit, or if every trial was
    /// disturbed.
    #[must_use]
    pub fn deviation(&self, length: Nanos) -> f64 {
        (self.measured - length).get() as f64 / length.get() as f64
    }
}

/// Finds how many steps take `length`. `trial` runs the given number of steps and returns the time.
pub(super) fn calibrate(
    length: Nanos,
    mut trial: impl FnMut(u64) -> io::Result<Nanos>,
) -> io::Result<Calibration> {
    let mut steps = 1;
    // Each number of steps is tried several times, because a single disturbed trial would make too
    // few steps look long enough.
    let block = loop {
        let block = least(TRIALS_OF_A_STEP, || trial(steps))?;
        if block >= TRIAL_MIN || steps >= STEPS_MAX {
            break block;
        }
        steps *= 2;
    };
    let mut steps = in_proportion(steps, length, block);
    let repeats = (TRIALS_LENGTH_MAX.get() / length.get().max(1))
        .clamp(TRIALS_OF_THE_UNIT_MIN, TRIALS_OF_THE_UNIT) as u64;
    let mut measured = least(repeats, || trial(steps))?;
    // In a short unit, the clock reads and the call take a relevant share of the time, but not in
    // the long trial. So a short unit is corrected. A long unit is not corrected, because this
    // share is negligible there, and its few trials could not distinguish the share from a
    // disturbance.
    let corrected = in_proportion(steps, length, measured);
    if corrected != steps && length < UNIT_CORRECTED_MAX {
        let again = least(repeats, || trial(corrected))?;
        if (again - length).get().abs() <= (measured - length).get().abs() {
            (steps, measured) = (corrected, again);
        }
    }
    Ok(Calibration { steps, measured })
}

fn least(repeats: u64, mut trial: impl FnMut() -> io::Result<Nanos>) -> io::Result<Nanos> {
    let mut least = Nanos::MAX;
    for _ in 0..repeats {
        least = least.min(trial()?);
    }
    Ok(least)
}

/// Returns the number of steps that take `length`, if `steps` steps took the time `took`; at least
/// one.
fn in_proportion(steps: u64, length: Nanos, took: Nanos) -> u64 {
    let (length, took) = (length.get().max(0) as u128, took.get().max(1) as u128);
    ((u128::from(steps) * length + took / 2) / took).clamp(1, u128::from(STEPS_MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    /// Simulates a machine with a time per step in ps and an additional time per trial in ns. About
    /// half of the trials are disturbed.
    fn machine(step_ps: u64, fixed: i64) -> impl FnMut(u64) -> io::Result<Nanos> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        move |steps| {
            let disturbed = if random.random_bool(0.5) {
                random.random_range(0..5_000_000)
            } else {
                0
            };
            Ok(Nanos((steps * step_ps / 1000) as i64 + fixed + disturbed))
        }
    }

    proptest! {
        #[test]
        fn the_unit_has_its_length_to_half_a_step_whatever_disturbs_trials(
            length in 1_000_i64..50_000_000, step_ps in 300_u64..2_000_000, fixed in 0_i64..60,
        ) {
            let found = calibrate(Nanos(length), machine(step_ps, fixed)).unwrap();
            let exact = (found.steps * step_ps / 1000) as i64 + fixed;
            let step = (step_ps / 1000) as i64 + 1;
            // If the unit is tried only a few times, all of these trials may be disturbed. In this
            // case, the number of steps comes from the long trial alone.
            let tolerance = step + fixed + length / 500;
            prop_assert!((exact - length).abs() <= tolerance || found.steps == 1, "{exact} for {length}, steps of {step_ps} ps: {found:?}");
        }
    }

    #[test]
    fn a_step_longer_than_the_unit_is_done_once_and_the_deviation_says_so() {
        let found = calibrate(Nanos(1_000), |steps| Ok(Nanos(3_000 * steps as i64))).unwrap();
        assert_eq!(
            found,
            Calibration {
                steps: 1,
                measured: Nanos(3_000)
            }
        );
        assert!((found.deviation(Nanos(1_000)) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_failure_of_the_work_ends_the_calibration() {
        let failed = calibrate(Nanos(1_000), |_| Err(io::Error::from_raw_os_error(24)));
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(24));
    }
}
