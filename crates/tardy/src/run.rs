//! The run folder: everything that one measurement produced. All else is derived from it.

pub mod folder;
pub mod histogram_file;
pub mod read_series;
pub mod record;
pub mod reserved_file;
