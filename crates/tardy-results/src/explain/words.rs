//! Words for who held the processor, and where on the way.

use tardy_trace::event::Thread;
use tardy_trace::explain::{Cause, Component, Holder, Known, Piece};
use tardy_trace::symbols::Symbols;

/// A part of the way.
#[must_use]
pub fn component(component: Component) -> &'static str {
    match component {
        Component::Timer => "due to timer interrupt",
        Component::Interrupt => "timer interrupt to the timer's function",
        Component::Expiry => "the timer's function to waking",
        Component::Switch => "waking to running",
    }
}

/// Who held the processor, and how that is known.
#[must_use]
pub fn holder(cause: Cause, name: &str, of: Option<i32>, work: Option<&str>, known: &str, or: Option<Cause>) -> String {
    let work = work.map_or_else(String::new, |work| format!(", at work on {work}"));
    let thread = of.map_or_else(|| name.to_owned(), |of| format!("{name} ({}{work})", priority(of)));
    let said = words(cause, &thread);
    match (or, known) {
        (Some(other), _) => format!("{said}, or {} (cannot tell)", words(other, &thread)),
        (None, "inferred") => format!("{said} (inferred)"),
        _ => said,
    }
}

/// The same of a piece.
pub(super) fn of_piece(piece: &Piece, symbols: &Symbols) -> String {
    let work = piece.holder.work.map(|address| function(address, symbols));
    let Holder { cause, name, priority, .. } = &piece.holder;
    holder(*cause, name.as_str(), *priority, work.as_deref(), known_word(piece.known), or(piece.known))
}

/// A function by its name, else by its address.
pub(super) fn function(address: u64, symbols: &Symbols) -> String {
    symbols.name(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
}

/// How something is known, in a word.
pub(super) fn known_word(known: Known) -> &'static str {
    match known {
        Known::Seen => "seen",
        Known::Inferred => "inferred",
        Known::CannotTell(_) => "cannot_tell",
    }
}

/// What it may have been as well.
pub(super) fn or(known: Known) -> Option<Cause> {
    if let Known::CannotTell(other) = known { Some(other) } else { None }
}

fn words(cause: Cause, who: &str) -> String {
    let named = |what: &str| if who.is_empty() { what.to_owned() } else { format!("{what} {who}") };
    match cause {
        Cause::Nmi => "non-maskable interrupt".to_owned(),
        Cause::Interrupt => named("interrupt"),
        Cause::Softirq => named("softirq"),
        Cause::HigherPriority => format!("thread of higher priority: {who}"),
        Cause::EqualPriority => format!("thread of the same priority: {who}"),
        Cause::Turns => format!("thread that shares the processor: {who}"),
        Cause::FairServer => format!("fair server or throttling let {who} run"),
        Cause::InterruptsOff => format!("interrupts off in {who}"),
        Cause::PreemptionOff => format!("preemption off in {who}"),
        Cause::KernelCode => format!("kernel code of {who}, which this kernel does not preempt"),
        Cause::BeforeSoftirq => format!("{who} ran before the softirq's thread"),
        Cause::Switch => format!("the switch from {who}"),
        Cause::LeavingIdle => "leaving idle".to_owned(),
        Cause::LateInterrupt => "the timer interrupt came late (hardware, firmware, host)".to_owned(),
        Cause::Slack => "timer slack that the thread allows (PR_SET_TIMERSLACK)".to_owned(),
        Cause::Itself => "the thread itself, not yet asleep".to_owned(),
        Cause::Lost => "unknown: events were lost".to_owned(),
        Cause::Unknown => "unknown: before the trace".to_owned(),
    }
}

/// A thread's class and priority in the words of chrt(1) and nice(1).
#[must_use]
pub fn priority(priority: i32) -> String {
    match priority {
        ..0 => "deadline".to_owned(),
        0..=99 => format!("real-time {}", 99 - priority),
        _ => format!("nice {}", priority - 120),
    }
}

/// A thread's name and priority.
pub(super) fn named(thread: Thread) -> String {
    format!("{} ({})", thread.name, priority(thread.priority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_cannot_be_told_names_both() {
        let said = holder(Cause::InterruptsOff, "dd", Some(120), None, "cannot_tell", Some(Cause::LateInterrupt));
        assert_eq!(said, "interrupts off in dd (nice 0), or the timer interrupt came late (hardware, firmware, host) (cannot tell)");
        assert_eq!(holder(Cause::Interrupt, "", None, None, "inferred", None), "interrupt (inferred)");
        let worker = holder(Cause::EqualPriority, "kworker/1:1", Some(98), Some("vmstat_update"), "seen", None);
        assert_eq!(worker, "thread of the same priority: kworker/1:1 (real-time 1, at work on vmstat_update)");
    }
}
