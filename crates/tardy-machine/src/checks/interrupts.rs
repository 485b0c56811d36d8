//! Checks of interrupts, in addition to [`super::interrupt_affinity`]. They check how many
//! interrupts occur, to which CPUs the kernel assigns new interrupts, whether moves of interrupts
//! have taken effect, and whether the kernel manages interrupts that reach the CPUs of interest.

use tardy_core::cpu::CpuList;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};
use crate::interrupts::InterruptLineDelta;
use crate::irq_affinity::{self, IrqState};

const SHOWN: usize = 3;

pub(super) const COUNTED: Check = Check {
    name: "interrupts-counted",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/interrupts"],
    why: "each device interrupt takes the CPU from the running task",
    source: "Documentation/filesystems/proc.rst, /proc/interrupts; kernel-per-CPU-kthreads.rst",
    look: |examined| either(counted(examined)),
};

pub(super) const DEFAULT_AFFINITY: Check = Check {
    name: "default-interrupt-affinity",
    weight: Weight::of(Importance::Low),
    reads: &["proc/irq/default_smp_affinity"],
    why: "interrupts of drivers loaded later may arrive on the work's CPUs",
    source: "Documentation/core-api/irq/irq-affinity.rst; kernel-parameters.txt, irqaffinity=",
    look: |examined| either(default_affinity(examined)),
};

pub(super) const PENDING_MOVES: Check = Check {
    name: "pending-interrupt-moves",
    weight: Weight::of(Importance::Low),
    reads: &[
        "proc/irq/*/smp_affinity_list",
        "proc/irq/*/effective_affinity_list",
    ],
    why: "some interrupts move to the new CPU only after they have arrived on the old CPU once \
          more",
    source: "kernel/irq/migration.c; TuneD, issue 364",
    look: |examined| either(pending_moves(examined)),
};

pub(super) const MANAGED: Check = Check {
    name: "managed-interrupts",
    weight: Weight::of(Importance::Medium).but(&[(Profile::Audio, Importance::Low)]),
    reads: &["proc/cmdline", "proc/irq/*/effective_affinity_list"],
    why: "the kernel spreads the interrupts of disk and network queues over all CPUs, and users \
          cannot move them",
    source: "kernel-parameters.txt, isolcpus=managed_irq; TuneD, issues 352 and 356",
    look: |examined| either(managed(examined)),
};

/// Returns whether the interrupt comes from a device. Interrupts that belong to a CPU are not
/// judged here: the user's work needs the CPU's timer, and other checks cover the settings that
/// make CPUs interrupt each other.
fn is_of_device(line: &InterruptLineDelta) -> bool {
    line.label.bytes().all(|byte| byte.is_ascii_digit())
}

fn counted(examined: &CheckInput<'_>) -> Result<State, State> {
    examined.text("proc/interrupts")?;
    let watched = examined.watched.ok_or_else(|| {
        State::none("interrupts were not counted: run tardy doctor, which counts for a second")
    })?;
    let delta = watched
        .interrupts
        .as_ref()
        .ok_or_else(|| State::unknown("/proc/interrupts cannot be read"))?;
    let lines: Vec<InterruptLineDelta> = delta
        .on(examined.cpus)
        .into_iter()
        .filter(is_of_device)
        .collect();
    let total: u64 = lines.iter().flat_map(|line| line.counts.values()).sum();
    if total == 0 {
        return Ok(State::good(format!(
            "0 device interrupts in {}",
            watched.span.exact()
        )));
    }
    let name = |line: &InterruptLineDelta| {
        format!(
            "{} ({}) {} times",
            line.label,
            line.description,
            line.counts.values().sum::<u64>()
        )
    };
    let named: Vec<String> = lines.iter().take(SHOWN).map(name).collect();
    let first = lines
        .first()
        .map(|line| line.label.as_str())
        .unwrap_or_default();
    let is_everywhere = examined.other_cpus().is_none_or(|others| others.is_empty());
    let remedy = if is_everywhere {
        "name fewer CPUs (--cpus): interrupts need a CPU too".to_owned()
    } else {
        format!(
            "echo {} > /proc/irq/{first}/smp_affinity_list (tardy run --move-irqs does so for a \
             run)",
            examined.others()
        )
    };
    Ok(State::improvable(
        format!("in {}: {}", watched.span, named.join(", ")),
        "0 device interrupts on these CPUs",
        remedy,
    ))
}

fn default_affinity(examined: &CheckInput<'_>) -> Result<State, State> {
    let mask = examined.text("proc/irq/default_smp_affinity")?;
    let others = examined
        .other_cpus()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    if others.is_empty() {
        return Ok(State::none("the work uses every CPU"));
    }
    let cpus = CpuList::from_mask(&mask)
        .ok_or_else(|| State::unknown("/proc/irq/default_smp_affinity contains no mask"))?;
    let reached = cpus.and(examined.cpus);
    Ok(if reached.is_empty() {
        State::good(format!("CPUs {cpus}"))
    } else {
        State::improvable(
            format!("CPUs {cpus}"),
            format!("CPUs {others}"),
            format!(
                "echo {} > /proc/irq/default_smp_affinity, or irqaffinity={others} on the \
                 kernel's command line",
                others.to_mask()
            ),
        )
    })
}

fn pending_moves(examined: &CheckInput<'_>) -> Result<State, State> {
    let states = irq_affinity::read(examined.root()?);
    let is_pending = |state: &&IrqState| {
        state
            .effective
            .as_ref()
            .is_some_and(|effective| !effective.minus(&state.allowed).is_empty())
    };
    let pending: Vec<String> = states
        .iter()
        .filter(is_pending)
        .map(|state| state.irq.to_string())
        .collect();
    if states.iter().all(|state| state.effective.is_none()) {
        return Ok(State::none(
            "the kernel does not show where interrupts are delivered",
        ));
    }
    Ok(if pending.is_empty() {
        State::good("every interrupt arrives on the CPUs it was assigned to")
    } else {
        State::improvable(
            format!(
                "interrupts {} do not yet arrive on the CPUs they were assigned to",
                pending.join(", ")
            ),
            "moved before the work starts",
            format!(
                "make each device raise an interrupt once, or put irqaffinity={} on the kernel's \
                 command line",
                examined.others()
            ),
        )
    })
}

fn managed(examined: &CheckInput<'_>) -> Result<State, State> {
    let isolation = examined.parameter("isolcpus")?;
    let states = irq_affinity::read(examined.root()?);
    if states.is_empty() {
        return Err(State::unknown("/proc/irq cannot be read"));
    }
    let is_managed = |state: &&IrqState| !state.writable && !state.handlers.is_empty();
    let here = |state: &&IrqState| {
        state
            .effective
            .as_ref()
            .is_some_and(|effective| !effective.and(examined.cpus).is_empty())
    };
    let found: Vec<String> = states
        .iter()
        .filter(is_managed)
        .filter(here)
        .map(|state| state.irq.to_string())
        .collect();
    Ok(
        match (
            found.is_empty(),
            isolation.is_some_and(|value| value.split(',').any(|word| word == "managed_irq")),
        ) {
            (true, true) => State::good("managed interrupts are kept off (isolcpus=managed_irq)"),
            (true, false) => State::good("managed interrupts arrive on other CPUs only"),
            (false, has_flag) => State::improvable_at_start(
                format!(
                    "interrupts {} arrive on these CPUs{}",
                    found.join(", "),
                    if has_flag {
                        " in spite of isolcpus=managed_irq"
                    } else {
                        ""
                    }
                ),
                "none",
                format!(
                    "isolcpus=managed_irq,domain,{} on the kernel's command line, or fewer queues \
                     for the device",
                    examined.to_isolate()
                ),
            ),
        },
    )
}
