//! The path that samples take from the measuring threads to the run folder.

pub mod control;
mod elsewhere;
pub mod ring;
pub mod series;
