//! `cargo xtask test`: installs what the tests need, after asking, and runs every check that a
//! submission must pass.

mod apt;
mod left_out;
mod packages;
mod tally;

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::{inject, program, workspace};
use left_out::LeftOut;
use packages::{PACKAGES, Package};
use tally::Tally;

/// `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Install what is missing without asking
    #[arg(long)]
    yes: bool,
    /// Fail where a test was left out without a reason on the project's list
    #[arg(long)]
    strict: bool,
    /// Only list what the tests need, and why
    #[arg(long, conflicts_with = "yes")]
    list: bool,
}

/// Runs the task.
pub(crate) fn run(arguments: &TestArguments) -> Result<()> {
    if arguments.list {
        PACKAGES
            .iter()
            .for_each(|package| println!("{:<18} {}", package.name, package.reason));
        return Ok(());
    }
    provide(arguments.yes)?;
    // Without it the lab's tests say what they miss: they fail where TARDY_TEST_REQUIRE_LAB=1 is
    // set, and are named as skipped elsewhere.
    if let Err(error) = inject::build(&[]) {
        eprintln!("xtask: the module for known delays was not built: {error}");
    }
    let mut failed = failed_checks();
    let left_out = LeftOut::new(&workspace::target_folder()?)?;
    let tally = test(&left_out)?;
    let lines = left_out.lines()?;
    for line in &lines {
        eprintln!(
            "left out: {line} ({})",
            left_out::reason(line).unwrap_or("no reason on the list")
        );
    }
    if arguments.strict && lines.iter().any(|line| left_out::reason(line).is_none()) {
        failed.push("tests that were left out");
    }
    if tally.ignored > 0 {
        eprintln!(
            "xtask: {} tests were ignored; a test that does not run is no test",
            tally.ignored
        );
        failed.push("ignored tests");
    }
    if !tally.is_complete {
        eprintln!("xtask: cargo test failed; its output is above");
        failed.push("cargo test");
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    println!("{} tests tested nothing here", lines.len());
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(
            "not everything passed; what failed is named above",
        ))
    }
}

/// `cargo xtask check`: what the tests begin with and needs no package, for every commit.
pub(crate) fn check() -> Result<()> {
    let failed = failed_checks();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("failed: {}", failed.join(", "))))
    }
}

/// The names of the checks that failed; their output is on the terminal.
fn failed_checks() -> Vec<&'static str> {
    let mut failed = Vec::new();
    for (name, mut command) in checks() {
        let begin = Instant::now();
        if let Err(failure) = program::run(&mut command) {
            eprintln!("xtask: {failure}");
            failed.push(name);
        }
        eprintln!("xtask: {name} took {} s", begin.elapsed().as_secs());
    }
    failed
}

/// Sees to it that every package is there.
fn provide(is_agreed: bool) -> Result<()> {
    if program::find("apt-get").is_none() || program::find("dpkg-query").is_none() {
        return without_apt();
    }
    let missing: Vec<&Package> = PACKAGES
        .iter()
        .filter(|package| !apt::is_installed(package.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("The tests need packages that are not installed:");
    missing
        .iter()
        .for_each(|package| println!("  {:<18} {}", package.name, package.reason));
    if !is_agreed && !is_agreed_at_terminal()? {
        return Err(Failure::new(
            "nothing was installed; the tests need these packages",
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
            "there is no terminal to ask at: install the packages, or agree with `cargo xtask \
             test --yes`",
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

/// Other distributions name their packages otherwise: what is missing is told by the programs'
/// names.
fn without_apt() -> Result<()> {
    let missing: Vec<String> = PACKAGES
        .iter()
        .flat_map(|package| {
            package
                .programs
                .iter()
                .map(move |program| (program, package))
        })
        .filter(|(program, _)| program::find(program).is_none())
        .map(|(program, package)| {
            format!(
                "  {program} (on Debian in {}): {}",
                package.name, package.reason
            )
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join("\n");
    Err(Failure::new(format!(
        "this machine has no apt-get, and these programs are missing; install them in its own \
         way:\n{list}"
    )))
}

/// What is checked before the tests, quickest first. Clippy and the documentation look at the
/// workspace without the feature arrow, which users' builds leave out and the tests have.
fn checks() -> Vec<(&'static str, Command)> {
    let check = |name, arguments: &[&str]| {
        let mut command = workspace::cargo();
        command.args(arguments);
        (name, command)
    };
    let mut checks = vec![
        check("cargo fmt", &["fmt", "--all", "--check"]),
        check(
            "cargo clippy",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ),
        check(
            "cargo doc",
            &[
                "doc",
                "--workspace",
                "--no-deps",
                "--locked",
                "--document-private-items",
            ],
        ),
        check(
            "cargo clippy with arrow",
            &[
                "clippy",
                "--package",
                "tardy-formats",
                "--features",
                "arrow",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ),
    ];
    checks[2].1.env("RUSTDOCFLAGS", "-D warnings");
    checks
}

/// Runs all tests, those of documentation too, and counts them.
fn test(left_out: &LeftOut) -> Result<Tally> {
    let mut command = workspace::cargo();
    // The development profile: overflow checks and debug assertions are part of the tests.
    command
        .args([
            "test",
            "--workspace",
            "--features",
            "tardy/arrow",
            "--locked",
            "--no-fail-fast",
        ])
        .env(left_out::VARIABLE, left_out.file());
    eprintln!("$ {}", program::line(&command));
    let starting = || "running the tests".to_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .while_doing(starting)?;
    let (mut tally, begin) = (Tally::default(), Instant::now());
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.while_doing(starting)?;
            println!("{line}");
            if line.starts_with("test result:") {
                println!("after {} s", begin.elapsed().as_secs());
            }
            tally.read(&line);
        }
    }
    tally.is_complete = child.wait().while_doing(starting)?.success();
    Ok(tally)
}
