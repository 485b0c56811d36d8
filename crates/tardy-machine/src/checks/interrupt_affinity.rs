//! Checks whether device interrupts reach the CPUs of interest.

use super::super::irq_affinity;
use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "interrupt-affinity",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
        (Profile::Audio, Importance::Low),
    ]),
    reads: &["proc/irq/*/smp_affinity_list"],
    why: "a device's interrupt and its deferred work delay the running task",
    source: "Documentation/core-api/irq/irq-affinity.rst; mckenney2009, section 2.1",
    look,
};

const SHOWN: usize = 4;

fn look(examined: &CheckInput<'_>) -> State {
    let root = match examined.root() {
        Ok(root) => root,
        Err(state) => return state,
    };
    let states = irq_affinity::read(root);
    if states.is_empty() {
        return State::unknown("/proc/irq cannot be read");
    }
    if examined
        .facts
        .processors
        .online
        .as_ref()
        .is_some_and(|online| online.minus(examined.cpus).is_empty())
    {
        return State::improvable(
            "the work uses every CPU, so none is left for interrupts",
            "at least one",
            "leave one CPU to interrupts and everything else, and bind the work to the others",
        );
    }
    let reaches = |state: &&irq_affinity::IrqState| {
        let target = state
            .effective
            .as_ref()
            .filter(|cpus| !cpus.is_empty())
            .unwrap_or(&state.allowed);
        !state.handlers.is_empty() && examined.cpus.iter().any(|cpu| target.contains(cpu))
    };
    let reaching: Vec<String> = states
        .iter()
        .filter(reaches)
        .map(|state| format!("{} ({})", state.irq, state.handlers.join(", ")))
        .collect();
    if reaching.is_empty() {
        return State::good("device interrupts are kept off these CPUs");
    }
    let more = if reaching.len() > SHOWN {
        format!(" and {} more", reaching.len() - SHOWN)
    } else {
        String::new()
    };
    State::improvable(
        format!(
            "interrupts {}{more}",
            reaching[..reaching.len().min(SHOWN)].join(", ")
        ),
        "no device interrupts",
        format!(
            "for f in /proc/irq/*/smp_affinity_list; do echo {0} > $f; done (tardy run \
             --move-irqs does so for a run), or irqaffinity={0} on the kernel's command line",
            examined.others()
        ),
    )
}
