//! Decodes kernel traces: event formats and ring buffer pages of tracefs, files of trace-cmd, and
//! scheduling events. From these events, it finds out what had the CPU while a thread waited.
//!
//! This crate does not measure, does not print, and does not access tracefs.
//!
//! From bytes to an explanation: [`file::TraceFile`] (`trace.dat`) → [`page::Page`] →
//! [`event::Decoder`] → [`merge::Merge`] (one stream of all CPUs) → [`explain::Explainer`]
//! (wake-ups of a thread, cut into pieces by the holder of the CPU). [`perfetto::Writer`] writes
//! events and wake-ups to a file for Perfetto's viewer.
//!
//! Any byte of a trace may be hostile. A reader returns an error for bytes that it cannot read. It
//! never panics, and never takes more memory than its limits allow.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bytes;
pub mod chains;
pub mod contexts;
pub mod cpu_mask;
pub mod event;
pub mod explain;
pub mod file;
pub mod format;
pub mod layout;
pub mod live;
pub mod merge;
pub mod occupants;
pub mod page;
pub mod perfetto;
pub mod recent;
pub mod stints;
pub mod symbols;
#[cfg(test)]
mod test_events;
pub mod text;
pub mod timers;
pub mod wake_ups;
