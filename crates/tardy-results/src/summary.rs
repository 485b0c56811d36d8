//! The summary of a run, computed from its folder alone.
//!
//! A series is read once to compute the numbers, and to fit the grid of an interval series. Charts
//! over time and tail models need those numbers. If they are requested, they share a second pass
//! over the series.

pub mod breakdown;
pub(crate) mod by_phase;
mod ladder;
pub mod model;
pub mod read;
#[cfg(test)]
mod run_folder_model;
pub(crate) mod stated;
pub mod summarize;
mod verdict;
mod warnings;
