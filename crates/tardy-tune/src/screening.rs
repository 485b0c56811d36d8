//! Computes the effect of each setting in runs of a balanced design: the mean with the setting
//! minus the mean without it, from a linear model with a level for each replicate.

use tardy_statistics::confidence::{Confidence, Interval};
use tardy_statistics::student;

use crate::pairs::Difference;

/// One run of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Index of the replicate of the design.
    pub replicate: usize,
    /// Whether each setting was on.
    pub on: Vec<bool>,
    /// Logarithm of the metric's value.
    pub value: f64,
}

/// The effect of one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub difference: Difference,
    /// Probability that chance alone gives an effect of at least this size.
    pub probability: f64,
}

/// The result of all runs of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Screening {
    /// The effect of each setting, in the order of the settings.
    pub effects: Vec<Effect>,
    /// Standard deviation of the part of a run's value that settings do not explain.
    pub spread: f64,
}

/// Returns the effects of all settings, each interval at `confidence`. Every replicate must have
/// all runs of the design.
///
/// Interactions of settings count as noise, as all other variation between runs does: they widen
/// the intervals of all settings equally.
#[must_use]
pub fn screening(trials: &[Trial], confidence: Confidence) -> Screening {
    let settings = trials.first().map_or(0, |trial| trial.on.len());
    let replicates = trials
        .iter()
        .map(|trial| trial.replicate + 1)
        .max()
        .unwrap_or(0);
    let count = trials.len() as f64;
    let levels: Vec<f64> = (0..replicates)
        .map(|replicate| {
            let values: Vec<f64> = trials
                .iter()
                .filter(|trial| trial.replicate == replicate)
                .map(|trial| trial.value)
                .collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        })
        .collect();
    let sign = |trial: &Trial, setting: usize| if trial.on[setting] { 1.0 } else { -1.0 };
    let slope = |setting: usize| {
        trials
            .iter()
            .map(|trial| sign(trial, setting) * trial.value)
            .sum::<f64>()
            / count
    };
    let slopes: Vec<f64> = (0..settings).map(slope).collect();
    let residual = |trial: &Trial| {
        let model: f64 = slopes
            .iter()
            .enumerate()
            .map(|(setting, slope)| sign(trial, setting) * slope)
            .sum();
        trial.value - levels[trial.replicate] - model
    };
    let freedom = count - (replicates + settings) as f64;
    let variance = trials
        .iter()
        .map(|trial| residual(trial).powi(2))
        .sum::<f64>()
        / freedom;
    let error = 2.0 * (variance / count).sqrt();
    let reach = student::deviate(confidence, freedom) * error;
    let effect = |slope: &f64| {
        let value = 2.0 * slope;
        let interval = Interval {
            lower: value - reach,
            upper: value + reach,
        };
        Effect {
            difference: Difference { value, interval },
            probability: student::both_tails(value / error, freedom),
        }
    };
    Screening {
        effects: slopes.iter().map(effect).collect(),
        spread: variance.sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design;

    #[test]
    fn effects_are_found_beside_a_level_for_each_replicate() {
        let mut trials = Vec::new();
        for replicate in 0..2 {
            for (place, on) in design::folded(5).into_iter().enumerate() {
                let noise = 0.01 * (((place * 7 + replicate * 3) % 5) as f64 - 2.0);
                let value = 10.0 + replicate as f64 - if on[2] { 0.4 } else { 0.0 }
                    + if on[4] { 0.1 } else { 0.0 }
                    + noise;
                trials.push(Trial {
                    replicate,
                    on,
                    value,
                });
            }
        }
        let found = screening(&trials, Confidence::NINETY_FIVE).effects;
        for (setting, expected) in [(0, 0.0), (1, 0.0), (2, -0.4), (3, 0.0), (4, 0.1)] {
            let interval = found[setting].difference.interval;
            assert!(
                interval.contains(expected) && interval.width() < 0.05,
                "{setting}: {:?}",
                found[setting]
            );
        }
        assert!(
            found[2].probability < 1e-6
                && found[4].probability < 1e-6
                && found[0].probability > 1e-3
        );
    }
}
