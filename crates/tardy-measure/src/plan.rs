//! Resolves a request for this machine into a [`tardy_run::plan::Plan`]: everything that will be
//! done and changed, before it happens.
//!
//! Loads of built-in scenarios that can disturb people need `--allow`. So a request for a scenario
//! does not allow its console load.
//!
//! An endless run is complete when the user stops it. The run's state is then `finished`, its
//! numbers have no warning about an early end, and its verdict is as valid as any other. In the
//! plan, its last phase is 100 years long, so that code that adds lengths and times needs no
//! special case; `until_stopped` marks this length as meaningless. The plan of such a run states
//! disk sizes for one hour. The run may start if the disk suffices for this time; if the disk fills
//! up later, the run keeps only its histogram. By default an endless run has no load, because a
//! machine in the field has its own work. Scenarios have lengths and are therefore refused for
//! endless runs.

pub mod error;
pub(crate) mod other_runs;
mod phases;
pub mod resolve;
pub mod wake_up_cost;
