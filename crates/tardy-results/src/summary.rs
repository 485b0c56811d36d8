//! The summary of a run, computed from its folder alone.
//!
//! A series is read once to compute the numbers, and to fit the grid of an interval series. It is
//! read a second time, if necessary, for everything that needs those numbers: charts over time and
//! tail models share this second pass.

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
