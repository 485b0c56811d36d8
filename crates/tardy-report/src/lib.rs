//! What run folders say, for readers: text and pages ([`report`]), charts ([`chart`]). Everything shown is computed by `tardy_results`.
#![forbid(unsafe_code)]

pub mod chart;
pub mod report;
mod xml;
