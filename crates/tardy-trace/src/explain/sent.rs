//! Interrupts that CPUs send to each other: who sent them, and which function the receiver should
//! run.

use std::collections::BTreeMap;

use crate::text::Text;

/// Names of the interrupts that CPUs send to each other: three of x86, and one for all of them on
/// other architectures.
const NAMES: [&str; 4] = ["reschedule", "call_function", "call_function_single", "ipi"];
/// An interrupt of x86 that does not run a function.
const RESCHEDULE: &str = "reschedule";
/// Maximum time in ns from the sending of an interrupt to its arrival. If more time has passed, the
/// arriving interrupt is another one.
const ARRIVES_NS: u64 = 1_000_000;

/// Who sent an interrupt, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    /// The thread on the sending CPU.
    pub(super) name: Text,
    /// The address of the function that the receiver runs.
    pub(super) function: Option<u64>,
}

/// The last interrupts and functions sent to each CPU.
#[derive(Debug, Default)]
pub(super) struct SentInterrupts {
    interrupts: BTreeMap<u32, (u64, Text)>,
    /// For each CPU: the first of the queued functions that the CPU has not run yet. This function
    /// is the reason for the interrupt.
    functions: BTreeMap<u32, (u64, u64)>,
}

impl SentInterrupts {
    /// Records that a function is queued for `cpu`.
    pub(super) fn queue(&mut self, cpu: u32, time: u64, function: u64) {
        let first = self.functions.entry(cpu).or_insert((time, function));
        if !is_recent(first.0, time) {
            *first = (time, function);
        }
    }

    /// Records that the thread `name` sends an interrupt to `cpu`.
    pub(super) fn send(&mut self, cpu: u32, time: u64, name: Text) {
        self.interrupts.insert(cpu, (time, name));
    }

    /// Returns who sent the interrupt that arrives on `cpu`.
    pub(super) fn arrive(&mut self, cpu: u32, time: u64, interrupt: Text) -> Option<Sender> {
        if self.interrupts.is_empty() || !NAMES.contains(&interrupt.as_str()) {
            return None;
        }
        let &(_, name) = self
            .interrupts
            .get(&cpu)
            .filter(|&&(sent, _)| is_recent(sent, time))?;
        let queued = if interrupt.as_str() == RESCHEDULE {
            None
        } else {
            self.functions.remove(&cpu)
        };
        let function = queued
            .filter(|&(queued, _)| is_recent(queued, time))
            .map(|(_, function)| function);
        Some(Sender { name, function })
    }
}

fn is_recent(sent: u64, now: u64) -> bool {
    now.abs_diff(sent) < ARRIVES_NS
}
