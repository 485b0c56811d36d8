//! Checks the limits for this user, this control group and this kernel.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

pub(super) const GROUP: Check = Check {
    name: "real-time-group",
    weight: Weight::of(Importance::Low).but(&[(Profile::Audio, Importance::High)]),
    reads: &["etc/security/limits.conf", "etc/security/limits.d/*"],
    why: "a user's programs get real-time priority only if a limit grants it",
    source: "limits.conf(5); realtime-setup and rtcqs",
    look: |examined| either(group(examined)),
};

pub(super) const LOCKDOWN: Check = Check {
    name: "lockdown",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/security/lockdown"],
    why: "a kernel in lockdown denies register access and tracing even to root, so other checks \
          may be unknown",
    source: "kernel_lockdown(7)",
    look: |examined| either(lockdown(examined)),
};

pub(super) const CPU_SET: Check = Check {
    name: "cpu-set",
    weight: Weight::of(Importance::High),
    reads: &["proc/self/cgroup", "proc/self/status"],
    why: "a task cannot be bound to a CPU that its control group does not have",
    source: "Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.effective",
    look: |examined| either(cpu_set(examined)),
};

pub(super) const DEADLINE_ADMISSION: Check = Check {
    name: "deadline-admission",
    weight: Weight::of(Importance::Low),
    reads: &[
        "proc/sys/kernel/sched_rt_runtime_us",
        "proc/sys/kernel/sched_rt_period_us",
    ],
    why: "SCHED_DEADLINE refuses tasks beyond the limit on CPU time; without a limit, it \
          guarantees nothing",
    source: "Documentation/scheduler/sched-deadline.rst, section 4",
    look: |examined| either(deadline_admission(examined)),
};

fn group(examined: &CheckInput<'_>) -> Result<State, State> {
    let mut files = examined.texts("etc/security/limits.d/*")?;
    if let Some(text) = examined.optional("etc/security/limits.conf")? {
        files.push(("etc/security/limits.conf".to_owned(), text));
    }
    if files.is_empty() {
        return Ok(State::none("there is no /etc/security/limits.conf (PAM)"));
    }
    let grants = |text: &String| {
        text.lines().any(|line| {
            !line.trim_start().starts_with('#')
                && line.split_whitespace().any(|word| word == "rtprio")
        })
    };
    Ok(match files.iter().find(|(_, text)| grants(text)) {
        Some((path, _)) => State::good(format!("/{path} grants real-time priority")),
        None => State::improvable(
            "only root has the right to real-time priority",
            "granted to a group",
            "groupadd -f realtime; printf '@realtime - rtprio 98\\n@realtime - memlock \
             unlimited\\n' > /etc/security/limits.d/realtime.conf",
        ),
    })
}

fn lockdown(examined: &CheckInput<'_>) -> Result<State, State> {
    let modes = examined.text("sys/kernel/security/lockdown")?;
    let mode = modes
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(mode, _)| mode.to_owned());
    Ok(match mode.as_deref() {
        None => State::unknown("/sys/kernel/security/lockdown shows no mode"),
        Some("none") => State::good("none"),
        Some(mode) => State::noted(format!(
            "{mode}: some registers and tracing are refused even to root"
        )),
    })
}

fn cpu_set(examined: &CheckInput<'_>) -> Result<State, State> {
    let status = examined.text("proc/self/status")?;
    let allowed = status.lines().find_map(|line| {
        line.strip_prefix("Cpus_allowed_list:")?
            .trim()
            .parse::<CpuList>()
            .ok()
    });
    let allowed =
        allowed.ok_or_else(|| State::unknown("/proc/self/status shows no Cpus_allowed_list"))?;
    // A task can be moved to CPUs that isolcpus= isolates, although the CPUs of a new task do not
    // include them. CPUs of an isolated partition are usable only in the partition's group.
    let isolated = examined
        .root()?
        .cpu_list("sys/devices/system/cpu/isolated")
        .unwrap_or_default();
    let of_group = examined
        .facts
        .cgroup
        .cpus
        .clone()
        .unwrap_or_else(|| allowed.clone());
    let outside = examined.cpus.minus(&of_group).minus(&isolated);
    Ok(if outside.is_empty() {
        State::good(format!("CPUs {of_group}"))
    } else {
        State::improvable(
            format!("CPUs {outside} are not among the CPUs {of_group} of this control group"),
            "among them, because the work uses them",
            format!(
                "start the work in a group whose cpuset.cpus contains {}",
                examined.cpus
            ),
        )
    })
}

fn deadline_admission(examined: &CheckInput<'_>) -> Result<State, State> {
    let limit = examined
        .facts
        .throttling
        .real_time
        .ok_or_else(|| State::unknown("/proc/sys/kernel/sched_rt_runtime_us cannot be read"))?;
    Ok(if limit.runtime < Nanos::ZERO {
        State::noted(
            "every deadline task is admitted, so the kernel guarantees nothing to any of them",
        )
    } else {
        let percent = limit.runtime.as_secs_f64() / limit.period.as_secs_f64().max(1e-9) * 100.0;
        State::good(format!("up to {percent:.0} % of each CPU"))
    })
}
