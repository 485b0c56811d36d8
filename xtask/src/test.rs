//! `cargo xtask test`: installs the requirements of the tests, after asking, and runs every check
//! that a submission must pass. `cargo xtask prove` runs the long checks.

mod apt;
mod junit;
mod left_out;
mod mounts;
mod packages;
mod stages;
mod tools;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::{inject, program, workspace};
use left_out::LeftOut;
use mounts::Mounts;
use packages::Package;
use stages::Stages;
pub(crate) use tools::Tools;

/// The environment variable that names the release binary for tests that need one.
const RELEASE_VARIABLE: &str = "TARDY_TEST_RELEASE";
/// The tests that depend on mounts, in nextest's filter language.
const MOUNT_TESTS: &str = "test(/hot_loop::|explained_runs::|thresholds::|doctor::|isolated::/)";

/// `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
    /// Fail if a test was left out for a reason that is not listed
    #[arg(long)]
    strict: bool,
    /// List the packages that the tests need, and why; run nothing
    #[arg(long, conflicts_with = "yes")]
    list: bool,
}

/// Runs the task.
pub(crate) fn run(arguments: &TestArguments) -> Result<()> {
    if arguments.list {
        for package in packages::all() {
            println!("{:<18} {}", package.name, package.reason);
        }
        return Ok(());
    }
    let mut stages = Stages::default();
    stages.run("packages", || provide(arguments.yes))?;
    let tools = stages.run("nextest and cargo-deny", Tools::install)?;
    stages.try_run("format", format);
    stages.try_run("clippy", clippy);
    stages.try_run("dependencies", || {
        tools.deny(&["bans", "licenses", "sources"])
    });
    stages.try_run("kernel module", || inject::build(&[]));
    let release = stages.run("release build", workspace::build_with_symbols)?;
    stages.run("test build", || {
        tools.run(&mut tools.nextest("run", &["--no-run"]))
    })?;

    let left_out = LeftOut::new(&workspace::target_folder()?)?;
    let run_tests = |mut command: Command| {
        command
            .env(left_out::VARIABLE, left_out.file())
            .env(RELEASE_VARIABLE, &release);
        tools.run(&mut command)
    };
    stages.try_run("tests", || run_tests(tools.nextest("run", &[])));
    let tally = junit::Tally::read(&junit_file()?)?;
    let mut lines = left_out.take()?;
    match Mounts::other() {
        Some(mounts) => {
            stages.try_run(&format!("tests {mounts}"), || {
                let tests = tools.nextest("run", &["--filterset", MOUNT_TESTS]);
                run_tests(mounts.around(&tests))
            });
            let second_run = junit::Tally::read(&junit_file()?)?;
            lines = left_out::in_both(lines, &left_out.take()?, &second_run);
        }
        None => eprintln!("xtask: not root: tests ran with this machine's mounts only"),
    }
    stages.try_run("documentation examples", || {
        program::run(
            workspace::cargo().args("test --quiet --locked --doc --package tardy-app".split(' ')),
        )
    });

    for line in &lines {
        let reason = left_out::reason(line).unwrap_or("reason not listed");
        eprintln!("left out: {line} ({reason})");
    }
    if arguments.strict && lines.iter().any(|line| left_out::reason(line).is_none()) {
        stages.fail("tests that were left out");
    }
    println!("slowest tests:");
    for (seconds, test) in tally.slowest(10) {
        println!("{seconds:>7.1} s  {test}");
    }
    print!("{stages}");
    println!("{} tests were left out", lines.len());
    println!("{} passed, {} failed", tally.passed, tally.failed);
    stages.result()
}

/// Runs `cargo xtask check`: checks that need no packages, for use before every commit.
pub(crate) fn check() -> Result<()> {
    let mut stages = Stages::default();
    stages.try_run("format", format);
    stages.try_run("clippy", clippy);
    stages.try_run("documentation", documentation);
    stages.result()
}

fn format() -> Result<()> {
    program::run(workspace::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    program::run(
        workspace::cargo()
            .args("clippy --workspace --all-targets --locked -- -D warnings".split(' ')),
    )
}

/// Builds the documentation of all items, including private ones.
pub(crate) fn documentation() -> Result<()> {
    program::run(
        workspace::cargo()
            .args("doc --workspace --no-deps --locked --document-private-items".split(' '))
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Returns the file to which nextest writes the time of every test (.config/nextest.toml).
fn junit_file() -> Result<std::path::PathBuf> {
    Ok(workspace::target_folder()?.join(Path::new("nextest/default/junit.xml")))
}

/// Installs all missing packages, after asking.
pub(crate) fn provide(is_agreed: bool) -> Result<()> {
    if program::find("apt-get").is_none() || program::find("dpkg-query").is_none() {
        return without_apt();
    }
    let missing: Vec<Package> = packages::all()
        .filter(|package| !apt::is_installed(package.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("The tests need packages that are not installed:");
    for package in &missing {
        println!("  {:<18} {}", package.name, package.reason);
    }
    if !is_agreed && !is_agreed_at_terminal()? {
        return Err(Failure::new(
            "packages were not installed, but the tests need them",
        ));
    }
    apt::install(
        &missing
            .iter()
            .map(|package| package.name)
            .collect::<Vec<_>>(),
    )
}

fn is_agreed_at_terminal() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            "there is no terminal for the question: install the packages, or agree with `cargo \
             xtask test --yes`",
        ));
    }
    print!("Install them with apt-get? [y/N] ");
    let mut answer = String::new();
    std::io::stdout()
        .flush()
        .while_doing(|| "asking".to_owned())?;
    std::io::stdin()
        .read_line(&mut answer)
        .while_doing(|| "reading the answer".to_owned())?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// On distributions without apt-get, returns an error that lists the missing programs. On these
/// distributions, the packages have other names.
fn without_apt() -> Result<()> {
    let mut missing: Vec<String> = Vec::new();
    for Package {
        name,
        programs,
        reason,
    } in packages::all()
    {
        let absent = |program: &&str| program::find(program).is_none();
        missing.extend(
            programs
                .split_whitespace()
                .filter(absent)
                .map(|program| format!("  {program} (on Debian in {name}): {reason}")),
        );
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join("\n");
    Err(Failure::new(format!(
        "this machine has no apt-get, and these programs are missing; install them with its \
         package manager:\n{list}"
    )))
}
