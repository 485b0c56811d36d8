//! A run: what is asked for, what that comes to on this machine, and the measurement. Nothing here
//! knows a command line.
//!
//! - [`request`], [`scenario`]: what the user asks for, from flags or TOML; [`configuration`] has
//!   the defaults of the machine and the user
//! - [`plan`]: what that means on this machine. `Plan.origin` says where the scenario comes from
//! - [`setup`]: what is changed for a run
//! - [`measure`]: a run under way; the responder's own run ([`measure::responding`])
//! - [`cyclictest_words`]: what the words of cyclictest's options mean
//! - [`descriptors`]: how many files may be open
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

pub mod configuration;
pub mod cyclictest_words;
pub mod descriptors;
pub mod measure;
pub mod plan;
pub mod request;
pub mod scenario;
pub mod setup;
