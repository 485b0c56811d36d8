//! A guest's kernel seen from outside: what the plugin of QEMU in `outside/` wrote down while the
//! guest executed, read and counted.
//!
//! The guest does not notice the plugin: its clock counts its own instructions. Nothing here starts
//! a guest; `tardy-lab` does.
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
