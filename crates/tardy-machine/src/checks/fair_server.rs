//! Checks how much of a CPU the scheduler gives to ordinary tasks when real-time tasks starve them.

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::super::throttling::ThrottlingRule;
use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "fair-server",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
    ]),
    reads: &["proc/sys/kernel/osrelease|sys/kernel/debug/sched/fair_server/*/runtime"],
    why: "if a real-time task leaves no time for ordinary tasks, the fair server stops it for a \
          part of each period (the server's runtime)",
    source: "kernel/sched/deadline.c, fair server, since Linux 6.12",
    look,
};

pub(super) const EXT: Check = Check {
    name: "ext-server",
    reads: &[
        "sys/kernel/sched_ext/state",
        "sys/kernel/debug/sched/ext_server/*/runtime",
    ],
    why: "if a real-time task leaves no time for the tasks of a BPF scheduler, the ext server \
          stops it for a part of each period (the server's runtime)",
    source: "kernel/sched/ext.c and debug.c, ext server, since Linux 7.0",
    look: look_at_ext,
    ..CHECK
};

fn look(examined: &CheckInput<'_>) -> State {
    let settings = &examined.facts.throttling;
    match settings.has_fair_server {
        None => return State::unknown("the kernel's release cannot be read"),
        Some(false) => {
            return State::none("this kernel has no fair server (Linux 6.12 and later have one)");
        }
        Some(true) => {}
    }
    let is_server = |rule| {
        matches!(
            rule,
            ThrottlingRule::FairServer | ThrottlingRule::FairServerByDefault
        )
    };
    longest_gap(examined, "fair_server", is_server)
}

fn look_at_ext(examined: &CheckInput<'_>) -> State {
    match examined.optional("sys/kernel/sched_ext/state") {
        Err(state) => state,
        Ok(None) => State::none("this kernel has no BPF schedulers (sched_ext)"),
        Ok(Some(state)) if state == "disabled" => State::good("no BPF scheduler is loaded"),
        Ok(Some(_)) if examined.facts.throttling.ext_servers.is_none() => {
            State::none("/sys/kernel/debug/sched has no ext server (Linux 7.0 and later have one)")
        }
        Ok(Some(_)) => longest_gap(examined, "ext_server", |rule| {
            rule == ThrottlingRule::ExtServer
        }),
    }
}

/// Judges the longest time for which one of the rules that `is_rule` selects can stop real-time
/// tasks on a CPU of interest. The remedy sets this time to zero.
fn longest_gap(
    examined: &CheckInput<'_>,
    folder: &str,
    is_rule: impl Fn(ThrottlingRule) -> bool,
) -> State {
    let gap = |cpu: CpuId| {
        examined
            .facts
            .throttling
            .gaps(cpu)
            .into_iter()
            .filter(|gap| is_rule(gap.rule))
            .map(|gap| gap.gap)
            .max()
    };
    let longest = examined.cpus.iter().filter_map(gap).max();
    match longest {
        None | Some(Nanos::ZERO) => State::good("off"),
        Some(longest) => State::improvable(
            longest.to_string(),
            "off, if a real-time task may use a whole CPU",
            format!(
                "for n in {}; do echo 0 > /sys/kernel/debug/sched/{folder}/cpu$n/runtime; done",
                examined.cpus_in_words()
            ),
        ),
    }
}
