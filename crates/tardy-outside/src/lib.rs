//! Analyses a guest's kernel by the output of the QEMU plugin in `outside/`, which records the
//! guest's execution.
//!
//! The guest does not notice the plugin: its clock counts its own instructions. This crate starts
//! no guest; `tardy-lab` does.
#![forbid(unsafe_code)]

pub mod bound;
pub mod calls;
pub mod census;
pub mod comparison;
mod events;
pub mod kernel_symbols;
pub mod kind;
pub mod late;
pub mod lnp;
pub mod plugin;
pub mod store;
pub mod stream;
pub mod theory;
