//! Two configurations against each other: by how much they differ, with an interval, and whether
//! that matters.
//!
//! The deciding quantity, in this order: the ratio of deadline misses ([`rate_ratio`]); with at
//! least four runs per side, the shift between runs ([`shift`], [`permutation`]), because runs of
//! one configuration differ by more than samples of one run; otherwise differences of quantiles
//! ([`block_bootstrap`]), widened by the spread between runs ([`run_spread`]). [`ranks`], [`welch`]
//! and [`ratio_of_means`] are for the body. An [`equivalence`] verdict is made from an interval and
//! the user's margin, never from a bare probability.

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
