//! The cost of the kernel's services: the measurements of LMbench (McVoy, Staelin) as koolwal2009
//! used them, and some newer services.
//!
//! Data flow: [`metric`] lists the measurements, [`session`] measures into a run folder of kind
//! `cost`, [`program`] times whole programs into one. `tardy_results::cost` reads one, and contains
//! published numbers to compare with it.
//!
//! A cost is stored as the time of one operation in ps, bandwidths too. Less is better everywhere,
//! and values of two runs divide, even with loops of other lengths. In an emulated machine the unit
//! is a thousandth of an instruction; `waiting` is stored next to it, the share in which the clock
//! advances and nothing executes.
#![forbid(unsafe_code)]

pub mod folder;
pub mod kernel_build;
pub mod metric;
pub mod metrics;
pub mod peer;
pub mod program;
pub mod repetition;
pub mod series;
pub mod session;
