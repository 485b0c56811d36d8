//! Compares the kernel's build configuration with the kernel's own rules for real time. The
//! severities are those that the kernel's rules state ("info" becomes low here).
//!
//! Other modules check the debug options ([`super::kernel_debug`]), PREEMPT_RT
//! ([`super::kernel_real_time`]) and EFI ([`super::firmware`]). For PREEMPT_RT and EFI, the running
//! kernel shows more than its configuration does.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

const FILES: &[&str] = &["boot/config-*|lib/modules/*/config|proc/config.gz"];
const SOURCE: &str = "Documentation/core-api/real-time/kernel-configuration.rst";

/// Makes a check from a rule in the kernel's documentation about an option of the kernel's
/// configuration.
const fn rule(
    name: &'static str,
    weight: Weight,
    why: &'static str,
    look: fn(&CheckInput<'_>) -> State,
) -> Check {
    Check {
        name,
        weight,
        reads: FILES,
        why,
        source: SOURCE,
        look,
    }
}

pub(super) const LOCKUP_DETECTOR: Check = rule(
    "config-lockup-detector",
    Weight::of(Importance::High),
    "the lockup detector sets timers that run every few seconds with interrupts off",
    |examined| either(lockup_detector(examined)),
);

pub(super) const FREQUENCY_SCALING: Check = rule(
    "config-frequency-scaling",
    Weight::of(Importance::High),
    "a boot loader may leave the CPU at a low frequency, which the kernel then cannot raise",
    |examined| option_on(examined, "CPU_FREQ"),
);

pub(super) const DEFAULT_GOVERNOR: Check = rule(
    "config-default-governor",
    Weight::of(Importance::High),
    "until another governor is set, the frequency changes with the load",
    |examined| either(default_governor(examined)),
);

pub(super) const OTHER_GOVERNORS: Check = rule(
    "config-other-governors",
    Weight::of(Importance::Medium),
    "any privileged program can choose a governor that changes the frequency while tasks run",
    |examined| either(other_governors(examined)),
);

pub(super) const TICK: Check = rule(
    "config-tick",
    Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
    ]),
    "tickless accounting lengthens each kernel entry and exit; only tasks that stay in user space \
     gain from it",
    |examined| either(tick(examined)),
);

pub(super) const IDLE: Check = rule(
    "config-idle",
    Weight::of(Importance::Low),
    "without idle states, a CPU runs hot and wears out; a limit on the depth of idle states is \
     enough",
    |examined| option_on(examined, "CPU_IDLE"),
);

pub(super) const GRAPHICS: Check = rule(
    "config-graphics",
    Weight::of(Importance::Low),
    "a GPU shares cache and memory bandwidth with the CPUs",
    |examined| either(graphics(examined)),
);

pub(super) const TRACING: Check = rule(
    "config-tracing",
    Weight::of(Importance::Low),
    "without tracing, the cause of a late task cannot be found later",
    |examined| option_on(examined, "TRACING"),
);

pub(super) const REAL_TIME_GROUPS: Check = Check {
    name: "real-time-groups",
    weight: Weight::of(Importance::Medium),
    reads: FILES,
    why: "a control group without a real-time budget cannot have real-time tasks: \
          sched_setscheduler() fails with EPERM",
    source: "Documentation/scheduler/sched-rt-group.rst; kernel-parameters.txt, rt_group_sched=",
    look: |examined| either(real_time_groups(examined)),
};

fn option_on(examined: &CheckInput<'_>, option: &str) -> State {
    match examined.configuration() {
        Err(state) => state,
        Ok(configuration) if configuration.is_on(option) => {
            State::good(format!("CONFIG_{option} is on"))
        }
        Ok(_) => rebuild(format!("CONFIG_{option} is off"), "on", option, "y"),
    }
}

fn rebuild(current: impl Into<String>, expected: &str, option: &str, value: &str) -> State {
    State::improvable_at_start(
        current,
        expected,
        format!("use a kernel built with CONFIG_{option}={value}"),
    )
}

fn lockup_detector(examined: &CheckInput<'_>) -> Result<State, State> {
    if !examined.configuration()?.is_on("LOCKUP_DETECTOR") {
        return Ok(State::good("CONFIG_LOCKUP_DETECTOR is off"));
    }
    let is_off_at_start = examined.has_parameter("nowatchdog").unwrap_or(false);
    if is_off_at_start || examined.number("proc/sys/kernel/watchdog") == Ok(0) {
        return Ok(State::good(
            "CONFIG_LOCKUP_DETECTOR is on, but the detector is switched off",
        ));
    }
    Ok(State::improvable(
        "CONFIG_LOCKUP_DETECTOR is on, and the detector runs",
        "off, with a hardware watchdog instead",
        "sysctl kernel.watchdog=0, or nowatchdog on the kernel's command line",
    ))
}

fn default_governor(examined: &CheckInput<'_>) -> Result<State, State> {
    let configuration = examined.configuration()?;
    if !configuration.is_on("CPU_FREQ") {
        return Ok(State::none("CONFIG_CPU_FREQ is off"));
    }
    let names = [
        "PERFORMANCE",
        "SCHEDUTIL",
        "ONDEMAND",
        "CONSERVATIVE",
        "POWERSAVE",
        "USERSPACE",
    ];
    let chosen = names
        .iter()
        .find(|name| configuration.is_built_in(&format!("CPU_FREQ_DEFAULT_GOV_{name}")));
    let governors = &examined.facts.processors.governors;
    let is_performance_now =
        !governors.is_empty() && governors.keys().all(|name| name == "performance");
    Ok(match chosen {
        Some(&"PERFORMANCE") => State::good("performance"),
        Some(name) if is_performance_now => State::good(format!(
            "{}, but the current governor is performance",
            name.to_lowercase()
        )),
        Some(name) => State::improvable_at_start(
            name.to_lowercase(),
            "performance",
            "cpufreq.default_governor=performance on the kernel's command line, or \
             CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y",
        ),
        None => State::unknown(
            "the kernel's configuration sets no default governor (CONFIG_CPU_FREQ_DEFAULT_GOV_*)",
        ),
    })
}

fn other_governors(examined: &CheckInput<'_>) -> Result<State, State> {
    let configuration = examined.configuration()?;
    if !configuration.is_on("CPU_FREQ") {
        return Ok(State::none("CONFIG_CPU_FREQ is off"));
    }
    let names = [
        "ONDEMAND",
        "CONSERVATIVE",
        "SCHEDUTIL",
        "POWERSAVE",
        "USERSPACE",
    ];
    let on: Vec<String> = names
        .iter()
        .filter(|name| configuration.is_on(&format!("CPU_FREQ_GOV_{name}")))
        .map(|name| name.to_lowercase())
        .collect();
    if on.is_empty() {
        return Ok(State::good("performance is the only governor"));
    }
    Ok(State::improvable_at_start(
        on.join(", "),
        "performance as the only governor",
        "use a kernel without these governors (CONFIG_CPU_FREQ_GOV_*), or make sure that only you \
         set the governor",
    ))
}

fn tick(examined: &CheckInput<'_>) -> Result<State, State> {
    let configuration = examined.configuration()?;
    let has = |option: &str| configuration.is_on(option);
    let current = match (
        has("NO_HZ_FULL"),
        has("NO_HZ_IDLE") || has("NO_HZ") || has("NO_HZ_COMMON"),
    ) {
        (true, _) => "CONFIG_NO_HZ_FULL is on",
        (false, true) => "CONFIG_NO_HZ_IDLE is on",
        (false, false) => "the tick runs at all times",
    };
    if examined.profile.is_busy() {
        return Ok(if has("NO_HZ_FULL") {
            State::good(current)
        } else {
            rebuild(
                current,
                "a tick that can be stopped while a task runs",
                "NO_HZ_FULL",
                "y",
            )
        });
    }
    let is_off_at_start = examined.has_parameter("nohz=off").unwrap_or(false);
    if is_off_at_start
        || !(has("NO_HZ_FULL") || has("NO_HZ_IDLE") || has("NO_HZ") || has("NO_HZ_COMMON"))
    {
        return Ok(State::good(if is_off_at_start {
            "nohz=off"
        } else {
            current
        }));
    }
    Ok(State::improvable_at_start(
        current,
        "a tick that runs at all times",
        "nohz=off on the kernel's command line, or CONFIG_HZ_PERIODIC=y",
    ))
}

fn graphics(examined: &CheckInput<'_>) -> Result<State, State> {
    let cards = examined.root()?.names("sys/class/drm");
    if !examined.configuration()?.is_on("DRM") {
        return Ok(State::good("CONFIG_DRM is off"));
    }
    if !cards.iter().any(|name| name.starts_with("card")) {
        return Ok(State::good(
            "CONFIG_DRM is on, and there is no graphics card",
        ));
    }
    Ok(State::improvable_at_start(
        "CONFIG_DRM is on, with a graphics card",
        "off, or unused while the work runs",
        "measure with graphics running (tardy run --load ...), or use a kernel without CONFIG_DRM",
    ))
}

fn real_time_groups(examined: &CheckInput<'_>) -> Result<State, State> {
    if !examined.configuration()?.is_on("RT_GROUP_SCHED") {
        return Ok(State::good("CONFIG_RT_GROUP_SCHED is off"));
    }
    if examined.has_parameter("rt_group_sched=0")? {
        return Ok(State::good("rt_group_sched=0"));
    }
    Ok(match examined.facts.throttling.group {
        Some(budget) if budget.quota > tardy_core::units::Nanos::ZERO => State::good(format!(
            "this control group's real-time tasks may use {} of each {}",
            budget.quota, budget.period
        )),
        _ => State::improvable_at_start(
            "CONFIG_RT_GROUP_SCHED is on, and this control group has no budget for real-time tasks",
            "off, or on with a budget for real-time tasks",
            "rt_group_sched=0 on the kernel's command line, if the kernel supports it; or start \
             the work in the root group",
        ),
    })
}
