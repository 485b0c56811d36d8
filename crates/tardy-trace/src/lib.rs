//! The kernel's traces as values: event formats and ring-buffer pages of tracefs, files of
//! trace-cmd, the events that decide when a thread runs, and who held the CPU while one waited.
//!
//! Nothing here measures, prints or touches a tracefs.
//!
//! From bytes to an explanation: [`file::TraceFile`] (`trace.dat`) → [`page::Page`] →
//! [`event::Decoder`] → [`merge::Merge`] (one stream of all CPUs) → [`explain::Explainer`]
//! (wake-ups of a thread, cut into pieces by who held the CPU). [`perfetto::Writer`] makes a file
//! of both that others show.
//!
//! Every byte of a trace is treated as hostile. A reader returns an error. It neither panics nor
//! takes more memory than its limits allow.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bytes;
pub mod chains;
pub mod contexts;
pub mod event;
pub mod explain;
pub mod file;
pub mod format;
pub mod layout;
pub mod live;
pub mod merge;
pub mod page;
pub mod perfetto;
mod recent;
pub mod stints;
pub mod symbols;
#[cfg(test)]
mod test_events;
pub mod text;
pub mod timers;
pub mod wake_ups;
