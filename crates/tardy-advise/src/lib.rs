//! Chooses a kernel for a piece of work, and judges whether the work was on time. Both are based on
//! runs, on the user's statements about the work, and on published numbers.
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
