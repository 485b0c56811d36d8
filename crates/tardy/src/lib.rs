//! The library behind the `tardy` binary: its command line, and the glue from there to what measures and what shows.
#![forbid(unsafe_code)]

pub mod cli;
pub mod command;
