//! Runs the tool under strace. strace logs system calls, makes them fail, or stops the tool at a
//! system call.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tardy_sys::process;
use xtask::failure::{Failure, Result, While};

use crate::place::{CommandProcess, Outcome, Place};

/// The point at which a command is stopped: the `number`th time that its first thread makes the
/// system call `call`.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) call: String,
    pub(crate) number: usize,
}

/// A system call that fails when a thread makes it for the `number`th time. The calls of each
/// thread are counted separately.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailingCall<'a> {
    pub(crate) name: &'a str,
    pub(crate) error: &'a str,
    pub(crate) number: usize,
}

impl FailingCall<'_> {
    fn words(&self, log: &str) -> Vec<String> {
        let Self {
            name,
            error,
            number,
        } = self;
        words(
            log,
            &[
                format!("trace={name}"),
                format!("inject={name}:error={error}:when={number}"),
                "signal=none".to_owned(),
            ],
        )
    }
}

/// Returns the command `tardy LINE` under strace. The option -D makes tardy the child process, and
/// strace a separate process, which may end later.
fn behind(place: &Place, words: &[String], line: &str) -> Command {
    let words: Vec<&str> = std::iter::once("-D")
        .chain(words.iter().map(String::as_str))
        .collect();
    place.tardy_behind("strace", &words, line)
}

fn words(log: &str, expressions: &[String]) -> Vec<String> {
    ["-f", "-qq", "-o", log]
        .map(str::to_owned)
        .into_iter()
        .chain(
            expressions
                .iter()
                .flat_map(|expression| ["-e".to_owned(), expression.clone()]),
        )
        .collect()
}

/// What to do if strace is missing.
pub(crate) const MISSING: &str = "strace is missing: install the package strace";

/// Returns whether strace is installed.
pub(crate) fn is_there() -> bool {
    xtask::program::find("strace").is_some()
}

/// Returns the command `tardy LINE` under strace, which logs the calls with these names to `log`.
pub(crate) fn logged(place: &Place, calls: &[&str], log: &Path, line: &str) -> Command {
    let expressions = [
        format!("trace={}", calls.join(",")),
        "signal=none".to_owned(),
    ];
    behind(place, &words(&log.to_string_lossy(), &expressions), line)
}

/// Returns the calls in a log, in order, each with its thread.
pub(crate) fn made_calls(log: &str) -> Vec<(&str, &str)> {
    let calls = log.lines().filter_map(|line| {
        let (thread, rest) = line.split_once(' ')?;
        let (call, _) = rest.trim_start().split_once('(')?;
        Some((thread, call))
    });
    calls.collect()
}

/// Returns, for each call, the largest number of times that a single thread made it.
pub(crate) fn most_in_a_thread(calls: &[(&str, &str)]) -> BTreeMap<String, usize> {
    let mut by_thread: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for call in calls {
        *by_thread.entry(*call).or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((_, call), times) in by_thread {
        let entry = most.entry(call.to_owned()).or_insert(0);
        *entry = times.max(*entry);
    }
    most
}

/// Returns the command `tardy LINE`, in which a call fails.
pub(crate) fn failing(place: &Place, call: FailingCall<'_>, line: &str) -> Command {
    behind(place, &call.words("/dev/null"), line)
}

/// Runs `tardy` with the words of `line`, and makes a call fail. The uses of this call are counted
/// from `mark` on, also in threads and processes that start later. Returns whether strace made any
/// use fail.
///
/// # Errors
/// Returns an error if strace cannot be started, or if strace did not stop the tool.
pub(crate) fn failing_after(
    place: &Place,
    mark: &Mark,
    call: FailingCall<'_>,
    line: &str,
    interrupted_after: Option<Duration>,
) -> Result<(Outcome, bool)> {
    let (stops, fails) = (place.path("stops"), place.path("fails"));
    let Mark { call: at, number } = mark;
    let words = words(
        &stops.to_string_lossy(),
        &[
            format!("trace={at}"),
            format!("inject={at}:signal=SIGSTOP:when={number}"),
        ],
    );
    let mut running = place.start(behind(place, &words, line))?;
    let has_stopped = place.wait_until(|| {
        running.has_ended()
            || std::fs::read_to_string(&stops).is_ok_and(|log| log.contains("--- stopped by"))
    }) && !running.has_ended();
    if !has_stopped {
        return Ok((running.end(place, Duration::ZERO)?, false));
    }
    let mut tracer = hand_over(place, &running, call, &fails)?;
    let outcome = running.end_after(place, interrupted_after)?;
    // strace runs until every process of the tool has ended.
    let _ = place.wait_until(|| {
        place.processes().is_empty() && tracer.try_wait().is_ok_and(|status| status.is_some())
    });
    let _ = tracer.kill();
    let _ = tracer.wait();
    let has_failed = std::fs::read_to_string(&fails).is_ok_and(|log| log.contains("(INJECTED)"));
    Ok((outcome, has_failed))
}

/// Kills the strace that stopped the tool, and starts another strace that continues the tool.
fn hand_over(
    place: &Place,
    running: &CommandProcess,
    call: FailingCall<'_>,
    log: &Path,
) -> Result<Child> {
    let pid = running.pid();
    // Process 0 must be excluded, because kill(2) with 0 would send the signal to this program's
    // own process group.
    if tracer_of(pid) > 0 {
        process::kill(tracer_of(pid), process::KILL).while_doing(|| "ending strace".to_owned())?;
    }
    if !place.wait_until(|| tracer_of(pid) == 0) {
        return Err(Failure::new("strace does not end"));
    }
    let tracer = Command::new("strace")
        .args(["-p", &pid.to_string()])
        .args(call.words(&log.to_string_lossy()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| "starting strace".to_owned())?;
    let is_attached = place.wait_until(|| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        tasks.is_ok_and(|tasks| {
            tasks
                .flatten()
                .filter_map(|task| task.file_name().to_str()?.parse().ok())
                .all(|task: i32| tracer_of(task) != 0)
        })
    });
    // Repeats the signal to continue until the tool runs. A single signal is not enough, because
    // the tool stays stopped until strace has processed the stop.
    let is_continued = place.wait_until(|| {
        let _ = process::kill(pid, process::CONTINUE);
        (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            !is_stopped(pid)
        })
    });
    if is_attached && is_continued {
        Ok(tracer)
    } else {
        Err(Failure::new("strace does not attach"))
    }
}

/// Returns whether a process is stopped, in a traced system call or by a signal; false if it has
/// ended.
fn is_stopped(pid: i32) -> bool {
    status(pid, "State:").is_some_and(|state| state.to_lowercase().starts_with('t'))
}

/// Returns the process that traces a thread; 0 if there is none.
fn tracer_of(thread: i32) -> i32 {
    status(thread, "TracerPid:")
        .and_then(|tracer| tracer.parse().ok())
        .unwrap_or(0)
}

/// Returns the value of a line of /proc/THREAD/status.
fn status(thread: i32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_in_the_thread_that_makes_most() {
        let log = "10 openat(AT_FDCWD, \"a\") = 3\n10 write(3, \"(\") = 1\n11 openat(AT_FDCWD, \
                   \"b\") = 3\n11 openat(AT_FDCWD, \"c\") = 4\n11 <... x resumed>) = 0\n";
        assert_eq!(
            most_in_a_thread(&made_calls(log)),
            [("openat".to_owned(), 2), ("write".to_owned(), 1)].into()
        );
    }
}
