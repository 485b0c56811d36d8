//! How much the scheduler gives to ordinary tasks that real-time tasks starve.

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
    why: "a real-time task that leaves no time for ordinary tasks is stopped for the server's \
          runtime in each period",
    source: "kernel/sched/deadline.c, fair server, since Linux 6.12",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let settings = &examined.facts.throttling;
    match settings.has_fair_server {
        None => return State::unknown("the kernel's release"),
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
    let gap = |cpu: CpuId| {
        settings
            .gaps(cpu)
            .into_iter()
            .filter(|gap| is_server(gap.rule))
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
                "for n in {}; do echo 0 > /sys/kernel/debug/sched/fair_server/cpu$n/runtime; done",
                examined.cpus_in_words()
            ),
        ),
    }
}
