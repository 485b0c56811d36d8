//! The plugin itself, as bytes for QEMU to load.
//!
//! The plugin reads the preemption count from the guest's memory after each instruction that
//! changes it, instead of adding up the changes. Some instructions add a register, and a separate
//! count would be wrong for good after the first miss. QEMU provides the host's address of the
//! kernel's code, from which the plugin finds the guest's memory.
//!
//! The plugin has no header and no library. QEMU's header is in no package, and linking a C library
//! would tie a copied program to that library, while QEMU has already loaded its own.

/// The shared library; empty if this program was built for another architecture than the building
/// machine's, or without a C compiler.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tardy_outside.so"));

/// Its source (GPL-2.0-or-later), for a machine that has a compiler and needs a custom library.
pub const SOURCE: &str = include_str!("../../../outside/tardy_outside.c");

/// The compiler options that it needs, before the names of the files.
pub const COMPILER_OPTIONS: [&str; 8] = [
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
];
