//! How results are shown.

pub mod comparison_text;
pub mod plan_text;
pub mod summary_text;
pub mod table;
