//! The plugin itself, as bytes for QEMU to load.
//!
//! The plugin reads the preemption count from the guest's memory after each instruction that
//! changes it, instead of adding up the changes. Some instructions add the value of a register, and
//! a count made by adding up would stay wrong after the first change that is missed. The plugin
//! finds the guest's memory from the host's address of the kernel's code, which QEMU provides.
//!
//! The plugin uses neither QEMU's header, which is in no package, nor a library. If the plugin were
//! linked with a C library, every machine to which this program is copied would need the same
//! library, although QEMU has already loaded a C library.

/// The shared library. No bytes if this program was built for an architecture other than the
/// building machine's, or without a C compiler.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tardy_outside.so"));

/// The plugin's source (GPL-2.0-or-later), for a machine that has a compiler and needs its own
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
