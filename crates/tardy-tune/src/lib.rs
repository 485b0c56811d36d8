//! Lists settings of a machine that may reduce latency, applies them temporarily, and measures the
//! effect of each in an experiment.
//!
//! [`known`] lists settings with their recommended values. [`apply`] writes values with a journal.
//! [`design`] and [`search`] contain the experiment. [`boot`] has the settings that need a reboot.
//! This crate does not start runs itself; the caller does, through [`search::Bench`].
#![forbid(unsafe_code)]

pub mod apply;
pub mod boot;
pub mod design;
pub mod effects;
pub mod known;
pub mod lab_answer;
pub mod pairs;
pub mod question;
mod ranks;
pub mod screening;
pub mod search;
pub mod setting;
pub mod waiting;
