//! The machine on which a run is made: facts about it, counters of its activity, and its settings.
//!
//! All files are read below a [`root::Root`], which is a folder with simulated files in tests. An
//! unreadable value is absent, never 0. Only [`irq_affinity`], [`journal`], [`spool`] and [`undo`]
//! change settings. Callers of these modules first record each change in a plan and a journal.
#![forbid(unsafe_code)]

#[cfg(test)]
mod fake_root;

pub mod cgroup;
pub mod checks;
pub mod clock;
pub mod context_switches;
pub mod cpu_time;
pub mod facts;
pub mod groups;
pub mod hardware_latency;
pub mod host;
pub mod idle;
pub mod interrupts;
pub mod irq_affinity;
pub mod journal;
pub mod kernel_configuration;
pub mod kernel_tree;
mod per_cpu_table;
pub mod process;
pub mod processors;
pub mod program;
pub mod root;
pub mod smi;
pub mod softirqs;
pub mod spool;
pub mod state_series;
pub mod tasks;
pub mod throttling;
pub mod tracefs;
pub mod undo;
pub mod unsupported;
pub mod watch;
