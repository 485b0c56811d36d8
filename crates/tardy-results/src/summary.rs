//! The summary of a run, computed from its folder and nothing else.
//!
//! A series is read once for the numbers, and once more for everything that needs those first:
//! charts over time and models of the tail share the second pass; an interval series' grid is
//! fitted in the first.

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
