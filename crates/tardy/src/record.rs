//! From the measuring threads to the run folder.

mod elsewhere;
pub mod ring;
pub mod series;
