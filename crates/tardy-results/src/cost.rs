//! Summarises runs of kind `cost`, and lists published costs that reports show beside the measured
//! ones.

pub mod reference;
pub mod run;
pub mod shown;
pub mod summary;
