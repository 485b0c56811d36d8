//! Describes holders of the CPU and components of the latency.

use tardy_trace::event::Thread;
use tardy_trace::explain::{Cause, Component};

use super::HolderFacts;

/// Describes a component of the latency.
#[must_use]
pub fn component(component: Component) -> &'static str {
    match component {
        Component::Request => "due time to the timer's own due time",
        Component::Timer => "due time to timer interrupt",
        Component::Interrupt => "timer interrupt to the timer's function",
        Component::Expiry => "the timer's function to wake-up",
        Component::Waker => "due time to wake-up",
        Component::Switch => "wake-up to running",
        Component::SwitchAndReturn => "from the last event before the switch until the clock read",
        Component::Return => "running to the clock read",
        Component::Awake => "due time to the clock read (the thread was already awake)",
    }
}

/// Describes a holder of the CPU, and how certain it is.
#[must_use]
pub fn holder(facts: &HolderFacts) -> String {
    let HolderFacts {
        cause,
        name,
        priority: of,
        work,
        sender,
        known,
        or,
    } = facts;
    let function = work.as_ref();
    let work = function.map_or_else(String::new, |work| format!(", running {work}"));
    let thread = of.map_or_else(
        || name.clone(),
        |of| format!("{name} ({}{work})", priority(of)),
    );
    let sent = match (sender, function) {
        (Some(donor), _) if *cause == Cause::LockOwner => format!(", for {donor}"),
        (Some(sender), Some(function)) => format!(", sent by {sender} to run {function}"),
        (Some(sender), None) => format!(", sent by {sender}"),
        (None, _) => String::new(),
    };
    let said = words(*cause, &thread) + &sent;
    match (or, *known) {
        (Some(other), _) => format!(
            "{said}, or {} (the trace cannot decide)",
            words(*other, &thread)
        ),
        (None, "inferred") => format!("{said} (inferred)"),
        _ => said,
    }
}

fn words(cause: Cause, who: &str) -> String {
    let named = |what: &str| {
        if who.is_empty() {
            what.to_owned()
        } else {
            format!("{what} {who}")
        }
    };
    match cause {
        Cause::Nmi => "non-maskable interrupt".to_owned(),
        Cause::Interrupt => named("interrupt"),
        Cause::Softirq => named("softirq"),
        Cause::HigherPriority => format!("thread of higher priority: {who}"),
        Cause::EqualPriority => format!("thread of the same priority: {who}"),
        Cause::Turns => format!("thread that shares the CPU: {who}"),
        Cause::FairServer if who.is_empty() => {
            "fair server or throttling let another thread run".to_owned()
        }
        Cause::FairServer => format!("fair server or throttling let {who} run"),
        Cause::InterruptsOff => format!("interrupts off in {who}"),
        Cause::PreemptionOff => format!("preemption off in {who}"),
        Cause::KernelCode => format!("kernel code of {who}, which this kernel does not preempt"),
        Cause::BeforeSoftirq => format!("{who} ran before the softirq's thread"),
        Cause::Switch => format!("the switch from {who}"),
        Cause::LeavingIdle => "leaving idle".to_owned(),
        Cause::LateInterrupt => {
            "the timer interrupt came late (hardware, firmware, host)".to_owned()
        }
        Cause::Slack => "timer slack that the thread allows (PR_SET_TIMERSLACK)".to_owned(),
        Cause::Itself => "the thread itself, not yet asleep".to_owned(),
        Cause::OwnCode => "the thread's own code".to_owned(),
        Cause::Blocked if who.is_empty() => {
            "the thread waited again before it read the clock".to_owned()
        }
        Cause::Blocked => format!("the thread waited in the kernel until {who} woke it"),
        Cause::PageFault if who.is_empty() => "page fault of the thread".to_owned(),
        Cause::PageFault => format!("page fault of the thread, until {who} woke it"),
        Cause::KernelLock if who.is_empty() => "kernel lock".to_owned(),
        Cause::KernelLock => format!("kernel lock that {who} held"),
        Cause::ExtendedSlice => format!("time slice extended for {who}"),
        Cause::LockOwner => format!("owner of a kernel lock: {who}"),
        Cause::LaterTimer => "the timer was set for later".to_owned(),
        Cause::Waker => named("code that wakes the thread:"),
        Cause::Lost => "unknown: events were lost".to_owned(),
        Cause::Unknown => "unknown: the cause is not in the trace".to_owned(),
    }
}

/// Returns a thread's class and priority in the notation of chrt(1) and nice(1).
#[must_use]
pub fn priority(priority: i32) -> String {
    match priority {
        ..0 => "deadline".to_owned(),
        0..=99 => format!("real-time {}", 99 - priority),
        _ => format!("nice {}", priority - 120),
    }
}

/// Returns the name and priority of a thread.
pub(super) fn named(thread: Thread) -> String {
    format!("{} ({})", thread.name, priority(thread.priority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_cannot_be_told_names_both() {
        let facts = |cause, name: &str, priority, work: Option<&str>, known, or| HolderFacts {
            cause,
            name: name.to_owned(),
            priority,
            work: work.map(str::to_owned),
            sender: None,
            known,
            or,
        };
        let said = holder(&facts(
            Cause::InterruptsOff,
            "dd",
            Some(120),
            None,
            "cannot_tell",
            Some(Cause::LateInterrupt),
        ));
        assert_eq!(
            said,
            "interrupts off in dd (nice 0), or the timer interrupt came late (hardware, firmware, \
             host) (the trace cannot decide)"
        );
        assert_eq!(
            holder(&facts(Cause::Interrupt, "", None, None, "inferred", None)),
            "interrupt (inferred)"
        );
        let sent = HolderFacts {
            sender: Some("motor".to_owned()),
            ..facts(
                Cause::Interrupt,
                "call_function",
                None,
                Some("flush_tlb_func"),
                "seen",
                None,
            )
        };
        assert_eq!(
            holder(&sent),
            "interrupt call_function, sent by motor to run flush_tlb_func"
        );
        let owner = HolderFacts {
            sender: Some("motor".to_owned()),
            ..facts(Cause::LockOwner, "dd", Some(120), None, "inferred", None)
        };
        assert_eq!(
            holder(&owner),
            "owner of a kernel lock: dd (nice 0), for motor (inferred)"
        );
        let worker = holder(&facts(
            Cause::EqualPriority,
            "kworker/1:1",
            Some(98),
            Some("vmstat_update"),
            "seen",
            None,
        ));
        assert_eq!(
            worker,
            "thread of the same priority: kworker/1:1 (real-time 1, running vmstat_update)"
        );
    }
}
