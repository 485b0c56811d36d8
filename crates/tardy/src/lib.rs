//! The library behind the `tardy` binary; modules stand in the order in which data flows.
#![forbid(unsafe_code)]

pub mod app;
pub mod cli;
pub mod command;
pub mod cost;
pub mod descriptors;
pub mod link;
pub mod measure;
pub mod plan;
pub mod probe;
pub mod record;
pub mod request;
pub mod scenario;
pub mod setup;
pub mod work;
