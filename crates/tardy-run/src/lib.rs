//! Defines the run folder: the plan of one measurement, the facts of the machine, and all data that
//! the measurement produced. tardy derives all results from this folder.
//!
//! `run.json` is a [`record::RunRecord`], which contains the [`plan::Plan`]. The crate
//! `tardy_samples` reads and writes the samples next to it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attached;
pub mod cost;
pub mod device_writes;
pub mod folder;
pub mod guest_start;
pub mod imported;
pub mod interference;
pub mod keep;
pub mod nearest;
pub mod operations;
pub mod output_file;
pub mod overhead;
pub mod parameter;
pub mod plan;
pub mod record;
pub mod resume;
pub mod shell;
pub mod system_clock;
pub mod thinned_log;
pub mod threshold;
pub mod tracing;
pub mod under_load;
pub mod under_way;
pub mod work_kind;

pub use plan::request;
pub use plan::request::option;
