//! Checks of activity below the kernel: firmware that stops CPUs without the kernel's knowledge,
//! and its configuration. Sources: koolwal2009, section 2.3, and
//! Documentation/core-api/real-time/hardware.rst.

use super::{Check, CheckInput, Importance, State, Weight, either};
use crate::facts::CompiledPreemption;
use crate::smi::SmiUnavailable;

pub(super) const SYSTEM_MANAGEMENT: Check = Check {
    name: "system-management-interrupts",
    weight: Weight::of(Importance::High),
    reads: &["dev/cpu/*/msr", "proc/cpuinfo"],
    why: "the firmware stops all CPUs for tens to hundreds of microseconds, and the kernel cannot \
          prevent it",
    source: "koolwal2009, section 2.3; Intel SDM volume 4, MSR_SMI_COUNT (0x34)",
    look: |examined| either(system_management(examined)),
};

pub(super) const HARDWARE_LATENCY: Check = Check {
    name: "hardware-latency",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/tracing/available_tracers"],
    why: "counters do not show all of the time that firmware or hardware takes; a loop with \
          interrupts off finds it",
    source: "Documentation/trace/hwlat_detector.rst",
    look: |examined| either(hardware_latency(examined)),
};

pub(super) const ACPI: Check = Check {
    name: "acpi",
    weight: Weight::of(Importance::Low),
    reads: &["sys/firmware/acpi/interrupts/gpe_all|proc/cmdline"],
    why: "firmware events interrupt a CPU, and firmware code then runs in the kernel",
    source: "koolwal2009, section 2.3; Documentation/ABI/testing/sysfs-firmware-acpi",
    look: |examined| either(acpi(examined)),
};

pub(super) const USB_LEGACY: Check = Check {
    name: "usb-legacy-emulation",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/bus/pci/devices/*/class"],
    why: "until a driver takes over the controller, the firmware uses system management \
          interrupts to make USB keyboards look like PS/2 keyboards",
    source: "koolwal2009, section 2.3; drivers/usb/host/pci-quirks.c",
    look: |examined| either(usb_legacy(examined)),
};

pub(super) const MACHINE_CHECKS: Check = Check {
    name: "machine-check-polling",
    weight: Weight::of(Importance::Low),
    reads: &[
        "sys/devices/system/machinecheck/machinecheck*/check_interval",
        "sys/devices/system/machinecheck/machinecheck*/ignore_ce",
    ],
    why: "a timer on every CPU polls for corrected errors, more often after the first error",
    source: "Documentation/ABI/testing/sysfs-mce; TuneD, realtime-virtual-host (ignore_ce)",
    look: |examined| either(machine_checks(examined)),
};

pub(super) const MEMORY_ERRORS: Check = Check {
    name: "memory-error-polling",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/module/edac_core/parameters/edac_mc_poll_msec",
        "sys/devices/system/edac/mc/mc*/mc_name",
    ],
    why: "the EDAC driver reads the memory controller's registers every second, on some machines \
          through the firmware",
    source: "Red Hat's guide, EDAC modules; Documentation/driver-api/edac.rst",
    look: |examined| either(memory_errors(examined)),
};

pub(super) const EFI_RUNTIME: Check = Check {
    name: "efi-runtime-services",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "proc/cmdline",
        "sys/devices/virtual/workqueue/efi_runtime/cpumask",
    ],
    why: "a call into the firmware may keep interrupts off for a long time and, on some machines, \
          stop all CPUs",
    source: "hardware.rst, EFI; kernel-configuration.rst, CONFIG_EFI_DISABLE_RUNTIME",
    look: |examined| either(efi_runtime(examined)),
};

pub(super) const TIME_COORDINATED: Check = Check {
    name: "time-coordinated-computing",
    weight: Weight::of(Importance::Low),
    reads: &[
        "sys/firmware/acpi/tables/RTCT",
        "sys/firmware/acpi/tables/PTCT",
    ],
    why: "a firmware that has a real-time mode can switch off all its own causes of latency at \
          once",
    source: "Ubuntu, real-time Linux on Intel TCC; ACPI tables RTCT and PTCT",
    look: |examined| either(time_coordinated(examined)),
};

pub(super) const SECURE_WORLD: Check = Check {
    name: "secure-world",
    weight: Weight::of(Importance::Low),
    reads: &["proc/device-tree/firmware/*/compatible", "dev/tee*"],
    why: "the secure world can take a CPU, and Linux cannot block its interrupts",
    source: "hardware.rst, OP-TEE",
    look: |examined| either(secure_world(examined)),
};

pub(super) const VERSION: Check = Check {
    name: "firmware-version",
    weight: Weight::of(Importance::Low),
    reads: &[
        "sys/class/dmi/id/bios_version",
        "sys/class/dmi/id/bios_date",
        "proc/cpuinfo",
    ],
    why: "another version of firmware or microcode may have different latencies",
    source: "Documentation/ABI/testing/sysfs-firmware-dmi-tables; KernelCI's practice",
    look: |examined| either(version(examined)),
};

pub(super) const MITIGATIONS: Check = Check {
    name: "mitigations",
    weight: Weight::of(Importance::Low),
    reads: &["sys/devices/system/cpu/vulnerabilities/*"],
    why: "mitigations of CPU vulnerabilities lengthen each kernel entry; whether the machine can \
          run without them is a security decision",
    source: "Documentation/admin-guide/hw-vuln; kernel-parameters.txt, mitigations=",
    look: |examined| either(mitigations(examined)),
};

fn system_management(examined: &CheckInput<'_>) -> Result<State, State> {
    examined.root()?;
    let Some(watched) = examined.watched else {
        return Err(State::unknown(
            "SMIs were not counted: run tardy doctor, which counts for a second",
        ));
    };
    match &watched.smi {
        Ok(counts) => Ok(match counts.values().max() {
            None | Some(0) => State::good(format!("0 SMIs in {}", watched.span.exact())),
            Some(most) => State::improvable(
                format!("{most} SMIs in {}", watched.span.exact()),
                "none",
                "in the firmware's setup, switch off USB legacy support, firmware power \
                 management and firmware error logging; ask the vendor",
            ),
        }),
        Err(SmiUnavailable::NotIntel { vendor })
            if !["GenuineIntel", "AuthenticAMD", "HygonGenuine", "unknown"]
                .contains(&vendor.as_str()) =>
        {
            Err(State::none(format!(
                "tardy knows of no counter of SMIs in CPUs of {vendor}"
            )))
        }
        // On Arm and RISC-V, /proc/cpuinfo names no vendor, and CPUs have no system management
        // mode.
        Err(SmiUnavailable::NotIntel { vendor })
            if vendor == "unknown" && !examined.text("proc/cpuinfo")?.contains("flags") =>
        {
            Err(State::none(
                "this architecture has no system management mode",
            ))
        }
        Err(unavailable) => Err(State::unknown(unavailable.to_string())),
    }
}

fn hardware_latency(examined: &CheckInput<'_>) -> Result<State, State> {
    match examined.detected {
        Some(Ok(found)) if found.gaps == 0 => {
            return Ok(State::good(format!("0 gaps in {}", found.span)));
        }
        Some(Ok(found)) => {
            return Ok(State::improvable(
                format!(
                    "{} gaps in {}, the longest {}",
                    found.gaps, found.span, found.longest
                ),
                "none",
                "find the cause: system management interrupts, firmware settings for power and \
                 heat, or the host of a virtual machine; ask the vendor",
            ));
        }
        Some(Err(error)) => return Err(State::unknown(error.to_string())),
        None => {}
    }
    let tracers = examined.text("sys/kernel/tracing/available_tracers")?;
    Ok(
        if tracers.split_whitespace().any(|tracer| tracer == "hwlat") {
            State::noted(
                "the kernel has a detector: run it with tardy doctor --hardware-latency 1m, at a \
                 time when delays do no harm",
            )
        } else {
            State::noted(
                "the kernel was built without hwlat (CONFIG_HWLAT_TRACER): tardy run --probe \
                 oslat shows gaps, and lists those caused by interrupts separately",
            )
        },
    )
}

fn acpi(examined: &CheckInput<'_>) -> Result<State, State> {
    if examined.parameter("acpi")? == Some("off") {
        return Ok(State::good("off (acpi=off)"));
    }
    let Some(events) = examined.optional("sys/firmware/acpi/interrupts/gpe_all")? else {
        return Ok(State::none("the kernel does not use ACPI"));
    };
    let before = events.split_whitespace().next().unwrap_or_default();
    let uptime = examined
        .optional("proc/uptime")?
        .and_then(|text| text.split('.').next()?.parse::<f64>().ok());
    let rate = before
        .parse::<f64>()
        .ok()
        .zip(uptime)
        .map(|(events, seconds)| events / seconds.max(1.0));
    Ok(match rate {
        // A healthy machine has a few ACPI events per day; a device that the kernel does not handle
        // causes thousands per second.
        Some(rate) if rate > 1.0 => State::improvable(
            format!("{before} events since boot, {rate:.0} a second"),
            "less than one event a second",
            "grep . /sys/firmware/acpi/interrupts/gpe* shows which events come; echo disable > \
             /sys/firmware/acpi/interrupts/gpeNN, or acpi_mask_gpe=0xNN",
        ),
        _ => State::good(format!("{before} events since boot")),
    })
}

fn usb_legacy(examined: &CheckInput<'_>) -> Result<State, State> {
    let root = examined.root()?;
    // The class of every USB controller starts with 0x0c03: 0c for a serial bus controller, and 03
    // for USB. The last byte is the kind of USB controller, and is not compared.
    let controllers: Vec<String> = examined
        .texts("sys/bus/pci/devices/*/class")?
        .into_iter()
        .filter(|(_, class)| class.starts_with("0x0c03"))
        .map(|(path, _)| path)
        .collect();
    if controllers.is_empty() {
        return Ok(State::none("there is no USB controller"));
    }
    let is_left = |path: &&String| !root.path(path.replace("/class", "/driver")).exists();
    let left: Vec<&str> = controllers
        .iter()
        .filter(is_left)
        .filter_map(|path| path.split('/').nth(4))
        .collect();
    Ok(if left.is_empty() {
        State::good(format!(
            "drivers have taken over all {} USB controllers",
            controllers.len()
        ))
    } else {
        State::improvable(
            format!("USB controllers without a driver: {}", left.join(", ")),
            "taken over by drivers, or switched off in the firmware's setup",
            "modprobe xhci_pci ehci_pci ohci_pci uhci_hcd; or switch USB legacy support off in \
             the firmware's setup",
        )
    })
}

fn machine_checks(examined: &CheckInput<'_>) -> Result<State, State> {
    let intervals =
        examined.texts("sys/devices/system/machinecheck/machinecheck*/check_interval")?;
    let ignored = examined.texts("sys/devices/system/machinecheck/machinecheck*/ignore_ce")?;
    if intervals.is_empty() {
        return Ok(State::none("the kernel does not poll for machine checks"));
    }
    let is_ignored = !ignored.is_empty() && ignored.iter().all(|(_, ignored)| ignored == "1");
    // The interval is the same for all CPUs. Recent kernels print the interval in decimal, older
    // ones in hexadecimal; zero looks the same in both.
    let is_off = intervals.iter().all(|(_, interval)| {
        interval
            .trim_start_matches("0x")
            .bytes()
            .all(|byte| byte == b'0')
    });
    Ok(match (is_off, is_ignored) {
        (true, _) => State::good("the kernel never polls"),
        (_, true) => State::good("corrected errors are ignored"),
        _ => State::improvable(
            format!("the kernel polls every {} s", intervals[0].1),
            "never, if you do not need reports of corrected errors",
            "echo 0 > /sys/devices/system/machinecheck/machinecheck0/check_interval, or \
             mce=ignore_ce on the kernel's command line",
        ),
    })
}

fn memory_errors(examined: &CheckInput<'_>) -> Result<State, State> {
    let controllers = examined.texts("sys/devices/system/edac/mc/mc*/mc_name")?;
    if controllers.is_empty() {
        return Ok(State::none("an EDAC driver is not loaded"));
    }
    let Some(interval) = examined.optional("sys/module/edac_core/parameters/edac_mc_poll_msec")?
    else {
        return Ok(State::unknown(
            "the EDAC driver's polling interval cannot be read",
        ));
    };
    let names = controllers
        .iter()
        .map(|(_, name)| name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    Ok(match interval.parse::<u64>() {
        Err(_) => State::unknown("edac_mc_poll_msec contains no number"),
        // Polling once an hour or more rarely is judged as if the kernel never polled.
        Ok(milliseconds) if milliseconds >= 3_600_000 => {
            State::good(format!("{names}, polled every {} s", milliseconds / 1000))
        }
        Ok(milliseconds) => State::improvable(
            format!("{names}, polled every {milliseconds} ms"),
            "polled at most once an hour, or never (without an EDAC driver)",
            "find the driver with lsmod | grep edac, and blacklist it in /etc/modprobe.d; or echo \
             3600000 > /sys/module/edac_core/parameters/edac_mc_poll_msec",
        ),
    })
}

fn efi_runtime(examined: &CheckInput<'_>) -> Result<State, State> {
    let parameter = examined.parameter("efi")?;
    let has_word =
        |word: &str| parameter.is_some_and(|value| value.split(',').any(|one| one == word));
    if has_word("noruntime") {
        return Ok(State::good("off (efi=noruntime)"));
    }
    let root = examined.root()?;
    if root.names("sys/firmware/efi").is_empty() {
        return Ok(State::none("the machine was not booted through EFI"));
    }
    let is_real_time = examined
        .facts
        .kernel
        .preemption
        .as_ref()
        .is_some_and(|found| found.compiled == CompiledPreemption::RealTime);
    if root.names("sys/firmware/efi/efivars").is_empty() && is_real_time && !has_word("runtime") {
        return Ok(State::good("off (PREEMPT_RT)"));
    }
    let mask = examined.optional("sys/devices/virtual/workqueue/efi_runtime/cpumask")?;
    let cpus = mask
        .as_deref()
        .and_then(tardy_core::cpu::CpuList::from_mask);
    Ok(match cpus {
        Some(cpus) if cpus.and(examined.cpus).is_empty() => {
            State::good(format!("EFI calls run on CPUs {cpus}"))
        }
        _ => State::improvable_at_start(
            "on",
            "off, or run on other CPUs",
            "efi=noruntime on the kernel's command line; or write the mask of other CPUs to \
             /sys/devices/virtual/workqueue/efi_runtime/cpumask",
        ),
    })
}

fn time_coordinated(examined: &CheckInput<'_>) -> Result<State, State> {
    let tables = examined.root()?.names("sys/firmware/acpi/tables");
    Ok(
        if tables.iter().any(|name| name == "RTCT" || name == "PTCT") {
            State::noted(
                "the firmware offers this mode: make sure that it is switched on in the \
                 firmware's setup",
            )
        } else {
            State::none("the firmware does not offer this mode")
        },
    )
}

fn secure_world(examined: &CheckInput<'_>) -> Result<State, State> {
    let root = examined.root()?;
    let devices = root.matching("dev/tee*");
    let nodes: Vec<String> = examined
        .texts("proc/device-tree/firmware/*/compatible")?
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    let is_secure = |name: &&String| {
        ["optee", "psci", "scmi", "tf-a"]
            .iter()
            .any(|word| name.contains(word))
    };
    let found: Vec<String> = devices
        .iter()
        .map(|device| format!("/{device}"))
        .chain(nodes.iter().filter(is_secure).cloned())
        .collect();
    Ok(if found.is_empty() {
        State::none("there is no sign of a secure world")
    } else {
        State::noted(found.join(", "))
    })
}

fn version(examined: &CheckInput<'_>) -> Result<State, State> {
    let firmware = [
        "sys/class/dmi/id/bios_vendor",
        "sys/class/dmi/id/bios_version",
        "sys/class/dmi/id/bios_date",
    ];
    let mut words = firmware
        .iter()
        .filter_map(|path| examined.optional(path).transpose())
        .collect::<Result<Vec<_>, _>>()?;
    let information = examined.optional("proc/cpuinfo")?.unwrap_or_default();
    let microcode = information
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "microcode");
    words.extend(microcode.map(|(_, revision)| format!("microcode {}", revision.trim())));
    Ok(if words.is_empty() {
        State::none("the firmware gives no version")
    } else {
        State::noted(words.join(", "))
    })
}

fn mitigations(examined: &CheckInput<'_>) -> Result<State, State> {
    let found = examined.texts("sys/devices/system/cpu/vulnerabilities/*")?;
    if found.is_empty() {
        return Ok(State::none("the kernel lists no vulnerabilities"));
    }
    let mitigated = found
        .iter()
        .filter(|(_, text)| text.starts_with("Mitigation"))
        .count();
    let open = found
        .iter()
        .filter(|(_, text)| text.starts_with("Vulnerable"))
        .count();
    let parameter = examined
        .parameter("mitigations")?
        .map_or_else(String::new, |value| format!(", mitigations={value}"));
    Ok(State::noted(format!(
        "{mitigated} of {} vulnerabilities mitigated, {open} left open{parameter}",
        found.len()
    )))
}
