//! `cargo xtask package`: a tarball and a Debian package, a trial of the package in a bare Debian,
//! and of its units under systemd in a guest.
//!
//! The package is called `tardy-latency` and conflicts with `tardy`. Debian's `tardy` is a
//! post-processor for tar and has /usr/bin/tardy.
//!
//! Manual pages and completions come from the packaged binary, so that they cannot differ from its
//! flags.

mod trial;
mod units;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::static_build::{self, Architecture};
use crate::{program, workspace};

/// Debian has a package `tardy`, a post-processor for tar with the same program in /usr/bin.
const NAME: &str = "tardy-latency";
const TAKEN_NAME: &str = "tardy";

/// Where Debian keeps the documents of the package.
const DOCUMENTS_FOLDER: &str = "usr/share/doc/tardy-latency";
const SECTION: &str = "utils";
const MAINTAINER: &str = "the tardy maintainers <tardy@invalid>";
const LONG_DESCRIPTION: &str = " tardy measures how late Linux starts tasks, under which load, \
                                and whether a\n deadline holds. It accounts for every sample, \
                                brings its own loads, and names\n who made a sample late. It is \
                                one static binary.";

/// `cargo xtask package`.
#[derive(Debug, Args)]
pub(crate) struct PackageArguments {
    /// Architectures
    #[arg(value_enum, required = true)]
    architectures: Vec<Architecture>,
    /// Package this binary, of the only architecture, instead of a new release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Install the package of this machine's architecture in a bare Debian, use it and remove it;
    /// then boot one with it and run its units under systemd (as root; needs debootstrap, and for
    /// the units QEMU and x86_64)
    #[arg(long)]
    check: bool,
}

/// Runs the task.
pub(crate) fn run(arguments: &PackageArguments) -> Result<()> {
    if arguments.binary.is_some() && arguments.architectures.len() > 1 {
        return Err(Failure::new("--binary is of one architecture: name one"));
    }
    for &architecture in &arguments.architectures {
        let binary = arguments
            .binary
            .clone()
            .map_or_else(|| static_build::build(architecture), Ok)?;
        static_build::check_file(&binary, architecture)?;
        let speaking = if architecture.is_here() {
            binary.clone()
        } else {
            workspace::build_tardy()?
        };
        let package = Package::stage(architecture, &binary, &speaking)?;
        let (tarball, deb) = (package.tarball()?, package.deb()?);
        for file in [&tarball, &deb] {
            let bytes = fs::metadata(file)
                .while_doing(|| format!("looking at {}", file.display()))?
                .len();
            println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
        }
        if arguments.check && architecture.is_here() {
            trial::run(&deb)?;
            if architecture == Architecture::X86_64 {
                units::run(&deb)?;
            }
        }
    }
    Ok(())
}

/// The files of a package, in a folder.
struct Package {
    architecture: Architecture,
    version: String,
    root: PathBuf,
}

impl Package {
    /// Puts everything where it is installed; `speaking` is a binary of this machine, which tells
    /// its manual pages and completions.
    fn stage(architecture: Architecture, binary: &Path, speaking: &Path) -> Result<Self> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let root = workspace::target_folder()?
            .join("package")
            .join(format!("{NAME}_{version}_{}", architecture.of_debian()));
        if root.exists() {
            fs::remove_dir_all(&root).while_doing(|| format!("removing {}", root.display()))?;
        }
        let package = Self {
            architecture,
            version,
            root,
        };
        package.copy(binary, "usr/bin/tardy", 0o755)?;
        let source = workspace::root();
        for (from, to) in [
            (
                "packaging/tardy@.service",
                "usr/lib/systemd/system/tardy@.service",
            ),
            (
                "packaging/tardy-watch.service",
                "usr/lib/systemd/system/tardy-watch.service",
            ),
            (
                "packaging/tardy-latency.sysusers",
                "usr/lib/sysusers.d/tardy-latency.conf",
            ),
            (
                "packaging/tardy-latency.limits",
                "etc/security/limits.d/95-tardy-latency.conf",
            ),
            (
                "packaging/tardy-latency.udev",
                "usr/lib/udev/rules.d/60-tardy-latency.rules",
            ),
            ("include/tardy.h", "usr/include/tardy.h"),
        ] {
            package.copy(&source.join(from), to, 0o644)?;
        }
        for document in documents()? {
            let to = format!("{DOCUMENTS_FOLDER}/{document}");
            package.copy(&source.join(document), &to, 0o644)?;
        }
        let read = |name: &str| {
            fs::read_to_string(source.join(name)).while_doing(|| format!("reading {name}"))
        };
        // The licence's own words follow, indented as the format wants it.
        let licence: String = read("LICENSE-MIT")?
            .lines()
            .map(|line| format!(" {}\n", if line.is_empty() { "." } else { line }))
            .collect();
        package.write(
            &format!("{DOCUMENTS_FOLDER}/copyright"),
            &(read("packaging/copyright")? + &licence),
        )?;
        let changelog = format!("{DOCUMENTS_FOLDER}/changelog");
        package.write(&changelog, &read("CHANGELOG.md")?)?;
        package.compress(&changelog)?;
        package.manual(speaking)?;
        for (shell, file) in [
            ("bash", "usr/share/bash-completion/completions/tardy"),
            ("zsh", "usr/share/zsh/vendor-completions/_tardy"),
            ("fish", "usr/share/fish/vendor_completions.d/tardy.fish"),
        ] {
            package.write(
                file,
                &program::capture(Command::new(speaking).args(["completions", shell]))?,
            )?;
        }
        Ok(package)
    }

    fn manual(&self, speaking: &Path) -> Result<()> {
        let folder = "usr/share/man/man1";
        let path = self.make_parent(&format!("{folder}/tardy.1"))?;
        let pages = path.parent().unwrap_or(&self.root).to_owned();
        program::capture(Command::new(speaking).args(["man", "--all"]).arg(&pages))?;
        for name in names(&pages)? {
            self.compress(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    /// A tarball with the same below one folder, for other distributions:
    /// `tar -C / --strip-components=1 -xf FILE`.
    fn tarball(&self) -> Result<PathBuf> {
        let file = self.beside("tar.gz");
        let folder = self.root.file_name().unwrap_or_default();
        let mut tar = Command::new("tar");
        // The same bytes whoever makes it, and whenever.
        tar.args([
            "--create",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--format=ustar",
        ]);
        tar.arg(format!("--mtime=@{}", commit_time()?))
            .args(["--use-compress-program=gzip -9n"]);
        tar.arg("--file")
            .arg(&file)
            .arg("--exclude=DEBIAN")
            .arg("--directory")
            .arg(self.root.parent().unwrap_or(&self.root))
            .arg(folder);
        program::capture(&mut tar)?;
        Ok(file)
    }

    fn deb(&self) -> Result<PathBuf> {
        if program::find("dpkg-deb").is_none() {
            return Err(Failure::new(
                "there is no dpkg-deb in PATH: install the package dpkg",
            ));
        }
        let kilobytes = program::capture(
            Command::new("du")
                .args(["--summarize", "--apparent-size", "--block-size=1K"])
                .arg(&self.root),
        )?;
        self.write(
            "DEBIAN/control",
            &self.control(kilobytes.split_whitespace().next().unwrap_or("0")),
        )?;
        self.write(
            "DEBIAN/conffiles",
            "/etc/security/limits.d/95-tardy-latency.conf\n",
        )?;
        self.copy(
            &workspace::root().join("packaging/postinst"),
            "DEBIAN/postinst",
            0o755,
        )?;
        let file = self.beside("deb");
        let mut command = Command::new("dpkg-deb");
        command
            .env("SOURCE_DATE_EPOCH", commit_time()?)
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(&self.root)
            .arg(&file);
        program::capture(&mut command)?;
        Ok(file)
    }

    fn control(&self, kilobytes: &str) -> String {
        [
            format!("Package: {NAME}"),
            format!("Version: {}", self.version),
            format!("Architecture: {}", self.architecture.of_debian()),
            format!("Section: {SECTION}"),
            "Priority: optional".to_owned(),
            format!("Installed-Size: {kilobytes}"),
            format!("Maintainer: {MAINTAINER}"),
            format!("Conflicts: {TAKEN_NAME}"),
            "Depends: passwd".to_owned(),
            "Description: measures whether a Linux system is on time".to_owned(),
            LONG_DESCRIPTION.to_owned(),
            String::new(),
        ]
        .join("\n")
    }

    fn beside(&self, end: &str) -> PathBuf {
        let name = format!(
            "{}.{end}",
            self.root.file_name().unwrap_or_default().to_string_lossy()
        );
        self.root.with_file_name(name)
    }

    /// Where a file goes, with its folders made.
    fn make_parent(&self, to: &str) -> Result<PathBuf> {
        let path = self.root.join(to);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).while_doing(|| format!("making {}", folder.display()))?;
        Ok(path)
    }

    fn write(&self, to: &str, text: &str) -> Result<()> {
        let path = self.make_parent(to)?;
        fs::write(&path, text).while_doing(|| format!("writing {}", path.display()))?;
        set_mode(&path, 0o644)
    }

    fn copy(&self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let path = self.make_parent(to)?;
        fs::copy(from, &path).while_doing(|| format!("copying {}", from.display()))?;
        set_mode(&path, mode)
    }

    fn compress(&self, file: &str) -> Result<()> {
        program::capture(
            Command::new("gzip")
                .args(["-9n", "--force"])
                .arg(self.root.join(file)),
        )
        .map(drop)
    }
}

/// The documents that the README links to: the pages of the book, their pictures, and examples.
fn documents() -> Result<Vec<String>> {
    let listed = program::capture(
        Command::new("git")
            .args(["ls-files", "*.md", "docs", "include/examples"])
            .args([":!crates", ":!fuzz", ":!deploy"])
            .current_dir(workspace::root()),
    )?;
    Ok(listed.lines().map(str::to_owned).collect())
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .while_doing(|| format!("setting the rights of {}", path.display()))
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).while_doing(|| format!("listing {}", folder.display()))?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect())
}

/// When the commit was made that is packaged, in s since 1970; the time of files in packages.
fn commit_time() -> Result<String> {
    let time = program::capture(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(workspace::root()),
    );
    // Of sources without their history the day is not known, and no time is as good as another.
    Ok(time.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book;

    #[test]
    fn the_package_keeps_out_of_the_way_of_debians_own() {
        let package = Package {
            architecture: Architecture::X86_64,
            version: "1.2.3".into(),
            root: "/nowhere/x".into(),
        };
        let control = package.control("12");
        for line in [
            "Package: tardy-latency",
            "Conflicts: tardy",
            "Architecture: amd64",
            "Version: 1.2.3",
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
        let links: Vec<String> = book::links(&workspace::root().join("README.md"))
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
