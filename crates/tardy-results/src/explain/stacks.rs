//! Describes functions of the kernel that made samples late.

use std::io::{self, Write};

pub use tardy_samples::delay_totals::StackRow;

use super::HolderFacts;
use super::words;

/// Describes the cause to which the latency of a stack is attributed: its kind and its name.
#[must_use]
pub fn who(row: &StackRow) -> String {
    let (cause, name) = (row.cause, row.name.clone());
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

/// Writes folded stacks, the input of flame graph tools: one line per stack, with its cause, its
/// frames from the outermost to the innermost, and its time in ns.
///
/// # Errors
/// Fails if writing fails.
pub fn write_folded(rows: &[StackRow], out: &mut dyn Write) -> io::Result<()> {
    for row in rows {
        // In this format, ";" separates frames, and the time follows the last blank.
        write!(out, "{}", who(row).replace(';', ","))?;
        for function in row.functions.iter().rev() {
            write!(out, ";{}", function.replace(';', ","))?;
        }
        writeln!(out, " {}", row.sum_ns)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use tardy_samples::delay_totals::StackTotals;
    use tardy_samples::delays::DelayHolder;
    use tardy_trace::explain::{Cause, Certainty};

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
        let mut tally = StackTotals::default();
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
