//! Prepares the machine for a run, and restores its settings.

pub mod cpu_latency;
pub mod resume_latency;
