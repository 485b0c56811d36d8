//! Checks whether power saving causes latency, apart from idle states and the governor.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either, number_is};

const CPU: &str = "sys/devices/system/cpu";

pub(super) const FREQUENCY_RANGE: Check = Check {
    name: "frequency-range",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/devices/system/cpu/cpu*/cpufreq/scaling_min_freq",
        "sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq",
    ],
    why: "the CPU chooses its frequency within the range, so the same work takes varying times",
    source: "kernel-configuration.rst, CPU frequency governors; Ubuntu, Intel TCC (fixed \
             frequency)",
    look: |examined| either(frequency_range(examined)),
};

pub(super) const UTILISATION_CLAMP: Check = Check {
    name: "utilisation-clamp",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/sched_util_clamp_min_rt_default"],
    why: "if the frequency follows the load, this utilization clamp sets the lowest frequency for \
          a real-time task, in 1024ths of the maximum",
    source: "Documentation/scheduler/sched-util-clamp.rst, sched_util_clamp_min_rt_default",
    look: |examined| {
        let path = "proc/sys/kernel/sched_util_clamp_min_rt_default";
        number_is(
            examined,
            path,
            |value| value == 1024,
            "1024",
            "sysctl kernel.sched_util_clamp_min_rt_default=1024",
        )
    },
};

pub(super) const ENERGY_PREFERENCE: Check = Check {
    name: "energy-preference",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference"],
    why: "the CPU saves energy according to its energy preference, under every governor",
    source: "Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst, \
             energy_performance_preference",
    look: |examined| either(energy_preference(examined)),
};

pub(super) const TURBO: Check = Check {
    name: "turbo",
    weight: Weight::of(Importance::Low),
    reads: &["sys/devices/system/cpu/intel_pstate/no_turbo|sys/devices/system/cpu/cpufreq/boost"],
    why: "with turbo, work is faster but less steady, because the frequency depends on heat and \
          other cores",
    source: "Documentation/admin-guide/pm/cpufreq.rst, boost; TuneD, realtime",
    look: |examined| either(turbo(examined)),
};

pub(super) const PCI_EXPRESS: Check = Check {
    name: "pcie-power",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/module/pcie_aspm/parameters/policy"],
    why: "a PCIe link that sleeps delays the next access to its device",
    source: "Documentation/core-api/real-time/hardware.rst, hardware buses; \
             kernel-parameters.txt, pcie_aspm=",
    look: |examined| either(pci_express(examined)),
};

pub(super) const UNCORE: Check = Check {
    name: "uncore-frequency",
    weight: Weight::of(Importance::Low).but(&[(Profile::Polling, Importance::Medium)]),
    reads: &[
        "sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz",
        "sys/devices/system/cpu/intel_uncore_frequency/*/max_freq_khz",
    ],
    why: "caches and links between cores slow down when they are little used",
    source: "Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst",
    look: |examined| either(uncore(examined)),
};

pub(super) const USB: Check = Check {
    name: "usb-power",
    weight: Weight::of(Importance::Low).but(&[(Profile::Audio, Importance::Medium)]),
    reads: &["sys/bus/usb/devices/*/power/control"],
    why: "a suspended device takes milliseconds to wake up",
    source: "Documentation/driver-api/usb/power-management.rst",
    look: |examined| either(usb(examined)),
};

pub(super) const SUPPLY: Check = Check {
    name: "power-supply",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/class/power_supply/*/type",
        "sys/class/power_supply/*/online",
        "sys/firmware/acpi/platform_profile",
    ],
    why: "on battery power or in a quiet profile, the firmware may lower the limits of power and \
          frequency without informing the kernel",
    source: "Documentation/ABI/testing/sysfs-platform_profile and sysfs-class-power",
    look: |examined| either(supply(examined)),
};

fn frequency_range(examined: &CheckInput<'_>) -> Result<State, State> {
    let lowest = examined.of_each_cpu(&format!("{CPU}/cpuCPU/cpufreq/scaling_min_freq"))?;
    let highest = examined.of_each_cpu(&format!("{CPU}/cpuCPU/cpufreq/scaling_max_freq"))?;
    let ranges: Vec<(&str, &str)> = lowest
        .iter()
        .map(|(_, low)| low.as_str())
        .zip(highest.iter().map(|(_, high)| high.as_str()))
        .collect();
    let Some((low, high)) = ranges
        .iter()
        .find(|(low, high)| low != high)
        .or(ranges.first())
    else {
        return Ok(State::none("the kernel does not set the frequency"));
    };
    let mhz = |khz: &str| {
        khz.parse::<u64>()
            .map_or_else(|_| khz.to_owned(), |khz| (khz / 1000).to_string())
    };
    Ok(if low == high {
        State::good(format!("{} MHz", mhz(low)))
    } else {
        State::improvable(
            format!("{} to {} MHz", mhz(low), mhz(high)),
            "one frequency",
            format!(
                "for f in /{CPU}/cpu*/cpufreq; do cat $f/scaling_max_freq > $f/scaling_min_freq; \
                 done"
            ),
        )
    })
}

fn energy_preference(examined: &CheckInput<'_>) -> Result<State, State> {
    let preferences = examined.of_each_cpu(&format!(
        "{CPU}/cpuCPU/cpufreq/energy_performance_preference"
    ))?;
    let Some((_, first)) = preferences.first() else {
        return Ok(State::none("the CPU has no energy preference"));
    };
    // The preference is a word, or a number. A number is the value of the CPU's register, in which
    // 0 means performance.
    let other = preferences
        .iter()
        .map(|(_, preference)| preference)
        .find(|preference| !["performance", "0"].contains(&preference.as_str()));
    Ok(match other {
        None => State::good(first.clone()),
        Some(other) => State::improvable(
            other.clone(),
            "performance",
            format!("echo performance | tee /{CPU}/cpu*/cpufreq/energy_performance_preference"),
        ),
    })
}

fn turbo(examined: &CheckInput<'_>) -> Result<State, State> {
    let intel = examined
        .optional(&format!("{CPU}/intel_pstate/no_turbo"))?
        .map(|text| text == "0");
    let other = examined
        .optional(&format!("{CPU}/cpufreq/boost"))?
        .map(|text| text == "1");
    Ok(match intel.or(other) {
        None => State::none("the CPU has no turbo that the kernel can switch"),
        Some(true) => State::noted("on: faster on average, less steady"),
        Some(false) => State::noted("off: steady, slower on average"),
    })
}

fn pci_express(examined: &CheckInput<'_>) -> Result<State, State> {
    if examined.parameter("pcie_aspm")? == Some("off") {
        return Ok(State::good("off (pcie_aspm=off)"));
    }
    let policies = examined.text("sys/module/pcie_aspm/parameters/policy")?;
    let policy = policies
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(policy, _)| policy.to_owned());
    Ok(match policy.as_deref() {
        None => State::unknown("/sys/module/pcie_aspm/parameters/policy shows no policy"),
        Some("performance") => State::good("performance"),
        Some(policy) => State::improvable(
            policy,
            "performance",
            "echo performance > /sys/module/pcie_aspm/parameters/policy, or \
             pcie_aspm.policy=performance on the kernel's command line",
        ),
    })
}

fn uncore(examined: &CheckInput<'_>) -> Result<State, State> {
    let folder = format!("{CPU}/intel_uncore_frequency");
    let lowest = examined.texts(&format!("{folder}/*/min_freq_khz"))?;
    let highest = examined.texts(&format!("{folder}/*/max_freq_khz"))?;
    let mut ranges = lowest.iter().zip(&highest);
    if lowest.is_empty() {
        return Ok(State::none(
            "the kernel does not set the uncore frequency (driver intel_uncore_frequency)",
        ));
    }
    Ok(match ranges.find(|((_, low), (_, high))| low != high) {
        None => State::good("one frequency"),
        Some(((_, low), (_, high))) => State::improvable(
            format!("{low} to {high} kHz"),
            "one frequency",
            format!("for f in /{folder}/*; do cat $f/max_freq_khz > $f/min_freq_khz; done"),
        ),
    })
}

fn usb(examined: &CheckInput<'_>) -> Result<State, State> {
    let controls = examined.texts("sys/bus/usb/devices/*/power/control")?;
    if controls.is_empty() {
        return Ok(State::none("there is no USB device"));
    }
    let sleeping: Vec<&str> = controls
        .iter()
        .filter(|(_, control)| control == "auto")
        .filter_map(|(path, _)| path.split('/').nth(4))
        .collect();
    Ok(match sleeping.first() {
        None => State::good("devices stay awake"),
        Some(first) => State::improvable(
            format!(
                "{} of {} devices may sleep: {}",
                sleeping.len(),
                controls.len(),
                sleeping.join(", ")
            ),
            "awake, if the work uses them",
            format!(
                "echo on > /sys/bus/usb/devices/{first}/power/control, or usbcore.autosuspend=-1 \
                 on the kernel's command line"
            ),
        ),
    })
}

fn supply(examined: &CheckInput<'_>) -> Result<State, State> {
    let supplies = examined.texts("sys/class/power_supply/*/type")?;
    let online = examined.texts("sys/class/power_supply/*/online")?;
    let profile = examined.optional("sys/firmware/acpi/platform_profile")?;
    let has_battery = supplies.iter().any(|(path, kind)| {
        // Batteries of peripherals such as mice have the scope `Device`, and do not power the
        // machine.
        let scope = path.replace("/type", "/scope");
        kind == "Battery"
            && examined.root.and_then(|root| root.text(scope)).as_deref() != Some("Device")
    });
    let is_on_battery =
        has_battery && !online.is_empty() && online.iter().all(|(_, online)| online == "0");
    if is_on_battery {
        return Ok(State::improvable(
            "the machine runs on battery power",
            "on mains power",
            "plug the machine in",
        ));
    }
    Ok(match (profile.as_deref(), has_battery) {
        (Some(profile), _) if profile != "performance" => State::improvable(
            format!("platform profile {profile}"),
            "performance",
            "echo performance > /sys/firmware/acpi/platform_profile",
        ),
        (Some(profile), _) => State::good(format!("platform profile {profile}")),
        (None, true) => State::good("mains"),
        (None, false) => State::none("there is no battery and no platform profile"),
    })
}
