//! From the measuring threads to the run folder.

pub mod ring;
pub mod series;
