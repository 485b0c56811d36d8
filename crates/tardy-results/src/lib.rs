//! What run folders say: numbers, bounds and models of one run, comparisons of several, advice; shown as text, charts, pages, and other tools' formats, and read
//! from those; and what the kernel's traces say of lateness. Nothing here measures anything.
#![forbid(unsafe_code)]

pub mod advise;
pub mod chart;
pub mod compare;
pub mod cost;
pub mod exit;
pub mod explain;
pub mod export;
pub mod import;
pub mod report;
pub mod statistics;
pub mod summary;
mod xml;
