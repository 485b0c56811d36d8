//! The library behind the `tardy` binary; modules stand in the order in which data flows.
#![forbid(unsafe_code)]

pub mod advise;
pub mod app;
pub mod chart;
pub mod cli;
pub mod command;
pub mod compare;
pub mod cost;
pub mod export;
pub mod guardian;
pub mod import;
pub mod lab;
pub mod link;
pub mod load;
pub mod machine;
pub mod measure;
pub mod parameter;
pub mod plan;
pub mod probe;
pub mod record;
pub mod report;
pub mod request;
pub mod run;
pub mod scenario;
pub mod setup;
pub mod statistics;
pub mod summary;
pub mod work;
