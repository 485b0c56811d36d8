//! Compares two configurations: the difference with an interval, and a verdict on whether it
//! matters.
//!
//! With at least four runs per side, the shift between runs is compared ([`shift`],
//! [`permutation`]), because runs of one configuration differ by more than the samples of one run.
//! With fewer runs, quantiles are compared by resampled blocks of time ([`block_bootstrap`]), and
//! deadline misses by the ratio of their rates ([`rate_ratio`]). The intervals of both are widened
//! by the spread between runs ([`run_spread`]). [`ranks`], [`welch`] and [`ratio_of_means`] are for
//! the body of a distribution. A verdict ([`equivalence`]) needs an interval and the user's margin,
//! and never comes from a probability alone.

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
