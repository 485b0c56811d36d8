//! Which kernel suits a piece of work, and whether the work was in time: from runs, from what the
//! user says of the work, and from published numbers.
#![forbid(unsafe_code)]

pub mod advice;
pub mod curves;
pub mod flow;
pub mod help;
pub mod judgement;
pub mod kernels;
pub mod mckenney2009;
pub mod slowdown;
pub mod task;
