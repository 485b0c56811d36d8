//! Checks for tracing, profiling and debugging that was left on, and for code from outside the
//! kernel.

use super::{Check, CheckInput, Importance, State, Weight, either, number_is};

pub(super) const TAINT: Check = Check {
    name: "kernel-taint",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/tainted"],
    why: "out-of-tree modules may keep interrupts off for long, and a kernel that has logged a \
          warning may be in any state",
    source: "Documentation/admin-guide/tainted-kernels.rst",
    look: |examined| either(taint(examined)),
};

pub(super) const INSTANCES: Check = Check {
    name: "tracing-instances",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/kernel/tracing/instances/*/current_tracer",
        "sys/kernel/tracing/current_tracer",
    ],
    why: "events in a tracing instance cost as much as those in the main buffer, and are easily \
          overlooked",
    source: "Documentation/trace/ftrace.rst, instances",
    look: |examined| either(instances(examined)),
};

pub(super) const MONITORS: Check = Check {
    name: "verification-monitors",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/kernel/tracing/rv/enabled_monitors"],
    why: "a monitor of runtime verification runs at each event of its model, such as each task \
          switch",
    source: "Documentation/trace/rv/runtime-verification.rst",
    look: |examined| either(monitors(examined)),
};

pub(super) const KPROBES: Check = Check {
    name: "kprobes",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/kernel/debug/kprobes/list"],
    why: "each kernel probe adds a trap or a jump to the kernel's code",
    source: "Documentation/trace/kprobes.rst",
    look: |examined| either(kprobes(examined)),
};

pub(super) const BPF_STATISTICS: Check = Check {
    name: "bpf-statistics",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/kernel/bpf_stats_enabled"],
    why: "the clock is read twice for every run of a BPF program",
    source: "Documentation/admin-guide/sysctl/kernel.rst, bpf_stats_enabled",
    look: |examined| {
        number_is(
            examined,
            "proc/sys/kernel/bpf_stats_enabled",
            |value| value == 0,
            "0",
            "sysctl kernel.bpf_stats_enabled=0",
        )
    },
};

pub(super) const BPF_PROGRAMS: Check = Check {
    name: "bpf-programs",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/bpf_stats_enabled"],
    why: "each tracing BPF program runs at every event that it is attached to, such as each task \
          switch",
    source: "include/uapi/linux/bpf.h, enum bpf_prog_type; Documentation/bpf",
    look: |examined| either(bpf_programs(examined)),
};

pub(super) const SAMPLING: Check = Check {
    name: "profiling",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/*/comm"],
    why: "a profiler takes each sample in an interrupt, which may be non-maskable",
    source: "Documentation/admin-guide/sysctl/kernel.rst, perf_event_max_sample_rate",
    look: |examined| either(sampling(examined)),
};

pub(super) const SCHEDULER_EXTENSION: Check = Check {
    name: "scheduler-extension",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/kernel/sched_ext/state",
        "sys/kernel/sched_ext/root/sub/*/ops",
    ],
    why: "a BPF program decides where ordinary tasks run, including the ordinary tasks that a \
          real-time task relies on",
    source: "Documentation/scheduler/sched-ext.rst",
    look: |examined| either(scheduler_extension(examined)),
};

/// Programs that sample or trace the system as long as they run.
const PROFILERS: [&str; 5] = ["perf", "bpftrace", "trace-cmd", "sysprof", "parca-agent"];
/// Kinds of BPF programs that are attached to kernel events: kprobe, tracepoint, perf_event,
/// raw_tracepoint, raw_tracepoint_writable, tracing, lsm.
const TRACING_KINDS: [u32; 7] = [2, 5, 7, 17, 24, 26, 29];
/// A finding names at most this many programs.
const NAMED: usize = 3;
/// Taint bits that the kernel sets for foreign code, or for an error that it found in itself.
const MEANINGS: [(u32, &str); 8] = [
    (0, "proprietary module"),
    (1, "force-loaded module"),
    (4, "machine check"),
    (5, "bad page"),
    (7, "kernel oops"),
    (9, "warning"),
    (12, "out-of-tree module"),
    (14, "lockup"),
];

fn taint(examined: &CheckInput<'_>) -> Result<State, State> {
    examined.text("proc/sys/kernel/tainted")?;
    let taint = examined
        .facts
        .kernel
        .taint
        .ok_or_else(|| State::unknown("/proc/sys/kernel/tainted contains no number"))?;
    let words: Vec<&str> = MEANINGS
        .iter()
        .filter(|(bit, _)| taint >> bit & 1 == 1)
        .map(|(_, word)| *word)
        .collect();
    Ok(match (taint, words.is_empty()) {
        (0, _) => State::good("untainted"),
        (taint, true) => State::noted(taint.to_string()),
        (taint, false) => State::improvable_at_start(
            format!("{taint}: {}", words.join(", ")),
            "untainted",
            "remove the module (/proc/modules marks it with letters in parentheses), or see the \
             warning in the kernel's log",
        ),
    })
}

fn bpf_programs(examined: &CheckInput<'_>) -> Result<State, State> {
    if examined
        .optional("proc/sys/kernel/bpf_stats_enabled")?
        .is_none()
    {
        return Ok(State::none("the kernel has no BPF"));
    }
    let watched = examined
        .watched
        .ok_or_else(|| State::unknown("the BPF programs were not listed"))?;
    let programs = watched.bpf.as_ref().map_err(|error| {
        State::unknown(format!(
            "the BPF programs cannot be listed (bpf(2): {error})"
        ))
    })?;
    let tracing: Vec<&str> = programs
        .iter()
        .filter(|program| TRACING_KINDS.contains(&program.kind))
        .map(|program| program.name.as_str())
        .collect();
    Ok(if tracing.is_empty() {
        State::good(format!(
            "{} BPF programs are loaded, and none of them traces",
            programs.len()
        ))
    } else {
        let names: Vec<&str> = tracing
            .iter()
            .copied()
            .filter(|name| !name.is_empty())
            .take(NAMED)
            .collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(
                " ({}{})",
                names.join(", "),
                if tracing.len() > NAMED { ", ..." } else { "" }
            )
        };
        State::improvable(
            format!("{} BPF programs trace{names}", tracing.len()),
            "none",
            "stop the process that loaded the programs: bpftool prog shows it",
        )
    })
}

fn instances(examined: &CheckInput<'_>) -> Result<State, State> {
    examined.text("sys/kernel/tracing/current_tracer")?;
    let tracers = examined.texts("sys/kernel/tracing/instances/*/current_tracer")?;
    let events = examined.texts("sys/kernel/tracing/instances/*/events/enable")?;
    let name = |path: &str| path.split('/').nth(4).unwrap_or_default().to_owned();
    let active = tracers
        .iter()
        .filter(|(_, tracer)| tracer != "nop")
        .chain(events.iter().filter(|(_, text)| text != "0"));
    let mut names: Vec<String> = active.map(|(path, _)| name(path)).collect();
    names.dedup();
    Ok(match names.first() {
        None => State::good(format!(
            "{} tracing instances exist, and none of them records",
            tracers.len()
        )),
        Some(first) => State::improvable(
            format!("tracing instances that record: {}", names.join(", ")),
            "none",
            format!("rmdir /sys/kernel/tracing/instances/{first}"),
        ),
    })
}

fn monitors(examined: &CheckInput<'_>) -> Result<State, State> {
    let enabled = examined.text("sys/kernel/tracing/rv/enabled_monitors")?;
    Ok(if enabled.is_empty() {
        State::good("none")
    } else {
        State::improvable(
            enabled.split_whitespace().collect::<Vec<_>>().join(", "),
            "none",
            "echo > /sys/kernel/tracing/rv/enabled_monitors",
        )
    })
}

fn kprobes(examined: &CheckInput<'_>) -> Result<State, State> {
    let list = examined.text("sys/kernel/debug/kprobes/list")?;
    let set = list
        .lines()
        .filter(|line| !line.contains("[DISABLED]"))
        .count();
    Ok(if set == 0 {
        State::good("none")
    } else {
        State::improvable(
            format!("{set} kernel probes are set"),
            "none",
            "stop the program that set the kernel probes (/sys/kernel/debug/kprobes/list shows \
             where they are)",
        )
    })
}

fn sampling(examined: &CheckInput<'_>) -> Result<State, State> {
    let processes = examined.texts("proc/*/comm")?;
    if processes.is_empty() {
        return Err(State::unknown("/proc/PID/comm cannot be read"));
    }
    let profilers = processes
        .into_iter()
        .filter(|(_, name)| PROFILERS.contains(&name.as_str()));
    let found: Vec<String> = profilers
        .map(|(path, name)| format!("{name} ({})", path.split('/').nth(1).unwrap_or_default()))
        .collect();
    Ok(if found.is_empty() {
        State::good("no profiler runs")
    } else {
        State::improvable(
            found.join(", "),
            "none",
            "stop the profiler, unless you are searching for a cause of delays",
        )
    })
}

fn scheduler_extension(examined: &CheckInput<'_>) -> Result<State, State> {
    let state = examined.text("sys/kernel/sched_ext/state")?;
    if state == "disabled" {
        return Ok(State::good("no BPF scheduler is loaded"));
    }
    let name = examined
        .optional("sys/kernel/sched_ext/root/ops")?
        .unwrap_or_else(|| "a scheduler of unknown name".to_owned());
    // Since Linux 7.1, a control group can have a BPF scheduler below that of its parent group, in
    // at most four levels (SCX_SUB_MAX_DEPTH in kernel/sched/ext/types.h). The kernel names each
    // scheduler's folder after the number of the scheduler's control group, which is the inode of
    // the group's folder.
    let mut below = Vec::new();
    for depth in 1..=4 {
        let pattern = format!("sys/kernel/sched_ext/root{}/ops", "/sub/*".repeat(depth));
        for (path, name) in examined.texts(&pattern).unwrap_or_default() {
            let group = path
                .rsplit("sub-")
                .next()
                .and_then(|end| end.strip_suffix("/ops"));
            below.push(format!("{name} (cgroup inode {})", group.unwrap_or("?")));
        }
    }
    let (below, remedy) = match below.as_slice() {
        [] => (
            String::new(),
            "stop the program that loaded the scheduler, or systemctl stop scx",
        ),
        names => (
            format!(", with {} below it", names.join(" and ")),
            "stop the programs that loaded the schedulers; find /sys/fs/cgroup -inum NUMBER shows \
             the control group of such an inode",
        ),
    };
    Ok(State::improvable(
        format!("{name} ({state}){below}"),
        "none",
        remedy,
    ))
}
