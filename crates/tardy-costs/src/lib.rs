//! Measures the cost of the kernel's services, with the measurements of LMbench (McVoy, Staelin)
//! that koolwal2009 used, and with measurements of some newer services.
//!
//! Data flow: [`metric`] and [`metrics`] define the measurements. [`session`] makes these
//! measurements, and [`program`] times whole programs; each writes a run folder of kind `cost`.
//! `tardy_results::cost` reads such a folder, and contains published numbers to compare with it.
//!
//! Every cost, even a bandwidth, is stored as the time of one operation in ps. Smaller values are
//! therefore always better, and values of two runs can be compared as ratios, even if the loops
//! that measured them differ in length. In an emulated machine the unit is a thousandth of an
//! instruction. Such a run also stores `waiting`, the fraction of time in which the clock advances
//! but no instruction is executed.
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
