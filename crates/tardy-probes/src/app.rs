//! The user's own loops as probes: a program reports each cycle by two calls (`include/tardy.h`,
//! `crates/tardy-app`) into memory that is shared with the tool; a thread of the tool hands the
//! cycles on, into the same rings, files and verdicts as those of any other probe.

pub mod memory;
pub mod program;
pub mod relay;
pub mod track;
