//! Makes system calls of writing commands fail, one call per attempt, with strace.

use std::collections::BTreeMap;
use std::path::Path;

use xtask::failure::{Failure, Result, While};

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{PATIENCE, last_line};
use crate::strace::{self, FailingCall};
use crate::system_calls;

pub(crate) const FAULT: Fault = Fault {
    name: "calls",
    done: "strace makes one system call fail once (EIO, ENOSPC, EMFILE or EAGAIN): in turn, each \
           call that a command uses to read, write, name or start something",
    demanded: "the command does not panic or hang, and gives a reason in words; an output file is \
               either the whole older file or the whole new one; the command reports success only \
               if its output is there; a run's folder opens",
    attempt,
};

/// The commands, and whether each replaces an older file; otherwise it makes a run folder.
const COMMANDS: &[(&str, bool)] = &[
    ("export ../base/run --format csv --output output.svg", true),
    ("report ../base/run --html output.svg", true),
    ("plot ../base/run --kind hist -o output.svg", true),
    ("history ../base --html output.svg", true),
    ("import ../base/verbose --period 1ms --out run", false),
    (
        "run --cycles 50 --period 2ms --load none --quiet --out run",
        false,
    ),
    (
        "run --for 600ms --period 2ms --load io --quiet --out run",
        false,
    ),
    (
        "cost --metric open-close --rounds 1 --trials 3 --out run",
        false,
    ),
];

/// The failing calls of the brief form, and its commands.
const BRIEF_CALLS: &[&str] = &["openat", "write", "fsync", "rename", "linkat", "clone3"];
const BRIEF_COMMANDS: [usize; 2] = [0, 5];

/// Number of uses of each call.
type Counts = BTreeMap<String, usize>;

const OLD: &[u8] = b"an older output\n";

fn attempt(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    if !strace::is_there() {
        tally.left_out.push(strace::MISSING.to_owned());
        return Ok(tally);
    }
    folders::base(ground)?;
    let commands = COMMANDS
        .iter()
        .enumerate()
        .filter(|(place, _)| !ground.is_brief() || BRIEF_COMMANDS.contains(place));
    for (_, &(line, is_file)) in commands {
        let (counts, good) = counted(ground, line, is_file)?;
        for (call, error) in system_calls::calls()
            .filter(|(call, _)| !ground.is_brief() || BRIEF_CALLS.contains(call))
        {
            let times = counts.get(call).copied().unwrap_or(0);
            for when in chosen(times, ground.tries(2, 40)) {
                let about =
                    format!("tardy {line}, {call} number {when} of {times} fails with {error}");
                let (seen, wrong) = failing(ground, line, call, error, when, good.as_deref())?;
                tally.count(&about, seen, wrong);
            }
        }
    }
    Ok(tally)
}

/// Returns at most `most` of the numbers 1 to `times`: all of them, or numbers spread over the
/// range, including the first and the last. A single number is the last.
fn chosen(times: usize, most: usize) -> Vec<usize> {
    if times <= most {
        return (1..=times).collect();
    }
    if most == 1 {
        return vec![times];
    }
    let mut chosen: Vec<usize> = (0..most)
        .map(|index| 1 + index * (times - 1) / (most - 1))
        .collect();
    chosen.dedup();
    chosen
}

/// Returns how often the command makes each call, in the thread that makes it most often, and the
/// file that the command writes.
fn counted(ground: &Ground, line: &str, is_file: bool) -> Result<(Counts, Option<Vec<u8>>)> {
    let place = ground.place()?;
    let calls: Vec<&str> = system_calls::calls().map(|call| call.0).collect();
    let log = place.path("log");
    let command = strace::logged(&place, &calls, &log, line);
    let outcome = place.start(command)?.end(&place, PATIENCE)?;
    place.wait_until(|| place.processes().is_empty());
    if !matches!(outcome.code, Some(0 | 1 | 4)) {
        return Err(Failure::new(format!(
            "`strace tardy {line}` does not work here ({}): {}",
            outcome.ending(),
            last_line(&outcome.said)
        )));
    }
    let text =
        std::fs::read_to_string(&log).while_doing(|| "reading what strace wrote".to_owned())?;
    let good = if is_file {
        Some(
            std::fs::read(place.path("output.svg"))
                .while_doing(|| "reading the output".to_owned())?,
        )
    } else {
        None
    };
    Ok((most_in_a_thread(&text), good))
}

fn most_in_a_thread(log: &str) -> Counts {
    let mut by_thread: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        if let Some((call, _)) = rest.trim_start().split_once('(') {
            *by_thread.entry((thread, call)).or_default() += 1;
        }
    }
    let mut most = Counts::new();
    for ((_, call), times) in by_thread {
        let entry = most.entry(call.to_owned()).or_default();
        *entry = (*entry).max(times);
    }
    most
}

fn failing(
    ground: &Ground,
    line: &str,
    call: &str,
    error: &str,
    when: usize,
    good: Option<&[u8]>,
) -> Result<(String, Vec<String>)> {
    let place = ground.place()?;
    if good.is_some() {
        std::fs::write(place.path("output.svg"), OLD)
            .while_doing(|| "writing an older output".to_owned())?;
    }
    let call = FailingCall {
        name: call,
        error,
        number: when,
    };
    let outcome = place
        .start(strace::failing(&place, call, line))?
        .end(&place, PATIENCE)?;
    let mut wrong = Vec::new();
    // The failed write may itself have been the error message.
    let is_told = call.name != "write" || !outcome.said.is_empty();
    wrong.extend(
        outcome
            .disgrace()
            .filter(|_| is_told || outcome.hung || outcome.code.is_none()),
    );
    // A file whose removal failed is still there.
    let is_kept = |name: &String| !call.name.starts_with("unlink") || !name.ends_with("is left");
    wrong.extend(place.leftovers()?.into_iter().filter(is_kept));
    match good {
        Some(good) => wrong.extend(wrong_output(
            &place.path("output.svg"),
            good,
            outcome.code == Some(0),
        )),
        None => {
            let folder = folders::look(&place, "run")?;
            wrong.extend(folder.wrong());
            if outcome.code == Some(0) && !matches!(folder, Folder::Opens { .. }) {
                wrong.push(format!("success, and no run: {folder:?}"));
            }
        }
    }
    Ok((outcome.ending(), wrong))
}

fn wrong_output(output: &Path, good: &[u8], is_success: bool) -> Option<String> {
    let now = std::fs::read(output).unwrap_or_default();
    if now == OLD {
        return is_success.then(|| "success, and the older output is there".to_owned());
    }
    (now.len() != good.len()).then(|| {
        format!(
            "the output has {} bytes, whole it has {}",
            now.len(),
            good.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_in_the_thread_that_makes_most() {
        let log = "10 openat(AT_FDCWD, \"a\") = 3\n10 write(3, \"(\") = 1\n11 openat(AT_FDCWD, \
                   \"b\") = 3\n11 openat(AT_FDCWD, \"c\") = 4\n11 <... x resumed>) = 0\n";
        assert_eq!(
            most_in_a_thread(log),
            [("openat".to_owned(), 2), ("write".to_owned(), 1)].into()
        );
    }

    #[test]
    fn the_brief_form_names_calls_and_commands_that_there_are() {
        assert!(
            BRIEF_CALLS
                .iter()
                .all(|brief| system_calls::calls().any(|(call, _)| call == *brief))
        );
        assert!(
            COMMANDS[BRIEF_COMMANDS[0]].0.starts_with("export ")
                && COMMANDS[BRIEF_COMMANDS[1]].0.starts_with("run ")
        );
    }

    #[test]
    fn few_calls_all_fail_and_of_many_the_first_and_the_last() {
        assert_eq!(chosen(3, 40), [1, 2, 3]);
        assert_eq!(chosen(100, 2), [1, 100]);
        assert_eq!(chosen(100, 1), [100]);
        assert_eq!(chosen(0, 2), [0; 0]);
    }
}
