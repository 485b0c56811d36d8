//! Analyses a guest's kernel from the output of the QEMU plugin in `outside/`, which records the
//! guest's execution.
//!
//! The plugin does not disturb the guest, because the guest's clock counts the guest's own
//! instructions. This crate starts no guests; `tardy-lab` does.
#![forbid(unsafe_code)]

pub mod bound;
pub mod call_difference;
pub mod call_tree;
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
pub mod symbol_file;
pub mod theory;
