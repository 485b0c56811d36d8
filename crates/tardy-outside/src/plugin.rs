//! The plugin itself, as bytes for QEMU to load.
//!
//! After each instruction that changes the preemption count, the plugin reads the count from the
//! guest's memory, instead of adding up the changes. A sum would be unreliable: some instructions
//! add the value of a register, and after one missed change the sum would stay wrong. To find the
//! guest's memory, the plugin uses the host's address of the kernel's code, which QEMU provides.
//!
//! The plugin uses no library. It does not use QEMU's header either, because no package contains
//! this header. If the plugin were linked with a C library, each machine to which this program is
//! copied would need the same library, although QEMU has already loaded one.

/// The shared library. Empty if this program was built for an architecture other than the building
/// machine's, or without a C compiler.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tardy_outside.so"));

/// The plugin's source (GPL-2.0-or-later), for machines that have a compiler and need their own
/// library.
pub const SOURCE: &str = include_str!("../../../outside/tardy_outside.c");

/// The options with which the plugin must be compiled. The names of the files come after these
/// options.
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
