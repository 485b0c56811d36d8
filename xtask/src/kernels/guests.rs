//! Boots guests of one architecture with `tardy lab run`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result, While};
use crate::static_build::{self, Architecture};
use crate::{program, workspace};

const BUSYBOX: &str = "/bin/busybox";

/// The guests of one architecture.
pub(crate) struct Guests {
    tardy: PathBuf,
    architecture: Architecture,
    /// The binary that runs in the guests.
    binary: PathBuf,
    /// Values of the option `--add`, for guests that run scripts.
    added: Vec<String>,
}

impl Guests {
    /// Returns the guests that `tardy`, a binary for this machine, boots by default.
    pub(crate) fn here(tardy: &Path) -> Result<Self> {
        let architecture = Architecture::here()
            .ok_or_else(|| Failure::new("the lab does not support this machine's architecture"))?;
        Self::new(tardy, architecture)
    }

    /// Returns the guests of an architecture. Builds the binary for this architecture, unless
    /// `tardy` is such a binary.
    pub(super) fn new(tardy: &Path, architecture: Architecture) -> Result<Self> {
        let binary = if architecture.is_here() {
            tardy.to_owned()
        } else {
            static_build::build_quickly(architecture)?
        };
        Ok(Self {
            tardy: tardy.to_owned(),
            architecture,
            binary,
            added: Vec::new(),
        })
    }

    /// Adds a file of this machine to the guests that run scripts.
    pub(super) fn add(&mut self, file: &Path, path: &str) {
        self.added.push(format!("{}:{path}", file.display()));
    }

    /// Returns the newest package of each series, both stock and PREEMPT_RT.
    pub(crate) fn newest(&self) -> Result<Vec<String>> {
        let words = ["lab", "kernels", "--refresh", "--arch"];
        let words = words.into_iter().chain([self.architecture.of_debian()]);
        let mut found: Vec<(String, String)> = Vec::new();
        for package in listed(&self.tardy, words, "packages")? {
            let kernel = package["kernel"].as_str().unwrap_or_default();
            let series = series(kernel).to_owned();
            if !series.ends_with("-cloud") {
                // Later suites come later in the list, so of each series the last package is used.
                found.retain(|(earlier, _)| *earlier != series);
                found.push((series, kernel.to_owned()));
            }
        }
        found.sort_by_key(|(series, _)| order(series));
        Ok(found.into_iter().map(|(_, kernel)| kernel).collect())
    }

    /// Boots `kernel` to run a script. Returns the folder with the files that the script left in
    /// the guest's /run/out. This folder is inside the folder `name` below `target`.
    pub(crate) fn run_script(
        &self,
        kernel: &str,
        script: &str,
        name: &str,
        words: &[String],
    ) -> Result<PathBuf> {
        let folder = workspace::target_folder()?.join(name);
        workspace::remove(&folder)?;
        let script = workspace::root().join(script);
        let busybox = busybox(self.architecture)?;
        let mut command = self.run(kernel, &format!("{name}/script"))?;
        command
            .args(["--add", &format!("{}:bin/busybox", busybox.display())])
            .args(["--add", &format!("{}:bin/script", script.display())])
            .args(self.added.iter().flat_map(|added| ["--add", added]))
            .args(["--program", "/bin/script", "--"])
            .args(words);
        eprintln!("$ {}", program::line(&command));
        let output = program::output(&mut command)?;
        let said = String::from_utf8_lossy(&output.stderr);
        eprint!("{said}");
        if !output.status.success() {
            return Err(Failure::new(format!(
                "`tardy lab run` ended with exit code {}: {}",
                program::code(output.status),
                said.lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("tardy: ")
            )));
        }
        Ok(only_folder(&folder.join("script"))?.join("replica-000"))
    }

    /// Returns a command that measures in a guest, and puts its results in this folder below
    /// `target`.
    pub(super) fn run(&self, kernel: &str, name: &str) -> Result<Command> {
        let mut command = Command::new(&self.tardy);
        command
            .args(["lab", "run", "--kernel", kernel, "--arch"])
            .args([self.architecture.of_debian(), "--guest-binary"])
            .arg(&self.binary)
            .arg("--out")
            .arg(workspace::target_folder()?.join(name));
        Ok(command)
    }
}

/// For example, returns `6.1-rt` for `debian:bookworm/6.1-rt`.
pub(crate) fn series(kernel: &str) -> &str {
    kernel.rsplit(['/', ':']).next().unwrap_or(kernel)
}

/// Returns a key by which kernels are sorted in the order 6.1, 6.1-rt, 6.12.
pub(super) fn order(series: &str) -> (Vec<u32>, bool) {
    let (version, kind) = series.split_once('-').unwrap_or((series, ""));
    let numbers = version.split('.').filter_map(|part| part.parse().ok());
    (numbers.collect(), !kind.is_empty())
}

/// Runs a command of tardy that prints a JSON document, and returns the list `key` in it.
pub(super) fn listed<'a>(
    tardy: &Path,
    words: impl IntoIterator<Item = &'a str>,
    key: &str,
) -> Result<Vec<Value>> {
    let mut command = Command::new(tardy);
    let text = program::capture(command.args(words).arg("--json"))?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", program::line(&command))))?;
    Ok(document[key].as_array().cloned().unwrap_or_default())
}

/// Returns a static busybox. The busybox is this machine's, or, for another architecture, comes
/// from the package sources, with the lists that `tardy lab kernels --refresh` has put into the
/// user's cache.
fn busybox(architecture: Architecture) -> Result<PathBuf> {
    let is_file = |path: &PathBuf| path.is_file();
    let missing = |advice| Failure::new(format!("there is no static busybox: {advice}"));
    if architecture.is_here() {
        return Some(PathBuf::from(BUSYBOX))
            .filter(is_file)
            .ok_or_else(|| missing("install the package busybox-static"));
    }
    let architecture = architecture.of_debian();
    let folder = workspace::target_folder()?.join(format!("busybox-{architecture}"));
    // Up to bookworm, packages contain busybox in the first of these folders.
    let unpacked = || {
        ["bin/busybox", "usr/bin/busybox"]
            .map(|path| folder.join(path))
            .into_iter()
            .find(is_file)
    };
    if let Some(busybox) = unpacked() {
        return Ok(busybox);
    }
    workspace::make_folder(&folder)?;
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))
        .unwrap_or_default();
    // The script refers to apt's configuration for one release and this architecture as `$apt`.
    let script = "for apt in \"$0\"/tardy/apt/*-\"$1\"/apt.conf; do \
                  APT_CONFIG=$apt apt-get -q download busybox-static && break; done && \
                  dpkg-deb --extract *.deb .";
    let mut shell = Command::new("sh");
    shell.current_dir(&folder).args(["-c", script]);
    program::capture(shell.arg(cache).arg(architecture))?;
    unpacked().ok_or_else(|| missing("the package sources have none for this architecture"))
}

fn only_folder(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).while_doing(|| format!("reading {}", folder.display()));
    entries?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .ok_or_else(|| Failure::new(format!("{} is empty", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_sorted_by_their_numbers() {
        let mut series = ["6.12", "6.1-rt", "5.10", "6.1"];
        series.sort_by_key(|series| order(series));
        assert_eq!(series, ["5.10", "6.1", "6.1-rt", "6.12"]);
    }
}
