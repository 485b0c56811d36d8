//! Computes the dispersion: the variance of the number of events, divided by the variance that
//! independent events would have. The variance is estimated from batches of events (intervals of
//! time), as a long-run variance.
//!
//! An interval of time has `events` events in `trials` trials. In each interval, the number of
//! events deviates from the expected number. If intervals are longer than the correlation length,
//! the sum of the squared deviations over all intervals estimates the variance of the total. The
//! correlation length is unknown, so neighbouring intervals are merged again and again, and the
//! largest of all estimated variances is used. If there are few intervals, the estimate of the
//! variance is uncertain, so it is increased in the way in which Student's t widens an interval.
//! Korn and Graubard (Survey Methodology 24, 1998) define the effective number of clustered samples
//! in this way.
//!
//! Bounds use an effective number of samples, which is different for each percentile. The effective
//! number comes from the variance of the number of samples above the percentile, over at most 256
//! time blocks that are merged repeatedly. In the far tail, the extremal index is used if it shows
//! more dependence. A block is 2^k ns long and starts at a multiple of its length on the run's
//! clock, so all CPUs have the same blocks. Blocks therefore do not depend on how a series was
//! divided, and a stall of several CPUs at once counts as one event.
//!
//! A percentile has no bound if its effective number of samples is below 60. The samples may drift
//! in this case, and the drift may also influence rarer samples. Rarer samples have a bound if at
//! least 60 clusters of them were observed. Phases with different names are expected to have
//! different latencies, so such a difference does not count as dependence.

/// Minimum degrees of freedom for an estimate of a variance.
pub const FREEDOM_MIN: usize = 12;
/// Minimum degrees of freedom if no dependence is visible. Merging intervals further would add only
/// noise, because the largest of several uncertain estimates is too large.
pub const FREEDOM_OF_INDEPENDENT: usize = 24;
/// The two-sided 95 % deviate of the normal distribution.
const NORMAL: f64 = 1.959_964;
/// Dispersion above which samples certainly depend on each other. An estimate above this limit is
/// still smaller than the true dispersion. As a correction, [`dispersion`] compares the estimate
/// with that from intervals of half the length, and adds the difference a second time.
pub const DEPENDENT: f64 = 2.0;
/// Minimum effective number of trials for a bound. If intervals are shorter than the correlation
/// length, the estimated variance is several times too small. With a minimum of 30, bounds for
/// series with 10 changes between two levels held in 90 % of the cases instead of 95 %.
const EFFECTIVE_MIN: f64 = 60.0;

/// The numbers of events and trials in an interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stretch {
    /// Stratum of the interval. Each stratum has its own expected share of events, and intervals of
    /// different strata are never merged.
    pub stratum: u64,
    /// Position in time. The positions of neighbouring intervals differ by 1.
    pub place: i64,
    /// Number of events.
    pub events: u64,
    /// Number of trials: how often an event could have occurred.
    pub trials: u64,
}

/// Returns the variance of the number of events, divided by the variance that independent events
/// would have; at least 1. Returns infinity if the effective number of trials is too small for a
/// bound, and `None` if there are too few intervals.
///
/// `stretches` must be sorted by stratum and position. Neighbours are merged as long as
/// `freedom_min` degrees of freedom remain. `freedom_min` should be [`FREEDOM_MIN`] or more.
#[must_use]
pub fn dispersion(stretches: &[Stretch], freedom_min: usize) -> Option<f64> {
    let mut joined: Vec<Stretch> = stretches
        .iter()
        .copied()
        .filter(|stretch| stretch.trials > 0)
        .collect();
    let trials: u64 = joined.iter().map(|stretch| stretch.trials).sum();
    let (mut largest, mut shorter): (Option<f64>, f64) = (None, f64::INFINITY);
    while let Some(found) = of_batches(&joined, freedom_min) {
        // If the dependence is shorter than the interval length L, the estimate is too small by a
        // share proportional to 1/L. If the length is doubled, this shortfall is halved, so adding
        // the growth a second time compensates for it.
        let growth = if found > DEPENDENT {
            (found - shorter).max(0.0)
        } else {
            0.0
        };
        largest = Some((found + growth).max(largest.unwrap_or(1.0)));
        shorter = found;
        joined = pairs(&joined);
    }
    largest.map(|dispersion| {
        if trials as f64 / dispersion < EFFECTIVE_MIN {
            f64::INFINITY
        } else {
            dispersion
        }
    })
}

fn of_batches(stretches: &[Stretch], freedom_min: usize) -> Option<f64> {
    let strata = || {
        stretches
            .chunk_by(|a, b| a.stratum == b.stratum)
            .filter(|stratum| stratum.len() > 1)
    };
    let freedom: usize = strata().map(|stratum| stratum.len() - 1).sum();
    if freedom < freedom_min {
        return None;
    }
    let (mut variance, mut independent) = (0.0, 0.0);
    for stratum in strata() {
        let (events, trials) = stratum.iter().fold((0, 0), |(events, trials), one| {
            (events + one.events, trials + one.trials)
        });
        let share = events as f64 / trials as f64;
        let squares: f64 = stratum
            .iter()
            .map(|one| (one.events as f64 - share * one.trials as f64).powi(2))
            .sum();
        variance += squares * stratum.len() as f64 / (stratum.len() - 1) as f64;
        independent += events as f64 * (1.0 - share);
    }
    if independent <= 0.0 {
        return Some(1.0);
    }
    let widening = student(freedom as f64) / NORMAL;
    Some((variance / independent * widening * widening).max(1.0))
}

/// Returns Student's two-sided 95 % deviate by Cornish and Fisher's expansion, which is fast and
/// accurate to four digits from [`FREEDOM_MIN`] degrees of freedom.
fn student(freedom: f64) -> f64 {
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// Merges each pair of neighbouring intervals.
fn pairs(stretches: &[Stretch]) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::with_capacity(stretches.len() / 2 + 1);
    for one in stretches {
        let place = one.place >> 1;
        match joined.last_mut() {
            Some(last) if last.stratum == one.stratum && last.place == place => {
                last.events += one.events;
                last.trials += one.trials;
            }
            _ => joined.push(Stretch { place, ..*one }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn stretches(events: impl Fn(usize) -> u64) -> Vec<Stretch> {
        (0..256)
            .map(|place| Stretch {
                stratum: 0,
                place: place as i64,
                events: events(place),
                trials: 1000,
            })
            .collect()
    }

    #[test]
    fn independent_events_are_little_above_one() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let mut found: Vec<f64> = (0..100)
            .map(|_| {
                let events: Vec<u64> = (0..256)
                    .map(|_| (0..1000).map(|_| u64::from(random.random_bool(0.01))).sum())
                    .collect();
                dispersion(&stretches(|place| events[place]), FREEDOM_OF_INDEPENDENT).unwrap()
            })
            .collect();
        found.sort_by(f64::total_cmp);
        assert!(found[50] < 1.4 && found[0] >= 1.0, "{found:?}");
    }

    #[test]
    fn events_in_one_stretch_have_their_number() {
        // The 80 events form a single cluster with one cause, so the dispersion is 80.
        let found = dispersion(
            &stretches(|place| if place == 17 { 80 } else { 0 }),
            FREEDOM_MIN,
        )
        .unwrap();
        assert!((80.0..110.0).contains(&found), "{found}");
    }

    #[test]
    fn levels_of_strata_are_no_dependence() {
        let two = |stratum: fn(i64) -> u64| {
            let mut list = stretches(|place| if place < 128 { 10 } else { 500 });
            list.iter_mut()
                .for_each(|one| one.stratum = stratum(one.place));
            dispersion(&list, FREEDOM_MIN).unwrap()
        };
        assert!(two(|_| 0) > 100.0);
        assert_eq!(two(|place| u64::from(place >= 128)), 1.0);
    }

    #[test]
    fn the_expansion_gives_students_deviate() {
        use crate::{confidence::Confidence, student::deviate};
        for freedom in [12.0, 20.0, 255.0] {
            assert!(
                (student(freedom) / deviate(Confidence::NINETY_FIVE, freedom) - 1.0).abs() < 1e-4
            );
        }
    }

    #[test]
    fn a_run_of_few_changes_bounds_nothing() {
        let few = stretches(|place| if (place / 40) % 2 == 0 { 0 } else { 900 });
        assert_eq!(dispersion(&few, FREEDOM_MIN), Some(f64::INFINITY));
        assert!(
            dispersion(
                &stretches(|place| if place % 2 == 0 { 0 } else { 900 }),
                FREEDOM_MIN
            )
            .unwrap()
            .is_finite()
        );
    }

    #[test]
    fn too_few_stretches_tell_nothing() {
        assert_eq!(
            dispersion(&stretches(|_| 1)[..FREEDOM_MIN], FREEDOM_MIN),
            None
        );
        assert_eq!(dispersion(&[], FREEDOM_MIN), None);
        assert_eq!(dispersion(&stretches(|_| 0), FREEDOM_MIN), Some(1.0));
    }
}
