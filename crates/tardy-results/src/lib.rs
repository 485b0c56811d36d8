//! What run folders say: numbers, bounds and models of one run, comparisons of several;
//! and what the kernel's traces say of lateness. Nothing here measures, draws or writes anything.
#![forbid(unsafe_code)]

pub mod atlas;
pub mod compare;
pub mod cost;
pub mod doctor;
pub mod document;
pub mod exit;
pub mod explain;
pub mod history;
pub mod reproduce;
pub mod statistics;
pub mod summary;
