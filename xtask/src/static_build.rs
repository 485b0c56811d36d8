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

/// An architecture for which binaries are built.
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

    /// Returns the target to build for. Some targets use musl, the others the distribution's C
    /// library for cross-compilation; both link the C library statically.
    fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-musl",
            Self::Armv7 => "armv7-unknown-linux-gnueabihf",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Self::X86_64 => "x86_64-unknown-linux-musl",
        }
    }

    /// Returns the programs for linking, each with the packages that contain it and the C library;
    /// no programs for musl targets.
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

    /// Returns whether the value is this machine's architecture.
    pub(crate) fn is_here(self) -> bool {
        let here = std::env::consts::ARCH;
        self.name() == if here == "arm" { "armv7" } else { here }
    }

    /// Returns the architecture as readelf(1) prints it.
    fn machine(self) -> &'static str {
        match self {
            Self::Aarch64 => "AArch64",
            Self::Armv7 => "ARM",
            Self::Riscv64 => "RISC-V",
            Self::X86_64 => "Advanced Micro Devices X86-64",
        }
    }
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

/// Checks that the file is a binary for the architecture, and needs no dynamic loader. Returns the
/// file's size in bytes.
pub(crate) fn check_file(binary: &Path, architecture: Architecture) -> Result<u64> {
    let mut readelf = Command::new(program::required("readelf", "binutils")?);
    readelf.args(["--wide", "--file-header", "--program-headers"]);
    let facts = program::capture(readelf.env("LC_ALL", "C").arg(binary))?;
    let name = binary.display();
    let machine = facts
        .lines()
        .find_map(|line| line.trim().strip_prefix("Machine:"));
    if machine.map(str::trim) != Some(architecture.machine()) {
        return Err(Failure::new(format!(
            "{name} is built for another architecture than {}",
            architecture.name()
        )));
    }
    if facts.contains(" INTERP ") {
        return Err(Failure::new(format!(
            "{name} is not static: it asks for a loader; unset RUSTFLAGS, or see \
             .cargo/config.toml"
        )));
    }
    let metadata = std::fs::metadata(binary).while_doing(|| format!("reading {name}"))?;
    Ok(metadata.len())
}

/// Runs the tests of `tardy-sys` with the C library of the distributed binary. `cargo xtask test`
/// runs these tests with the C library of this machine, which behaves differently in places.
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

/// Returns the given binary, or builds the distributed one for this machine.
pub(crate) fn given_or_built(binary: Option<&PathBuf>) -> Result<PathBuf> {
    workspace::given_or(binary, || {
        let here = Architecture::here();
        build(here.ok_or_else(|| Failure::new("there is no static build for this machine"))?)
    })
}

/// Builds `tree` into the folder `made`. Names of folders are replaced, so that none of them is in
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
    // The flags are separated by blanks, so the name of a folder cannot be replaced if it contains
    // a blank.
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
    cargo
        .args("build --profile dist --locked --package tardy --target".split(' '))
        .arg(target);
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

/// Returns the target of the architecture. Fails if a linker is missing, and installs Rust's
/// standard library for the target if necessary.
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

    fn refusal(binary: &Path, architecture: Architecture) -> String {
        let checked = check_file(binary, architecture);
        checked.map_or_else(|failure| failure.to_string(), |_| String::new())
    }

    #[test]
    fn only_a_static_program_of_the_architecture_is_taken() {
        let here = Architecture::here().unwrap();
        let other = Architecture::ALL
            .into_iter()
            .find(|other| !other.is_here())
            .unwrap();
        let own = std::env::current_exe().unwrap();
        // The program of these tests is linked statically, unless RUSTFLAGS is set in the
        // environment.
        assert_eq!(refusal(&own, here), "");
        assert!(refusal(&own, other).contains("another architecture"));
        assert!(refusal(Path::new("/bin/sh"), here).contains("not static"));
        assert!(!refusal(&workspace::root().join("Cargo.toml"), here).is_empty());
    }
}
