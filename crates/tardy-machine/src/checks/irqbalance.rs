//! Checks whether irqbalance or a similar daemon moves interrupts back to the CPUs of interest.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "irqbalance",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/*/comm"],
    why: "irqbalance moves interrupts to CPUs that are not busy, including those of the work",
    source: "TuneD, cpu-partitioning; irqbalance(1)",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let root = match examined.root() {
        Ok(root) => root,
        Err(state) => return state,
    };
    let processes: Vec<String> = root
        .names("proc")
        .into_iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    if processes.is_empty() {
        return State::unknown("/proc lists no process");
    }
    let runs = processes
        .iter()
        .any(|process| root.text(format!("proc/{process}/comm")).as_deref() == Some("irqbalance"));
    if !runs {
        return State::good("irqbalance does not run");
    }
    let banned = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"]
        .iter()
        .find_map(|path| {
            let text = root.text(path)?;
            let line = text.lines().find_map(|line| {
                line.trim()
                    .strip_prefix("IRQBALANCE_BANNED_CPULIST=")
                    .map(str::to_owned)
            })?;
            line.trim_matches(['"', '\''])
                .parse::<tardy_core::cpu::CpuList>()
                .ok()
        });
    match banned {
        Some(banned) if examined.cpus.minus(&banned).is_empty() => {
            State::good(format!("irqbalance runs, but leaves CPUs {banned} alone"))
        }
        _ => State::improvable(
            "irqbalance runs",
            "off, or kept off the CPUs of the work",
            "systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST in \
             /etc/default/irqbalance",
        ),
    }
}
