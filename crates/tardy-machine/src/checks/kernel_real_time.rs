//! Checks whether the kernel is built with PREEMPT_RT, and whether such a kernel still has causes
//! of delay.

use tardy_core::units::Nanos;

use super::super::facts::CompiledPreemption;
use super::super::throttling::release_numbers;
use super::{Check, CheckInput, Importance, State, Weight, either};

pub(super) const CHECK: Check = Check {
    name: "real-time-kernel",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/version|sys/kernel/realtime"],
    why: "kernels without PREEMPT_RT do not bound their non-preemptible sections; measure whether \
          your deadline allows for such sections",
    source: "kernel-configuration.rst, CONFIG_PREEMPT_RT",
    look,
};

/// Since Linux 6.18, PREEMPT_RT works without the softirq lock.
const WITHOUT_LOCK_SINCE: (u32, u32) = (6, 18);

pub(super) const SOFTIRQ_LOCK: Check = Check {
    name: "config-softirq-lock",
    weight: Weight::of(Importance::Low),
    reads: &["boot/config-*|lib/modules/*/config|proc/config.gz"],
    why: "if each CPU has a lock for softirqs, a softirq of high priority waits for all other \
          softirqs of its CPU",
    source: "kernel/Kconfig.preempt, CONFIG_PREEMPT_RT_NEEDS_BH_LOCK, since Linux 6.18",
    look: |examined| either(softirq_lock(examined)),
};

fn softirq_lock(examined: &CheckInput<'_>) -> Result<State, State> {
    let kernel = &examined.facts.kernel;
    let is_real_time = kernel
        .preemption
        .as_ref()
        .is_some_and(|found| found.compiled == CompiledPreemption::RealTime);
    if !is_real_time {
        return Ok(State::none("only PREEMPT_RT has the lock"));
    }
    let release = kernel.release.as_deref().and_then(release_numbers);
    if release.is_some_and(|release| release < WITHOUT_LOCK_SINCE) {
        return Ok(State::none(
            "PREEMPT_RT always has the lock before Linux 6.18",
        ));
    }
    let option = "PREEMPT_RT_NEEDS_BH_LOCK";
    Ok(if examined.configuration()?.is_on(option) {
        State::improvable_at_start(
            format!("CONFIG_{option} is on"),
            "off",
            format!("use a kernel built without CONFIG_{option}"),
        )
    } else {
        State::good(format!("CONFIG_{option} is off"))
    })
}

pub(super) const TIME_SLICE_EXTENSION: Check = Check {
    name: "time-slice-extension",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/debug/rseq/slice_ext_nsec"],
    why: "a program may ask for a longer time slice, and so keep its CPU while another task waits \
          for the CPU",
    source: "Documentation/userspace-api/rseq.rst; kernel/entry/common.c, TIF_SLICE_EXT_SCHED; \
             since Linux 7.0",
    look: |examined| either(time_slice_extension(examined)),
};

fn time_slice_extension(examined: &CheckInput<'_>) -> Result<State, State> {
    let Some(length) = examined.optional("sys/kernel/debug/rseq/slice_ext_nsec")? else {
        return Ok(State::none(
            "this kernel has no time-slice extension (CONFIG_RSEQ_SLICE_EXTENSION)",
        ));
    };
    let length = Nanos(
        length
            .parse()
            .map_err(|_| State::unknown("slice_ext_nsec contains no number"))?,
    );
    let preemption = examined.facts.kernel.preemption.as_ref();
    Ok(match preemption.map(|found| found.compiled) {
        None => State::unknown("the kernel's version cannot be read"),
        Some(CompiledPreemption::RealTime) => State::good(format!(
            "{length}, and only while ordinary tasks wait (PREEMPT_RT)"
        )),
        Some(_) => State::improvable_at_start(
            length.to_string(),
            "off",
            "rseq_slice_ext=off on the kernel's command line",
        ),
    })
}

fn look(examined: &CheckInput<'_>) -> State {
    match &examined.facts.kernel.preemption {
        None => State::unknown("the kernel's version cannot be read"),
        Some(found) if found.compiled == CompiledPreemption::RealTime => {
            State::good(found.to_string())
        }
        Some(found) => State::improvable_at_start(
            found.to_string(),
            "PREEMPT_RT",
            format!(
                "measure first (tardy run --deadline TIME, then tardy advise RUN); if this kernel \
                 misses the deadline, install the distribution's real-time kernel{}",
                debian_package(examined.facts.kernel.architecture.as_deref())
            ),
        ),
    }
}

/// Returns the name of Debian's real-time kernel package, in parentheses; empty if Debian has none
/// for the architecture.
fn debian_package(architecture: Option<&str>) -> &'static str {
    match architecture {
        Some("x86_64") => " (Debian: linux-image-rt-amd64)",
        Some("aarch64") => " (Debian: linux-image-rt-arm64)",
        _ => "",
    }
}
