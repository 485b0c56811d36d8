//! What run folders say: numbers, bounds and models of one run, comparisons of several; and what
//! the kernel's traces say of lateness. Nothing here measures, draws or writes anything.
//!
//! - [`summary`]: from the folder to what its series hold (`read`), and from there to numbers
//!   (`summarize`)
//! - [`statistics`]: a run in three layers: what was observed, bounds, and a model of the tail
//!   behind its gate
//! - [`compare`]: runs against runs: time blocks, intervals, verdicts, changed facts, change points
//! - [`history`]: builds of boards: what is kept of a run (`run`), of many (`collected`), families
//!   of series, changes that lasted, builds that were accepted
//! - [`cost`]: what folders of kind `cost` say, with published numbers beside them
//! - [`atlas`]: kernels under loads: cells of several replicas, and what changed from release to
//!   release
//! - [`reproduce`]: claims of papers tested on the folders of their experiments
//! - [`explain`]: what a trace says in sum: ranking, the worst wake-ups, rules for loops, due times
//!   on a fitted grid. `tardy-trace` finds who held each wake-up
//! - [`attach`]: wake-ups of a running program by its timers, counted as they come
//! - [`decision`]: whether a deadline needs PREEMPT_RT, from measurements, the machine, or rules
//! - [`doctor`]: the findings of the checks as one diagnosis
//! - [`exit`]: exit codes, which follow from results
//! - [`document`]: the format and version that every JSON document begins with; schemas are in
//!   `crates/tardy/schemas`
#![forbid(unsafe_code)]

pub mod atlas;
pub mod attach;
pub mod compare;
pub mod cost;
pub mod decision;
pub mod doctor;
pub mod document;
pub mod exit;
pub mod explain;
pub mod history;
pub mod reproduce;
pub mod statistics;
pub mod summary;
