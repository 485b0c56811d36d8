//! Where the kernel does work that it has put off.

use super::{Check, Examined, Importance, NOT_HERE, State};

pub(super) const CHECK: Check = Check {
    name: "workqueues",
    importance: Importance::Low,
    why: "work that is bound to no processor may be done on these",
    source: "kernel-per-CPU-kthreads.rst, workqueues; Documentation/core-api/workqueue.rst",
    look,
};

const MASK: &str = "sys/devices/virtual/workqueue/cpumask";

fn look(examined: &Examined<'_>) -> State {
    let Some(root) = examined.root else { return State::unknown(NOT_HERE) };
    let Some(mask) = root.text(MASK) else { return State::unknown(format!("/{MASK} cannot be read")) };
    if examined.facts.processors.online.as_ref().is_some_and(|online| online.minus(examined.cpus).is_empty()) {
        return State::NotApplicable;
    }
    let reached: Vec<String> = examined.cpus.iter().filter(|cpu| has_bit(&mask, cpu.0)).map(|cpu| cpu.to_string()).collect();
    if reached.is_empty() {
        return State::good(mask);
    }
    State::improvable(
        format!("{mask} has {}", reached.join(",")),
        "other processors",
        "write the mask of the other processors to /sys/devices/virtual/workqueue/cpumask",
    )
}

/// Whether a mask of the kernel, `ff,00000003`, has processor `cpu`: words of 32 bits in hexadecimal, the last one first.
fn has_bit(mask: &str, cpu: u32) -> bool {
    let word = mask.trim().split(',').rev().nth(cpu as usize / 32).and_then(|word| u32::from_str_radix(word, 16).ok());
    word.is_some_and(|word| (word >> (cpu % 32)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_from_their_end() {
        assert!(has_bit("3", 1) && !has_bit("3", 2) && !has_bit("3", 32));
        assert!(has_bit("1,00000000", 32) && !has_bit("1,00000000", 0));
        assert!(!has_bit("nonsense", 0));
    }
}
