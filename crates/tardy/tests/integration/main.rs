//! Tests that use the real binary as a user does. All these tests are in one test program, because
//! each program links the whole product. Tests that need the machine to themselves are in
//! `tests/alone`, tests of emulated kernels in `tests/lab`.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

#[path = "../support/mod.rs"]
mod support;

mod advise;
mod advise_figures;
mod app;
mod attach;
mod attach_between;
mod attach_cycles;
mod attach_kinds;
mod attach_overload;
mod attach_recorder;
mod attach_rules;
mod bad_input;
mod bounded_disk;
mod bounds;
mod breakdown;
mod clocks;
mod compare;
mod compare_headlines;
mod compare_virtual;
mod configuration;
mod containers;
mod cost;
mod cost_reports;
mod cycles;
mod cyclictest;
mod decisions;
mod doctor;
mod explain;
mod explained_runs;
mod export;
mod generated;
mod generated_imports;
mod goldens;
mod groups;
mod headline_rules;
mod headlines;
mod history;
mod hostile_files;
mod hostile_text;
mod import;
mod import_damage;
mod import_families;
mod import_pasted;
mod import_posted;
mod import_reported;
mod import_table;
mod import_unknown;
mod import_values;
mod interrupted;
mod ipis;
mod isolated;
mod known_pairs;
mod lab_checks;
mod large_machine;
mod leftovers;
mod live;
mod load_effects;
mod load_lists;
mod loads;
mod lost_files;
mod media;
mod metrics;
mod moved;
mod on;
mod outputs;
mod phases;
mod plot;
mod probe_ends;
mod probes;
mod repeat;
mod report;
mod reproduce;
mod response;
mod resumed;
mod rights;
mod run;
mod schema;
mod service;
mod several_probes;
mod start;
mod statistics;
mod summaries;
mod thresholds;
mod tune;
mod unprivileged;
mod until_stopped;
mod verdicts;
mod wake_ups;
