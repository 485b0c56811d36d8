//! The lab: boots kernels in QEMU with instruction-counted time, runs the same measurement in each,
//! and compares.
//!
//! - Kernels and their packages: [`kernel`], [`apt`], [`deb`], [`cache`], [`digest`], [`image`],
//!   [`models`], [`variant`]
//! - A guest: [`binary`] and [`initramfs`] ([`cpio`], [`packing`]) are its input, [`qemu`] and
//!   [`machine`] run it ([`architecture`], [`host_cpu`], [`several_cpus`]), [`boot`] and
//!   [`snapshot`] start it, [`stop`] stops it at a moment of an earlier run, [`exchange`] and [`diagnosis`] read its result
//! - Experiments: [`guest_job`], [`experiment`], [`guest`], [`provenance`]; their results are in
//!   [`comparison`], [`cost_comparison`], [`atlas`], [`bisect`], [`hunt`]
//! - Checks of explanations: [`injection`] makes delays of known cause; [`blame`], [`agreement`]
//!   and [`seen_delays`] compare explanations with them; [`watch`] observes a guest with the QEMU
//!   plugin, and [`kept_digests`] shows whether watching changed the samples
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

pub mod agreement;
pub mod apt;
pub mod architecture;
pub mod atlas;
pub mod binary;
pub mod bisect;
pub mod blame;
pub mod boot;
pub mod cache;
pub mod comparison;
pub mod cost_comparison;
pub mod cpio;
pub mod deb;
pub mod diagnosis;
pub mod digest;
pub mod exchange;
pub mod experiment;
pub mod guest;
pub mod guest_job;
pub mod host_cpu;
pub mod hunt;
pub mod image;
pub mod initramfs;
pub mod injection;
pub mod kept_digests;
pub mod kernel;
pub mod machine;
pub mod models;
pub mod packing;
pub mod provenance;
pub mod qemu;
pub mod seen_delays;
pub mod several_cpus;
pub mod snapshot;
pub mod stop;
pub mod variant;
pub mod watch;
