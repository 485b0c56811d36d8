//! Settings of a machine that may reduce latency: a list of them, their temporary application, and
//! an experiment that measures the effect of each.
//!
//! [`known`] lists settings with their recommended values. [`apply`] writes values with a journal.
//! [`design`] and [`search`] contain the experiment. [`boot`] has the settings that need a reboot.
//! This crate does not start runs itself: [`search::Bench`] measures.
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
