//! The `tardy` binary.
#![forbid(unsafe_code)]
fn main() {}
