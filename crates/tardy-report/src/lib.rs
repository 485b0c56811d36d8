//! What run folders say, for readers: text and pages ([`report`]). Everything shown is computed by
//! `tardy_results`, and charts are of `tardy_chart`.
#![forbid(unsafe_code)]

pub mod report;
