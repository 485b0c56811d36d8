//! `cargo xtask package`: makes a tarball and a Debian package (packaging/build.sh). The task can
//! also test the package in a bare Debian, and the package's units under systemd in a guest.
//!
//! The package is called `tardy-latency` and conflicts with `tardy`: in Debian, `tardy` is a
//! post-processor for tar that also installs /usr/bin/tardy.
//!
//! Manual pages and completions come from the packaged binary, so they always match its flags.

mod trial;
mod units;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::static_build::{self, Architecture};
use crate::{program, workspace};

/// `cargo xtask package`.
#[derive(Debug, Args)]
pub(crate) struct PackageArguments {
    /// Architectures
    #[arg(value_enum, required = true)]
    architectures: Vec<Architecture>,
    /// Package this binary instead of a new release build; needs exactly one architecture
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Test the system calls with the C library of the package; install the package of this
    /// machine's architecture in a bare Debian, use it and remove it; then boot one with it and run
    /// its units under systemd (as root; needs debootstrap, and for the units QEMU and x86_64)
    #[arg(long)]
    check: bool,
}

/// Runs the task.
pub(crate) fn run(arguments: &PackageArguments) -> Result<()> {
    if arguments.binary.is_some() && arguments.architectures.len() > 1 {
        return Err(Failure::new(
            "--binary is for one architecture: name exactly one",
        ));
    }
    for &architecture in &arguments.architectures {
        let binary = arguments
            .binary
            .clone()
            .map_or_else(|| static_build::build(architecture), Ok)?;
        static_build::check_file(&binary, architecture)?;
        let files = build(architecture, &binary)?;
        for file in &files {
            let bytes = fs::metadata(file)
                .while_doing(|| format!("looking at {}", file.display()))?
                .len();
            println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
        }
        let deb = &files[1];
        if arguments.check && architecture.is_here() {
            static_build::test_system_calls(architecture)?;
            trial::run(deb)?;
            if architecture == Architecture::X86_64 {
                units::run(deb)?;
            }
        }
    }
    Ok(())
}

/// Makes the tarball and the Debian package, and returns the paths of both in this order.
fn build(architecture: Architecture, binary: &Path) -> Result<[PathBuf; 2]> {
    // The manual pages are printed by a binary that runs on this machine.
    let speaking = if architecture.is_here() {
        binary.to_owned()
    } else {
        workspace::build_tardy()?
    };
    let mut script = Command::new(workspace::root().join("packaging/build.sh"));
    script
        .args([binary, &speaking])
        .args([architecture.of_debian(), env!("CARGO_PKG_VERSION")])
        .arg(workspace::target_folder()?.join("package"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let doing = || "running packaging/build.sh".to_owned();
    let mut child = script.spawn().while_doing(doing)?;
    let mut input = child.stdin.take().expect("it is a pipe");
    writeln!(input, "{}", documents()?.join("\n")).while_doing(doing)?;
    drop(input);
    let output = child.wait_with_output().while_doing(doing)?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.lines().collect::<Vec<_>>()[..] {
        [.., tarball, deb] if output.status.success() => Ok([tarball, deb].map(PathBuf::from)),
        _ => Err(Failure::new(format!(
            "packaging/build.sh failed ({})",
            output.status
        ))),
    }
}

/// Returns the documents to which the README links: the pages of docs/, their pictures, and
/// examples.
fn documents() -> Result<Vec<String>> {
    let listed = program::capture(
        Command::new("git")
            .args(["ls-files", "*.md", "docs", "include/examples"])
            .args([":!crates", ":!fuzz", ":!deploy"])
            .current_dir(workspace::root()),
    )?;
    Ok(listed.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages;

    #[test]
    fn the_package_keeps_out_of_the_way_of_debians_own() {
        let control = fs::read_to_string(workspace::root().join("packaging/control")).unwrap();
        for line in [
            "Package: tardy-latency",
            "Conflicts: tardy",
            "Architecture: @ARCHITECTURE@",
            "Version: @VERSION@",
        ] {
            assert!(control.lines().any(|found| found == line), "{control}");
        }
        assert!(
            control.ends_with('\n'),
            "dpkg refuses a last line without an end"
        );
    }

    #[test]
    fn every_link_of_the_readme_leads_to_a_file_of_the_package() {
        let documents = documents().unwrap();
        let links: Vec<String> = pages::links(&workspace::root().join("README.md"))
            .into_iter()
            .filter(|link| !link.contains("://"))
            .collect();
        assert!(links.len() > 10, "{links:?}");
        for link in links {
            let file = link.split('#').next().unwrap_or_default();
            assert!(documents.iter().any(|document| document == file), "{link}");
        }
        assert!(documents.contains(&"include/examples/loop.c".to_owned()));
    }
}
