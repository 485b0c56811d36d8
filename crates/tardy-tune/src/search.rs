//! Finds the settings that matter on this machine, by an experiment in three stages. First, the
//! runs of a balanced design vary all settings at once; the settings that seem to have an effect
//! become candidates. Then, each candidate gets pairs of runs that differ in that setting. Last,
//! pairs of runs compare the machine with all useful settings, applied together, and the machine
//! without settings.
//!
//! Only a candidate's pairs decide whether it is useful or harmful. The pairs are separate from the
//! runs that picked the candidates, because the best of many settings looks good by chance in the
//! runs that picked it. `confidence` limits the probability that a search calls any ineffective
//! setting useful or harmful.
//!
//! The pairs of a candidate also vary the other candidates. Each other candidate is randomly on or
//! off, equally in both runs of a pair, so the effect is an average over the other settings, as in
//! the design.
//!
//! The length of a search is a number of runs, which is computed from the budget at the start. If
//! the search ended at a point in time instead, a resumed search would not make the same runs.

use rand::RngExt;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use tardy_statistics::confidence::Confidence;
use tardy_statistics::profile::normal_deviate;

use crate::design;
use crate::pairs::{self, Difference};
use crate::screening::{Screening, Trial, screening};

/// A setting becomes a candidate if chance alone would give an effect as large as the setting's
/// with a probability of at most this value. One in ten ineffective settings becomes a candidate,
/// but few effective ones are lost.
const PROBABILITY_OF_CANDIDATES: f64 = 0.1;
/// Minimum number of pairs of runs for a candidate. With fewer pairs, Wilcoxon's signed ranks
/// cannot reach the confidence that all statements share.
const PAIRS_MIN: usize = 16;
/// Maximum number of pairs of runs for a candidate. More pairs would hardly narrow the interval.
const PAIRS_MAX: usize = 40;
/// Maximum number of replicates of the design.
const REPLICATES_MAX: usize = 6;
/// Number of pairs of runs that compare all useful settings with no settings.
const PAIRS_TOGETHER: usize = 10;

/// Performs the runs of a search.
pub trait Bench {
    /// Why a run gave no result, which ends the search.
    type Error;

    /// Measures a run with the settings `on` applied, and all other settings unchanged. Returns the
    /// metric in ns.
    ///
    /// # Errors
    /// Returns an error if the run gave no result.
    fn measure(&mut self, on: &[bool]) -> Result<f64, Self::Error>;

    /// Called before each stage, with the maximum number of its runs.
    fn begin(&mut self, stage: Stage, runs: usize);
}

/// A stage of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The design with all settings, repeated `replicates` times.
    Screening { replicates: usize },
    /// Pairs of runs for each of these settings.
    Pairs { settings: Vec<usize> },
    /// Pairs of runs, one with all of these settings and one with none of them.
    Together { settings: Vec<usize> },
}

/// The budget and the parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Total number of runs.
    pub runs: usize,
    /// Confidence of all statements about settings together.
    pub confidence: Confidence,
    /// Seed of the random order of runs.
    pub seed: u64,
}

/// Why a search cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SearchError<E> {
    #[error(
        "there is no setting to search: every setting already has the wanted value, or does not apply to this machine"
    )]
    NoSetting,
    #[error("{0} settings are too many for a search, which takes at most {max}: name some with --only", max = design::SETTINGS_MAX)]
    TooMany(usize),
    /// The search needs `needed` runs, but the budget allows only `there` runs.
    #[error(
        "these settings need {needed} runs, but the budget allows {there}: give a larger \
         --budget, a shorter --for, or fewer settings"
    )]
    TooFew { needed: usize, there: usize },
    #[error(transparent)]
    Run(E),
}

/// The effect of a setting on the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The setting lowers the metric.
    Lowers,
    /// The setting raises the metric.
    Raises,
    /// The search saw no effect; the interval limits the size of an unseen effect.
    NothingSeen,
}

impl Outcome {
    /// Returns the outcome that follows from a difference and its interval.
    #[must_use]
    pub fn of(difference: &Difference) -> Self {
        match difference {
            found if !found.is_decided() => Self::NothingSeen,
            found if found.value < 0.0 => Self::Lowers,
            _ => Self::Raises,
        }
    }
}

/// The result of one setting. The exponential of a difference is the factor by which the metric
/// changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SettingResult {
    pub outcome: Outcome,
    /// Logarithm of the metric with the setting, minus the logarithm without it.
    pub difference: Difference,
    /// Number of pairs of runs behind the result; 0 if it comes from the design alone.
    pub pairs: usize,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The result of each setting, in the order of the settings.
    pub settings: Vec<SettingResult>,
    /// The metric in ns with all settings unchanged: the geometric mean of the runs without any
    /// setting, or of all runs of the design if there are none.
    pub base_ns: f64,
    /// The smallest effect that nine of ten searches with this budget would find, as a fraction of
    /// the metric. It is computed for the case that only one setting has an effect.
    pub smallest_share: f64,
    /// The effect of all useful settings together; absent if fewer than two are useful, or if the
    /// budget has no runs for this comparison. The interval of this effect has the full
    /// `confidence`; only the results of single settings share one `confidence` among them.
    pub together: Option<Difference>,
    /// Number of runs that were made.
    pub runs: usize,
}

impl SearchResult {
    /// Returns the indices of the settings that lower the metric.
    #[must_use]
    pub fn useful(&self) -> Vec<usize> {
        let lowers = |(place, found): (usize, &SettingResult)| {
            (found.outcome == Outcome::Lowers).then_some(place)
        };
        self.settings
            .iter()
            .enumerate()
            .filter_map(lowers)
            .collect()
    }
}

/// Returns the minimum number of runs for a search of `settings` settings.
#[must_use]
pub fn runs_min(settings: usize) -> usize {
    design::folded(settings).len() + 2 * PAIRS_MIN
}

/// Checks whether `runs` runs are enough for a search of `settings` settings.
///
/// # Errors
/// Returns any [`SearchError`] except [`SearchError::Run`].
pub fn check<E>(settings: usize, runs: usize) -> Result<(), SearchError<E>> {
    let needed = runs_min(settings);
    match settings {
        0 => Err(SearchError::NoSetting),
        _ if design::folded(settings).is_empty() => Err(SearchError::TooMany(settings)),
        _ if runs < needed => Err(SearchError::TooFew {
            needed,
            there: runs,
        }),
        _ => Ok(()),
    }
}

/// Runs a search. With the same seed and the same measured values, the search makes the same runs
/// in the same order, so it can be resumed.
///
/// # Errors
/// Returns [`SearchError`].
pub fn search<B: Bench>(
    settings: usize,
    effort: Effort,
    bench: &mut B,
) -> Result<SearchResult, SearchError<B::Error>> {
    check(settings, effort.runs)?;
    let rows = design::folded(settings);
    let mut state = State {
        bench,
        random: Pcg64Mcg::seed_from_u64(effort.seed),
        runs: 0,
        as_found: Vec::new(),
    };
    let half = Confidence::new(1.0 - effort.confidence.miss() / 2.0).unwrap_or(effort.confidence);
    let replicates = (effort.runs / 2 / rows.len()).clamp(1, REPLICATES_MAX);
    let trials = state.screening(&rows, replicates)?;
    let Screening {
        effects: of_design,
        spread,
    } = screening(
        &trials,
        half.shared_by(u32::try_from(settings).unwrap_or(u32::MAX)),
    );
    let left = effort.runs - state.runs;
    let mut candidates: Vec<usize> = (0..settings)
        .filter(|&setting| of_design[setting].probability <= PROBABILITY_OF_CANDIDATES)
        .collect();
    candidates.sort_by(|&a, &b| {
        of_design[a]
            .probability
            .total_cmp(&of_design[b].probability)
    });
    candidates.truncate(left / (2 * PAIRS_MIN));
    let mut found: Vec<SettingResult> = of_design
        .iter()
        .map(|effect| SettingResult {
            outcome: Outcome::NothingSeen,
            difference: effect.difference,
            pairs: 0,
        })
        .collect();
    let count = candidates.len();
    let together_runs = if count > 1 && left >= 2 * (count * PAIRS_MIN + PAIRS_TOGETHER) {
        2 * PAIRS_TOGETHER
    } else {
        0
    };
    let pairs = ((left - together_runs) / (2 * count.max(1))).min(PAIRS_MAX);
    if count > 0 {
        for (setting, result) in state.pairs(&candidates, settings, pairs, half)? {
            found[setting] = result;
        }
    }
    // The smallest effect is computed for one more candidate, because an effective setting would
    // share the pairs with candidates that chance selected.
    let shared = ((left - together_runs) / (2 * (count + 1))).min(PAIRS_MAX);
    let smallest_share = smallest(
        spread,
        trials.len(),
        shared,
        confidence_of_pairs(half, count + 1, shared),
    )
    .exp_m1();
    let mut result = SearchResult {
        settings: found,
        base_ns: 0.0,
        smallest_share,
        together: None,
        runs: 0,
    };
    let useful = result.useful();
    if useful.len() > 1 && together_runs > 0 {
        result.together = state.together(&useful, settings, effort.confidence)?;
    }
    let values: Vec<f64> = if state.as_found.is_empty() {
        trials.iter().map(|trial| trial.value).collect()
    } else {
        state.as_found
    };
    result.base_ns = (values.iter().sum::<f64>() / values.len() as f64).exp();
    result.runs = state.runs;
    Ok(result)
}

/// Returns how many times the candidates are judged by their pairs: once, at the end, or twice, if
/// there are enough pairs to judge them halfway, too.
fn looks(pairs: usize) -> usize {
    if pairs >= 2 * PAIRS_MIN { 2 } else { 1 }
}

/// Returns the confidence of one judgement of one candidate, chosen such that all judgements
/// together have `confidence`.
fn confidence_of_pairs(confidence: Confidence, candidates: usize, pairs: usize) -> Confidence {
    confidence.shared_by(u32::try_from(candidates * looks(pairs)).unwrap_or(u32::MAX))
}

/// Returns the smallest effect that nine of ten searches find. A search finds an effect only if the
/// design selects its setting and the pairs then confirm it. For pairs, 5 % is added because signed
/// ranks are less efficient than a test of normal differences.
fn smallest(spread: f64, runs: usize, pairs: usize, confidence: Confidence) -> f64 {
    let one =
        |miss: f64| normal_deviate(Confidence::new(1.0 - miss).unwrap_or(Confidence::NINETY_FIVE));
    // The effect must pass each of the two stages with probability 0.95. `one` expects the
    // probability of both tails, so 0.05 in one tail is passed as 0.1.
    let most = one(0.1);
    let design = (one(PROBABILITY_OF_CANDIDATES) + most) * 2.0 * spread / (runs as f64).sqrt();
    let of_pairs = (one(confidence.miss()) + most) * spread * 2.0_f64.sqrt() * 1.05
        / (pairs.max(1) as f64).sqrt();
    design.max(of_pairs)
}

struct State<'a, B> {
    bench: &'a mut B,
    random: Pcg64Mcg,
    runs: usize,
    /// Logarithms of the metric in runs without any setting.
    as_found: Vec<f64>,
}

impl<B: Bench> State<'_, B> {
    fn measure(&mut self, on: &[bool]) -> Result<f64, SearchError<B::Error>> {
        let value = self
            .bench
            .measure(on)
            .map_err(SearchError::Run)?
            .max(1.0)
            .ln();
        self.runs += 1;
        if !on.contains(&true) {
            self.as_found.push(value);
        }
        Ok(value)
    }

    /// Runs the design. Each replicate has its own random order, so drift is not confounded with a
    /// setting.
    fn screening(
        &mut self,
        rows: &[Vec<bool>],
        replicates: usize,
    ) -> Result<Vec<Trial>, SearchError<B::Error>> {
        self.bench
            .begin(Stage::Screening { replicates }, replicates * rows.len());
        let mut trials = Vec::with_capacity(replicates * rows.len());
        for replicate in 0..replicates {
            let mut order: Vec<&Vec<bool>> = rows.iter().collect();
            order.shuffle(&mut self.random);
            for on in order {
                trials.push(Trial {
                    replicate,
                    on: on.clone(),
                    value: self.measure(on)?,
                });
            }
        }
        Ok(trials)
    }

    /// Runs the pairs of all candidates, one pair of each candidate in every round. In each pair,
    /// the other candidates are randomly on or off, in the same way in both runs, as in the design.
    /// If there are enough pairs, the candidates are judged halfway, too, and the stage ends there
    /// if all of them are decided. Each single judgement needs a higher confidence, so that all
    /// judgements together have `confidence`.
    fn pairs(
        &mut self,
        candidates: &[usize],
        settings: usize,
        pairs: usize,
        confidence: Confidence,
    ) -> Result<Vec<(usize, SettingResult)>, SearchError<B::Error>> {
        self.bench.begin(
            Stage::Pairs {
                settings: candidates.to_vec(),
            },
            2 * candidates.len() * pairs,
        );
        let confidence = confidence_of_pairs(confidence, candidates.len(), pairs);
        let mut differences = vec![Vec::with_capacity(pairs); candidates.len()];
        for pair in 0..pairs {
            for (place, &candidate) in candidates.iter().enumerate() {
                let mut on = vec![false; settings];
                candidates
                    .iter()
                    .for_each(|&other| on[other] = self.random.random());
                differences[place].push(self.pair(&mut on, &[candidate])?);
            }
            if looks(pairs) == 2 && pair + 1 == pairs / 2 {
                let found = judged(candidates, &differences, confidence);
                if found
                    .iter()
                    .all(|(_, result)| result.difference.is_decided())
                {
                    return Ok(found);
                }
            }
        }
        Ok(judged(candidates, &differences, confidence))
    }

    fn together(
        &mut self,
        useful: &[usize],
        settings: usize,
        confidence: Confidence,
    ) -> Result<Option<Difference>, SearchError<B::Error>> {
        self.bench.begin(
            Stage::Together {
                settings: useful.to_vec(),
            },
            2 * PAIRS_TOGETHER,
        );
        let mut differences = Vec::with_capacity(PAIRS_TOGETHER);
        for _ in 0..PAIRS_TOGETHER {
            differences.push(self.pair(&mut vec![false; settings], useful)?);
        }
        Ok(pairs::difference(&differences, confidence))
    }

    /// Measures a pair. Returns the logarithm of the metric with `varied` on, minus the logarithm
    /// with `varied` off. The order of the two runs is random.
    fn pair(&mut self, on: &mut [bool], varied: &[usize]) -> Result<f64, SearchError<B::Error>> {
        let mut values = [0.0; 2];
        let first: bool = self.random.random();
        for is_on in [first, !first] {
            varied.iter().for_each(|&setting| on[setting] = is_on);
            values[usize::from(is_on)] = self.measure(on)?;
        }
        Ok(values[1] - values[0])
    }
}

fn judged(
    candidates: &[usize],
    differences: &[Vec<f64>],
    confidence: Confidence,
) -> Vec<(usize, SettingResult)> {
    let judge = |(&setting, differences): (&usize, &Vec<f64>)| {
        let difference = pairs::difference(differences, confidence)?;
        Some((
            setting,
            SettingResult {
                outcome: Outcome::of(&difference),
                difference,
                pairs: differences.len(),
            },
        ))
    };
    candidates
        .iter()
        .zip(differences)
        .filter_map(judge)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine. Some settings multiply the metric, the others have no effect. Runs vary
    /// randomly and drift.
    struct SimulatedMachine {
        factors: Vec<f64>,
        spread: f64,
        random: Pcg64Mcg,
        runs: usize,
    }

    impl SimulatedMachine {
        fn new(factors: &[f64], spread: f64, seed: u64) -> Self {
            Self {
                factors: factors.to_vec(),
                spread,
                random: Pcg64Mcg::seed_from_u64(seed),
                runs: 0,
            }
        }
    }

    impl Bench for SimulatedMachine {
        type Error = std::convert::Infallible;

        fn measure(&mut self, on: &[bool]) -> Result<f64, Self::Error> {
            self.runs += 1;
            let factor: f64 = self
                .factors
                .iter()
                .zip(on)
                .filter(|(_, on)| **on)
                .map(|(factor, _)| factor)
                .product();
            // Maxima have a heavy upper tail, so the logarithm varies with a Gumbel distribution.
            let draw: f64 = self.random.random_range(f64::MIN_POSITIVE..1.0);
            Ok(50_000.0
                * factor
                * (self.spread * -(-draw.ln()).ln()).exp()
                * (1.0 + 0.001 * self.runs as f64))
        }

        fn begin(&mut self, _: Stage, _: usize) {}
    }

    fn effort(seed: u64, runs: usize) -> Effort {
        Effort {
            runs,
            confidence: Confidence::NINETY_FIVE,
            seed,
        }
    }

    #[test]
    fn of_searches_over_ten_settings_that_do_nothing_at_most_one_in_twenty_calls_any_useful() {
        let wrong = |&seed: &u64| {
            let found = search(
                10,
                effort(seed, 240),
                &mut SimulatedMachine::new(&[1.0; 10], 0.2, seed + 1000),
            )
            .unwrap();
            found
                .settings
                .iter()
                .any(|setting| setting.outcome != Outcome::NothingSeen)
        };
        let searches = 400;
        let wrong = (0..searches).filter(wrong).count();
        // The expected number is 5 % of 400, which is 20. One in a thousand such tests would exceed
        // 34 by chance.
        assert!(wrong <= 34, "{wrong} of {searches}");
    }

    #[test]
    fn an_effect_is_found_in_every_search_and_lies_in_its_interval() {
        let mut factors = [1.0; 10];
        factors[3] = 0.45;
        let searches = 300;
        let (mut found_in, mut covered) = (0, 0);
        for seed in 0..searches {
            let found = search(
                10,
                effort(seed, 240),
                &mut SimulatedMachine::new(&factors, 0.2, seed + 5000),
            )
            .unwrap();
            found_in += u64::from(found.settings[3].outcome == Outcome::Lowers);
            covered += u64::from(
                found.settings[3]
                    .difference
                    .interval
                    .contains(0.45_f64.ln()),
            );
        }
        assert_eq!(found_in, searches);
        assert!(covered * 100 >= searches * 95, "{covered} of {searches}");
    }

    #[test]
    fn the_smallest_effect_that_is_promised_is_found_in_nine_searches_of_ten() {
        let promised = search(
            10,
            effort(1, 240),
            &mut SimulatedMachine::new(&[1.0; 10], 0.2, 1),
        )
        .unwrap()
        .smallest_share;
        let mut factors = [1.0; 10];
        factors[6] = 1.0 / (1.0 + promised);
        let is_found = |&seed: &u64| {
            let found = search(
                10,
                effort(seed, 240),
                &mut SimulatedMachine::new(&factors, 0.2, seed + 9000),
            )
            .unwrap();
            found.settings[6].outcome == Outcome::Lowers
        };
        let found = (0..300).filter(is_found).count();
        // The expected number is nine tenths of 300, which is 270. One in a thousand such tests
        // would fall below 254 by chance.
        assert!(found >= 254, "{found} of 300 at {promised}");
    }

    #[test]
    fn harm_is_called_harm_and_what_helps_is_tried_together() {
        let found = search(
            4,
            effort(1, 400),
            &mut SimulatedMachine::new(&[0.5, 1.0, 0.7, 1.8], 0.1, 2),
        )
        .unwrap();
        let outcomes: Vec<Outcome> = found
            .settings
            .iter()
            .map(|setting| setting.outcome)
            .collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Lowers,
                Outcome::NothingSeen,
                Outcome::Lowers,
                Outcome::Raises
            ]
        );
        assert_eq!(found.useful(), [0, 2]);
        let together = found.together.unwrap();
        assert!(together.interval.contains(0.35_f64.ln()), "{together:?}");
        assert!(
            (found.base_ns / 50_000.0 - 1.2).abs() < 0.2,
            "{}",
            found.base_ns
        );
        assert!(found.runs <= 400 && found.smallest_share > 0.0, "{found:?}");
    }

    #[test]
    fn the_same_seed_makes_the_same_search() {
        let one = |seed| {
            search(
                5,
                effort(seed, 200),
                &mut SimulatedMachine::new(&[0.8; 5], 0.2, 3),
            )
            .unwrap()
        };
        assert_eq!(one(7), one(7));
        assert_ne!(one(7), one(8));
    }

    #[test]
    fn a_budget_that_is_too_small_is_refused_with_what_is_needed() {
        let error = search(
            10,
            effort(1, 20),
            &mut SimulatedMachine::new(&[1.0; 10], 0.1, 1),
        )
        .unwrap_err();
        assert!(
            matches!(
                error,
                SearchError::TooFew {
                    needed: 56,
                    there: 20
                }
            ),
            "{error}"
        );
        assert!(matches!(
            search(0, effort(1, 20), &mut SimulatedMachine::new(&[], 0.1, 1)),
            Err(SearchError::NoSetting)
        ));
    }
}
