//! Presents the results of run folders as text and pages ([`report`]). `tardy_results` computes all
//! numbers, and `tardy_chart` draws the charts.
#![forbid(unsafe_code)]

pub mod report;
