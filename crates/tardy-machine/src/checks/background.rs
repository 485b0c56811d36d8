//! Checks of periodic background activity of the kernel and the system.

use super::{Check, CheckInput, Importance, State, Weight, either, number_is};

pub(super) const NMI_WATCHDOG: Check = Check {
    name: "nmi-watchdog",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/nmi_watchdog"],
    why: "every CPU gets regular non-maskable interrupts, and a performance counter of each CPU is \
          in use",
    source: "Documentation/admin-guide/sysctl/kernel.rst, nmi_watchdog; TuneD, realtime",
    look: |examined| {
        number_is(
            examined,
            "proc/sys/kernel/nmi_watchdog",
            |value| value == 0,
            "0",
            "sysctl kernel.nmi_watchdog=0",
        )
    },
};

pub(super) const HUNG_TASKS: Check = Check {
    name: "hung-tasks",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/kernel/hung_task_timeout_secs"],
    why: "a kernel thread checks all tasks once per interval",
    source: "Documentation/admin-guide/sysctl/kernel.rst, hung_task_timeout_secs; TuneD, realtime \
             (600)",
    look: |examined| {
        let path = "proc/sys/kernel/hung_task_timeout_secs";
        number_is(
            examined,
            path,
            |value| value == 0 || value >= 600,
            "600 or more, or 0",
            "sysctl kernel.hung_task_timeout_secs=600",
        )
    },
};

pub(super) const PRESSURE: Check = Check {
    name: "pressure-accounting",
    weight: Weight::of(Importance::Low),
    reads: &["proc/pressure/cpu"],
    why: "each task switch is accounted for in every control group above the task, and a worker \
          computes averages every two seconds",
    source: "Documentation/accounting/psi.rst; Ubuntu, how to reduce latency",
    look: |examined| either(pressure(examined)),
};

pub(super) const SCHEDULED_JOBS: Check = Check {
    name: "scheduled-jobs",
    weight: Weight::of(Importance::Low),
    reads: &[
        "etc/systemd/system/timers.target.wants/*.timer",
        "etc/systemd/system.conf",
    ],
    why: "updates, indexing and clean-up jobs start at fixed times, read and write a lot, and run \
          on any free CPU",
    source: "TuneD, systemd plugin (CPUAffinity); systemd-system.conf(5)",
    look: |examined| either(scheduled_jobs(examined)),
};

fn pressure(examined: &CheckInput<'_>) -> Result<State, State> {
    Ok(match examined.optional("proc/pressure/cpu")? {
        None => State::good("off"),
        Some(_) => State::improvable_at_start(
            "on",
            "off, unless a program on this machine reads pressure stall information",
            "psi=0 on the kernel's command line",
        ),
    })
}

fn scheduled_jobs(examined: &CheckInput<'_>) -> Result<State, State> {
    let root = examined.root()?;
    let timers = root.matching("etc/systemd/system/timers.target.wants/*.timer");
    let name = |path: &String| {
        path.rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".timer")
            .to_owned()
    };
    let names: Vec<String> = timers.iter().map(name).collect();
    if names.is_empty() {
        return Ok(State::none("systemd has no enabled timers"));
    }
    let settings = examined
        .optional("etc/systemd/system.conf")?
        .unwrap_or_default();
    let given = settings
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("CPUAffinity=").map(str::to_owned));
    let affinity = given.and_then(|list| {
        list.replace(' ', ",")
            .parse::<tardy_core::cpu::CpuList>()
            .ok()
    });
    Ok(match affinity {
        Some(cpus) if !cpus.is_empty() && cpus.and(examined.cpus).is_empty() => State::good(
            format!("systemd and its services are restricted to CPUs {cpus}"),
        ),
        _ => State::improvable(
            names.join(", "),
            "no timers, or services kept off the CPUs of the work",
            format!(
                "CPUAffinity={} in /etc/systemd/system.conf, then restart; or systemctl disable \
                 --now NAME.timer",
                examined.others()
            ),
        ),
    })
}
