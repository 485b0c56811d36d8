//! Finds where the tail starts: fits the tail over each threshold of a grid, and chooses the lowest
//! threshold that the data do not contradict.
//!
//! If the threshold is too low, the fit includes the body of the distribution. If it is too high,
//! too few values remain. The results for the grid contain the data of the classical plots (mean
//! excess, shape and modified scale against the threshold). The chosen threshold is the lowest one
//! at and above which no fit is rejected. The false discovery rate over all tests is limited.
//! Estimates usually vary more from threshold to threshold than their intervals suggest, so this
//! variation is part of the result. Sources: Coles 2001, section 4.3; Bader, Yan, Zhang, Annals of
//! Applied Statistics 12, 2018 (ForwardStop).

use super::confidence::Interval;
use super::goodness::tail_fit::tail_fit;
use super::goodness::two_sample::Test;
use super::gpd::box_cox;
use super::gpd::excesses::Excesses;
use super::gpd::fit::{GpdFit, fit};
use super::tally::Tally;

/// Minimum number of exceedances over a threshold.
pub const EXCEEDANCES_MIN: u64 = 50;
/// Maximum number of exceedances over a threshold. If there are more exceedances, the threshold is
/// too low for the limit distribution, and fits take long.
pub const EXCEEDANCES_MAX: u64 = 10_000;
/// Maximum fraction of samples that may count as the tail.
const SHARE_MAX: f64 = 0.02;
const THRESHOLDS: u32 = 20;
/// False discovery rate of ForwardStop: the share of wrong rejections among all rejections.
const FALSE_DISCOVERIES: f64 = 0.05;

/// One threshold with its fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The threshold, in the unit of the data.
    pub threshold: f64,
    /// The mean excess over the threshold. Above a good threshold, the mean excess is a linear
    /// function of the threshold.
    pub mean_excess: f64,
    /// The standard error of this mean excess.
    pub mean_excess_error: f64,
    /// The fit. Above a good threshold, the shape is constant.
    pub fit: GpdFit,
    /// The result of testing whether the fit describes the excesses; `None` if this cannot be
    /// tested.
    pub test: Option<Test>,
    /// The level that is exceeded once per horizon, according to this fit; `None` if it is below
    /// the threshold.
    pub return_level: Option<f64>,
}

impl Candidate {
    /// Returns the modified scale: the scale without the part that depends on the threshold. Above
    /// a good threshold, it is constant.
    #[must_use]
    pub fn modified_scale(&self) -> f64 {
        self.fit.model.scale - self.fit.model.shape * self.threshold
    }
}

/// All tested thresholds in ascending order, and the lowest of those that were accepted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// The thresholds that could be fitted.
    pub candidates: Vec<Candidate>,
    /// Index of the lowest threshold at and above which no fit is rejected; `None` if there is no
    /// such threshold.
    pub chosen: Option<usize>,
}

impl Scan {
    #[must_use]
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen?)
    }

    /// Returns the smallest and the largest return level of all accepted thresholds.
    #[must_use]
    pub fn spread(&self) -> Option<Interval> {
        let levels = || {
            self.candidates[self.chosen.unwrap_or(self.candidates.len())..]
                .iter()
                .filter_map(|candidate| candidate.return_level)
        };
        Some(Interval {
            lower: levels().reduce(f64::min)?,
            upper: levels().reduce(f64::max)?,
        })
    }
}

/// The parameters of a scan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Number of all samples, including those that are not in the tally.
    pub samples: u64,
    /// The resolution of the values, in their unit: 1 for whole nanoseconds.
    pub width: f64,
    /// The horizon: the number of samples in which a return level is exceeded once on average.
    pub horizon: f64,
    /// The extremal index; 1 for independent samples.
    pub extremal_index: f64,
}

/// Scans thresholds that are exceeded by 50 to 10,000 samples. At most 2 % of the samples may
/// exceed a threshold; if 2 % is fewer than 50 samples, the limit is 50 samples. `tally` must
/// contain at least the largest 10,000 samples.
#[must_use]
pub fn scan(tally: &Tally, question: Question) -> Scan {
    let most =
        ((question.samples as f64 * SHARE_MAX) as u64).clamp(EXCEEDANCES_MIN, EXCEEDANCES_MAX);
    if tally.total() <= EXCEEDANCES_MIN {
        return Scan::default();
    }
    let ratio = most as f64 / EXCEEDANCES_MIN as f64;
    let mut thresholds: Vec<f64> = (0..THRESHOLDS)
        .map(|step| {
            EXCEEDANCES_MIN as f64 * ratio.powf(1.0 - f64::from(step) / f64::from(THRESHOLDS - 1))
        })
        .filter_map(|count| tally.at_rank(tally.total().checked_sub(count.round() as u64)?))
        .collect();
    thresholds.dedup();
    let candidates: Vec<Candidate> = thresholds
        .into_iter()
        .filter_map(|threshold| candidate(tally, threshold, question))
        .collect();
    let probabilities: Vec<f64> = candidates
        .iter()
        .map(|candidate| candidate.test.map_or(0.0, |test| test.probability))
        .collect();
    let chosen = forward_stop(&probabilities, FALSE_DISCOVERIES);
    Scan { candidates, chosen }
}

fn candidate(tally: &Tally, threshold: f64, question: Question) -> Option<Candidate> {
    let excesses = Excesses::over(tally, threshold, question.width);
    let count = excesses.count();
    let fit = fit(&excesses)
        .ok()
        .filter(|_| count >= EXCEEDANCES_MIN / 2)?;
    let expected =
        question.horizon * count as f64 / question.samples as f64 * question.extremal_index;
    let level = threshold + fit.model.scale * box_cox(expected, fit.model.shape);
    Some(Candidate {
        threshold,
        mean_excess: excesses.moments().mean()?,
        mean_excess_error: (excesses.moments().variance()? / count as f64).sqrt(),
        fit,
        test: tail_fit(&excesses, fit.model),
        return_level: (expected > 1.0).then_some(level),
    })
}

/// Returns the index that follows the last rejected hypothesis. `probabilities` are in the order of
/// testing, and hypotheses are rejected one after another, starting with the first. Returns `None`
/// if all hypotheses are rejected.
fn forward_stop(probabilities: &[f64], level: f64) -> Option<usize> {
    let mut sum = 0.0;
    let mut first = 0;
    for (index, probability) in probabilities.iter().enumerate() {
        sum -= (-probability.min(1.0 - 1e-15)).ln_1p();
        if sum / (index as f64 + 1.0) <= level {
            first = index + 1;
        }
    }
    (first < probabilities.len()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::Gpd;
    use crate::reference::rain;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn forward_stop_rejects_up_to_the_last_small_mean() {
        assert_eq!(forward_stop(&[0.001, 0.01, 0.3, 0.6], 0.05), Some(2));
        // A single large value between small ones does not stop the rejections: the running means
        // of -ln(1-p) are 0.001, 0.0306, 0.0207 and 0.17.
        assert_eq!(forward_stop(&[0.001, 0.058, 0.001, 0.46], 0.05), Some(3));
        assert_eq!(forward_stop(&[0.5, 0.6], 0.05), Some(0));
        assert_eq!(forward_stop(&[0.001, 0.002], 0.05), None);
        assert_eq!(forward_stop(&[], 0.05), None);
    }

    #[test]
    fn a_pareto_tail_over_another_body_is_found_where_it_begins() {
        let model = Gpd {
            scale: 30.0,
            shape: 0.1,
        };
        let truth = 100.0 + model.excess_at(1e-6 / 0.01);
        let mut covered = 0;
        for seed in 0..10 {
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            // The body of the distribution rises from 0 to 100. The tail is 1 % of the samples,
            // from 100 up.
            let samples: Vec<f64> = (0..100_000)
                .map(|i| {
                    if i % 100 == 0 {
                        100.0 + model.excess_at(random.random())
                    } else {
                        100.0 * random.random::<f64>().powf(0.2)
                    }
                })
                .collect();
            let question = Question {
                samples: 100_000,
                width: 1e-9,
                horizon: 1e6,
                extremal_index: 1.0,
            };
            let scan = scan(&Tally::from_samples(&samples), question);
            let chosen = scan.chosen().unwrap();
            assert!((98.0..140.0).contains(&chosen.threshold), "{chosen:?}");
            assert!((chosen.fit.model.shape - 0.1).abs() < 0.12, "{chosen:?}");
            assert!(scan.candidates[0].test.unwrap().probability < 0.01);
            covered += u32::from(scan.spread().unwrap().contains(truth));
        }
        // The spread over thresholds is not a confidence interval, because all fits use the same
        // large values and their errors are similar.
        assert!(covered >= 5, "{covered}");
    }

    #[test]
    fn the_rain_is_accepted_near_the_threshold_of_the_book() {
        let tally = Tally::from_samples(&rain());
        let scan = scan(
            &tally,
            Question {
                samples: tally.total(),
                width: 0.1,
                horizon: 36_500.0,
                extremal_index: 1.0,
            },
        );
        let chosen = scan.chosen().unwrap();
        assert!((20.0..=40.0).contains(&chosen.threshold), "{chosen:?}");
        let spread = scan.spread().unwrap();
        assert!(spread.lower < 106.3 && spread.upper > 90.0, "{spread:?}");
        assert!(
            scan.candidates
                .is_sorted_by(|a, b| a.threshold < b.threshold)
        );
        // The mean excess over a threshold is (scale + shape * threshold) / (1 - shape), from which
        // the modified scale follows.
        let Gpd { scale, shape } = chosen.fit.model;
        assert!((chosen.modified_scale() - (scale - shape * chosen.threshold)).abs() < 1e-12);
        assert!(
            (chosen.mean_excess * (1.0 - shape) - scale).abs() < 3.0 * chosen.mean_excess_error
        );
    }

    #[test]
    fn rounded_data_are_scanned_by_their_buckets() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(8);
        let model = Gpd {
            scale: 6.0,
            shape: 0.0,
        };
        let samples: Vec<f64> = (0..50_000)
            .map(|_| model.excess_at(random.random::<f64>()).floor())
            .collect();
        let scan = scan(
            &Tally::from_samples(&samples),
            Question {
                samples: 50_000,
                width: 1.0,
                horizon: 5e6,
                extremal_index: 1.0,
            },
        );
        let chosen = scan.chosen().unwrap();
        assert!(chosen.fit.model.shape.abs() < 0.15, "{chosen:?}");
        let truth = model.excess_at(1.0 / 5e6);
        assert!(
            (chosen.return_level.unwrap() / truth - 1.0).abs() < 0.4,
            "{chosen:?} {truth}"
        );
    }

    #[test]
    fn too_few_samples_have_no_threshold() {
        let question = Question {
            samples: 40,
            width: 1.0,
            horizon: 1e6,
            extremal_index: 1.0,
        };
        let scan = scan(
            &Tally::from_counts((0..40).map(|i| (f64::from(i), 1))),
            question,
        );
        assert_eq!(
            (scan.candidates.len(), scan.chosen, scan.spread()),
            (0, None, None)
        );
    }
}
