//! The run folder: what one measurement was to do, on what machine, and everything that it
//! produced. All else is derived from it.
//!
//! `run.json` is a [`record::RunRecord`], which holds the [`plan::Plan`]; samples are chunks of
//! [`tardy_core::chunk`], written by [`series_writer`] and read by [`read_series`], with a
//! histogram ([`histogram_file`]) where not all of them are kept. In runs with `--disk`, a series
//! has several files ([`rotation`]), the oldest of which give way to histograms by hour
//! ([`hours`]). Of explained runs, [`delays`] say who made each sample late.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attached;
pub mod cost;
pub mod delays;
pub mod device_writes;
pub mod far_time;
mod file_name_mark;
pub mod folder;
pub mod guest_start;
pub mod harmless;
pub mod histogram_file;
pub mod hours;
pub mod imported;
pub mod interference;
pub mod keep;
pub mod nearest;
pub mod output_file;
pub mod overhead;
pub mod parameter;
pub mod plan;
pub mod read_series;
pub mod record;
pub mod reserved_file;
pub mod resume;
pub mod rotation;
pub mod segments;
pub mod series_writer;
pub mod shell;
pub mod system_clock;
pub mod thinned_log;
pub mod threshold;
pub mod tracing;
pub mod under_load;
pub mod under_way;
pub mod work_kind;
