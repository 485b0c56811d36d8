//! Checks the CPUs and priorities of kernel threads.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};
use crate::facts::CompiledPreemption;
use crate::tasks::Task;

const TASKS: &[&str] = &["proc/*/task/*/stat", "proc/*/task/*/status"];
/// Maximum number of threads that a finding lists.
const SHOWN: usize = 4;

pub(super) const PLACE: Check = Check {
    name: "kernel-threads",
    weight: Weight::of(Importance::Low).but(&[
        (Profile::Polling, Importance::Medium),
        (Profile::VmHost, Importance::Medium),
    ]),
    reads: TASKS,
    why: "unbound kernel threads also run on the CPUs of the work",
    source: "kernel-per-CPU-kthreads.rst; kernel-parameters.txt, kthread_cpus=; Ubuntu, kernel \
             boot parameters",
    look: |examined| either(place(examined)),
};

pub(super) const PRIORITY: Check = Check {
    name: "kernel-thread-priority",
    weight: Weight::of(Importance::Medium),
    reads: TASKS,
    why: "kernel threads with deferred work delay user tasks of the same or a lower priority",
    source: "kernel-parameters.txt, rcutree.kthread_prio=; TuneD, realtime-virtual-host",
    look: |examined| either(priority(examined)),
};

pub(super) const INTERRUPT_PRIORITY: Check = Check {
    name: "interrupt-thread-priority",
    weight: Weight::of(Importance::Low).but(&[(Profile::Audio, Importance::Medium)]),
    reads: TASKS,
    why: "interrupt handlers run in order of priority; a task that waits for a device can block \
          the device's handler if the task has the higher priority",
    source: "Documentation/core-api/real-time; Red Hat's guide, interrupt threads (50 by default)",
    look: |examined| either(interrupt_priority(examined)),
};

/// Default real-time priority of interrupt threads: half of 99, rounded up (kernel/irq/manage.c,
/// `sched_set_fifo`).
const INTERRUPT_DEFAULT: u32 = 50;

fn place(examined: &CheckInput<'_>) -> Result<State, State> {
    let others = examined
        .other_cpus()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    if others.is_empty() {
        return Ok(State::none("the work uses every CPU"));
    }
    let movable = |task: &&Task| {
        task.is_of_kernel && !task.is_bound_by_kernel && !task.name.starts_with("irq/")
    };
    // A thread that may run on only one CPU, like rcuc/1, is treated as part of that CPU.
    let roams = |task: &&Task| {
        task.allowed
            .as_ref()
            .is_some_and(|allowed| allowed.len() > 1)
            && task.may_run_on(examined.cpus)
    };
    let roaming: Vec<&str> = examined
        .tasks()?
        .iter()
        .filter(movable)
        .filter(roams)
        .map(|task| task.name.as_str())
        .collect();
    Ok(if roaming.is_empty() {
        State::good("all kernel threads that can be kept off these CPUs are kept off")
    } else {
        State::improvable(
            format!(
                "{} kernel threads may run on these CPUs: {}",
                roaming.len(),
                shown(&roaming)
            ),
            "restricted to the other CPUs",
            format!(
                "for p in $(pgrep -P 2); do taskset -pc {} $p; done, or kthread_cpus={0} on the \
                 kernel's command line",
                examined.others()
            ),
        )
    })
}

fn priority(examined: &CheckInput<'_>) -> Result<State, State> {
    let names = [
        "ksoftirqd/",
        "ktimers/",
        "ktimersoftd/",
        "rcuc/",
        "rcub/",
        "rcu_preempt",
        "rcuog",
        "rcuop",
    ];
    let is_deferred =
        |task: &&Task| task.is_of_kernel && names.iter().any(|name| task.name.starts_with(name));
    let deferred: Vec<&Task> = examined.tasks()?.iter().filter(is_deferred).collect();
    let Some(highest) = deferred.iter().max_by_key(|task| task.priority) else {
        return Ok(State::none("the kernel shows no threads for deferred work"));
    };
    Ok(if highest.priority < INTERRUPT_DEFAULT {
        State::good(format!("at most {}", highest.label()))
    } else {
        State::improvable(
            highest.label(),
            "at a lower priority than the work and the interrupt threads",
            format!(
                "chrt -f -p 4 {} (rcutree.kthread_prio=4 on the kernel's command line for rcuc)",
                highest.thread
            ),
        )
    })
}

fn interrupt_priority(examined: &CheckInput<'_>) -> Result<State, State> {
    let threads: Vec<&Task> = examined
        .tasks()?
        .iter()
        .filter(|task| task.is_of_kernel && task.name.starts_with("irq/"))
        .collect();
    let is_real_time = examined
        .facts
        .kernel
        .preemption
        .as_ref()
        .is_some_and(|found| found.compiled == CompiledPreemption::RealTime);
    let (Some(highest), Some(lowest)) = (
        threads.iter().map(|task| task.priority).max(),
        threads.iter().map(|task| task.priority).min(),
    ) else {
        return Ok(State::none(if is_real_time {
            "there are no interrupt threads"
        } else {
            "interrupt handlers are not threads on this kernel"
        }));
    };
    let current = if highest == lowest {
        format!("all interrupt threads have priority {highest}")
    } else {
        format!("interrupt threads have priorities {lowest} to {highest}")
    };
    if highest >= 99 {
        let first = threads
            .iter()
            .find(|task| task.priority == highest)
            .map(|task| task.label())
            .unwrap_or_default();
        return Ok(State::improvable(
            first,
            "priority 98 at most",
            "chrt -f -p 90 PID; priority 99 belongs to the kernel's own threads that move tasks \
             and watch CPUs",
        ));
    }
    if examined.profile == Profile::Audio && highest == lowest {
        return Ok(State::improvable(
            current,
            "a higher priority for the sound card's interrupt thread than for the others",
            "chrt -f -p 90 $(pgrep irq/.*-snd), or rtirq",
        ));
    }
    Ok(State::good(current))
}

fn shown(names: &[&str]) -> String {
    let more = if names.len() > SHOWN {
        format!(" and {} more", names.len() - SHOWN)
    } else {
        String::new()
    };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}
