//! The library behind the `tardy` binary; modules stand in the order in which data flows.
#![forbid(unsafe_code)]

pub mod machine;

pub mod load;

pub mod guardian;

pub mod probe;
pub mod record;

pub mod command;
