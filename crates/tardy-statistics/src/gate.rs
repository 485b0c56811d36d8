//! The gate that a model must pass before any extrapolation: a list of checks, each with the
//! numbers that decide it. A return level is shown only if all checks pass.
//!
//! If a model passes, the data gave no reason to refuse it. This does not prove that the model is
//! true. The result applies only to the measured conditions, not to the machine in general.
//!
//! A tail model covers one series under one load, because samples of several CPUs or loads together
//! form a mixture of distributions. If the chronological order of the samples is unknown, no model
//! can pass. A refused model is printed only on request, marked as refused, and is never drawn.

mod check;
mod hold_out;

pub use check::Check;
pub use hold_out::HoldOut;

use super::autocorrelation::autocorrelation;
use super::clusters::clusters;
use super::confidence::Confidence;
use super::goodness::tail_fit::tail_fit;
use super::goodness::two_sample::kolmogorov_smirnov;
use super::gpd::excesses::Excesses;
use super::gpd::return_level::Tail;
use super::mixture::mixture;
use super::records::records;
use super::runs_test::runs_test;
use super::stationarity::kpss;
use super::tally::Tally;

/// Number of distances at which the correlation of block maxima is computed.
const LAGS: usize = 10;
/// Minimum number of block maxima for the checks that look for changes and patterns over time.
const BLOCKS_MIN: usize = 20;

/// What is known about the tail of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence<'a> {
    pub samples: u64,
    /// The threshold in the unit of the data; if the data are rounded, the edge of a bucket.
    pub threshold: f64,
    /// Sample number and value of each exceedance, in chronological order. Exceedances are values
    /// above the threshold; if the data are rounded, values at the threshold also count.
    pub exceedances: &'a [(u64, f64)],
    /// The largest value of each block, for blocks of equal length in chronological order. The
    /// checks that look for changes and patterns over time need at least 20 blocks.
    pub block_maxima: &'a [f64],
    /// The resolution of the values, in their unit.
    pub width: f64,
    /// The horizon to which the model is extrapolated, in samples.
    pub horizon: f64,
}

/// The results of all checks, and the fitted tail that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// All checks, in the order in which reports explain them.
    pub checks: Vec<Check>,
    /// The fit of the cluster maxima; `None` if nothing could be fitted. The fit counts each
    /// cluster once, so the tail's extremal index is 1.
    pub tail: Option<Tail>,
}

impl Gate {
    /// Returns whether every check passed, so that the model may be shown.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tail.is_some() && self.checks.iter().all(Check::passed)
    }
}

/// Runs all checks. Each cluster is first replaced by its largest value, and these values are
/// fitted.
#[must_use]
pub fn gate(evidence: &Evidence<'_>) -> Gate {
    let positions: Vec<u64> = evidence
        .exceedances
        .iter()
        .map(|exceedance| exceedance.0)
        .collect();
    let found = clusters(&positions);
    let maxima: Vec<(u64, f64)> = match &found {
        Some(found) => found
            .ranges
            .iter()
            .filter_map(|range| largest(&evidence.exceedances[range.clone()]))
            .collect(),
        None => evidence.exceedances.to_vec(),
    };
    let excesses = excesses_of(&maxima, evidence);
    let mut checks = vec![Check::Exceedances {
        clusters: excesses.count(),
    }];
    checks.push(match &found {
        Some(found) => Check::Clusters {
            extremal_index: found.extremal_index,
            exceedances: positions.len() as u64,
        },
        None => unmeasured("clusters"),
    });
    checks.extend(checks_over_time(evidence.block_maxima));
    let tail = Tail::new(evidence.threshold, evidence.samples, 1.0, excesses).ok();
    checks.extend(
        tail.as_ref()
            .map_or_else(|| vec![unmeasured("fit")], checks_of_fit),
    );
    checks.push(
        hold_out::hold_out(&maxima, evidence, Confidence::NINETY_FIVE)
            .map_or_else(|| unmeasured("hold-out"), Check::HoldOut),
    );
    checks.push(Check::Horizon {
        ratio: evidence.horizon / evidence.samples as f64,
    });
    Gate { checks, tail }
}

fn unmeasured(what: &str) -> Check {
    Check::Unmeasured {
        what: what.to_owned(),
    }
}

fn largest(exceedances: &[(u64, f64)]) -> Option<(u64, f64)> {
    exceedances.iter().copied().reduce(|largest, exceedance| {
        if exceedance.1 > largest.1 {
            exceedance
        } else {
            largest
        }
    })
}

fn excesses_of(maxima: &[(u64, f64)], evidence: &Evidence<'_>) -> Excesses {
    Excesses::over(
        &Tally::from_counts(maxima.iter().map(|maximum| (maximum.1, 1))),
        evidence.threshold,
        evidence.width,
    )
}

fn checks_over_time(maxima: &[f64]) -> Vec<Check> {
    if maxima.len() < BLOCKS_MIN {
        return vec![unmeasured("block maxima")];
    }
    let of_series = |check: Option<Check>, what: &str| check.unwrap_or_else(|| unmeasured(what));
    let blocks = maxima.len() as u64;
    let (first, second) = maxima.split_at(maxima.len() / 2);
    let halves = kolmogorov_smirnov(&Tally::from_samples(first), &Tally::from_samples(second));
    vec![
        of_series(
            autocorrelation(maxima, LAGS).map(|found| Check::Independence {
                largest: found.largest(),
                blocks,
            }),
            "independence",
        ),
        of_series(runs_test(maxima).map(Check::Order), "order"),
        of_series(kpss(maxima, None).map(Check::Level), "level"),
        Check::Records(records(maxima.iter().copied())),
        of_series(
            halves.map(|test| Check::Halves {
                distance: test.statistic,
                probability: test.probability,
            }),
            "halves",
        ),
    ]
}

fn checks_of_fit(tail: &Tail) -> Vec<Check> {
    let fit = match tail_fit(&tail.excesses, tail.fit.model) {
        Some(test) => Check::Fit {
            statistic: test.statistic,
            probability: test.probability,
        },
        None => unmeasured("goodness of fit"),
    };
    let mut checks = vec![
        Check::Shape {
            shape: tail.fit.model.shape,
        },
        fit,
    ];
    // The test for a second cause adds exact excesses one by one. If the excesses are known only as
    // counts in buckets, this test is impossible, and only a bad fit can reveal a second cause.
    if tail.excesses.values().is_some() {
        checks.push(mixture(&tail.excesses).map_or_else(|| unmeasured("mixture"), Check::Mixture));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::Gpd;
    use rand::{RngExt, SeedableRng};

    const SAMPLES: usize = 200_000;
    const BLOCK: usize = 1000;

    /// Runs the checks on exponential samples that were modified by `change`. The threshold is the
    /// value that 0.5 % of the samples exceed.
    fn judge(seed: u64, change: impl Fn(usize, f64) -> f64) -> Gate {
        judge_to(seed, 10.0, change)
    }

    fn judge_to(seed: u64, ratio: f64, change: impl Fn(usize, f64) -> f64) -> Gate {
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        let model = Gpd {
            scale: 1000.0,
            shape: 0.0,
        };
        let samples: Vec<f64> = (0..SAMPLES)
            .map(|i| change(i, model.excess_at(random.random::<f64>())))
            .collect();
        let threshold = Tally::from_samples(&samples).quantile(0.995).unwrap();
        let exceedances: Vec<(u64, f64)> = (0_u64..)
            .zip(&samples)
            .filter(|&(_, &value)| value > threshold)
            .map(|(i, &value)| (i, value))
            .collect();
        let block_maxima: Vec<f64> = samples
            .chunks(BLOCK)
            .map(|block| block.iter().copied().fold(0.0, f64::max))
            .collect();
        gate(&Evidence {
            samples: SAMPLES as u64,
            threshold,
            exceedances: &exceedances,
            block_maxima: &block_maxima,
            width: 1e-6,
            horizon: SAMPLES as f64 * ratio,
        })
    }

    fn failed(gate: &Gate) -> Vec<String> {
        gate.checks
            .iter()
            .filter(|check| !check.passed())
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn well_behaved_samples_open_the_gate() {
        let open = (0..20)
            .filter(|&seed| judge(seed, |_, value| value).is_open())
            .count();
        assert!(
            open >= 17,
            "{open}: {:?}",
            (0..20)
                .map(|seed| failed(&judge(seed, |_, value| value)))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_check_is_made_and_explained() {
        let gate = judge(1, |_, value| value);
        assert_eq!(gate.checks.len(), 12);
        assert!(
            gate.checks
                .iter()
                .all(|check| !matches!(check, Check::Unmeasured { .. })),
            "{:?}",
            gate.checks
        );
        assert!(gate.checks.iter().all(|check| check.to_string().len() > 20));
    }

    #[test]
    fn a_machine_that_gets_worse_does_not_pass() {
        let failed = failed(&judge(2, |i, value| {
            value * (1.0 + i as f64 / SAMPLES as f64)
        }));
        assert!(
            failed.iter().any(|text| text.contains("level"))
                && failed.iter().any(|text| text.contains("halves")),
            "{failed:?}"
        );
        assert!(
            failed.iter().any(|text| text.contains("hold-out")),
            "{failed:?}"
        );
    }

    #[test]
    fn a_rare_long_cause_does_not_pass() {
        let failed = failed(&judge(3, |i, value| {
            if i % 50_000 == 777 {
                900_000.0 + value
            } else {
                value
            }
        }));
        assert!(
            failed.iter().any(|text| text.contains("another cause")),
            "{failed:?}"
        );
    }

    #[test]
    fn a_wave_of_load_does_not_pass() {
        let failed = failed(&judge(4, |i, value| {
            if (i / (10 * BLOCK)).is_multiple_of(2) {
                value
            } else {
                value * 2.0
            }
        }));
        assert!(
            failed.iter().any(|text| text.contains("correlate")),
            "{failed:?}"
        );
    }

    #[test]
    fn clusters_are_judged_by_their_largest_value() {
        // In this test, every excursion above the threshold lasts four samples.
        let gate = judge(5, |_, value| value);
        let mut random = rand_pcg::Pcg64::seed_from_u64(5);
        let model = Gpd {
            scale: 1000.0,
            shape: 0.0,
        };
        let mut clustered = Vec::new();
        let mut at = 0_u64;
        while at < 200_000 {
            let value = 100.0 + model.excess_at(random.random::<f64>());
            clustered.extend((0..4).map(|i| (at + i, value * (1.0 - 0.01 * i as f64))));
            at += 10 + (-2000.0 * f64::ln(random.random_range(1e-9..1.0))) as u64;
        }
        let evidence = Evidence {
            samples: 200_000,
            threshold: 90.0,
            exceedances: &clustered,
            block_maxima: &[],
            width: 1e-6,
            horizon: 1e6,
        };
        let judged = super::gate(&evidence);
        let clusters = judged.tail.as_ref().unwrap().excesses.count();
        assert!(
            (clusters as f64 / (clustered.len() as f64 / 4.0) - 1.0).abs() < 0.15,
            "{clusters} of {}",
            clustered.len()
        );
        assert!(
            !judged.is_open(),
            "without block maxima nothing is known about time"
        );
        assert!(gate.tail.unwrap().excesses.count() > 900);
    }

    #[test]
    fn a_horizon_far_beyond_the_data_does_not_pass() {
        let failed = failed(&judge_to(1, 1e5, |_, value| value));
        assert_eq!(failed.len(), 1);
        assert!(failed[0].contains("100"), "{failed:?}");
    }

    #[test]
    fn nothing_is_not_judged() {
        let evidence = Evidence {
            samples: 0,
            threshold: 0.0,
            exceedances: &[],
            block_maxima: &[],
            width: 1.0,
            horizon: 1.0,
        };
        let gate = gate(&evidence);
        assert!(!gate.is_open() && gate.tail.is_none());
    }
}
