//! Uses runs, the user's statements about the work, and published numbers to choose a kernel for a
//! piece of work and to judge whether the work was on time.
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
