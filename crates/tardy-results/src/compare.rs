//! Compares runs: the differences with their intervals, whether they matter, and other changes
//! between the runs.
//!
//! With at least four runs per side, each run counts as one number (Hodges and Lehmann's shift).
//! Fewer runs cannot exclude chance at 95 %, so blocks of time are resampled instead. If only
//! histograms exist, order statistics are used. Intervals from blocks are widened so that the
//! intervals of all rows are right at the same time, with the stated confidence (Bonferroni).
//! Intervals from runs are widened so that the intervals of all tables are right at the same time,
//! because the quantiles of one run change together. The verdict on a row follows from its
//! interval. A worse table of one load makes the whole comparison worse or mixed. An inconclusive
//! table does not change the verdict of a comparison that is better.
//!
//! With fewer than four runs per side, a quantile is compared if each side has 30 independent
//! samples beyond it. A quantile that the user named is compared if both sides bound it. With at
//! least four runs per side, a quantile is compared if the shortest run has 10 samples beyond it. A
//! bound of a quantile needs only four samples, but the difference of two such bounds decides
//! nothing, and would make the whole comparison inconclusive. The number of independent samples is
//! the smaller one of the estimates from the extremal index and from time blocks.
//!
//! Runs in virtual time are not random samples. With one replica per side, the values are compared
//! without an interval, and with several replicas, each replica counts as one number.

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
