//! `cargo xtask faults`: tests the real binary under faults that it must survive, and writes the
//! table of docs/reliability.md.
//!
//! All attempts run in a mount namespace with separate memory file systems, and only processes
//! started here are killed, stopped or limited. If this machine cannot try a fault, the table
//! states why, and the fault does not count as survived.
#![forbid(unsafe_code)]

mod board;
mod calls;
mod commands;
mod disks;
mod endless;
mod fault;
mod fleet;
mod folders;
mod footprint;
mod guest_power;
mod guests;
mod kills;
mod limits;
mod long;
mod output;
mod page;
mod place;
mod sequences;
mod soak;
mod starts;
mod strace;
mod system_calls;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use fault::{Fault, Form, Ground};
use page::Row;
use tardy_sys::signal;
use xtask::failure::{Failure, Result, While};
use xtask::{failure, program, workspace};

/// Environment variable that is set once the process is in its namespace.
const INSIDE: &str = "TARDY_FAULTS_INSIDE";

/// All faults, in the order of the table.
const FAULTS: &[Fault] = &[
    kills::FAULT,
    sequences::FAULT,
    calls::FAULT,
    starts::FAULT,
    disks::FULL,
    disks::READ_ONLY,
    limits::DESCRIPTORS,
    limits::OUT_OF_MEMORY,
    guest_power::GUEST_POWER,
    long::WEEK_VIRTUAL,
    long::ATTACH_VIRTUAL,
    fleet::FLEET,
    soak::SOAK,
    endless::ENDLESS,
];

/// The faults in the brief form: those that need no device, no control group and no dedicated CPU.
const BRIEF: &[&str] = &[
    "kill",
    "sequences",
    "calls",
    "starts",
    "disk-full",
    "descriptors",
    "fleet",
    "endless",
];

/// Try the faults that the tool must survive (as root), and print the table of docs/reliability.md
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask faults",
    bin_name = "cargo xtask faults",
    max_term_width = 110
)]
struct FaultsArguments {
    /// Faults to try [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the faults and their requirements, without trying them
    #[arg(long)]
    list: bool,
    /// Try each fault a few times: takes a few minutes
    #[arg(long)]
    short: bool,
    /// Try this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
    /// Try only quick faults, once each: takes about a minute, as in CI
    #[arg(long, conflicts_with = "short")]
    brief: bool,
    /// Length of the soak in seconds [default: 3600, or 180 in the short form]
    #[arg(long, value_name = "SECONDS")]
    soak_for: Option<u64>,
    /// With `starts`: try only command lines that contain this text
    #[arg(long, value_name = "TEXT")]
    line: Option<String>,
    /// Write the table to docs/reliability.md; rows of other faults are kept
    #[arg(long, conflicts_with = "brief")]
    write: bool,
}

fn main() -> ExitCode {
    // The faults send SIGINT to child processes. A background job ignores SIGINT, and its children
    // would inherit that.
    signal::set_default(signal::INTERRUPT);
    failure::exit_code(run(&FaultsArguments::parse()))
}

fn run(arguments: &FaultsArguments) -> Result<()> {
    if arguments.list {
        FAULTS
            .iter()
            .for_each(|fault| println!("{:<14} {}: {}", fault.name, fault.done, fault.demanded));
        return Ok(());
    }
    let form = match arguments {
        FaultsArguments { brief: true, .. } => Form::Brief,
        FaultsArguments { short: true, .. } => Form::Short,
        _ => Form::Full,
    };
    let chosen: Vec<&Fault> = match form {
        Form::Brief if arguments.names.is_empty() => FAULTS
            .iter()
            .filter(|fault| BRIEF.contains(&fault.name))
            .collect(),
        _ => failure::chosen("fault", FAULTS, |fault| fault.name, &arguments.names)?,
    };
    if !tardy_sys::user::is_root() {
        return Err(Failure::new(
            "faults are tried as root: they mount, limit and stop",
        ));
    }
    if std::env::var_os(INSIDE).is_none() {
        return in_a_namespace();
    }
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let folder = tempfile::tempdir().while_doing(|| "making a folder".to_owned())?;
    mount_memory(folder.path())?;
    mount_memory(Path::new("/dev/shm"))?;
    let ground = Ground {
        tardy,
        folder: folder.path().to_owned(),
        form,
        soak_for: arguments.soak_for.map(Duration::from_secs),
        line: arguments.line.clone(),
    };
    let rows = chosen
        .into_iter()
        .map(|fault| attempt(fault, &ground))
        .collect::<Vec<_>>();
    if arguments.write {
        page::write(&rows, FAULTS)?;
    }
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.has_failed())
        .map(|row| row.fault.name)
        .collect();
    failure::unless_empty("not survived: ", &failed)
}

fn attempt<'a>(fault: &'a Fault, ground: &Ground) -> Row<'a> {
    eprintln!("{}: {}", fault.name, fault.done);
    let row = Row {
        fault,
        outcome: (fault.attempt)(ground),
    };
    print!("{row}");
    row
}

/// Starts this program again in a separate mount namespace.
fn in_a_namespace() -> Result<()> {
    let program = std::env::current_exe().while_doing(|| "looking for this program".to_owned())?;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--ipc", "--propagation", "private"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1");
    Err(Failure::new(format!(
        "unshare (package util-linux) cannot be started: {}",
        command.exec()
    )))
}

fn mount_memory(folder: &Path) -> Result<()> {
    program::capture(
        Command::new("mount")
            .args(["-t", "tmpfs", "tardy-faults"])
            .arg(folder),
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_of_their_own() {
        let mut names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAULTS.len());
    }

    #[test]
    fn the_brief_form_names_faults_that_there_are() {
        assert!(
            BRIEF
                .iter()
                .all(|brief| FAULTS.iter().any(|fault| fault.name == *brief))
        );
    }

    #[test]
    fn there_are_two_hundred_kills() {
        assert!(kills::all() >= 200, "{}", kills::all());
    }
}
