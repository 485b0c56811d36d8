//! /proc/interrupts: the number of interrupts of each kind on every CPU, and by how much it
//! increased between two readings.
//!
//! Format: Documentation/filesystems/proc.rst 1.2, `show_interrupts` in kernel/irq/proc.c,
//! `arch_show_interrupts` of each architecture.

use std::collections::{BTreeMap, HashMap};
use std::io;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};

use super::per_cpu_table::{columns, count_since, rows};
use super::root::Root;

/// The counts of all interrupts at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interrupts {
    /// The CPUs that were online, in the order of the counts.
    pub cpus: Vec<CpuId>,
    /// The lines in the kernel's order, without those for the whole machine (`ERR`, `MIS`).
    pub lines: Vec<InterruptLine>,
}

/// The counts of one kind of interrupt since the start of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptLine {
    /// The interrupt's number if a device raises it; letters such as `LOC` or `IPI0` if the CPU
    /// itself does.
    pub label: String,
    /// Names of the chip, the trigger and the handlers, or the meaning of the letters; may be
    /// empty.
    pub description: String,
    /// The counts, in the order of [`Interrupts::cpus`]; shorter if the kernel printed fewer.
    pub counts: Vec<u64>,
}

/// By how much the counts increased between two readings. Lines and CPUs whose counts did not
/// increase are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptDelta {
    /// The lines, in the kernel's order.
    pub lines: Vec<InterruptLineDelta>,
}

/// By how much the counts of one kind of interrupt increased.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptLineDelta {
    /// See [`InterruptLine::label`].
    pub label: String,
    /// See [`InterruptLine::description`].
    pub description: String,
    /// Number of interrupts on each CPU between the readings.
    pub counts: BTreeMap<CpuId, u64>,
}

impl Interrupts {
    /// Reads `proc/interrupts`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(root: &Root) -> io::Result<Self> {
        root.read("proc/interrupts").map(|text| Self::parse(&text))
    }

    /// Parses the table; unknown lines are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let cpus: Vec<CpuId> = columns(text).collect();
        let mut lines = Vec::new();
        for mut row in rows(text).filter(|row| !row.is_machine_wide()) {
            let mut counts = Vec::with_capacity(cpus.len());
            while counts.len() < cpus.len()
                && let Some(count) = row.next_count()
            {
                counts.push(count);
            }
            if !counts.is_empty() {
                let description = row
                    .description()
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                lines.push(InterruptLine {
                    label: row.label.to_owned(),
                    description,
                    counts,
                });
            }
        }
        Self { cpus, lines }
    }

    /// Returns by how much the counts increased since `before`. A CPU that was offline at one of
    /// the readings is left out. An interrupt that is missing in `before` is counted from 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> InterruptDelta {
        let old_lines: HashMap<&str, &InterruptLine> = before
            .lines
            .iter()
            .map(|line| (line.label.as_str(), line))
            .collect();
        let old_columns: Vec<Option<usize>> = self
            .cpus
            .iter()
            .map(|cpu| before.cpus.iter().position(|old| old == cpu))
            .collect();
        let delta_of = |line: &InterruptLine| {
            let old = old_lines.get(line.label.as_str());
            let counts = line
                .counts
                .iter()
                .zip(&self.cpus)
                .zip(&old_columns)
                .filter_map(|((&after, &cpu), &column)| {
                    let before = match old {
                        Some(old) => *old.counts.get(column?)?,
                        None => column.map(|_| 0)?,
                    };
                    Some((cpu, count_since(before, after))).filter(|&(_, count)| count > 0)
                });
            InterruptLineDelta {
                label: line.label.clone(),
                description: line.description.clone(),
                counts: counts.collect(),
            }
        };
        InterruptDelta {
            lines: self
                .lines
                .iter()
                .map(delta_of)
                .filter(|line| !line.counts.is_empty())
                .collect(),
        }
    }
}

impl InterruptDelta {
    /// Returns the kinds of interrupt that occurred on any of `cpus`, with the counts on these CPUs
    /// only. The one with the largest sum comes first.
    #[must_use]
    pub fn on(&self, cpus: &CpuList) -> Vec<InterruptLineDelta> {
        let restricted = self.lines.iter().map(|line| InterruptLineDelta {
            counts: line
                .counts
                .iter()
                .filter(|&(&cpu, _)| cpus.contains(cpu))
                .map(|(&cpu, &count)| (cpu, count))
                .collect(),
            ..line.clone()
        });
        let mut touching: Vec<_> = restricted.filter(|line| !line.counts.is_empty()).collect();
        touching.sort_by_key(|line| std::cmp::Reverse(line.total()));
        touching
    }
}

impl InterruptLineDelta {
    /// Returns the sum over the CPUs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the device's interrupt number; `None` for interrupts of the CPU itself (timer,
    /// inter-CPU), which cannot be moved.
    #[must_use]
    pub fn irq(&self) -> Option<u32> {
        self.label.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &str = "           CPU0       CPU2       \n 24:          1          0  IO-APIC   \
                       5-edge      ACPI:Ged\n 28:          7         90 PCI-MSIX-0000:00:01.0   \
                       0-edge      virtio0-config, other device\nLOC:      25256      52952   \
                       Local timer interrupts\nERR:          0\nMIS:          3\n";
    const ARM: &str = "           CPU0       CPU1       \n 11:       1000       2000     GICv3  \
                       30 Level     arch_timer\nIPI0:       100         200       Rescheduling \
                       interrupts\nErr:          0\n";

    fn cpus(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn names_with_blanks_offline_cpus_and_machine_wide_lines_are_told_apart() {
        let read = Interrupts::parse(X86);
        assert_eq!(read.cpus, [CpuId(0), CpuId(2)]);
        assert_eq!(
            read.lines
                .iter()
                .map(|line| line.label.as_str())
                .collect::<Vec<_>>(),
            ["24", "28", "LOC"]
        );
        assert_eq!(read.lines[1].counts, [7, 90]);
        assert_eq!(
            read.lines[1].description,
            "PCI-MSIX-0000:00:01.0 0-edge virtio0-config, other device"
        );
        let arm = Interrupts::parse(ARM);
        assert_eq!(arm.lines[0].description, "GICv3 30 Level arch_timer");
        assert_eq!(arm.lines.len(), 2);
    }

    #[test]
    fn a_description_that_begins_with_a_number_is_not_a_count() {
        let read = Interrupts::parse("  CPU0\n 1: 5 8259 timer\n");
        assert_eq!(
            (
                read.lines[0].counts.as_slice(),
                read.lines[0].description.as_str()
            ),
            (&[5][..], "8259 timer")
        );
    }

    #[test]
    fn odd_tables_give_what_can_be_told_and_no_more() {
        assert_eq!(Interrupts::parse(""), Interrupts::default());
        assert!(Interrupts::parse("no table\nat all\n").lines.is_empty());
        let short = Interrupts::parse("  CPU0 CPU1 CPU2\n 1: 5 6\n 2:\n 3: 1 2 3 x");
        assert_eq!(short.lines.len(), 1);
        assert_eq!(short.lines[0].counts, [5, 6]);
    }

    #[test]
    fn the_difference_is_taken_by_cpu_and_label_not_by_place() {
        let before = Interrupts::parse(
            "  CPU0 CPU1 CPU2\n 1: 10 20 30 a\n 9: 1 1 1 gone\n LOC: 5 5 5 timer\n",
        );
        let after = Interrupts::parse(
            "  CPU0 CPU2 CPU3\n 5: 4 0 9 new\n 1: 10 37 99 a\n LOC: 6 9 1 timer\n",
        );
        let delta = after.since(&before);
        let labels: Vec<_> = delta
            .lines
            .iter()
            .map(|line| (line.label.as_str(), line.counts.clone()))
            .collect();
        assert_eq!(
            labels,
            [
                ("5", BTreeMap::from([(CpuId(0), 4)])),
                ("1", BTreeMap::from([(CpuId(2), 7)])),
                ("LOC", BTreeMap::from([(CpuId(0), 1), (CpuId(2), 4)])),
            ]
        );
        assert_eq!(delta.lines[1].irq(), Some(1));
        assert_eq!(delta.lines[2].irq(), None);
    }

    #[test]
    fn what_touched_the_given_cpus_comes_largest_first() {
        let before = Interrupts::parse("  CPU0 CPU1\n 1: 0 0 a\n 2: 0 0 b\n 3: 0 0 c\n");
        let after = Interrupts::parse("  CPU0 CPU1\n 1: 900 1 a\n 2: 0 7 b\n 3: 5 0 c\n");
        let touching = after.since(&before).on(&cpus("1"));
        assert_eq!(
            touching
                .iter()
                .map(|line| (line.label.as_str(), line.total()))
                .collect::<Vec<_>>(),
            [("2", 7), ("1", 1)]
        );
    }

    #[test]
    fn a_delta_survives_json_and_fields_of_a_later_version_are_skipped() {
        let delta = Interrupts::parse(X86).since(&Interrupts::parse("  CPU0 CPU2\n"));
        let json = serde_json::to_string(&delta).unwrap();
        assert_eq!(
            serde_json::from_str::<InterruptDelta>(&json).unwrap(),
            delta
        );
        let later = r#"{"lines":[{"label":"1","later":[1],"counts":{"3":4}}],"more":{}}"#;
        assert_eq!(
            serde_json::from_str::<InterruptDelta>(later).unwrap().lines[0].total(),
            4
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[ CPU0-9:a\n]{0,200}") {
            let read = Interrupts::parse(&text);
            prop_assert!(read.lines.iter().all(|line| line.counts.len() <= read.cpus.len()));
            prop_assert!(read.since(&read).lines.is_empty());
        }
    }
}
