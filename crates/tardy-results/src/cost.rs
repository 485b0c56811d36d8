//! Summarises runs of kind `cost`, and lists published numbers to compare them with.

pub mod reference;
pub mod run;
pub mod shown;
pub mod summary;
