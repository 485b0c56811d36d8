//! Settings of a machine that may make tasks less late: which there are, how to apply them for a
//! while, and an experiment that tells what each is worth.
//!
//! [`known`] lists them with what they want, [`apply`] writes them with a journal, [`design`] and
//! [`search`] are the experiment, [`boot`] is for what takes a restart. Nothing here knows how a
//! run is made: [`search::Bench`] measures.
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
