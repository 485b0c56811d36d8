//! What the kernel's services cost: the measurements of LMbench (McVoy, Staelin) as koolwal2009 used them, and some of today's services.
//!
//! The way of the data: [`metric`] says what can be measured, [`session`] measures into a run folder of kind `cost`, [`program`] times whole programs into one,
//! [`summary`] reads one,
//! [`reference`](mod@reference) holds published numbers to set beside it.

pub mod folder;
pub mod kernel_build;
pub mod metric;
pub mod metrics;
pub mod peer;
pub mod program;
pub mod record;
pub mod reference;
pub mod repetition;
pub mod run;
pub mod series;
pub mod session;
pub mod shown;
pub mod summary;
