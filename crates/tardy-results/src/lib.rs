//! Reads run folders and kernel traces, and derives results from them: numbers, bounds and models
//! of one run, comparisons of several runs, and explanations of what delayed samples. This crate
//! neither measures nor draws anything. It writes only traces and stacks for other tools, and the
//! list of accepted builds.
//!
//! - [`summary`]: reads a folder's series (`read`), and turns them into numbers (`summarize`)
//! - [`statistics`]: a run in three layers: observations, bounds, and a model of the tail behind
//!   its gate
//! - [`compare`]: comparisons of runs: time blocks, intervals, verdicts, changed facts, change
//!   points
//! - [`history`]: builds of boards: the stored part of a run (`run`), the collected runs
//!   (`collected`), families of series, lasting changes, accepted builds
//! - [`cost`]: summaries of folders of kind `cost`, and published costs
//! - [`atlas`]: kernels under loads: cells of several replicas, and changes from release to release
//! - [`lab_app`]: a user's program on several kernels: verdict, margin, culprit
//! - [`lab_hunt`]: the search for the longest section of a kernel, and its findings
//! - [`reproduce`]: claims of papers, tested with the runs of their experiments
//! - [`explain`]: late wake-ups of a trace: their ranking, the worst ones, rules for loops, due
//!   times on a fitted grid. `tardy-trace` finds the holders of the CPU for each wake-up
//! - [`attach`]: wake-ups of a running program, counted one by one
//! - [`decision`]: whether a deadline needs PREEMPT_RT, from measurements, the machine, or rules
//! - [`doctor`]: the findings of the checks as one diagnosis
//! - [`why`]: the difference of two latencies of watched guests, function by function
//! - [`exit`]: exit codes, which follow from results
//! - [`document`]: the format and version with which every JSON document starts; schemas are in
//!   `crates/tardy/schemas`
#![forbid(unsafe_code)]

pub mod atlas;
pub mod attach;
pub mod chosen_sample;
pub mod compare;
pub mod cost;
pub mod decision;
pub mod doctor;
pub mod document;
pub mod exit;
pub mod explain;
pub mod history;
pub mod lab_app;
pub mod lab_hunt;
pub mod reproduce;
pub mod statistics;
pub mod summary;
pub mod why;
