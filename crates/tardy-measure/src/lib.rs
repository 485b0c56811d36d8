//! A run: the request, its plan for this machine, and the measurement. This crate is independent of
//! the command line.
//!
//! - [`request`], [`scenario`]: the user's request, from flags or TOML; [`configuration`] has the
//!   defaults of the machine and the user
//! - [`plan`]: the request resolved for this machine. `Plan.origin` names the source of the
//!   scenario
//! - [`setup`]: changes to the machine for a run
//! - [`measure`]: a run in progress; the responder's own run ([`measure::responding`])
//! - [`cyclictest_words`]: the values of cyclictest's options
//! - [`descriptors`]: the limit on open descriptors
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
