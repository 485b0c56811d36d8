//! The summary of a run, computed from its folder alone.
//!
//! The first pass over a series computes the numbers, and fits the grid of an interval series.
//! Charts over time and tail models need the results of this pass. If charts or models are
//! requested, they share a second pass over the series.

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
