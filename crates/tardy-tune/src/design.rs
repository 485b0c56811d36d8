//! Chooses the settings of each run by two-level designs, in which every setting is on in half of
//! the runs, and any two settings are on together in a quarter of them.
//!
//! The designs are those of Plackett and Burman ("The design of optimum multifactorial
//! experiments", Biometrika 33, 1946), built from Paley's matrices. Each design is run together
//! with its mirror image, so that the effect of one setting is not confounded with the interaction
//! of two others (Box and Wilson, Journal of the Royal Statistical Society B 13, 1951).

/// Primes of the form 4k + 3. The design of a prime has one row more than the prime, and room for
/// as many settings as the prime.
const PRIMES: [usize; 8] = [3, 7, 11, 19, 23, 31, 43, 47];
/// Maximum number of settings in a search.
pub const SETTINGS_MAX: usize = PRIMES[PRIMES.len() - 1];

/// Returns the runs of a design for `settings` settings, followed by its mirror image. Each run
/// lists whether each setting is on. The result is empty if there are no settings, or too many.
///
/// Every setting is on in half of the runs, and the columns of any two settings are uncorrelated.
#[must_use]
pub fn folded(settings: usize) -> Vec<Vec<bool>> {
    let Some(prime) = PRIMES
        .into_iter()
        .find(|&prime| (1..=prime).contains(&settings))
    else {
        return Vec::new();
    };
    let mut is_square = vec![false; prime];
    (1..prime).for_each(|number| is_square[number * number % prime] = true);
    let row = |shift: usize| -> Vec<bool> {
        // The difference 0 counts as a square. Each setting is therefore on in one row more than it
        // is off; the last row, in which all settings are off, compensates for this.
        (0..settings)
            .map(|column| (column + prime - shift) % prime)
            .map(|place| place == 0 || is_square[place])
            .collect()
    };
    let mut rows: Vec<Vec<bool>> = (0..prime).map(row).collect();
    rows.push(vec![false; settings]);
    let mirrored: Vec<Vec<bool>> = rows
        .iter()
        .map(|row| row.iter().map(|on| !on).collect())
        .collect();
    rows.extend(mirrored);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_on_in_half_of_the_runs_and_any_two_are_uncorrelated() {
        for settings in 1..=SETTINGS_MAX {
            let rows = folded(settings);
            assert!(rows.len() >= 2 * (settings + 1), "{settings}");
            let sign = |row: &[bool], column: usize| if row[column] { 1 } else { -1 };
            for one in 0..settings {
                assert_eq!(
                    rows.iter().map(|row| sign(row, one)).sum::<i32>(),
                    0,
                    "setting {one} of {settings}"
                );
                for other in 0..one {
                    assert_eq!(
                        rows.iter()
                            .map(|row| sign(row, one) * sign(row, other))
                            .sum::<i32>(),
                        0,
                        "{one} and {other} of {settings}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_two_settings_do_together_is_mixed_with_no_effect_of_one() {
        for settings in [3, 9, 20] {
            let rows = folded(settings);
            let sign = |row: &[bool], column: usize| if row[column] { 1 } else { -1 };
            for effect in 0..settings {
                for one in 0..settings {
                    for other in 0..one {
                        let sum: i32 = rows
                            .iter()
                            .map(|row| sign(row, effect) * sign(row, one) * sign(row, other))
                            .sum();
                        assert_eq!(sum, 0, "{effect} with {one} and {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_setting_and_too_many_have_no_design() {
        assert!(folded(0).is_empty() && folded(SETTINGS_MAX + 1).is_empty());
    }
}
