//! Resolves a request for this machine into a [`tardy_run::plan::Plan`], which lists everything
//! that the run will do and change.
//!
//! If a load of a built-in scenario can disturb people, it needs `--allow`. For example, a user who
//! requests a scenario does not thereby allow its console load.
//!
//! An endless run is complete when the user stops it. The run's state is then `finished`, no
//! warning about an early end is added to its numbers, and its verdict is as valid as that of any
//! other run. In the plan, the last phase of an endless run is 100 years long. Code that adds
//! lengths and times therefore needs no special case. The field `until_stopped` shows that this
//! length has no meaning. The plan of an endless run states the disk space that one hour needs. The
//! run may start if the disk has this space; if the disk fills up later, the run stores only its
//! histogram. By default an endless run has no load, because in the field the machine does its own
//! work. Scenarios have lengths and are therefore refused for endless runs.

pub mod error;
pub(crate) mod other_runs;
mod phases;
pub mod resolve;
pub mod wake_up_cost;
