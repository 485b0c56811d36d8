//! The library of the `tardy` binary: its command line, and the connection to the crates that
//! measure and display.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

#[macro_use(say)]
extern crate tardy_sys;

pub mod cli;
pub mod command;
