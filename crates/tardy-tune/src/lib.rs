//! Settings of a machine that may reduce latency: a list, a way to apply them for a while, and an
//! experiment that measures the effect of each.
//!
//! [`known`] lists them with their recommended values, [`apply`] writes them with a journal,
//! [`design`] and [`search`] are the experiment, [`boot`] is for settings that take a reboot. This
//! crate does not make runs itself: [`search::Bench`] measures.
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
