//! The live display of a run, as an interactive screen.
//!
//! The run puts new data into a [`feed::Feed`], and a thread on a housekeeping CPU ([`view::View`])
//! draws it. The run and the drawing thread do not wait for each other, so a blocked terminal does
//! not delay a run. `tardy top` draws the same screen from a folder that another process fills
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
