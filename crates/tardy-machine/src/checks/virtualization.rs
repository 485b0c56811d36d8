//! Checks settings that matter only in virtual machines, or only on their hosts.

use tardy_core::units::Nanos;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

pub(super) const STOLEN: Check = Check {
    name: "stolen-time",
    weight: Weight::of(Importance::High),
    reads: &["proc/stat", "proc/cpuinfo"],
    why: "the guest is stopped while the host runs other tasks",
    source: "Documentation/filesystems/proc.rst, steal; hardware.rst, virtualization",
    look: |examined| either(stolen(examined)),
};

pub(super) const GUEST_HALT_POLLING: Check = Check {
    name: "guest-halt-polling",
    weight: Weight::of(Importance::Low).but(&[(Profile::VmGuest, Importance::Medium)]),
    reads: &[
        "sys/devices/system/cpu/cpuidle/current_driver",
        "sys/module/haltpoll/parameters/guest_halt_poll_ns",
    ],
    why: "an idle virtual CPU that halts has to be scheduled again by the host",
    source: "Documentation/virt/guest-halt-polling.rst; kernel-parameters.txt, idle=poll",
    look: |examined| either(guest_halt_polling(examined)),
};

pub(super) const STEAL_ACCOUNTING: Check = Check {
    name: "steal-accounting",
    weight: Weight::of(Importance::Low).but(&[(Profile::VmGuest, Importance::Medium)]),
    reads: &[
        "boot/config-*|lib/modules/*/config|proc/config.gz",
        "proc/cpuinfo",
    ],
    why: "without steal-time accounting, the kernel charges steal time to the task that was \
          stopped",
    source: "arch/x86/Kconfig, PARAVIRT_TIME_ACCOUNTING",
    look: |examined| either(steal_accounting(examined)),
};

pub(super) const HOST_THREADS: Check = Check {
    name: "kvm-host",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/module/kvm/parameters/*",
        "sys/module/kvm_intel/parameters/ple_gap",
    ],
    why: "by default, KVM does extra work for a virtual CPU: it sets clocks, splits pages and \
          detects loops",
    source: "TuneD, realtime-virtual-host; Documentation/virt/kvm/halt-polling.rst",
    look: |examined| either(host_threads(examined)),
};

fn is_guest(examined: &CheckInput<'_>) -> Result<(), State> {
    match examined.facts.virtualization.is_virtual() {
        None => Err(State::unknown(
            "the kernel does not show whether this is a virtual machine",
        )),
        Some(false) => Err(State::none("this is not a virtual machine")),
        Some(true) => Ok(()),
    }
}

fn stolen(examined: &CheckInput<'_>) -> Result<State, State> {
    examined.text("proc/stat")?;
    is_guest(examined)?;
    let Some(watched) = examined.watched else {
        return Ok(State::none(
            "steal time was not counted: run tardy doctor, which counts for a second",
        ));
    };
    let stolen = watched
        .stolen
        .as_ref()
        .ok_or_else(|| State::unknown("/proc/stat has no steal column"))?;
    let of_interest = stolen
        .iter()
        .filter(|(cpu, time)| examined.cpus.contains(**cpu) && **time > Nanos::ZERO);
    Ok(match of_interest.max_by_key(|(_, time)| **time) {
        None => State::good(format!("0 s stolen in {}", watched.span.exact())),
        Some((cpu, time)) => State::improvable(
            format!("{time} stolen from CPU {cpu} in {}", watched.span.exact()),
            "none",
            "on the host: bind each virtual CPU to a separate isolated CPU (virsh vcpupin), at \
             real-time priority (vcpusched)",
        ),
    })
}

fn guest_halt_polling(examined: &CheckInput<'_>) -> Result<State, State> {
    is_guest(examined)?;
    if examined.parameter("idle")? == Some("poll") {
        return Ok(State::noted(
            "idle=poll: the CPU never halts, so the host cannot use it for anything else",
        ));
    }
    let Some(driver) = examined.optional("sys/devices/system/cpu/cpuidle/current_driver")? else {
        return Ok(State::none("there is no idle driver"));
    };
    let polled = examined
        .optional("sys/module/haltpoll/parameters/guest_halt_poll_ns")?
        .and_then(|text| text.parse::<i64>().ok());
    Ok(match (driver.as_str(), polled) {
        ("haltpoll", Some(polled)) if polled > 0 => {
            State::good(format!("haltpoll polls for up to {}", Nanos(polled)))
        }
        ("haltpoll", polled) => State::improvable(
            polled.map_or_else(
                || "haltpoll polls for an unknown time".to_owned(),
                |_| "haltpoll halts idle CPUs at once (guest_halt_poll_ns is 0)".to_owned(),
            ),
            "set to poll before it halts the CPU",
            "echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns",
        ),
        (driver, _) => State::improvable(
            format!("idle CPUs halt at once (driver {driver})"),
            "haltpoll, or a host that lets idle CPUs sleep without a VM exit (cpu-pm)",
            "modprobe cpuidle-haltpoll force=1; or on the host: -overcommit cpu-pm=on",
        ),
    })
}

fn steal_accounting(examined: &CheckInput<'_>) -> Result<State, State> {
    is_guest(examined)?;
    let configuration = examined.configuration()?;
    let is_on = configuration.is_on("PARAVIRT_TIME_ACCOUNTING");
    let is_x86 = configuration.is_on("X86");
    Ok(match (is_on, is_x86) {
        (true, _) => State::good("CONFIG_PARAVIRT_TIME_ACCOUNTING is on"),
        (false, false) => State::none("only x86 has this option"),
        (false, true) => State::improvable_at_start(
            "CONFIG_PARAVIRT_TIME_ACCOUNTING is off",
            "on",
            "use a kernel built with CONFIG_PARAVIRT_TIME_ACCOUNTING=y",
        ),
    })
}

/// Parameters of KVM, their values in TuneD's profile for hosts, and the corresponding boot
/// parameters.
const PARAMETERS: [(&str, &[&str], &str); 4] = [
    (
        "sys/module/kvm/parameters/kvmclock_periodic_sync",
        &["N", "0"],
        "kvm.kvmclock_periodic_sync=N",
    ),
    (
        "sys/module/kvm/parameters/nx_huge_pages",
        &["N", "never", "off"],
        "kvm.nx_huge_pages=off",
    ),
    (
        "sys/module/kvm/parameters/halt_poll_ns",
        &["0"],
        "kvm.halt_poll_ns=0",
    ),
    (
        "sys/module/kvm_intel/parameters/ple_gap",
        &["0"],
        "kvm_intel.ple_gap=0",
    ),
];

fn host_threads(examined: &CheckInput<'_>) -> Result<State, State> {
    if examined.profile != Profile::VmHost {
        return Ok(State::none("checked only on hosts (--profile vm-host)"));
    }
    let mut others = Vec::new();
    let mut remedies = Vec::new();
    let mut is_loaded = false;
    for (path, good, parameter) in PARAMETERS {
        let Some(value) = examined.optional(path)? else {
            continue;
        };
        is_loaded = true;
        if !good.contains(&value.as_str()) {
            others.push(format!(
                "{}={value}",
                path.rsplit('/').next().unwrap_or_default()
            ));
            remedies.push(parameter);
        }
    }
    Ok(match (is_loaded, others.is_empty()) {
        (false, _) => State::none("KVM is not loaded"),
        (true, true) => State::good("as in TuneD's profile for hosts"),
        (true, false) => State::improvable_at_start(
            others.join(", "),
            remedies.join(", "),
            format!("{} on the kernel's command line", remedies.join(" ")),
        ),
    })
}
