//! Computes bounds that hold for any distribution. They limit percentiles (from order statistics),
//! the shares of samples above given limits, and the share of values at or below the maximum.
//! Samples depend on each other in time and across CPUs, so all bounds use the effective number of
//! samples.

use serde::Serialize;
use tardy_core::histogram::Histogram;
use tardy_core::summary::dependence::Dependence;
use tardy_core::summary::numbers::{Percentile, percentiles_at};
use tardy_core::units::Nanos;
use tardy_statistics::confidence::Confidence;
use tardy_statistics::tolerance::samples_needed;

/// The percentiles for which bounds are computed.
pub const PERCENTILES: [f64; 9] = [
    0.5,
    0.9,
    0.95,
    0.99,
    0.999,
    0.9999,
    0.999_99,
    0.999_999,
    0.999_999_9,
];
const CONFIDENCE: Confidence = Confidence::NINETY_FIVE;

/// Bounds for any distribution: the second of the three layers ([`crate::statistics`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bounds {
    /// Confidence of each single bound.
    pub confidence: f64,
    /// Number of independent samples that would give bounds of the median as narrow as the bounds
    /// from these dependent samples.
    pub effective_samples: f64,
    /// Whether samples are assumed to be independent, because there are too few to check it.
    pub is_independence_assumed: bool,
    /// Percentiles, with bounds from order statistics.
    pub percentiles: Vec<Percentile>,
    /// For each limit, the share of samples above it.
    pub exceedances: Vec<Exceedance>,
    /// Lower bound of the fraction of samples that do not exceed the observed maximum (Wilks; the
    /// reverse of the rule of three).
    pub covered_by_max: f64,
    /// How many samples would be needed so that a larger share of all values lies at or below their
    /// maximum. The shares are the two smallest of 99.999 %, 99.9999 % and so on for which there
    /// are too few samples.
    pub needed: Vec<SamplesNeeded>,
}

/// The number and share of samples that exceed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Exceedance {
    pub limit_ns: Nanos,
    /// Number of samples above the limit.
    pub samples: u64,
    /// Upper bound of the fraction of samples above the limit (Clopper and Pearson).
    pub share_upper: f64,
    /// Upper bound of how many samples exceed the limit per hour at the run's sampling rate. If
    /// there are several series, it applies to the sum of their samples. Absent if the length of
    /// the run is unknown, or if the share has no bound.
    pub an_hour_upper: Option<f64>,
}

/// The number of samples that are needed so that at least the fraction `share` of all values lies
/// at or below their maximum, with the confidence of [`Bounds`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SamplesNeeded {
    pub share: f64,
    /// Number of samples, provided that further samples cluster like the existing ones.
    pub samples: u64,
}

/// Computes the bounds for one series or several together; `None` if there are no samples. `limits`
/// must be in ascending order.
#[must_use]
pub fn bounds(
    histogram: &Histogram,
    dependence: &Dependence,
    length: Nanos,
    limits: &[Nanos],
) -> Option<Bounds> {
    let samples = histogram.count();
    let of_max = dependence.above(0.0);
    if samples == 0 {
        return None;
    }
    let exceedance = |&limit_ns: &Nanos| {
        let above = histogram.above(limit_ns.get());
        let hours = length.as_secs_f64() / 3600.0;
        let share_upper = dependence.above(above as f64 / samples as f64).share_upper(
            above as f64,
            samples as f64,
            CONFIDENCE,
        );
        let is_bounded = share_upper < 1.0 || above == samples;
        Exceedance {
            limit_ns,
            samples: above,
            share_upper,
            an_hour_upper: (hours > 0.0 && is_bounded)
                .then(|| share_upper * samples as f64 / hours),
        }
    };
    let needed = (5..=9)
        .map(|digits| 1.0 - 10_f64.powi(-digits))
        .filter_map(|share| {
            let samples = samples_needed(share, 1, CONFIDENCE)? as f64 * of_max.unseen;
            Some(SamplesNeeded {
                share,
                samples: samples.ceil() as u64,
            })
        });
    Some(Bounds {
        confidence: CONFIDENCE.get(),
        effective_samples: dependence.above(0.5).effective(samples),
        is_independence_assumed: dependence.is_assumed(),
        percentiles: percentiles(histogram, dependence),
        exceedances: limits.iter().map(exceedance).collect(),
        covered_by_max: CONFIDENCE.miss().powf(of_max.unseen / samples as f64),
        needed: needed
            .filter(|needed| needed.samples > samples && of_max.unseen.is_finite())
            .take(2)
            .collect(),
    })
}

fn percentiles(histogram: &Histogram, dependence: &Dependence) -> Vec<Percentile> {
    let samples = histogram.count() as f64;
    // Percentiles far beyond the last sample are left out.
    let wanted: Vec<f64> = PERCENTILES
        .into_iter()
        .filter(|probability| (1.0 - probability) * samples >= 0.1)
        .collect();
    percentiles_at(histogram, dependence, &wanted)
}

impl Bounds {
    /// Removes numbers that are unknown because the individual values of samples at or above `open`
    /// are unknown.
    pub fn forget_from(&mut self, open: Nanos) {
        self.percentiles
            .retain(|percentile| percentile.value_ns < open.get());
        self.exceedances
            .retain(|exceedance| exceedance.limit_ns < open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::Budget;

    fn uniform(samples: i64) -> Histogram {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        (1..=samples).for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn a_million_without_a_miss_bound_the_share_by_the_rule_of_three() {
        let found = bounds(
            &uniform(1_000_000),
            &Dependence::of_extremal_index(1_000_000, 1.0),
            Nanos::from_secs(1000),
            &[Nanos(1_000_000)],
        )
        .unwrap();
        // The known one-sided upper bound at 95 %, if 0 of 1e6 samples exceed the limit.
        assert!((found.exceedances[0].share_upper - 2.995_727_8e-6).abs() < 1e-12);
        assert!((1.0 - found.covered_by_max - 2.995_727_8e-6).abs() < 1e-12);
        // The numbers of samples by the formula of Wilks, for all but 1e-6 and all but 1e-7 of the
        // values.
        assert_eq!(
            found
                .needed
                .iter()
                .map(|needed| needed.samples)
                .collect::<Vec<_>>(),
            [2_995_731, 29_957_322]
        );
        // The samples with the ranks 999983 and 999997 are the known bounds of the 99.999 %
        // quantile.
        let percentile = found
            .percentiles
            .iter()
            .find(|percentile| percentile.probability == 0.999_99)
            .unwrap();
        assert_eq!(
            (percentile.lower_ns, percentile.upper_ns),
            (Some(999_983), Some(999_997))
        );
    }

    #[test]
    fn clustered_samples_say_less() {
        let of = |index| {
            bounds(
                &uniform(100_000),
                &Dependence::of_extremal_index(100_000, index),
                Nanos::from_secs(100),
                &[Nanos(99_990)],
            )
            .unwrap()
        };
        let (alone, clustered) = (of(1.0), of(0.25));
        assert!(clustered.exceedances[0].share_upper > alone.exceedances[0].share_upper);
        assert!(
            clustered.covered_by_max < alone.covered_by_max
                && clustered.needed[0].samples > alone.needed[0].samples
        );
        assert!(
            bounds(
                &Histogram::new(Budget::ANALYSIS),
                &Dependence::unknown(0, 1),
                Nanos::ZERO,
                &[]
            )
            .is_none()
        );
    }
}
