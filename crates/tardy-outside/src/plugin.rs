//! The plugin itself, as bytes for QEMU to load.

/// The shared library; empty where this program was built for another architecture than that of the
/// machine that built it, or without a C compiler.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tardy_outside.so"));

/// Its source (GPL-2.0-or-later), for a machine that has a compiler and needs a library of its own.
pub const SOURCE: &str = include_str!("../../../outside/tardy_outside.c");

/// What the compiler needs for it, before the names of the files.
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
