//! One check with its numbers, its limit, and the sentence that a report prints.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hold_out::HoldOut;
use crate::mixture::Mixture;
use crate::records::Records;
use crate::runs_test::RunsTest;
use crate::stationarity::Kpss;
use crate::threshold::EXCEEDANCES_MIN;

/// Tests on time order fail one good series in a hundred; there are three of them.
const TIME_PROBABILITY_MIN: f64 = 0.01;
/// A fit is refused if data from it would look this bad once in twenty times.
const FIT_PROBABILITY_MIN: f64 = 0.05;
/// A correlation that hardly changes a bound: the effective number of samples is at least two
/// thirds.
const CORRELATION_MAX: f64 = 0.2;
/// Standard deviations of records, or of a correlation of independent values, beyond chance.
const DEVIATIONS_MAX: f64 = 3.3;
/// Shape from which on the variance is infinite: the data are then a mixture or a drift, not a
/// latency distribution.
const SHAPE_MAX: f64 = 0.5;
/// Maximum ratio of a model's horizon to the measured length.
const HORIZON_RATIO_MAX: f64 = 100.0;

/// One question about the tail, answered by numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Check {
    /// Enough clusters of exceedances to fit.
    Exceedances {
        /// Independent excursions over the threshold.
        clusters: u64,
    },
    /// The clustering of exceedances. Never fails: clusters are replaced by their largest value.
    Clusters {
        /// 1 = alone.
        extremal_index: f64,
        /// Before declustering.
        exceedances: u64,
    },
    /// Block maxima do not predict each other.
    Independence {
        /// The largest correlation over the first lags.
        largest: f64,
        /// The number of block maxima.
        blocks: u64,
    },
    /// Block maxima above and below their median follow each other at random.
    Order(RunsTest),
    /// Block maxima keep their level.
    Level(Kpss),
    /// The running maximum is beaten as rarely as chance has it.
    Records(Records),
    /// First and second half of the block maxima have one distribution.
    Halves {
        /// Kolmogorov and Smirnov's.
        distance: f64,
        /// Probability of a distance at least as large by chance.
        probability: f64,
    },
    /// The tail has a variance.
    Shape {
        /// Shape of the fit.
        shape: f64,
    },
    /// The fit describes the excesses.
    Fit {
        /// Anderson and Darling's, or chi-square for rounded data.
        statistic: f64,
        /// Probability of a statistic at least as large if the model is true.
        probability: f64,
    },
    /// The largest values belong to the tail below them.
    Mixture(Mixture),
    /// A fit of the first half predicted the second.
    HoldOut(HoldOut),
    /// The model does not reach too far.
    Horizon {
        /// Samples asked about by samples measured.
        ratio: f64,
    },
    /// Something could not be checked, which counts as failed.
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

/// Few blocks correlate by chance.
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
                    "extremal index {extremal_index:.3} of {exceedances} exceedances; each \
                     cluster counts once"
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
                    "the {candidates} largest excesses belong to the tail below them"
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
                    "the model must predict {ratio:.1} times as many samples as were measured, \
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
