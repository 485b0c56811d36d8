//! `cargo xtask build`: builds one static binary per architecture, with one command.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::{program, sbom, workspace};

/// `cargo xtask build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Architectures
    #[arg(value_enum, required = true)]
    architectures: Vec<Architecture>,
    /// Build each twice, the second time from a copy of the tree: both must be identical
    #[arg(long)]
    twice: bool,
}

/// An architecture that is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Architecture {
    /// 64-bit Arm
    Aarch64,
    /// 32-bit Arm with hardware floating point
    Armv7,
    /// 64-bit RISC-V
    Riscv64,
    /// 64-bit x86
    #[value(name = "x86_64")]
    X86_64,
}

impl Architecture {
    /// Every architecture.
    pub(crate) const ALL: [Self; 4] = [Self::X86_64, Self::Aarch64, Self::Riscv64, Self::Armv7];

    fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Armv7 => "armv7",
            Self::Riscv64 => "riscv64",
            Self::X86_64 => "x86_64",
        }
    }

    /// Returns the target to build for. Some use musl, the others the distribution's C library for
    /// cross-compilation; either is linked statically.
    fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-musl",
            Self::Armv7 => "armv7-unknown-linux-gnueabihf",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Self::X86_64 => "x86_64-unknown-linux-musl",
        }
    }

    /// Returns the programs for linking, each with the packages that contain it and the C library;
    /// none for musl targets.
    fn linkers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Armv7 => &[
                (
                    "arm-linux-gnueabihf-gcc",
                    "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
                ),
                (
                    "arm-linux-gnueabihf-ld.gold",
                    "binutils-gold-arm-linux-gnueabihf",
                ),
            ],
            Self::Riscv64 => &[(
                "riscv64-linux-gnu-gcc",
                "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
            )],
            Self::Aarch64 | Self::X86_64 => &[],
        }
    }

    /// Returns Debian's name of the architecture.
    pub(crate) fn of_debian(self) -> &'static str {
        match self {
            Self::Aarch64 => "arm64",
            Self::Armv7 => "armhf",
            Self::Riscv64 => "riscv64",
            Self::X86_64 => "amd64",
        }
    }

    /// Returns this machine's architecture, if static builds support it.
    pub(crate) fn here() -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|architecture| architecture.is_here())
    }

    /// Returns whether this is the machine's architecture.
    pub(crate) fn is_here(self) -> bool {
        let here = std::env::consts::ARCH;
        self.name() == if here == "arm" { "armv7" } else { here }
    }

    /// Returns e_machine of the architecture's ELF files (elf.h: EM_AARCH64, EM_ARM, EM_RISCV,
    /// EM_X86_64).
    fn machine(self) -> u16 {
        match self {
            Self::Aarch64 => 183,
            Self::Armv7 => 40,
            Self::Riscv64 => 243,
            Self::X86_64 => 62,
        }
    }
}

/// `cargo xtask sbom`.
#[derive(Debug, Args)]
pub(crate) struct SbomArguments {
    /// Architectures
    #[arg(value_enum, required = true)]
    architectures: Vec<Architecture>,
}

/// Writes the list of components next to each binary, without building.
pub(crate) fn describe(arguments: &SbomArguments) -> Result<()> {
    for &architecture in &arguments.architectures {
        let folder = workspace::target_folder()?
            .join(architecture.target())
            .join("dist");
        println!("{}", sbom::write(architecture.target(), &folder)?.display());
    }
    Ok(())
}

/// Runs the task.
pub(crate) fn run(arguments: &BuildArguments) -> Result<()> {
    for &architecture in &arguments.architectures {
        let binary = build(architecture)?;
        let bytes = check_file(&binary, architecture)?;
        println!("{}: static, {:.1} MB", binary.display(), bytes as f64 / 1e6);
        let folder = binary.parent().unwrap_or(&binary);
        println!(
            "{}: bill of materials",
            sbom::write(architecture.target(), folder)?.display()
        );
        try_out(architecture, &binary)?;
        if arguments.twice {
            build_again(architecture, &binary)?;
        }
    }
    Ok(())
}

/// Builds from a copy of the tree, and fails if the binary differs.
fn build_again(architecture: Architecture, binary: &Path) -> Result<()> {
    let folder = workspace::target_folder()?.join("twice");
    let tree = folder.join("another/folder");
    workspace::copy_to(&tree)?;
    let other = build_in(&tree, &folder.join("made"), architecture)?;
    let read =
        |path: &Path| std::fs::read(path).while_doing(|| format!("reading {}", path.display()));
    if read(binary)? != read(&other)? {
        return Err(Failure::new(format!(
            "{} and {} differ",
            binary.display(),
            other.display()
        )));
    }
    println!(
        "{}: {} is the same, byte by byte",
        architecture.name(),
        other.display()
    );
    Ok(())
}

/// Checks that the file is a static binary of the architecture. Returns its size in bytes.
pub(crate) fn check_file(binary: &Path, architecture: Architecture) -> Result<usize> {
    let bytes = std::fs::read(binary).while_doing(|| format!("reading {}", binary.display()))?;
    check(&bytes, architecture)
        .map_err(|reason| Failure::new(format!("{}: {reason}", binary.display())))?;
    Ok(bytes.len())
}

/// Runs the tests of `tardy-sys` with the C library of the distributed binary. `cargo xtask test`
/// runs them with the C library of this machine, which behaves differently in places.
pub(crate) fn test_system_calls(architecture: Architecture) -> Result<()> {
    let target = architecture.target();
    add_target(target)?;
    program::run(
        workspace::cargo()
            .args("test --quiet --locked --package tardy-sys --lib --target".split(' '))
            .arg(target),
    )
}

/// Builds the distributed binary, and returns its path.
pub(crate) fn build(architecture: Architecture) -> Result<PathBuf> {
    build_in(
        workspace::root(),
        &workspace::target_folder()?,
        architecture,
    )
}

/// Builds `tree` into the folder `made`. Names of folders are replaced, so they leave no trace in
/// the binary.
fn build_in(tree: &Path, made: &Path, architecture: Architecture) -> Result<PathBuf> {
    let target = prepared(architecture)?;
    let mut cargo = workspace::cargo();
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", made);
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let named = [
        Some((tree.to_owned(), "/tardy")),
        Some((made.to_owned(), "/tardy/target")),
        home.map(|home| (home, "/cargo")),
    ];
    // Flags are separated by blanks, so a folder with a blank in its name cannot be replaced.
    let named = named
        .into_iter()
        .flatten()
        .filter_map(|(folder, name)| Some((folder.to_str()?.to_owned(), name)));
    let flags = named
        .filter(|(folder, _)| !folder.contains(' '))
        .map(|(folder, name)| format!("--remap-path-prefix={folder}={name}"));
    let variable = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        target.to_uppercase().replace('-', "_")
    );
    cargo.env(variable, flags.collect::<Vec<_>>().join(" "));
    cargo.args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "tardy",
        "--target",
        target,
    ]);
    // Flags in the environment would replace the flags of .cargo/config.toml, which include the
    // linker flags.
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    program::run(&mut cargo)?;
    Ok(made.join(target).join("dist/tardy"))
}

/// Builds the binary of developers, without link-time optimisation, and returns its path.
pub(crate) fn build_quickly(architecture: Architecture) -> Result<PathBuf> {
    let target = prepared(architecture)?;
    workspace::build(&["--release", "--package", "tardy", "--target", target])
}

/// Returns the target of the architecture once its linkers and libraries are there.
fn prepared(architecture: Architecture) -> Result<&'static str> {
    let mut linkers = architecture.linkers().iter();
    if let Some((linker, packages)) = linkers.find(|(linker, _)| program::find(linker).is_none()) {
        return Err(Failure::new(format!(
            "{} needs {linker}: apt-get install {packages}",
            architecture.name()
        )));
    }
    let target = architecture.target();
    add_target(target)?;
    Ok(target)
}

/// Installs the target's standard library with rustup if it is missing.
fn add_target(target: &str) -> Result<()> {
    let rustc = || Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let library = program::capture(rustc().args(["--print", "target-libdir", "--target", target]))?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    if program::find("rustup").is_none() {
        return Err(Failure::new(format!(
            "Rust's standard library for {target} is missing, and so is rustup: install the \
             library in the way in which Rust was installed"
        )));
    }
    program::run(
        Command::new("rustup")
            .args(["target", "add", target])
            .current_dir(workspace::root()),
    )
}

/// Checks that the file is of the architecture, and needs neither a loader nor shared libraries.
fn check(bytes: &[u8], architecture: Architecture) -> std::result::Result<(), String> {
    let elf = Elf::read(bytes).ok_or("is not a little-endian ELF file")?;
    if elf.machine != architecture.machine() {
        return Err(format!(
            "is built for another architecture than {}",
            architecture.name()
        ));
    }
    if elf.has_interpreter {
        return Err(
            "is not static: it asks for a loader; unset RUSTFLAGS, or see .cargo/config.toml"
                .to_owned(),
        );
    }
    Ok(())
}

/// The checked fields of an ELF file (man 5 elf).
struct Elf {
    machine: u16,
    has_interpreter: bool,
}

impl Elf {
    fn read(bytes: &[u8]) -> Option<Self> {
        const CLASS_32_LITTLE: [u8; 2] = [1, 1];
        const CLASS_64_LITTLE: [u8; 2] = [2, 1];
        const PROGRAM_INTERPRETER: u32 = 3;
        let word = |at: usize| {
            Some(u32::from_le_bytes(
                bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
            ))
        };
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let class: [u8; 2] = bytes.strip_prefix(b"\x7fELF")?.get(..2)?.try_into().ok()?;
        let (headers_begin, size, count) = match class {
            CLASS_32_LITTLE => (usize::try_from(word(28)?).ok()?, half(42)?, half(44)?),
            CLASS_64_LITTLE => (
                usize::try_from(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)).ok()?,
                half(54)?,
                half(56)?,
            ),
            _ => return None,
        };
        let kind = |index: usize| word(headers_begin.checked_add(index * usize::from(size))?);
        let kinds: Option<Vec<u32>> = (0..usize::from(count)).map(kind).collect();
        Some(Self {
            machine: half(18)?,
            has_interpreter: kinds?.contains(&PROGRAM_INTERPRETER),
        })
    }
}

/// Runs the binary: directly, or with QEMU if it is installed.
fn try_out(architecture: Architecture, binary: &Path) -> Result<()> {
    let runner = if architecture.is_here() {
        None
    } else {
        let name = if matches!(architecture, Architecture::Armv7) {
            "arm"
        } else {
            architecture.name()
        };
        let names = [format!("qemu-{name}"), format!("qemu-{name}-static")];
        let Some(runner) = names.iter().find_map(|name| program::find(name)) else {
            println!(
                "not tried out: there is no {} on this machine (package qemu-user)",
                names[0]
            );
            return Ok(());
        };
        Some(runner)
    };
    for arguments in [&["--version"][..], &["list", "probes"]] {
        let mut command = Command::new(runner.as_deref().unwrap_or(binary));
        if runner.is_some() {
            command.arg(binary);
        }
        let output = program::capture(command.args(arguments))?;
        println!("$ {}\n{}", program::line(&command), output.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        let dynamic = std::fs::read("/bin/sh").unwrap();
        let architecture = if cfg!(target_arch = "aarch64") {
            Architecture::Aarch64
        } else {
            Architecture::X86_64
        };
        assert!(
            check(&dynamic, architecture)
                .unwrap_err()
                .contains("not static")
        );
    }

    #[test]
    fn these_tests_are_static_themselves() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let (own_architecture, other) = if cfg!(target_arch = "aarch64") {
            (Architecture::Aarch64, Architecture::X86_64)
        } else {
            (Architecture::X86_64, Architecture::Aarch64)
        };
        assert_eq!(
            check(&own, own_architecture),
            Ok(()),
            "RUSTFLAGS in the environment undoes the static link"
        );
        assert!(
            check(&own, other)
                .unwrap_err()
                .contains("another architecture")
        );
    }

    #[test]
    fn a_program_of_32_bits_is_read() {
        let mut bytes = vec![0; 52 + 32];
        bytes[..6].copy_from_slice(b"\x7fELF\x01\x01");
        bytes[18] = 40;
        (bytes[28], bytes[42], bytes[44]) = (52, 32, 1);
        assert_eq!(check(&bytes, Architecture::Armv7), Ok(()));
        assert!(
            check(&bytes, Architecture::X86_64)
                .unwrap_err()
                .contains("another architecture")
        );
        bytes[52] = 3;
        assert!(
            check(&bytes, Architecture::Armv7)
                .unwrap_err()
                .contains("not static")
        );
        bytes.truncate(54);
        assert!(
            check(&bytes, Architecture::Armv7)
                .unwrap_err()
                .contains("not a little-endian ELF")
        );
    }

    #[test]
    fn bytes_that_are_no_program_are_refused() {
        assert!(check(b"\x7fELF", Architecture::X86_64).is_err());
        assert!(check(b"#!/bin/sh\n", Architecture::X86_64).is_err());
    }
}
