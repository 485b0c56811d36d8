//! A comparison of runs as text, Markdown and JUnit.

pub(in crate::report) mod cells;
mod changes;
pub mod cost;
pub mod cost_over_time;
pub mod history;
pub mod junit;
pub mod markdown;
pub mod over_time;
pub mod text;
