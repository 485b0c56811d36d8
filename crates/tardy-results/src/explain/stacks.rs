//! Functions of the kernel that made samples late, by their stacks.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use tardy_samples::delays::DelayHolder;
use tardy_trace::explain::Cause;

use super::HolderFacts;
use super::words;

/// The most stacks that are told apart; a run has a few hundred.
const STACKS_MAX: usize = 100_000;

/// A stack, and the lateness that is laid to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// What kept the threads waiting.
    pub cause: Cause,
    /// Of the thread or softirq.
    pub name: String,
    /// Whether these functions gave the CPU up in the end. Else they were under way when the timer
    /// interrupt came.
    pub is_end: bool,
    /// Functions, the innermost first.
    pub functions: Vec<String>,
    pub sum_ns: u64,
    /// Samples that waited for it.
    pub samples: u64,
    /// The most in one sample.
    pub max_ns: u64,
}

impl StackRow {
    /// The cause and its name, in words.
    #[must_use]
    pub fn who(&self) -> String {
        let (cause, name) = (self.cause, self.name.clone());
        words::holder(&HolderFacts {
            cause,
            name,
            priority: None,
            work: None,
            sender: None,
            known: "seen",
            or: None,
        })
    }
}

/// Cause, name, whether it is the end, functions.
type Key = (Cause, String, bool, Vec<Arc<str>>);

/// Adds lateness up by stack.
#[derive(Debug, Default)]
pub(super) struct StackTally(HashMap<Key, (u64, u64, u64)>);

impl StackTally {
    /// Takes in a piece of `ns`; one without a stack is in no row.
    pub(super) fn take(&mut self, holder: &DelayHolder, ns: u64) {
        let (is_end, functions) = match (&*holder.stack, &*holder.ended) {
            ([], []) => return,
            ([], ended) => (true, ended),
            (stack, _) => (false, stack),
        };
        let key = (
            holder.cause,
            holder.name.clone(),
            is_end,
            functions.to_vec(),
        );
        if self.0.len() >= STACKS_MAX && !self.0.contains_key(&key) {
            return;
        }
        let (sum, samples, max) = self.0.entry(key).or_default();
        (*sum, *samples, *max) = (sum.saturating_add(ns), *samples + 1, ns.max(*max));
    }

    /// Most lateness first.
    pub(super) fn rows(self) -> Vec<StackRow> {
        let row =
            |((cause, name, is_end, functions), (sum_ns, samples, max_ns)): (Key, _)| StackRow {
                cause,
                name,
                is_end,
                functions: functions.iter().map(ToString::to_string).collect(),
                sum_ns,
                samples,
                max_ns,
            };
        let mut rows: Vec<StackRow> = self.0.into_iter().map(row).collect();
        rows.sort_by(|one, other| {
            other
                .sum_ns
                .cmp(&one.sum_ns)
                .then_with(|| one.functions.cmp(&other.functions))
        });
        rows
    }
}

/// Writes stacks folded, a line each, as flame graph tools read them: frames from the outermost to
/// the innermost, and ns.
///
/// # Errors
/// If it cannot be written.
pub fn write_folded(rows: &[StackRow], out: &mut dyn Write) -> io::Result<()> {
    for row in rows {
        // Frames are told apart by ";", and the last blank is before the number.
        write!(out, "{}", row.who().replace(';', ","))?;
        for function in row.functions.iter().rev() {
            write!(out, ";{}", function.replace(';', ","))?;
        }
        writeln!(out, " {}", row.sum_ns)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use tardy_trace::explain::Certainty;

    use super::*;

    fn holder(name: &str, stack: &[&str], ended: &[&str]) -> DelayHolder {
        let frames = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
        let (stack, ended) = (frames(stack), frames(ended));
        DelayHolder {
            cause: Cause::PreemptionOff,
            known: Certainty::Inferred,
            name: name.into(),
            priority: Some(120),
            work: None,
            stack,
            ended,
            sender: None,
        }
    }

    #[test]
    fn lateness_is_added_up_by_the_functions_that_were_interrupted() {
        let mut tally = StackTally::default();
        tally.take(
            &holder("dd", &["clear_page", "do_read"], &["__cond_resched"]),
            70,
        );
        tally.take(&holder("dd", &["clear_page", "do_read"], &[]), 30);
        tally.take(&holder("dd", &[], &["__cond_resched"]), 5);
        tally.take(&holder("dd", &[], &[]), 1_000);
        let rows = tally.rows();
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.is_end,
                    row.functions.len(),
                    row.sum_ns,
                    row.samples,
                    row.max_ns,
                )
            })
            .collect();
        assert_eq!(told, [(false, 2, 100, 2, 70), (true, 1, 5, 1, 5)]);
        let mut folded = Vec::new();
        write_folded(&rows, &mut folded).unwrap();
        let expected =
            "preemption off in dd;do_read;clear_page 100\npreemption off in dd;__cond_resched 5\n";
        assert_eq!(String::from_utf8(folded).unwrap(), expected);
    }
}
