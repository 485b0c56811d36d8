//! What is shown of a run while it lasts: a screen that can be talked to.
//!
//! The run puts what it knows anyway into a [`feed::Feed`]; a thread on a CPU for the tool's own
//! work ([`view::View`]) draws it. Neither waits for the other: a terminal that takes nothing holds
//! up no run. `tardy top` draws the same of a folder that another process fills
//! ([`growing::GrowingFolder`]).
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
