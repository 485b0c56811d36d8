//! One check with its numbers, its limit, and the sentence for reports.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hold_out::HoldOut;
use crate::mixture::Mixture;
use crate::records::Records;
use crate::runs_test::RunsTest;
use crate::stationarity::Kpss;
use crate::threshold::EXCEEDANCES_MIN;

/// Minimum probability in the test of random order and in the test that compares the two halves.
/// Each of these two tests rejects one good series in a hundred.
const TIME_PROBABILITY_MIN: f64 = 0.01;
/// Minimum probability in the test of the fit. The test rejects one true model in twenty.
const FIT_PROBABILITY_MIN: f64 = 0.05;
/// Maximum correlation. A correlation of this size hardly changes a confidence bound, because n
/// such samples still count as 2n/3 independent samples.
const CORRELATION_MAX: f64 = 0.2;
/// Maximum distance of the number of records, or of a correlation, from the value that is expected
/// for independent values. The distance is in standard deviations.
const DEVIATIONS_MAX: f64 = 3.3;
/// Smallest shape at which the variance is infinite. Data with such a shape are a mixture, or they
/// drift; no latency has this distribution.
const SHAPE_MAX: f64 = 0.5;
/// Maximum ratio of a model's horizon to the measured length.
const HORIZON_RATIO_MAX: f64 = 100.0;

/// One question about the tail, with the numbers that answer it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Check {
    /// Whether there are enough clusters of exceedances for a fit.
    Exceedances {
        /// Number of independent excursions above the threshold.
        clusters: u64,
    },
    /// How strongly exceedances cluster. This check always passes, because the fit uses only the
    /// largest value of each cluster.
    Clusters {
        /// The extremal index; 1 if exceedances do not cluster.
        extremal_index: f64,
        /// Number of exceedances, before each cluster is replaced by its largest value.
        exceedances: u64,
    },
    /// Whether block maxima are uncorrelated with earlier block maxima.
    Independence {
        /// The largest absolute correlation between block maxima and the block maxima 1 to 10
        /// blocks earlier.
        largest: f64,
        /// The number of block maxima.
        blocks: u64,
    },
    /// Whether block maxima above and below their median follow each other in random order.
    Order(RunsTest),
    /// Whether the level of block maxima is constant.
    Level(Kpss),
    /// Whether new maxima are as rare as in independent values.
    Records(Records),
    /// Whether the first and the second half of the block maxima have the same distribution.
    Halves {
        /// The Kolmogorov-Smirnov distance.
        distance: f64,
        /// Probability that chance alone makes the distributions differ at least as much.
        probability: f64,
    },
    /// Whether the tail has a finite variance.
    Shape {
        /// Shape of the fitted distribution.
        shape: f64,
    },
    /// Whether the fitted distribution describes the excesses.
    Fit {
        /// Anderson and Darling's statistic; for rounded data, chi-square.
        statistic: f64,
        /// Probability that the statistic is at least as large if the model is true.
        probability: f64,
    },
    /// Whether the largest values belong to the same tail as the values below them.
    Mixture(Mixture),
    /// Whether a fit of the first half predicted the second half.
    HoldOut(HoldOut),
    /// Whether the horizon is close enough to the measured length.
    Horizon {
        /// The horizon divided by the number of measured samples.
        ratio: f64,
    },
    /// A check that could not be made; it counts as failed.
    Unmeasured { what: String },
}

impl Check {
    /// Returns whether the data gave no reason to refuse the model.
    #[must_use]
    pub fn passed(&self) -> bool {
        match self {
            Self::Exceedances { clusters } => *clusters >= EXCEEDANCES_MIN,
            Self::Clusters { .. } => true,
            Self::Independence { largest, blocks } => *largest <= correlation_limit(*blocks),
            Self::Order(runs) => runs.probability >= TIME_PROBABILITY_MIN,
            Self::Level(kpss) => kpss.statistic <= Kpss::CRITICAL_1_PERCENT,
            Self::Records(records) => records.deviate() <= DEVIATIONS_MAX,
            Self::Halves { probability, .. } => *probability >= TIME_PROBABILITY_MIN,
            Self::Shape { shape } => *shape < SHAPE_MAX,
            Self::Fit { probability, .. } => *probability >= FIT_PROBABILITY_MIN,
            Self::Mixture(mixture) => mixture.foreign.is_empty(),
            Self::HoldOut(hold_out) => hold_out.passed(),
            Self::Horizon { ratio } => *ratio <= HORIZON_RATIO_MAX,
            Self::Unmeasured { .. } => false,
        }
    }
}

/// Returns the largest allowed correlation. It is above [`CORRELATION_MAX`] for few blocks, because
/// chance alone can then exceed that value.
fn correlation_limit(blocks: u64) -> f64 {
    CORRELATION_MAX.max(DEVIATIONS_MAX / (blocks as f64).sqrt())
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exceedances { clusters } => write!(
                formatter,
                "{clusters} clusters of exceedances; at least {EXCEEDANCES_MIN} are needed"
            ),
            Self::Clusters {
                extremal_index,
                exceedances,
            } => {
                write!(
                    formatter,
                    "extremal index {extremal_index:.3} of {exceedances} exceedances; each cluster \
                     is counted once"
                )
            }
            Self::Independence { largest, blocks } => {
                let limit = correlation_limit(*blocks);
                write!(
                    formatter,
                    "{blocks} block maxima correlate by up to {largest:.3} with earlier ones, \
                     limit {limit:.3}"
                )
            }
            Self::Order(RunsTest {
                runs,
                expected,
                probability,
                ..
            }) => {
                write!(
                    formatter,
                    "runs of block maxima on one side of their median: {runs}, expected \
                     {expected:.1}, p = {probability:.4}"
                )
            }
            Self::Level(Kpss { statistic, .. }) => {
                write!(
                    formatter,
                    "KPSS statistic {statistic:.3} for a constant level of block maxima, limit {}",
                    Kpss::CRITICAL_1_PERCENT
                )
            }
            Self::Records(Records {
                seen,
                expected,
                deviation,
            }) => {
                write!(
                    formatter,
                    "block maxima above all earlier ones: {seen}, expected {expected:.1} +- \
                     {deviation:.1}"
                )
            }
            Self::Halves {
                distance,
                probability,
            } => {
                write!(
                    formatter,
                    "the halves of the block maxima differ by {distance:.3} in distribution, p = \
                     {probability:.4}"
                )
            }
            Self::Shape { shape } => {
                write!(
                    formatter,
                    "the tail has shape {shape:.3}, limit {SHAPE_MAX}"
                )
            }
            Self::Fit {
                statistic,
                probability,
            } => {
                write!(
                    formatter,
                    "goodness of fit {statistic:.3}, p = {probability:.4}; p must be at least \
                     {FIT_PROBABILITY_MIN}"
                )
            }
            Self::Mixture(Mixture {
                candidates,
                foreign,
            }) if foreign.is_empty() => {
                write!(
                    formatter,
                    "the {candidates} largest excesses fit the tail below them"
                )
            }
            Self::Mixture(Mixture { foreign, .. }) => {
                write!(
                    formatter,
                    "the {} largest excesses come from another cause than the tail below them",
                    foreign.len()
                )
            }
            Self::HoldOut(hold_out) => hold_out.fmt(formatter),
            Self::Horizon { ratio } => {
                write!(
                    formatter,
                    "the prediction covers {ratio:.1} times as many samples as were measured, \
                     limit {HORIZON_RATIO_MAX}"
                )
            }
            Self::Unmeasured { what } => write!(
                formatter,
                "{what} could not be checked: too few samples, measure longer"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_divides_passed_from_failed() {
        let pairs = [
            (
                Check::Exceedances { clusters: 50 },
                Check::Exceedances { clusters: 49 },
            ),
            (
                Check::Independence {
                    largest: 0.2,
                    blocks: 1000,
                },
                Check::Independence {
                    largest: 0.21,
                    blocks: 1000,
                },
            ),
            (
                Check::Independence {
                    largest: 0.6,
                    blocks: 25,
                },
                Check::Independence {
                    largest: 0.7,
                    blocks: 25,
                },
            ),
            (
                Check::Halves {
                    distance: 0.1,
                    probability: 0.02,
                },
                Check::Halves {
                    distance: 0.1,
                    probability: 0.001,
                },
            ),
            (Check::Shape { shape: 0.4 }, Check::Shape { shape: 0.5 }),
            (
                Check::Fit {
                    statistic: 0.5,
                    probability: 0.06,
                },
                Check::Fit {
                    statistic: 0.5,
                    probability: 0.04,
                },
            ),
            (
                Check::Horizon { ratio: 100.0 },
                Check::Horizon { ratio: 101.0 },
            ),
            (
                Check::Level(Kpss {
                    statistic: 0.7,
                    lags: 2,
                }),
                Check::Level(Kpss {
                    statistic: 0.8,
                    lags: 2,
                }),
            ),
            (
                Check::Records(Records {
                    seen: 10,
                    expected: 7.0,
                    deviation: 2.0,
                }),
                Check::Records(Records {
                    seen: 15,
                    expected: 7.0,
                    deviation: 2.0,
                }),
            ),
            (
                Check::Mixture(Mixture {
                    candidates: 9,
                    foreign: vec![],
                }),
                Check::Mixture(Mixture {
                    candidates: 9,
                    foreign: vec![5.0],
                }),
            ),
        ];
        for (good, bad) in pairs {
            assert!(good.passed() && !bad.passed(), "{good} | {bad}");
        }
        assert!(
            !Check::Shape { shape: f64::NAN }.passed()
                && !Check::Horizon { ratio: f64::NAN }.passed()
        );
    }

    #[test]
    fn a_check_survives_json() {
        let check = Check::Records(Records {
            seen: 3,
            expected: 2.5,
            deviation: 1.0,
        });
        let text = serde_json::to_string(&check).unwrap();
        assert!(text.contains("\"check\":\"records\""), "{text}");
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check);
    }
}
