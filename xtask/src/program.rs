//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use crate::failure::{Failure, Result, While};
use crate::workspace;

/// Formats the command as a user would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| quoted(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs the command to its end; its output goes to the terminal. The command must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command
        .status()
        .while_doing(|| format!("starting `{}`", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "`{}` failed ({status})",
            line(command)
        )))
    }
}

/// Runs the command to its end and returns its output, with any exit code.
pub fn output(command: &mut Command) -> Result<Output> {
    command
        .output()
        .while_doing(|| format!("starting `{}`", line(command)))
}

/// Runs the command to its end and returns its standard output. The command must succeed.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!(
            "`{}` failed ({}): {}",
            line(command),
            output.status,
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes a Python environment with these packages in a folder, and returns its interpreter. If the
/// list of packages has changed, all are installed again.
pub fn python(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let listed = folder.join("packages");
    let packages_text = packages.join("\n");
    if std::fs::read_to_string(&listed).ok() != Some(packages_text.clone()) {
        required("python3", "python3-venv")?;
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(packages))?;
        workspace::write(&listed, packages_text)?;
    }
    Ok(python)
}

/// Returns today's date in UTC, as year-month-day.
pub fn date() -> Result<String> {
    let date = capture(Command::new("date").args(["--utc", "+%F"]))?;
    Ok(date.trim().to_owned())
}

/// Returns the exit code as text.
pub fn code(status: ExitStatus) -> String {
    status
        .code()
        .map_or_else(|| "a signal".to_owned(), |code| code.to_string())
}

/// Returns the path of a program in PATH, or in the folders of programs for administrators, which
/// the PATH of some users lacks.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns the path of a program; an error names the package that contains it.
pub fn required(name: &str, package: &str) -> Result<PathBuf> {
    find(name).ok_or_else(|| {
        Failure::new(format!(
            "there is no {name} in PATH: install the package {package}"
        ))
    })
}

/// Returns the CPU time in s that all descendants of this process that have ended used: `cutime`
/// and `cstime` of proc_pid_stat(5), in ticks of 10 ms (`USER_HZ` of the kernel, the same on all
/// architectures).
pub fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces. `cutime` is the 14th field after the name.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: f64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        let mut command = Command::new("cargo");
        command.args(["run", "--for", "1 s", "it's"]);
        assert_eq!(line(&command), r"cargo run --for '1 s' 'it'\''s'");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }

    #[test]
    fn the_cpu_time_of_a_child_is_counted() {
        let before = children_cpu_s();
        let mut child = Command::new("sh");
        child.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
        assert!(child.status().unwrap().success());
        assert!(children_cpu_s() > before);
    }
}
