//! The format of /proc/interrupts and /proc/softirqs: a table with one column per CPU.
//!
//! The header names the columns (`CPU0 CPU2 ...`). /proc/interrupts lists the online CPUs
//! (`show_interrupts` in kernel/irq/proc.c), /proc/softirqs the possible CPUs (fs/proc/softirqs.c).
//! A row consists of a label, a colon, at most one count per column, and, for interrupts, a
//! description that may contain blanks.

use tardy_core::cpu::CpuId;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) label: &'a str,
    rest: &'a str,
}

impl<'a> Row<'a> {
    /// Returns the count for the next column; `None` after the last count.
    ///
    /// The caller must not ask for more counts than there are columns, because a description may
    /// start with a number.
    pub(super) fn next_count(&mut self) -> Option<u64> {
        let rest = self.rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let count = rest[..end].parse().ok()?;
        self.rest = &rest[end..];
        Some(count)
    }

    /// Returns the text that follows the counts.
    pub(super) fn description(&self) -> &'a str {
        self.rest.trim()
    }

    /// Returns whether the row has one count for the whole machine: `ERR` and `MIS` on x86, `Err`
    /// on Arm.
    pub(super) fn is_machine_wide(&self) -> bool {
        self.label.eq_ignore_ascii_case("err") || self.label == "MIS"
    }
}

/// Returns the CPUs of the header, in the order of the columns.
pub(super) fn columns(text: &str) -> impl Iterator<Item = CpuId> + '_ {
    let header = complete_lines(text).next().unwrap_or("");
    header
        .split_whitespace()
        .map_while(|name| name.strip_prefix("CPU")?.parse().ok().map(CpuId))
}

/// Returns the rows below the header.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    complete_lines(text).skip(1).filter_map(|line| {
        let (label, rest) = line.split_once(':')?;
        Some(Row {
            label: label.trim(),
            rest,
        })
    })
}

/// Returns the complete lines, which end with a line feed. A last line without a line feed may have
/// been cut within a number.
fn complete_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}

/// Returns how much a counter increased. The kernel stores these counters in 32 bits
/// (`struct irqstat`, `kernel_stat::softirqs`), so the count of a local timer at 1 kHz overflows
/// after 50 days. If the counter decreased although its old value was in the lower half of the
/// range, it did not overflow: the interrupt was freed and requested again, which reset the
/// counter. In this case, the current value is returned; the true increase can be larger.
pub(super) fn count_since(before: u64, after: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    match after.checked_sub(before) {
        Some(difference) => difference,
        None if (WRAP / 2..WRAP).contains(&before) => after + WRAP - before,
        None => after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_passed_32_bits_goes_on_and_one_begun_anew_counts_from_zero() {
        assert_eq!(count_since(5, 12), 7);
        assert_eq!(count_since(u64::from(u32::MAX) - 1, 3), 5);
        assert_eq!(count_since(1000, 3), 3);
    }

    #[test]
    fn a_cut_last_line_is_dropped() {
        let text = " CPU0 CPU1\n 1: 10 20 chip\n 2: 30 4";
        assert_eq!(rows(text).map(|row| row.label).collect::<Vec<_>>(), ["1"]);
        assert_eq!(columns(text).map(|cpu| cpu.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(columns(" CPU0 CP").count(), 0);
        assert_eq!(columns("").count() + rows("").count(), 0);
    }
}
