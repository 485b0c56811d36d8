//! Shows a run while it lasts, on an interactive screen.
//!
//! The run puts new data into a [`feed::Feed`], and a thread on a housekeeping CPU ([`view::View`])
//! draws it. The run and the drawing thread never wait for each other, so a terminal that blocks
//! does not delay the run. `tardy top` draws the same screen from a folder into which another
//! process writes ([`growing::GrowingFolder`]).
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
