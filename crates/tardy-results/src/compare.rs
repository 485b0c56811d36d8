//! Runs against runs: what differs, by how much at least and at most, whether that matters, and
//! what else changed between them.

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
