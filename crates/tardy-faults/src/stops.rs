//! Sends SIGSTOP, as a debugger, a freezer or a container engine does.

use std::collections::BTreeSet;
use std::time::Duration;

use tardy_sys::process;
use xtask::failure::{Failure, Result};

use crate::fault::{Fault, Ground, Tally};
use crate::folders;
use crate::place::{CommandProcess, PATIENCE, Place};

pub(crate) const FAULT: Fault = Fault {
    name: "stop-each",
    done: "one process of a run under load is stopped for good (SIGSTOP), each process in turn; \
           the tool itself is stopped only for a second",
    demanded: "the run ends by itself and leaves no process; its folder opens, and reports in \
               words what is missing",
    attempt,
};

const LINE: &str = "run --for 3s --load fork --load io --load hackbench --quiet --out run";

/// Starts a run, and waits until its loads have started.
fn under_load(place: &Place) -> Result<CommandProcess> {
    let running = place.start(place.tardy_command(LINE))?;
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

fn attempt(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    for number in 0..ground.tries(6, 40) {
        let place = ground.place()?;
        let running = under_load(&place)?;
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
        let outcome = running.end(&place, PATIENCE)?;
        let (mut wrong, folder) = folders::after(&place, outcome.disgrace(), "run")?;
        if !folder.is_open() {
            wrong.push(outcome.ending_and_reason());
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
