//! Checks for programs that take the CPU from real-time tasks, set the clock, or make the kernel
//! patch its code.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};
use crate::tasks::{Policy, Task};

/// The highest priority that `tardy run` gives a probe without --force.
const PRIORITY_OF_PROBES: u32 = 98;
const SHOWN: usize = 4;

pub(super) const REAL_TIME: Check = Check {
    name: "other-real-time-tasks",
    weight: Weight::of(Importance::High).but(&[(Profile::Audio, Importance::Medium)]),
    reads: &["proc/*/task/*/stat", "proc/*/task/*/status"],
    why: "a task at the same or a higher priority can keep the CPU indefinitely",
    source: "sched(7); ros-realtime-rpi4-image, issue 30 (multipathd at 99)",
    look: |examined| either(real_time(examined)),
};

pub(super) const STARVATION_DAEMON: Check = Check {
    name: "starvation-daemon",
    weight: Weight::of(Importance::Medium).but(&[(Profile::Polling, Importance::High)]),
    reads: &["proc/*/comm"],
    why: "stalld runs starving tasks as deadline tasks, ahead of the real-time task that holds \
          the CPU",
    source: "stalld(8)",
    look: |examined| either(starvation_daemon(examined)),
};

pub(super) const TIME_SYNCHRONISATION: Check = Check {
    name: "time-synchronisation",
    weight: Weight::of(Importance::Low),
    reads: &["proc/*/comm"],
    why: "two clock daemons step the clock against each other, and timers of CLOCK_REALTIME fire \
          early or late with each step",
    source: "adjtimex(2); clock_nanosleep(2)",
    look: |examined| either(time_synchronisation(examined)),
};

pub(super) const TIMESTAMPS: Check = Check {
    name: "timestamp-switch",
    weight: Weight::of(Importance::Low).but(&[
        (Profile::Polling, Importance::Medium),
        (Profile::VmHost, Importance::Medium),
    ]),
    reads: &["proc/*/comm"],
    why: "when the first socket enables packet timestamps or the last such socket closes, the \
          kernel patches its code and interrupts every CPU",
    source: "TuneD, rtentsk plugin; Red Hat, notes on SO_TIMESTAMPING",
    look: |examined| either(timestamps(examined)),
};

fn real_time(examined: &CheckInput<'_>) -> Result<State, State> {
    let own = examined.program.map(|program| program.process);
    let highest_own = examined
        .program
        .and_then(|program| program.threads.iter().map(|thread| thread.priority).max())
        .filter(|&own| own > 0);
    let limit = highest_own.unwrap_or(PRIORITY_OF_PROBES);
    // tardy's own threads are not reported.
    let own_tool: Vec<u32> = examined
        .tasks()?
        .iter()
        .filter(|task| task.thread == task.process && task.name == "tardy")
        .map(|task| task.process)
        .collect();
    let in_the_way = |task: &&Task| {
        let is_before =
            task.policy == Policy::Deadline || (task.is_real_time() && task.priority >= limit);
        is_before
            && !task.is_of_kernel
            && Some(task.process) != own
            && !own_tool.contains(&task.process)
            && task.may_run_on(examined.cpus)
    };
    let found: Vec<String> = examined
        .tasks()?
        .iter()
        .filter(in_the_way)
        .map(Task::label)
        .collect();
    let more = if found.len() > SHOWN {
        format!(" and {} more", found.len() - SHOWN)
    } else {
        String::new()
    };
    Ok(match found.first() {
        None => State::good(format!("tasks on these CPUs have priorities below {limit}")),
        Some(_) => State::improvable(
            format!("{}{more}", found[..found.len().min(SHOWN)].join(", ")),
            format!("only tasks with priorities below {limit} on these CPUs"),
            "chrt -f -p LOWER PID, taskset -pc OTHERS PID, or stop the task",
        ),
    })
}

/// Returns the name of each running process whose name is in `names`.
fn running(examined: &CheckInput<'_>, names: &[&str]) -> Result<Vec<String>, State> {
    let processes = examined.texts("proc/*/comm")?;
    if processes.is_empty() {
        return Err(State::unknown("/proc/PID/comm cannot be read"));
    }
    let found = processes
        .into_iter()
        .filter(|(_, name)| names.contains(&name.as_str()));
    Ok(found.map(|(_, name)| name).collect())
}

fn starvation_daemon(examined: &CheckInput<'_>) -> Result<State, State> {
    Ok(if running(examined, &["stalld"])?.is_empty() {
        State::good("stalld does not run")
    } else {
        State::improvable(
            "stalld runs",
            "off, if a real-time task may use a whole CPU",
            "systemctl disable --now stalld",
        )
    })
}

fn time_synchronisation(examined: &CheckInput<'_>) -> Result<State, State> {
    let found = running(
        examined,
        &["chronyd", "ntpd", "systemd-timesyn", "phc2sys", "openntpd"],
    )?;
    Ok(match found.as_slice() {
        [] => State::noted("no daemon sets the clock"),
        [one] => State::good(format!("only {one} sets the clock")),
        // phc2sys also sets the clock (from a network card), so no other daemon that sets the clock
        // may run at the same time.
        several => State::improvable(
            several.join(", "),
            "only one of these daemons",
            format!("systemctl disable --now {}", several[several.len() - 1]),
        ),
    })
}

fn timestamps(examined: &CheckInput<'_>) -> Result<State, State> {
    let holders = running(examined, &["rtentsk", "ptp4l", "tuned"])?;
    if holders.iter().any(|name| name != "tuned") {
        return Ok(State::good(format!(
            "{} keeps packet timestamps on",
            holders.join(", ")
        )));
    }
    let switching = running(examined, &["chronyd"])?;
    Ok(if switching.is_empty() {
        State::good("no known daemon switches packet timestamps on and off")
    } else {
        State::improvable(
            "chronyd switches packet timestamps on and off",
            "always on, or always off",
            "rtentsk (of tuna), or TuneD's rtentsk plugin, or hwtimestamp in chrony.conf",
        )
    })
}
