//! Shows a run while it lasts, on an interactive screen.
//!
//! The run puts new data into a [`feed::Feed`], and a thread on a housekeeping CPU ([`view::View`])
//! draws it. While the run measures, it does not wait for the drawing thread, so a terminal that
//! blocks does not delay the measurement. `tardy top` draws the same screen from a folder into
//! which another process writes ([`growing::GrowingFolder`]).
#![forbid(unsafe_code)]

mod ansi;
mod content;
mod draw;
pub mod feed;
pub mod growing;
pub mod pace;
pub mod progress;
mod screen;
mod terminal;
mod track;
pub mod view;
