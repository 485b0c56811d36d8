//! Uses strace to make system calls fail in commands that write files, one call per attempt.

use std::collections::BTreeMap;

use xtask::failure::Result;
use xtask::workspace;

use crate::fault::{Fault, Ground, Tally};
use crate::folders;
use crate::output;
use crate::place::PATIENCE;
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

/// The commands. Each command replaces an older output, or makes a run folder.
const COMMANDS: &[&str] = &[
    "export ../base/run --format csv --output output.svg",
    "report ../base/run --html output.svg",
    "plot ../base/run --kind hist -o output.svg",
    "history ../base --html output.svg",
    "import ../base/verbose --period 1ms --out run",
    "run --cycles 50 --period 2ms --load none --quiet --out run",
    "run --for 600ms --period 2ms --load io --quiet --out run",
    "cost --metric open-close --rounds 1 --trials 3 --out run",
];

/// The calls that fail in the brief form, and the indexes in [`COMMANDS`] of the commands that it
/// tries.
const BRIEF_CALLS: &[&str] = &["openat", "write", "fsync", "rename", "linkat", "clone3"];
const BRIEF_COMMANDS: [usize; 2] = [0, 5];

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
    for (_, line) in commands {
        let (counts, size) = counted(ground, line)?;
        for (call, error) in system_calls::calls()
            .filter(|(call, _)| !ground.is_brief() || BRIEF_CALLS.contains(call))
        {
            let times = counts.get(call).copied().unwrap_or(0);
            for when in chosen(times, ground.tries(2, 40)) {
                let about =
                    format!("tardy {line}, {call} number {when} of {times} fails with {error}");
                let (seen, wrong) = failing(ground, line, call, error, when, size)?;
                tally.count(&about, seen, wrong);
            }
        }
    }
    Ok(tally)
}

/// Returns at most `most` of the numbers 1 to `times`: all of them, or numbers spread over the
/// range, including the first and the last. If `most` is 1, returns only the last number.
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

/// Counts each system call of the command, in the thread that makes this call most often. Also
/// returns the size of the command's output, if it writes one.
fn counted(ground: &Ground, line: &str) -> Result<(BTreeMap<String, usize>, Option<u64>)> {
    let place = ground.place()?;
    let calls: Vec<&str> = system_calls::calls().map(|call| call.0).collect();
    let log = place.path("log");
    let command = strace::logged(&place, &calls, &log, line);
    let size = output::of_undisturbed(&place, command, line)?;
    place.wait_until(|| place.processes().is_empty());
    let text = workspace::read(&log)?;
    Ok((strace::most_in_a_thread(&strace::made_calls(&text)), size))
}

fn failing(
    ground: &Ground,
    line: &str,
    call: &str,
    error: &str,
    when: usize,
    size: Option<u64>,
) -> Result<(String, Vec<String>)> {
    let place = ground.place()?;
    let output = place.path(output::NAME);
    if size.is_some() {
        output::write_old(&output)?;
    }
    let call = FailingCall {
        name: call,
        error,
        number: when,
    };
    let outcome = place
        .start(strace::failing(&place, call, line))?
        .end(&place, PATIENCE)?;
    // If the failing call was a write, it may have been the one that prints the error message.
    let is_told = call.name != "write" || !outcome.said.is_empty();
    let disgrace = outcome
        .disgrace()
        .filter(|_| is_told || outcome.hung || outcome.code.is_none());
    let (mut wrong, folder) = folders::after(&place, disgrace, "run")?;
    if call.name.starts_with("unlink") {
        // If the failing call was meant to remove a file, the file is still there.
        wrong.retain(|wrong| !wrong.ends_with("is left"));
    }
    let has_output = size.map_or(folder.is_open(), |_| !output::is_old(&output));
    if outcome.code == Some(0) && !has_output {
        wrong.push(format!("success, and no output: {folder:?}"));
    }
    wrong.extend(size.and_then(|size| output::partly_replaced(&output, size)));
    Ok((outcome.ending(), wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brief_form_names_calls_and_commands_that_there_are() {
        assert!(
            BRIEF_CALLS
                .iter()
                .all(|brief| system_calls::calls().any(|(call, _)| call == *brief))
        );
        assert!(
            COMMANDS[BRIEF_COMMANDS[0]].starts_with("export ")
                && COMMANDS[BRIEF_COMMANDS[1]].starts_with("run ")
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
