//! Preparing the machine for a run, and putting back what was changed.

pub mod cpu_latency;
pub mod resume_latency;
