//! The summary of a run, computed from its folder and nothing else.

pub mod model;
pub mod read;
