//! The source of a kernel: where it is, whether it can be built, and how to build it into a
//! separate folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::unsupported::Unsupported;

/// Memory of one compiler process, in bytes: on the kernel's largest files, gcc 12 needs up to
/// about 200 MiB.
pub const JOB_BYTES: u64 = 256 << 20;
/// Space for the objects of x86-64's defconfig, in bytes: 1.5 GiB for Linux 6.1 without debugging
/// information, rounded up.
pub const OBJECTS_BYTES: u64 = 2 << 30;
/// Space for an unpacked tree, in bytes: 1.4 GiB, rounded up.
pub const TREE_BYTES: u64 = 2 << 30;
/// The programs that a build needs, with their Debian packages.
pub const PROGRAMS: [(&str, &str); 6] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
];
/// The programs that unpack an archive, with their Debian packages.
pub const ARCHIVE_PROGRAMS: [(&str, &str); 2] = [("tar", "tar"), ("xz", "xz-utils")];
/// What the user can do if a build failed.
pub const MORE_PACKAGES: &str =
    "the kernel's configuration may need more packages, such as libelf-dev and libssl-dev";

/// Returns the tree or archive to build: the one given with `flag`, otherwise the one from the
/// distribution's package.
///
/// # Errors
/// Returns an error if there is no source, or if the given path is not an archive or a clean kernel
/// tree.
pub fn find(given: Option<&Path>, flag: &str) -> Result<PathBuf, Unsupported> {
    let packaged = || {
        let remedy = format!("install the package linux-source, or give a kernel tree with {flag}");
        packaged_source(Path::new("/usr/src"))
            .ok_or_else(|| Unsupported::new("a kernel's source in /usr/src", remedy))
    };
    let tree = given.map_or_else(packaged, |tree| Ok(tree.to_owned()))?;
    check_tree(&tree, flag)?;
    Ok(tree)
}

/// Prepares `command`, which runs make, to build `tree` and to write the output to `objects`.
#[must_use]
pub fn make(mut command: Command, tree: &Path, objects: &Path, arguments: &[&str]) -> Command {
    let mut output = OsString::from("O=");
    output.push(objects);
    command.arg("-C").arg(tree).arg(output).args(arguments);
    // If make started tardy, the environment contains that make's flags. These flags must not reach
    // the make that `command` runs.
    command
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .env_remove("MAKELEVEL")
        .env("LC_ALL", "C");
    command
}

/// Prepares `command`, which runs tar, to unpack `archive` into `tree`.
#[must_use]
pub fn unpack(mut command: Command, archive: &Path, tree: &Path) -> Command {
    command
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(tree)
        .arg("--strip-components=1");
    command
}

/// Returns the newest source that the distribution's package installed in `folder`.
fn packaged_source(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    // Versions are compared as numbers, not as text, because 6.12 is newer than 6.9.
    let version = |path: &Path| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?;
        let numbers = name.strip_prefix("linux-source-")?.split('.');
        let is_source = name.contains(".tar.") || path.join("Kbuild").is_file();
        is_source.then(|| numbers.map_while(|number| number.parse().ok()).collect())
    };
    entries
        .filter_map(|path| Some((version(&path)?, path)))
        .max()
        .map(|(_, path)| path)
}

fn check_tree(tree: &Path, flag: &str) -> Result<(), Unsupported> {
    let shown = tree.display();
    if !tree.is_absolute() || !tree.exists() {
        return Err(Unsupported::new(
            format!("the kernel tree {shown}"),
            format!("give the absolute path of a kernel tree with {flag}"),
        ));
    }
    if tree.is_file() {
        return Ok(());
    }
    if !tree.join("Makefile").is_file() || !tree.join("Kconfig").is_file() {
        return Err(Unsupported::new(
            format!("a kernel tree in {shown} (it has no Makefile or no Kconfig)"),
            "give the top folder of a kernel's source",
        ));
    }
    // If a tree was configured or built in place, the kernel's Makefile refuses to build it into
    // another folder. The tree would have to be cleaned, but tardy does not write to the user's
    // tree.
    if tree.join(".config").exists() || tree.join("include/config").exists() {
        return Err(Unsupported::new(
            format!("a clean kernel tree ({shown} is from an earlier build)"),
            "give a fresh copy of the tree (git worktree add, or cp and make mrproper)",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_was_built_in_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        assert!(
            check_tree(tree.path(), "--source")
                .unwrap_err()
                .missing
                .contains("no Makefile")
        );
        std::fs::write(tree.path().join("Makefile"), "").unwrap();
        std::fs::write(tree.path().join("Kconfig"), "").unwrap();
        check_tree(tree.path(), "--source").unwrap();
        std::fs::write(tree.path().join(".config"), "").unwrap();
        assert!(
            check_tree(tree.path(), "--source")
                .unwrap_err()
                .missing
                .contains("a clean kernel tree")
        );
        assert!(
            check_tree(Path::new("relative"), "--source")
                .unwrap_err()
                .remedy
                .contains("absolute path")
        );
    }

    #[test]
    fn the_newest_packaged_source_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(packaged_source(folder.path()), None);
        for name in [
            "linux-source-6.9.tar.xz",
            "linux-source-6.12.tar.xz",
            "linux-headers-7",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(
            packaged_source(folder.path()),
            Some(folder.path().join("linux-source-6.12.tar.xz"))
        );
    }
}
