//! Makes system calls of a command fail one by one, from the moment at which the command has
//! started to change the machine. Nevertheless, the command must leave the machine as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tardy_sys::{process, signal};
use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::commands::{self, Line, SUBCOMMANDS, Subcommand};
use crate::fault::{Fault, Ground, Tally};
use crate::folders;
use crate::footprint::Footprint;
use crate::place::{self, Outcome, Place, last_line};
use crate::strace::{self, FailingCall, Mark};
use crate::system_calls;

pub(crate) const FAULT: Fault = Fault {
    name: "starts",
    done: "for each subcommand that changes anything, strace makes each system call fail at its \
           first three uses after the command has begun to change the machine, in each thread and \
           process of the command",
    demanded: "the command does not panic or hang, and ends with a documented exit code and a \
               reason; no trace instance, control group, mount, folder, journal or process is \
               left, and every setting has its old value; a subcommand that is declared to change \
               nothing changes nothing",
    attempt,
};

/// Number of attempts for each system call, in the full form and in the short form respectively. In
/// the nth attempt, the nth use of the call fails, counted from the moment at which the command
/// starts to change the machine.
const USES: usize = 3;
const SHORT_USES: usize = 1;
/// The calls that fail in the brief form, and the number of attempts for each.
const BRIEF_CALLS: &[&str] = &["openat", "fsync", "mkdir"];
const BRIEF_USES: usize = 2;

/// Calls with which a command starts to change the machine. The command is stopped at the first of
/// these calls. Stopping is reliable only at calls that a command makes rarely.
const MARKS: &[&str] = &[
    "flock",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "unlink",
    "unlinkat",
    "rmdir",
    "mount",
    "fsopen",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "bind",
];

/// Calls that start threads and processes. If the first thread makes no call of [`MARKS`], other
/// threads or processes make the changes, and the command is stopped at the first of these calls.
const STARTING: &[&str] = &["clone3", "clone", "vfork"];

/// Calls that remove files, folders or mounts. A journal lists the files that could not be removed,
/// and `tardy restore` removes them.
const REMOVING: &[&str] = &["unlink", "unlinkat", "rmdir", "umount2", "getdents64"];

/// Number of threads that try lines at the same time. The threads mostly wait. Lines that change
/// settings of the machine run in the first thread.
const WORKERS: usize = 4;

fn attempt(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    if !strace::is_there() {
        tally.left_out.push(strace::MISSING.to_owned());
        return Ok(tally);
    }
    mount_tracefs(&mut tally);
    folders::base(ground)?;
    commands::check(&ground.place()?)?;
    let sweep = Sweep {
        ground,
        start: Footprint::read(),
        ended: Mutex::default(),
    };
    let lines = SUBCOMMANDS
        .iter()
        .flat_map(|command| command.lines.iter().map(move |line| (command, line)));
    let (alone, others): (Vec<_>, Vec<_>) = lines
        .filter(|(command, line)| !ground.is_brief() || line.is_brief || !command.is_changing)
        .filter(|(_, line)| {
            let wanted = ground.line.as_ref();
            wanted.is_none_or(|wanted| line.words.contains(wanted.as_str()))
        })
        .rev()
        .partition(|(_, line)| line.is_of_the_machine);
    let queues = [Mutex::new(alone), Mutex::new(others)];
    let work = |number: usize| -> Result<Tally> {
        let queue = &queues[number.min(1)];
        let mut tally = Tally::default();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((command, line)) = next else {
                return Ok(tally);
            };
            if command.is_changing {
                sweep.fail_each_call(command, line, &mut tally)?;
            } else {
                sweep.unchanged(line, &mut tally)?;
            }
            eprintln!("  tried: tardy {}", line.words);
        }
    };
    let tallies = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::new("a thread of the sweep panicked")))
            })
            .collect::<Vec<_>>()
    });
    for other in tallies {
        tally.add(other?);
    }
    Ok(tally)
}

/// Mounts the trace file system in this namespace only.
fn mount_tracefs(tally: &mut Tally) {
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tracefs", "tracefs", crate::footprint::TRACEFS]);
    if place::names(Path::new(crate::footprint::TRACEFS)).is_empty()
        && let Err(failure) = xtask::program::capture(&mut mount)
    {
        tally
            .left_out
            .push(format!("tracefs cannot be mounted: {failure}"));
    }
}

/// What all attempts share.
struct Sweep<'a> {
    ground: &'a Ground,
    /// The traces on the machine before the first attempt.
    start: Footprint,
    /// Processes of completed attempts. Traces that these processes left do not count as violations
    /// of other attempts.
    ended: Mutex<BTreeSet<i32>>,
}

impl Sweep<'_> {
    /// Tries a line that changes nothing. Afterwards, even the content of the command's folder must
    /// be the same.
    fn unchanged(&self, line: &Line, tally: &mut Tally) -> Result<()> {
        let place = prepared(self.ground, line)?;
        let (before, names) = (Footprint::read(), place::names(place.folder()));
        let outcome = place.tardy(&line.text(&place))?;
        let mut wrong = self.left(&place, &outcome, &before);
        if place::names(place.folder()) != names {
            wrong.push(format!(
                "its folder had {names:?} and has {:?}",
                place::names(place.folder())
            ));
        }
        wrong.extend(other_code(line, &outcome));
        tally.count(
            &format!("tardy {}", line.words),
            "nothing changed, without a fault",
            wrong,
        );
        Ok(())
    }

    fn fail_each_call(&self, command: &Subcommand, line: &Line, tally: &mut Tally) -> Result<()> {
        let place = prepared(self.ground, line)?;
        let before = Footprint::read();
        let (outcome, log) = undisturbed(&place, line)?;
        let mut wrong = self.left(&place, &outcome, &before);
        wrong.extend(other_code(line, &outcome));
        tally.count(
            &format!("tardy {}", line.words),
            "nothing left, without a fault",
            wrong,
        );
        let Some((mark, uses)) = uses_after_mark(&log) else {
            tally.failures.push(format!(
            "tardy {}: makes none of the calls by which a command begins to change the machine; \
             mark `{}` as changing nothing",
            line.words, command.name
        ));
            return Ok(());
        };
        for (name, error) in system_calls::all() {
            if self.ground.is_brief() && !BRIEF_CALLS.contains(&name) {
                continue;
            }
            let uses = uses.get(name).copied().unwrap_or(0);
            let tried = if self.ground.is_brief() {
                BRIEF_USES
            } else {
                self.ground.tries(SHORT_USES, USES)
            };
            for number in 1..=uses.min(tried) {
                let call = FailingCall {
                    name,
                    error,
                    number,
                };
                let about = format!(
                    "tardy {}, {name} number {number} after {} fails with {error}",
                    line.words, mark.call
                );
                let (seen, wrong) = self.fail(line, &mark, call)?;
                for failure in &wrong {
                    eprintln!("  {about}: {failure}");
                }
                tally.count(&about, seen, wrong);
            }
        }
        Ok(())
    }

    /// Tries the fault. Repeats the attempt if a setting has changed, because another process may
    /// have changed the setting. Also repeats it if SIGKILL ended the command, because the kernel
    /// sends this signal when memory is short.
    fn fail(
        &self,
        line: &Line,
        mark: &Mark,
        call: FailingCall<'_>,
    ) -> Result<(String, Vec<String>)> {
        let result = self.fail_once(line, mark, call)?;
        let killed = format!("signal {}:", process::KILL);
        let is_of_others =
            |wrong: &String| wrong.contains(" and is ") || wrong.starts_with(&killed);
        if result.1.iter().any(is_of_others) {
            eprintln!("  tried again: {}", result.1.join("; "));
            return self.fail_once(line, mark, call);
        }
        Ok(result)
    }

    fn fail_once(
        &self,
        line: &Line,
        mark: &Mark,
        call: FailingCall<'_>,
    ) -> Result<(String, Vec<String>)> {
        let place = prepared(self.ground, line)?;
        let before = Footprint::read();
        let (outcome, has_failed) = strace::failing_after(
            &place,
            mark,
            call,
            &line.text(&place),
            line.interrupted_after,
        )?;
        let mut wrong = Vec::new();
        // If the failing call was a write, it may have been the one that prints the error message.
        // `restore` prints its errors on standard output.
        let is_told =
            call.name != "write" && outcome.printed.is_empty() || !outcome.said.is_empty();
        let is_worse = outcome.hung
            || outcome.has_panicked()
            || outcome.code.is_none() && line.interrupted_after.is_none();
        wrong.extend(
            outcome
                .disgrace()
                .filter(|_| is_worse || is_told && outcome.code.is_some()),
        );
        // If samples cannot be moved out of the spool folder, they stay there. A journal records
        // where they are, and the command names the folder.
        let is_named = place::names(&place.path("spool"))
            .iter()
            .any(|name| outcome.code != Some(0) && outcome.said.contains(name));
        // A folder that a board can neither remove nor send stays on the board, and the command
        // names the folder.
        remove_left_on_board(&outcome.said)?;
        // The next `restore` removes the files that this `restore` could not remove.
        let is_restore = line.words == "restore" && outcome.code == Some(3);
        if REMOVING.contains(&call.name) || is_named || is_restore {
            place.leftovers()?;
        }
        wrong.extend(self.left(&place, &outcome, &before));
        if !wrong.is_empty() {
            eprintln!("  it printed: {}", outcome.said.trim());
            before.set_back();
        }
        let seen = if has_failed {
            outcome.ending()
        } else {
            "the call was not made".to_owned()
        };
        Ok((seen, wrong))
    }

    /// Returns the traces that a command left on the machine. Must be called before anything is
    /// restored.
    fn left(&self, place: &Place, outcome: &Outcome, before: &Footprint) -> Vec<String> {
        let mut wrong = Vec::new();
        if !place.wait_until(|| place.processes().is_empty()) {
            wrong.push("a process is left".to_owned());
        }
        wrong.extend(Footprint::left_by(outcome.pid));
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(outcome.pid);
        wrong.extend(place.files_left());
        let setting = std::fs::read_to_string(place.setting()).unwrap_or_default();
        if setting.trim() != "1" {
            wrong.push(format!("a setting was 1, and stays {setting:?}"));
        }
        wrong.extend(Footprint::left_since(before, &self.start, &self.ended));
        wrong
    }
}

/// Removes the folders that a command reported as left on a board.
fn remove_left_on_board(said: &str) -> Result<()> {
    let named = said.split_whitespace().map(|word| {
        let path = word.strip_prefix("ssh://board").unwrap_or(word);
        Path::new(path.trim_end_matches(['.', ',', ':']))
    });
    for folder in named.filter(|path| path.to_string_lossy().contains("/tardy-on.")) {
        if folder.is_dir() {
            std::fs::remove_dir_all(folder)
                .while_doing(|| format!("removing {}", folder.display()))?;
        }
    }
    Ok(())
}

/// Makes a place with all files that the lines need.
fn prepared(ground: &Ground, line: &Line) -> Result<Place> {
    let place = ground.place()?;
    commands::prepare(&place)?;
    if line.words == "restore" {
        commands::leave(&place)?;
    }
    Ok(place)
}

fn other_code(line: &Line, outcome: &Outcome) -> Option<String> {
    // `reproduce` has no handler for the signal, so the signal ends the command.
    let is_interrupted =
        line.interrupted_after.is_some() && outcome.signal == Some(signal::INTERRUPT);
    let is_expected = is_interrupted || outcome.code.is_some_and(|code| line.codes.contains(&code));
    (!is_expected).then(|| {
        format!(
            "{} without a fault: {}",
            outcome.ending(),
            last_line(&outcome.said)
        )
    })
}

/// Runs a line without a fault, and logs its calls.
fn undisturbed(place: &Place, line: &Line) -> Result<(Outcome, String)> {
    let names: Vec<&str> = system_calls::all().map(|(name, _)| name).collect();
    let log = place.path("log");
    let running = place.start(strace::logged(place, &names, &log, &line.text(place)))?;
    let outcome = running.end_after(place, line.interrupted_after)?;
    place.wait_until(|| place.processes().is_empty());
    let text = workspace::read(&log)?;
    Ok((outcome, text))
}

/// Returns the call with which a command started to change the machine. For each call, also returns
/// the largest number of times that a single thread made it after that point.
fn uses_after_mark(log: &str) -> Option<(Mark, BTreeMap<String, usize>)> {
    let calls = strace::made_calls(log);
    let first = calls.first()?.0;
    let first_of = |marks: &[&str]| {
        calls
            .iter()
            .position(|(thread, call)| *thread == first && marks.contains(call))
    };
    let place = first_of(MARKS).or_else(|| first_of(STARTING))?;
    let mark = Mark {
        call: calls[place].1.to_owned(),
        number: 1 + calls[..place]
            .iter()
            .filter(|call| **call == calls[place])
            .count(),
    };
    Some((mark, strace::most_in_a_thread(&calls[place + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_from_the_first_change_on() {
        let log = "10 openat(AT_FDCWD, \"a\") = 3\n11 mkdir(\"x\") = 0\n10 flock(3) = 0\n10 \
                   openat(AT_FDCWD, \"b\") = 3\n12 openat(AT_FDCWD, \"c\") = 4\n12 \
                   openat(AT_FDCWD, \"d\") = 4\n12 <... read resumed>) = 0\n";
        let (mark, uses) = uses_after_mark(log).unwrap();
        assert_eq!((mark.call.as_str(), mark.number), ("flock", 1));
        assert_eq!(uses.get("openat"), Some(&2));
        assert!(uses_after_mark("10 openat(AT_FDCWD) = 3\n").is_none());
    }

    #[test]
    fn the_brief_form_names_calls_and_lines_that_there_are() {
        assert!(
            BRIEF_CALLS
                .iter()
                .all(|brief| system_calls::all().any(|(call, _)| call == *brief))
        );
        let lines = SUBCOMMANDS.iter().flat_map(|command| &command.lines);
        assert!(lines.filter(|line| line.is_brief).count() >= 3);
    }
}
