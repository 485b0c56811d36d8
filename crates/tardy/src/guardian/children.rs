//! The children of this process as /proc shows them, and programs that are tied to it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use tardy_sys::process;

/// The numbers of this process's children, in its own PID namespace, zombies included. Empty where /proc is not mounted.
#[must_use]
pub fn of_this_process() -> Vec<i32> {
    of(Path::new("/proc"))
}

/// /proc numbers processes as the namespace it was mounted in does, so that even this process's number is read there.
fn of(proc: &Path) -> Vec<i32> {
    let Some(own) = std::fs::read_to_string(proc.join("self/stat")).ok().and_then(|stat| stat.split(' ').next()?.parse().ok()) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(proc) else { return Vec::new() };
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok()).filter_map(|status| child(&status, own)).collect()
}

/// The innermost number of the process of this /proc/PID/status, where its parent is `parent`.
fn child(status: &str, parent: i32) -> Option<i32> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if field("PPid:")?.trim().parse::<i32>().ok()? != parent {
        return None;
    }
    // `NSpid` came with Linux 4.1; before it, numbers in a namespace of one's own cannot be told.
    field("NSpid:")?.split_whitespace().next_back()?.parse().ok()
}

/// A command for `program` whose process ends when the thread that starts it ends.
///
/// std offers no safe way to have the child run code before exec; a detour over this binary does the same.
#[must_use]
pub fn tied_command(program: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(super::TIED_COMMAND).arg(program);
    command
}

/// The detour: asks for a signal at the parent's end, then becomes the program.
pub(super) fn become_tied_command(program: OsString, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let tied = process::set_parent_death_signal(process::KILL);
    let error = match tied {
        Ok(()) => Command::new(&program).args(arguments).exec(),
        Err(error) => error,
    };
    eprintln!("tardy: {}: {error}; is it installed and executable?", program.display());
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
    fn the_children_of_this_process_are_found() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(of_this_process().contains(&i32::try_from(sleeper.id()).unwrap()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!of_this_process().contains(&i32::try_from(sleeper.id()).unwrap()));
    }
}
