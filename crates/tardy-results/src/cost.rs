//! Summaries of runs of kind `cost`, and published numbers to compare them with.

pub mod reference;
pub mod run;
pub mod shown;
pub mod summary;
