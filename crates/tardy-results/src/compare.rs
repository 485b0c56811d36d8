//! Compares runs: computes their differences with intervals, decides whether the differences
//! matter, and lists other changes between the runs.
//!
//! If each side has at least four runs, each run counts as one number (Hodges and Lehmann's shift).
//! With fewer runs per side, such a test could never reach 95 % confidence, so blocks of time are
//! resampled instead. If a run has only histograms, the intervals come from order statistics.
//! Intervals from blocks are widened so that all rows' intervals together contain the true values
//! with a probability of 99 % (Bonferroni). Intervals from runs are widened only for the number of
//! tables, because all quantiles of one run change together. The verdict on a row follows from its
//! interval. If the table of any load is worse, the verdict on the whole comparison is worse or
//! mixed. If some tables are better and the others inconclusive, the verdict is better.
//!
//! If a side has fewer than four runs, a quantile is compared if each side has 30 independent
//! samples beyond it. A quantile that the user named is also compared if both sides have enough
//! samples to bound it. With at least four runs per side, a quantile is compared if the shortest
//! run has 10 samples beyond it. To bound one quantile, four samples beyond it suffice. But a
//! difference of two quantiles with so few samples decides nothing, and would make the whole
//! comparison inconclusive. The number of independent samples is estimated from the extremal index
//! and from time blocks; the smaller estimate counts.
//!
//! Runs in virtual time are not random samples, and are compared differently. With one replica per
//! side, the values are compared without an interval. With several replicas, each replica counts as
//! one number.

mod alike;
pub mod blocks;
mod bounded;
pub mod changes;
pub mod cost;
pub mod cost_over_time;
pub mod facts;
pub mod group;
pub mod grouped;
pub mod judge;
pub mod margin;
mod maxima;
mod misses;
pub mod model;
pub mod over_time;
mod pooled;
pub mod read;
pub mod side;
pub mod verdict;

#[cfg(test)]
mod tests;
