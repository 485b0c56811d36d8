//! From the measuring threads to the run folder.

pub mod keep;
pub mod ring;
pub mod series;
pub mod series_writer;
