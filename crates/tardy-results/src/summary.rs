//! The summary of a run, computed from its folder and nothing else.

pub mod breakdown;
pub(crate) mod by_phase;
mod ladder;
pub mod model;
pub mod read;
pub(crate) mod stated;
pub mod summarize;
mod verdict;
mod warnings;
