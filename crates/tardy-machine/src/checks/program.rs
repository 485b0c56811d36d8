//! Checks whether a running program (`--pid`) prepared itself for real-time work, for example by
//! locking its memory. Only a trace can show the calls in which it sleeps, and the locks that it
//! takes.

use super::{Check, CheckInput, Importance, State, Weight, either};
use crate::program::{Program, RealTimeLimit};
use crate::tasks::{Policy, Task};

pub(super) const POLICY: Check = Check {
    name: "program-policy",
    weight: Weight::of(Importance::Fatal),
    reads: &["proc/PID/task/*/stat"],
    why: "an ordinary task shares the CPU with all others, and waits for its turn",
    source: "sched(7); mckenney2009, section 2.1",
    look: |examined| either(policy(examined)),
};

pub(super) const MEMORY: Check = Check {
    name: "program-memory",
    weight: Weight::of(Importance::High),
    reads: &["proc/PID/status"],
    why: "memory that is not locked may be reclaimed, and the next access waits for the kernel or \
          a disk",
    source: "mlockall(2); Documentation/trace/rv/monitor_rtapp.rst, pagefault; mckenney2009, \
             section 2.1",
    look: |examined| either(memory(examined)),
};

pub(super) const FAULTS: Check = Check {
    name: "program-faults",
    weight: Weight::of(Importance::High),
    reads: &["proc/PID/task/*/stat"],
    why: "a real-time thread that takes a page fault waits until the kernel has provided the page",
    source: "Documentation/trace/rv/monitor_rtapp.rst, pagefault",
    look: |examined| either(faults(examined)),
};

pub(super) const PRIORITY: Check = Check {
    name: "program-priority",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/PID/task/*/stat", "proc/*/task/*/stat"],
    why: "a thread of lower priority than the interrupt threads waits for every device interrupt; \
          priority 99 belongs to the kernel's own threads",
    source: "sched(7); Red Hat's guide, priorities",
    look: |examined| either(priority(examined)),
};

pub(super) const AFFINITY: Check = Check {
    name: "program-affinity",
    weight: Weight::of(Importance::Low),
    reads: &["proc/PID/task/*/status"],
    why: "a thread that may run on several CPUs loses its caches whenever it moves",
    source: "sched_setaffinity(2); mckenney2009, section 2.1",
    look: |examined| either(affinity(examined)),
};

pub(super) const LIMIT: Check = Check {
    name: "program-limit",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/PID/limits"],
    why: "a real-time thread that runs longer than the limit without sleeping gets SIGXCPU, and is \
          killed if it continues",
    source: "getrlimit(2), RLIMIT_RTTIME",
    look: |examined| either(limit(examined)),
};

pub(super) const TIMER_SLACK: Check = Check {
    name: "program-timer-slack",
    weight: Weight::of(Importance::Low),
    reads: &["proc/TID/timerslack_ns"],
    why: "the kernel may wake an ordinary thread later than requested, by up to the slack",
    source: "prctl(2), PR_SET_TIMERSLACK",
    look: |examined| either(timer_slack(examined)),
};

pub(super) const FUTEX_HASH: Check = Check {
    name: "program-futex-hash",
    weight: Weight::of(Importance::Low),
    reads: &[
        "boot/config-*|lib/modules/*/config|proc/config.gz",
        "sys/devices/system/cpu/online",
        "proc/PID/task/*/stat",
    ],
    why: "for a new thread, the kernel may enlarge the program's hash of futexes; threads that \
          lock or unlock meanwhile wait until all waiters have moved to the new hash",
    source: "PR_FUTEX_HASH(2const); kernel/futex/core.c, futex_hash_allocate_default",
    look: |examined| either(futex_hash(examined)),
};

/// Maximum timer slack in ns that is short enough to ignore; the default is 50 us.
const SLACK_MAX_NS: u64 = 1_000;
const SHOWN: usize = 4;
/// Number of slots that a program's hash of futexes has at first, which is also the minimum
/// (kernel/futex/core.c, Linux 7.3).
const FUTEX_SLOTS_LEAST: usize = 16;

/// Returns the number of slots that the kernel chooses for a program's hash of futexes. The kernel
/// chooses the number before it counts the new thread (kernel/fork.c, copy_process). The kernel
/// also limits the number to the size of the hash that all programs share, which has 256 slots for
/// each possible CPU. The result is always below this limit, because it is at most 4 slots for each
/// online CPU, rounded up to a power of two, or 16.
fn futex_slots(threads: usize, cpus: usize) -> usize {
    (4 * threads.saturating_sub(1).min(cpus))
        .next_power_of_two()
        .max(FUTEX_SLOTS_LEAST)
}

fn program<'a>(examined: &CheckInput<'a>) -> Result<&'a Program, State> {
    examined
        .program
        .ok_or_else(|| State::none("--pid was not given"))
}

/// Returns the threads with a real-time policy.
fn real_time<'a>(examined: &CheckInput<'a>) -> Result<Vec<&'a Task>, State> {
    let threads: Vec<&Task> = program(examined)?
        .threads
        .iter()
        .filter(|thread| thread.is_real_time())
        .collect();
    if threads.is_empty() {
        Err(State::none(
            "the program's threads have no real-time policy",
        ))
    } else {
        Ok(threads)
    }
}

fn named(threads: &[String]) -> String {
    let more = if threads.len() > SHOWN {
        format!(" and {} more", threads.len() - SHOWN)
    } else {
        String::new()
    };
    format!("{}{more}", threads[..threads.len().min(SHOWN)].join(", "))
}

fn policy(examined: &CheckInput<'_>) -> Result<State, State> {
    let program = program(examined)?;
    let threads: Vec<String> = program
        .threads
        .iter()
        .filter(|thread| thread.is_real_time())
        .map(Task::label)
        .collect();
    Ok(if threads.is_empty() {
        State::improvable(
            format!(
                "the {} threads of {} have no real-time policy",
                program.threads.len(),
                program.name
            ),
            "FIFO, RR or DEADLINE for each thread that must be on time",
            format!(
                "chrt -f -p 80 TID for each of these threads of {}, or pthread_setschedparam() in \
                 the program",
                program.process
            ),
        )
    } else {
        State::good(format!(
            "{} of {} threads: {}",
            threads.len(),
            program.threads.len(),
            named(&threads)
        ))
    })
}

fn memory(examined: &CheckInput<'_>) -> Result<State, State> {
    let program = program(examined)?;
    let (Some(locked), Some(resident)) = (program.locked_kib, program.resident_kib) else {
        return Err(State::unknown(format!(
            "/proc/{}/status does not show VmLck and VmRSS",
            program.process
        )));
    };
    let current = format!("{locked} KiB locked, {resident} KiB in memory");
    // Mappings of devices, and pages that the kernel shares with every process, are resident but
    // cannot be locked. So the check accepts a program if at most a tenth of its resident memory is
    // not locked.
    Ok(if locked > 0 && locked >= resident / 10 * 9 {
        State::good(current)
    } else {
        State::improvable(
            current,
            "all memory of the program locked",
            "mlockall(MCL_CURRENT | MCL_FUTURE) at the start of the program",
        )
    })
}

fn faults(examined: &CheckInput<'_>) -> Result<State, State> {
    let threads = real_time(examined)?;
    let program = program(examined)?;
    let grown = |thread: &&Task| {
        let (minor, major) = program
            .faults
            .get(&thread.thread)
            .copied()
            .unwrap_or_default();
        (minor + major > 0)
            .then(|| format!("{} {minor} minor and {major} major faults", thread.label()))
    };
    let faulting: Vec<String> = threads.iter().filter_map(grown).collect();
    Ok(if faulting.is_empty() {
        State::good("no real-time thread faulted while it was watched")
    } else {
        State::improvable(
            named(&faulting),
            "none",
            "mlockall(), touch stack and heap once before the work starts, and allocate nothing \
             in the loop (mallopt(M_TRIM_THRESHOLD, -1))",
        )
    })
}

fn priority(examined: &CheckInput<'_>) -> Result<State, State> {
    let threads = real_time(examined)?;
    let with_priority: Vec<&&Task> = threads
        .iter()
        .filter(|thread| thread.policy != Policy::Deadline)
        .collect();
    if with_priority.is_empty() {
        return Ok(State::good("SCHED_DEADLINE, which precedes every priority"));
    }
    if let Some(highest) = with_priority.iter().find(|thread| thread.priority >= 99) {
        return Ok(State::improvable(
            highest.label(),
            "priority 98 at most",
            format!("chrt -f -p 98 {}", highest.thread),
        ));
    }
    let handlers = examined
        .tasks()?
        .iter()
        .filter(|task| task.is_of_kernel && task.name.starts_with("irq/"));
    let handler = handlers.max_by_key(|task| task.priority);
    let highest = with_priority
        .iter()
        .map(|thread| thread.priority)
        .max()
        .unwrap_or_default();
    Ok(match handler {
        Some(handler) if handler.priority >= highest => State::improvable(
            format!("highest priority {highest}, not above {}", handler.label()),
            "a priority above the interrupt threads, but below the interrupt thread of the device \
             that this thread waits for",
            format!(
                "chrt -f -p {} TID, for the thread that must be on time",
                (handler.priority + 10).min(98)
            ),
        ),
        _ => State::good(format!("highest priority {highest}")),
    })
}

fn affinity(examined: &CheckInput<'_>) -> Result<State, State> {
    let threads = real_time(examined)?;
    let label = |thread: &&&Task| {
        let allowed = thread.allowed.as_ref()?;
        let is_deadline = thread.policy == Policy::Deadline;
        (allowed.len() > 1 && !is_deadline).then(|| format!("{} on CPUs {allowed}", thread.label()))
    };
    if threads.iter().any(|thread| thread.allowed.is_none()) {
        return Err(State::unknown(
            "the status file of a thread shows no Cpus_allowed_list",
        ));
    }
    let free: Vec<String> = threads.iter().filter_map(|thread| label(&thread)).collect();
    Ok(if free.is_empty() {
        State::good("each real-time thread is bound to one CPU")
    } else {
        State::improvable(
            named(&free),
            "bound to one CPU each",
            "taskset -pc CPU TID, or pthread_setaffinity_np() in the program",
        )
    })
}

fn limit(examined: &CheckInput<'_>) -> Result<State, State> {
    let program = program(examined)?;
    Ok(match program.real_time_limit {
        None => State::unknown(format!("/proc/{}/limits cannot be read", program.process)),
        Some(RealTimeLimit::Unlimited) => State::good("no limit"),
        Some(RealTimeLimit::Microseconds(limit)) => State::improvable(
            format!("{limit} us"),
            "no limit, or a limit longer than any burst of work",
            format!(
                "prlimit --rttime=unlimited --pid {} as root; rtkit sets this limit for desktop \
                 programs",
                program.process
            ),
        ),
    })
}

fn timer_slack(examined: &CheckInput<'_>) -> Result<State, State> {
    let program = program(examined)?;
    // Real-time threads have no timer slack, even if their file shows a value.
    let ordinary: Vec<&Task> = program
        .threads
        .iter()
        .filter(|thread| !thread.is_real_time())
        .collect();
    if ordinary.is_empty() {
        return Ok(State::none(
            "every thread has a real-time policy, and therefore no slack",
        ));
    }
    let slack: Vec<u64> = ordinary
        .iter()
        .filter_map(|thread| program.timer_slack_ns.get(&thread.thread).copied())
        .collect();
    let Some(longest) = slack.iter().max() else {
        return Err(State::unknown(
            "/proc/TID/timerslack_ns cannot be read for any ordinary thread",
        ));
    };
    let current = format!("{longest} ns, for {} ordinary threads", ordinary.len());
    Ok(if *longest <= SLACK_MAX_NS {
        State::good(current)
    } else {
        State::improvable(
            current,
            "1 ns, if such a thread must be on time",
            "prctl(PR_SET_TIMERSLACK, 1) in the thread, or echo 1 > /proc/TID/timerslack_ns",
        )
    })
}

/// Judges the number of slots that the kernel chooses for the program's hash of futexes. The check
/// computes this number, because only the program itself can ask the kernel for it. For the same
/// reason, the check cannot see whether the program chose another number, or whether the number is
/// higher because the program had more threads in the past.
fn futex_hash(examined: &CheckInput<'_>) -> Result<State, State> {
    let program = program(examined)?;
    if !examined.configuration()?.is_built_in("FUTEX_PRIVATE_HASH") {
        return Ok(State::none(
            "this kernel has no private hash of futexes (CONFIG_FUTEX_PRIVATE_HASH)",
        ));
    }
    let online = examined.facts.processors.online.as_ref();
    let cpus = online
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?
        .len();
    let count = program.threads.len();
    let threads = format!("{count} thread{}", if count == 1 { "" } else { "s" });
    let (before, slots) = (
        futex_slots(program.threads_before, cpus),
        futex_slots(count, cpus),
    );
    Ok(if before < slots {
        State::improvable(
            format!(
                "{} threads became {count} during the watch, and the hash of futexes grew from \
                 {before} to {slots} slots, unless the program fixed its size or had as many \
                 threads before",
                program.threads_before
            ),
            "all threads started before the loop, or a fixed size",
            format!(
                "prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, {slots}, 0) before the program's \
                 first thread starts"
            ),
        )
    } else if slots == FUTEX_SLOTS_LEAST {
        State::good(format!(
            "with {threads} on {cpus} online CPUs, the hash of futexes keeps its initial size"
        ))
    } else {
        State::noted(format!(
            "with {threads}, the hash of futexes grew to {slots} slots as the threads started, \
             unless the program fixed its size; start all threads before the loop, or call \
             prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, {slots}, 0) before the first of them \
             starts"
        ))
    })
}
