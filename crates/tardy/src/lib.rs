//! The library behind the `tardy` binary: its command line, and the glue from there to what
//! measures and what shows.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

#[macro_use(say)]
extern crate tardy_sys;

pub mod cli;
pub mod command;
