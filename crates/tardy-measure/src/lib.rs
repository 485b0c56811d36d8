//! A run: what is asked for ([`request`], [`scenario`], with the defaults of [`configuration`]), what that comes to on this machine ([`plan`]), what is changed for it ([`setup`]), and the run itself
//! ([`measure`]). Nothing here knows a command line.
#![forbid(unsafe_code)]

pub mod configuration;
pub mod descriptors;
pub mod measure;
pub mod plan;
pub mod request;
pub mod scenario;
pub mod setup;
