//! Resolves a request against the machine: everything that will be done and changed, before it
//! happens. The result is a [`tardy_run::plan::Plan`].
//!
//! Loads of built-in scenarios that can disturb people need `--allow`. Naming a scenario does not
//! name its console load.
//!
//! A run without an end is complete when a user stops it. The stop was requested, so its state is
//! `finished`, its numbers have no warning, and its verdict decides as any other. Its last phase
//! has 100 years in the plan, because code that adds lengths and times then needs no second way;
//! `until_stopped` marks this number as meaningless. The plan gives amounts for an hour: a run may
//! start if the disk suffices for a while, and a full disk leaves the histogram. By default it has
//! no load, because a machine in the field has its own work. Scenarios have lengths and are
//! refused.

pub mod error;
pub(crate) mod other_runs;
mod phases;
pub mod resolve;
pub mod wake_up_cost;
