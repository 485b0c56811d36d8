//! The user's own loops as probes. A program reports each cycle by two calls (`include/tardy.h`,
//! `crates/tardy-app`), and the calls write into memory that is shared with the tool. A thread of
//! the tool passes the cycles on to the same rings, files and verdicts that other probes use.
//!
//! The tool makes the memory, and the user's loop never waits for the tool. The memory is a sealed
//! file whose path is in the environment, so no socket and no library is needed. Cycles are
//! numbered, so the number of cycles that did not fit into the memory is known. When a cycle
//! arrives, the tool computes from its due time and the previous cycle's how many due times were
//! skipped between them. It trusts no value that it reads from the memory.
//!
//! A file lock shows whether the program is alive. The kernel releases the lock when the program
//! dies.

pub mod memory;
pub mod program;
pub mod relay;
pub mod track;
