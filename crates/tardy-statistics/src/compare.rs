//! Compares two configurations. The result is the difference with an interval, and a verdict on
//! whether the difference matters.
//!
//! With at least four runs per side, each run counts as one number, and the shift between the sides
//! is computed ([`shift`], [`permutation`]). The reason is that the samples of one run cannot show
//! how much runs of one configuration differ. With fewer runs, quantiles are compared by resampled
//! blocks of time ([`block_bootstrap`]), and deadline misses by the ratio of their rates
//! ([`rate_ratio`]). The intervals of these two methods are widened by the spread between runs
//! ([`run_spread`]). [`ranks`], [`welch`] and [`ratio_of_means`] compare typical values, not the
//! tails. A verdict ([`equivalence`]) requires an interval and the user's margin; a probability
//! alone never gives a verdict.

pub mod block_bootstrap;
pub mod block_length;
pub mod equal_length;
pub mod equivalence;
pub mod permutation;
mod random;
pub mod ranks;
pub mod rate_ratio;
pub mod ratio_of_means;
pub mod run_spread;
pub mod shift;
pub mod welch;
