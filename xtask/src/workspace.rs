//! The workspace: its folders, its crates, and the tool built from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::program;

/// Returns the workspace's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the manifest's folder lies in the workspace")
}

/// Returns the command `cargo`, to run in the workspace's root folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Returns the folders of the workspace's crates.
///
/// # Errors
/// Returns an error if the folder of crates cannot be read.
pub fn crates() -> Result<Vec<PathBuf>> {
    let folder = root().join("crates");
    let entries = std::fs::read_dir(&folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .while_doing(|| format!("listing {}", folder.display()))?;
    let mut crates: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    crates.push(root().join("xtask"));
    Ok(crates)
}

/// Builds the tool for users and returns the binary.
///
/// # Errors
/// Returns an error if the build fails; cargo has printed the reason.
pub fn build_tardy() -> Result<PathBuf> {
    build(&["--release", "--package", "tardy"])
}

/// Returns the given binary, or builds one.
///
/// # Errors
/// Returns an error if the given file does not exist; otherwise fails as `build` does.
pub fn given_or(
    binary: Option<&PathBuf>,
    build: impl FnOnce() -> Result<PathBuf>,
) -> Result<PathBuf> {
    binary.map_or_else(build, |binary| {
        binary
            .canonicalize()
            .while_doing(|| format!("looking for {}", binary.display()))
    })
}

/// Builds the binary of [`build_tardy`] with symbols, so that callgrind can name the functions.
/// Only the package `tardy` is compiled again.
///
/// # Errors
/// Fails as [`build_tardy`] does.
pub fn build_with_symbols() -> Result<PathBuf> {
    build(&[
        "--release",
        "--package",
        "tardy",
        "--config",
        "profile.release.package.tardy.strip=false",
    ])
}

/// Runs `cargo build` with these arguments, and returns the last program that it built.
///
/// # Errors
/// Returns an error if the build fails, or builds no program.
pub fn build(arguments: &[&str]) -> Result<PathBuf> {
    eprintln!("$ cargo build {}", arguments.join(" "));
    let mut cargo = cargo();
    cargo
        .arg("build")
        .args(arguments)
        .args("--locked --message-format json-render-diagnostics".split(' '));
    cargo.stderr(std::process::Stdio::inherit());
    let messages = program::capture(&mut cargo)?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    executables
        .next_back()
        .ok_or_else(|| Failure::new("cargo built no executable"))
}

/// Copies the files that git tracks, as they are on the disk, to a new folder. The files keep their
/// times, so a second build compiles only changed files.
///
/// # Errors
/// Returns an error if git fails, or a file cannot be copied.
pub fn copy_to(tree: &Path) -> Result<()> {
    let mut git = Command::new("git");
    let listed = program::capture(git.current_dir(root()).args(["ls-files", "--cached"]))?;
    // git may still list a file that was removed.
    let files = listed.lines().filter(|file| root().join(file).exists());
    remove(tree)?;
    make_folder(tree)?;
    let mut copy = Command::new("cp");
    copy.args(["--parents", "--preserve=timestamps", "--target-directory"])
        .arg(tree)
        .args(files);
    program::capture(copy.current_dir(root())).map(drop)
}

/// Removes a folder, if it exists.
///
/// # Errors
/// Returns an error if the folder cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
    .while_doing(|| format!("removing {}", folder.display()))
}

/// Reads a text file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).while_doing(|| format!("reading {}", path.display()))
}

/// Writes a file, and creates its folder, unless the file already has this content.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content.as_ref()) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), make_folder)?;
    std::fs::write(path, content).while_doing(|| format!("writing {}", path.display()))
}

/// Makes a folder, and the folders above it.
///
/// # Errors
/// Returns an error if the folder cannot be made.
pub fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).while_doing(|| format!("making {}", folder.display()))
}

/// Returns cargo's target folder.
pub fn target_folder() -> Result<PathBuf> {
    let metadata = program::capture(
        cargo().args("metadata --format-version 1 --no-deps --locked".split(' ')),
    )?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).while_doing(|| "reading cargo's metadata".to_owned())?;
    let folder = metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str);
    folder
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new("cargo's metadata does not name its target directory"))
}
