//! Builds the QEMU plugin with the machine's C compiler, if the program is built for the machine's
//! own architecture. If the plugin cannot be built, the program is built without it, and prints an
//! error when a user requests the plugin.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "../../outside/tardy_outside.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("tardy_outside.so");
    let is_built = is_of_this_machine() && build(&out);
    if !is_built {
        std::fs::write(&out, b"").expect("cargo's folder can be written");
    }
}

fn is_of_this_machine() -> bool {
    let host = std::env::var("HOST").unwrap_or_default();
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    host.split('-').next() == Some(target.as_str())
}

/// Compiles the plugin without any library, because QEMU has already loaded a C library, whichever
/// it is.
fn build(out: &Path) -> bool {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let options = [
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-shared",
        "-nostdlib",
        "-fvisibility=hidden",
        "-fno-stack-protector",
        "-U_FORTIFY_SOURCE",
    ];
    let status = Command::new(compiler)
        .args(options)
        .arg("-o")
        .arg(out)
        .arg(SOURCE)
        .status();
    status.is_ok_and(|status| status.success())
}
