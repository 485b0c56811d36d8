//! The library behind the `tardy` binary; modules stand in the order in which data flows.
#![forbid(unsafe_code)]

pub mod cli;
pub mod command;
pub mod descriptors;
pub mod measure;
pub mod plan;
pub mod request;
pub mod scenario;
pub mod setup;
