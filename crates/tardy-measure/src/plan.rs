//! A request, resolved against the machine: everything that will be done and changed, before
//! anything is. What comes out is a [`tardy_run::plan::Plan`].

pub mod error;
pub(crate) mod other_runs;
mod phases;
pub mod resolve;
pub mod wake_up_cost;
