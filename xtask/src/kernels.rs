//! `cargo xtask kernels`: runs tardy in a guest for each kernel series in the package sources, and
//! writes the page docs/kernels.md from the exit codes of the commands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

#[derive(Debug, Args)]
pub(crate) struct KernelsArguments {
    /// Kernels, as for `tardy lab run --kernel` [default: the newest package of each series]
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Binary to use instead of a new build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
}

/// Script with the commands that run in a guest, one after another.
const SCRIPT: &str = "xtask/src/kernels/guest.sh";
const BUSYBOX: &str = "/bin/busybox";
/// Probes that need something that no guest has: a program, another machine, or a cable.
const NEEDS_OTHERS: &[&str] = &["app", "response"];
const PAGE: &str = "docs/kernels.md";
const HEAD: &str = "# Kernels
`cargo xtask kernels` boots each kernel in a guest of the lab, runs the commands of the table there, \
and writes this page. It needs QEMU and busybox-static.

A cell shows \"yes\" if the command ended with exit code 0; otherwise, it shows the exit code. The \
list below the table gives the first reason that the command printed for such an exit code. The \
probes `app` and `response` are left out, because they need a program or another machine.

| kernel | run | probes | run --explain | explain | attach | lab run --watch | doctor |
|---|---|---|---|---|---|---|---|
";

/// A command in a guest: its name, exit code, and first error message.
struct Tried {
    name: String,
    code: String,
    said: String,
}

/// Tests all kernels and writes the page.
pub(crate) fn run(arguments: &KernelsArguments) -> Result<()> {
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let kernels = if arguments.kernels.is_empty() {
        newest(&tardy)?
    } else {
        arguments.kernels.clone()
    };
    let mut names: Vec<String> = listed(&tardy, &["list", "probes"], "probes")?
        .iter()
        .filter_map(|probe| Some(probe["name"].as_str()?.to_owned()))
        .collect();
    names.retain(|name| !NEEDS_OTHERS.contains(&name.as_str()));
    let mut page = HEAD.to_owned();
    let mut reasons = String::new();
    for kernel in &kernels {
        let tried = in_guest(&tardy, kernel, &names)?;
        row(&mut page, &mut reasons, kernel, &tried);
    }
    let date = program::capture(Command::new("date").arg("+%Y-%m-%d"))?;
    let _ = write!(page, "\nTried on {}.\n{reasons}", date.trim());
    print!("{page}");
    workspace::write(&workspace::root().join(PAGE), page.as_bytes())
}

/// Returns the newest package of each series, stock and PREEMPT_RT.
pub(crate) fn newest(tardy: &Path) -> Result<Vec<String>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for package in listed(tardy, &["lab", "kernels", "--refresh"], "packages")? {
        let kernel = package["kernel"].as_str().unwrap_or_default();
        let series = kernel.rsplit('/').next().unwrap_or_default().to_owned();
        if !series.ends_with("-cloud") {
            // Later suites come later in the list, so the last package of a series is kept.
            found.retain(|(earlier, _)| *earlier != series);
            found.push((series, kernel.to_owned()));
        }
    }
    found.sort_by_key(|(series, _)| order(series));
    Ok(found.into_iter().map(|(_, kernel)| kernel).collect())
}

/// Returns a sort key for the order 6.1, 6.1-rt, 6.12.
fn order(series: &str) -> (Vec<u32>, bool) {
    let (version, kind) = series.split_once('-').unwrap_or((series, ""));
    let numbers = version.split('.').filter_map(|part| part.parse().ok());
    (numbers.collect(), !kind.is_empty())
}

fn listed(tardy: &Path, words: &[&str], key: &str) -> Result<Vec<Value>> {
    let text = program::capture(Command::new(tardy).args(words).arg("--json"))?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("tardy {}: {error}", words.join(" "))))?;
    Ok(document[key].as_array().cloned().unwrap_or_default())
}

/// Boots `kernel` twice: once with the script, once as a watched guest.
fn in_guest(tardy: &Path, kernel: &str, probes: &[String]) -> Result<Vec<Tried>> {
    let cells = in_guest_with(tardy, kernel, SCRIPT, "kernels", probes)?.join("cells");
    let text =
        std::fs::read_to_string(&cells).while_doing(|| format!("reading {}", cells.display()))?;
    let mut tried: Vec<Tried> = text.lines().filter_map(parsed).collect();
    let watched = program::output(
        lab(tardy, kernel, "kernels/watched")?
            .args(["--for", "200ms", "--load", "none", "--watch"]),
    )?;
    let said = String::from_utf8_lossy(&watched.stderr);
    tried.push(Tried {
        name: "watch".to_owned(),
        code: watched
            .status
            .code()
            .map_or_else(|| "a signal".to_owned(), |code| code.to_string()),
        said: said.lines().last().unwrap_or_default().to_owned(),
    });
    Ok(tried)
}

/// Boots `kernel` with a script, and returns the folder with the files that the script left in
/// /run/out of the guest. `name` is the folder below `target` of these files.
pub(crate) fn in_guest_with(
    tardy: &Path,
    kernel: &str,
    script: &str,
    name: &str,
    words: &[String],
) -> Result<PathBuf> {
    if !Path::new(BUSYBOX).exists() {
        return Err(Failure::new(
            "there is no /bin/busybox: install the package busybox-static",
        ));
    }
    let folder = workspace::target_folder()?.join(name);
    workspace::remove(&folder)?;
    let script = workspace::root().join(script);
    let mut commands = lab(tardy, kernel, &format!("{name}/script"))?;
    commands
        .args(["--add", &format!("{BUSYBOX}:bin/busybox"), "--add"])
        .arg(format!("{}:bin/script", script.display()))
        .args(["--program", "/bin/script", "--"])
        .args(words);
    program::run(&mut commands)?;
    Ok(only_folder(&folder.join("script"))?.join("replica-000"))
}

/// Returns the command that measures in a guest, with its results in this folder below `target`.
fn lab(tardy: &Path, kernel: &str, name: &str) -> Result<Command> {
    let mut command = Command::new(tardy);
    command
        .args(["lab", "run", "--kernel", kernel, "--out"])
        .arg(workspace::target_folder()?.join(name));
    Ok(command)
}

fn only_folder(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).while_doing(|| format!("reading {}", folder.display()));
    entries?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .ok_or_else(|| Failure::new(format!("{} is empty", folder.display())))
}

fn parsed(line: &str) -> Option<Tried> {
    let (name, rest) = line.split_once(' ')?;
    let (code, said) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Tried {
        name: name.to_owned(),
        code: code.to_owned(),
        said: said.to_owned(),
    })
}

/// Adds the row of a kernel to the page, and the reason for each failed command to the list of
/// reasons.
fn row(page: &mut String, reasons: &mut String, kernel: &str, tried: &[Tried]) {
    let cell = |name: &str| {
        let code = tried.iter().find(|tried| tried.name == name);
        match code.map(|tried| tried.code.as_str()) {
            Some("0") => "yes".to_owned(),
            Some(code) => format!("exit code {code}"),
            None => "not reached".to_owned(),
        }
    };
    let probes: Vec<&Tried> = tried
        .iter()
        .filter(|tried| tried.name.starts_with("probe:"))
        .collect();
    let good = probes.iter().filter(|probe| probe.code == "0").count();
    let cells: Vec<String> = [
        cell("run"),
        format!("{good} of {}", probes.len()),
        cell("traced"),
        cell("explain"),
        cell("attach"),
        cell("watch"),
        cell("doctor"),
    ]
    .into();
    let _ = writeln!(page, "| {kernel} | {} |", cells.join(" | "));
    for failed in tried.iter().filter(|tried| tried.code != "0") {
        let _ = writeln!(
            reasons,
            "- {kernel}, {}, exit code {}: {}",
            failed.name.replace("probe:", "probe "),
            failed.code,
            failed
                .said
                .trim_start_matches("tardy: ")
                .trim_start_matches("! ")
        );
    }
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

    #[test]
    fn a_row_counts_probes_and_names_what_failed() {
        let tried: Vec<Tried> = [
            "run 0",
            "probe:rtc 4 ! it was stopped",
            "probe:cyclic 0",
            "attach 3 tardy: no tracefs",
        ]
        .into_iter()
        .filter_map(parsed)
        .collect();
        let (mut page, mut reasons) = (String::new(), String::new());
        row(&mut page, &mut reasons, "debian:6.1", &tried);
        assert_eq!(
            page,
            "| debian:6.1 | yes | 1 of 2 | not reached | not reached | exit code 3 | not reached | \
             not reached |\n"
        );
        assert_eq!(
            reasons,
            "- debian:6.1, probe rtc, exit code 4: it was stopped\n- debian:6.1, attach, exit code \
             3: no tracefs\n"
        );
    }
}
