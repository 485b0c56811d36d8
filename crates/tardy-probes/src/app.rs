//! The user's own loops as probes: a program reports each cycle by two calls (`include/tardy.h`,
//! `crates/tardy-app`) into memory that is shared with the tool; a thread of the tool passes the
//! cycles on, into the same rings, files and verdicts as those of any other probe.
//!
//! A user's loop writes into memory that the tool made, and never waits for the tool. The memory is
//! a sealed file whose path is in the environment: no socket, no library. Cycles are numbered, so
//! cycles that did not fit leave a hole of known size. The tool derives skipped due times from the
//! due times, one cycle later, and trusts only numbers there.
//!
//! A file lock shows whether the program is alive. The kernel releases it when the program dies.

pub mod memory;
pub mod program;
pub mod relay;
pub mod track;
