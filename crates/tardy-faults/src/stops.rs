//! Sends SIGSTOP, as a debugger, a freezer or a container engine does.

use std::collections::BTreeSet;
use std::time::Duration;

use tardy_sys::process;
use xtask::failure::{Failure, Result};

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{CommandProcess, Place, last_line};

pub(crate) const EACH: Fault = Fault {
    name: "stop-each",
    done: "one process of a run under load is stopped for good (SIGSTOP), each process in turn; \
           the tool itself is stopped only for a second",
    demanded: "the run ends by itself and leaves no process; its folder opens, and reports in \
               words what is missing",
    attempt: each,
};

pub(crate) const ALL: Fault = Fault {
    name: "stop-all",
    done: "the tool and all its processes are stopped (SIGSTOP) for a second, and then continued \
           (SIGCONT)",
    demanded: "the run ends, its counts add up, and the periods of that second are counted as \
               skipped",
    attempt: all,
};

const SHORT: &str = "run --for 3s --load fork --load io --load hackbench --quiet --out run";
/// A long run: on a busy machine, finding all processes takes seconds, and a second of the run must
/// remain.
const LONG: &str = "run --for 10s --load fork --load io --load hackbench --quiet --out run";

/// Starts a run, and waits until its loads have started.
fn under_load(place: &Place, line: &str) -> Result<CommandProcess> {
    let running = place.start(place.tardy_command(line))?;
    let is_loaded = || place.processes().len() > 4;
    if place.wait_until(is_loaded) {
        Ok(running)
    } else {
        Err(Failure::new("the loads of a run did not start"))
    }
}

/// Returns the name of a process, without numbers.
fn kind(pid: i32) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim()
        .trim_end_matches(|c: char| c.is_ascii_digit() || "-/:.".contains(c))
        .to_owned()
}

fn each(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    for number in 0..ground.tries(6, 40) {
        let place = ground.place()?;
        let running = under_load(&place, SHORT)?;
        std::thread::sleep(Duration::from_millis(200 + 37 * number as u64 % 500));
        // The first attempts stop one process of each kind.
        let processes = place.processes();
        let is_new = |pid: &&i32| !kinds.contains(&kind(**pid));
        let Some(&pid) = processes
            .iter()
            .find(is_new)
            .or_else(|| processes.get(number * 7 % processes.len().max(1)))
        else {
            continue;
        };
        let name = kind(pid);
        kinds.insert(name.clone());
        let is_tool = pid == running.pid();
        // The process may just have ended.
        let was_stopped = process::kill(pid, process::STOP).is_ok();
        if is_tool {
            std::thread::sleep(Duration::from_secs(1));
            running.signal(process::CONTINUE)?;
        }
        let outcome = running.end(&place, Duration::from_secs(60))?;
        let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
        wrong.extend(place.leftovers()?);
        let folder = folders::look(&place, "run")?;
        wrong.extend(folder.wrong());
        if !matches!(folder, Folder::Opens { .. }) {
            wrong.push(format!(
                "{}: {}",
                outcome.ending(),
                last_line(&outcome.said)
            ));
        }
        let seen = if was_stopped {
            name.clone()
        } else {
            "had just ended".to_owned()
        };
        tally.count(&format!("{name} stopped (try {number})"), seen, wrong);
    }
    Ok(tally)
}

fn all(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 10) {
        let place = ground.place()?;
        let running = under_load(&place, LONG)?;
        // Skipped periods count from the start of the measurement, which may be delayed on a busy
        // machine.
        let is_measured =
            || std::fs::metadata(place.path("run/state.jsonl")).is_ok_and(|state| state.len() > 0);
        if !place.wait_until(is_measured) {
            return Err(Failure::new("a run did not start to measure"));
        }
        std::thread::sleep(Duration::from_millis(100 * number as u64));
        let processes = place.processes();
        processes
            .iter()
            .for_each(|&pid| drop(process::kill(pid, process::STOP)));
        std::thread::sleep(Duration::from_secs(1));
        processes
            .iter()
            .for_each(|&pid| drop(process::kill(pid, process::CONTINUE)));
        let outcome = running.end(&place, Duration::from_secs(60))?;
        let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
        wrong.extend(place.leftovers()?);
        let folder = folders::look(&place, "run")?;
        wrong.extend(folder.wrong());
        let skipped = match &folder {
            Folder::Opens { summary, .. } => {
                let series = summary["series"].as_array().map_or(&[][..], Vec::as_slice);
                series
                    .iter()
                    .map(|series| series["counts"]["skipped"].as_u64().unwrap_or(0))
                    .min()
                    .unwrap_or(0)
            }
            _ => 0,
        };
        if skipped < 900 {
            wrong.push(format!(
                "{skipped} periods of 1 ms skipped on the CPU that skipped fewest"
            ));
        }
        tally.count(
            &format!("all stopped (try {number})"),
            outcome.ending(),
            wrong,
        );
    }
    Ok(tally)
}
