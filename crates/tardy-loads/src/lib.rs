//! Loads: ways to stress the system while something is measured ([`load`]), and the process that
//! owns everything they start ([`guardian`]).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

mod children;
pub mod event_lines;
pub mod guardian;
mod lines;
pub mod load;
