//! Compares runs: the differences with their intervals, whether they matter, and what else changed
//! between the runs.
//!
//! Four runs per side or more are compared run by run (Hodges and Lehmann's shift), fewer by blocks
//! of time, histograms alone by order statistics; below four, chance cannot be excluded at 95 %.
//! Block intervals are widened to hold together over all rows (Bonferroni), run intervals over all
//! tables, because quantiles of one run move together. A row's verdict follows from its interval; a
//! load's own table can make a comparison worse, never inconclusive.
//!
//! With fewer than four runs per side, quantiles need 30 independent samples beyond them unless the
//! user named them; with four or more, 10 samples in the shortest run. A bound needs four, but the
//! difference of two such bounds decides nothing and would keep the whole comparison undecided. The
//! smaller of extremal index and time blocks determines how many are independent.
//!
//! A run in virtual time is not a sample. With one replica per side the values are compared without
//! an interval, with several by one number per replica.

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
