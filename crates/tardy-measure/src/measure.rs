//! Runs a plan: arms, measures, disarms, and restores everything.

pub mod answering;
mod clock_watch;
mod cycles;
pub mod interference;
pub mod keeper;
pub mod live;
pub mod metrics;
pub mod overhead;
pub mod phases;
pub mod recorder;
pub mod responding;
mod scheduling;
mod scheduling_watch;
mod service;
pub mod session;
mod starvation;
pub mod state_log;
pub mod threads;
pub mod threshold;
pub mod watchdog;
