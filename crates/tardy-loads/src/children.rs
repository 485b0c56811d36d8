//! Finds the children of this process in /proc, and starts programs that end when this process
//! ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use tardy_core::units::Nanos;
use tardy_machine::cpu_time::tick_length;
use tardy_machine::root::Root;
use tardy_sys::process;

/// Hidden first argument of a process that becomes another program. The program's path and
/// arguments follow.
pub(crate) const TIED_COMMAND: &str = "__tied";

/// Returns the process numbers of this process's children, zombies included, in its own PID
/// namespace. Returns none if /proc is not mounted.
#[must_use]
pub(crate) fn of_this_process() -> Vec<i32> {
    of(Path::new("/proc"))
}

/// Reads the children from `proc`. /proc shows the process numbers of the PID namespace in which it
/// was mounted, so this process's own number is read from `proc`, too.
fn of(proc: &Path) -> Vec<i32> {
    let Some(own) = std::fs::read_to_string(proc.join("self/stat"))
        .ok()
        .and_then(|stat| stat.split(' ').next()?.parse().ok())
    else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(proc) else {
        return Vec::new();
    };
    let folders = entries.filter_map(Result::ok).filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    });
    folders
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .filter_map(|status| child(&status, own))
        .collect()
}

/// Returns the innermost process number in this text of /proc/PID/status, if the parent is
/// `parent`.
fn child(status: &str, parent: i32) -> Option<i32> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if field("PPid:")?.trim().parse::<i32>().ok()? != parent {
        return None;
    }
    // Linux has `NSpid` since 4.1. Without `NSpid`, the process number in a new namespace is
    // unknown.
    field("NSpid:")?
        .split_whitespace()
        .next_back()?
        .parse()
        .ok()
}

/// Returns the CPU time of this process's living descendants, first in user mode, then in the
/// kernel. Includes the time of processes that the descendants have reaped. Leaves out children
/// that this process has reaped. Returns zero if /proc is not mounted.
#[must_use]
pub(crate) fn living_cpu_time() -> (Nanos, Nanos) {
    cpu_time_below(Path::new("/proc"), tick_length(&Root::system()))
}

fn cpu_time_below(proc: &Path, tick: Nanos) -> (Nanos, Nanos) {
    let Some(own) = std::fs::read_to_string(proc.join("self/stat"))
        .ok()
        .and_then(|stat| ProcessTime::parse(&stat))
    else {
        return (Nanos::ZERO, Nanos::ZERO);
    };
    let Ok(entries) = std::fs::read_dir(proc) else {
        return (Nanos::ZERO, Nanos::ZERO);
    };
    let folders = entries.filter_map(Result::ok).filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    });
    let stats = folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let processes: Vec<ProcessTime> = stats.filter_map(|stat| ProcessTime::parse(&stat)).collect();
    let mut below = vec![own.pid];
    let (mut user, mut kernel) = (0, 0);
    // The loop visits each process once, because a process has one parent and is not its own
    // ancestor.
    let mut next = 0;
    while next < below.len() {
        let parent = below[next];
        for process in processes.iter().filter(|process| process.parent == parent) {
            user += process.user_ticks;
            kernel += process.kernel_ticks;
            below.push(process.pid);
        }
        next += 1;
    }
    let time = |ticks: i64| Nanos(tick.get().saturating_mul(ticks));
    (time(user), time(kernel))
}

/// A process as described by /proc/PID/stat: proc(5), fields 1, 4 and 14 to 17.
#[derive(Debug, PartialEq, Eq)]
struct ProcessTime {
    pid: i32,
    parent: i32,
    /// CPU time in user mode in ticks, including that of reaped children.
    user_ticks: i64,
    /// CPU time in kernel mode in ticks, including that of reaped children.
    kernel_ticks: i64,
}

impl ProcessTime {
    fn parse(stat: &str) -> Option<Self> {
        // The name is in parentheses, and may itself contain parentheses and spaces.
        let (head, tail) = stat.rsplit_once(')')?;
        let pid = head.split(' ').next()?.parse().ok()?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<i64>().ok();
        let (user_ticks, kernel_ticks) = (
            ticks(11)?.checked_add(ticks(13)?)?,
            ticks(12)?.checked_add(ticks(14)?)?,
        );
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            user_ticks,
            kernel_ticks,
        })
    }
}

/// Returns a command that runs `program` in a process that ends when the thread that starts it
/// ends.
///
/// std offers no safe way to run code in the child before exec. The command therefore starts this
/// binary, which calls [`become_tied_command`].
#[must_use]
pub(crate) fn tied_command(program: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(TIED_COMMAND).arg(program);
    command
}

/// Asks the kernel to send a signal when the parent ends, then becomes the program.
pub(crate) fn become_tied_command(
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    let tied = process::set_parent_death_signal(process::KILL);
    let error = match tied {
        Ok(()) => Command::new(&program).args(arguments).exec(),
        Err(error) => error,
    };
    tardy_sys::say!(
        "tardy: {}: {error}; is it installed and executable?",
        program.display()
    );
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_under_its_innermost_number() {
        let status = "Name:\tx\nPid:\t40\nPPid:\t7\nNSpid:\t40\t3\n";
        assert_eq!(child(status, 7), Some(3));
        assert_eq!(child(status, 8), None);
        assert_eq!(child("PPid:\t7\n", 7), None);
    }

    #[test]
    fn cpu_time_is_summed_over_living_descendants_and_what_they_reaped() {
        let proc = tempfile::tempdir().unwrap();
        let process = |folder: &str, pid: i32, parent: i32, times: &str| {
            std::fs::create_dir_all(proc.path().join(folder)).unwrap();
            let stat = format!("{pid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0");
            std::fs::write(proc.path().join(folder).join("stat"), stat).unwrap();
        };
        process("self", 7, 1, "1000 1000 1000 1000");
        process("7", 7, 1, "1000 1000 1000 1000");
        process("8", 8, 7, "1 2 3 4");
        process("9", 9, 8, "10 0 0 0");
        process("10", 10, 1, "500 0 0 0");
        assert_eq!(
            cpu_time_below(proc.path(), Nanos(10)),
            (Nanos(140), Nanos(60))
        );
    }

    #[test]
    fn the_children_of_this_process_are_found() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(of_this_process().contains(&i32::try_from(sleeper.id()).unwrap()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!of_this_process().contains(&i32::try_from(sleeper.id()).unwrap()));
    }
}
