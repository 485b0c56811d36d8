//! Units, samples, the chunk format, histograms, summaries and verdicts of `tardy`.
//!
//! The crate does no I/O, reads no clock and starts no thread, so its tests need only plain values.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod budget;
pub mod bytes;
pub mod cause;
pub mod chunk;
pub mod cpu;
pub mod figures;
pub mod histogram;
pub mod openmetrics;
pub mod sample;
pub mod series;
pub mod summary;
pub mod total_delay;
pub mod units;
pub mod varint;
pub mod verdict;
pub mod warning;
