//! /proc/softirqs: how often each kind of softirq ran on each CPU
//! (Documentation/filesystems/proc.rst 1.2).

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};

use super::per_cpu_table::{columns, count_since, rows};
use super::root::Root;

/// Counts by kind (`TIMER`, `NET_RX`, `RCU`, ...) and CPU: since the start of the system, or
/// between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Softirqs {
    /// For each kind, the count on each CPU.
    pub kinds: BTreeMap<String, BTreeMap<CpuId, u64>>,
}

impl Softirqs {
    /// Reads `proc/softirqs`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(root: &Root) -> io::Result<Self> {
        root.read("proc/softirqs").map(|text| Self::parse(&text))
    }

    /// Parses the table; unknown lines are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let counts_of = |mut row: super::per_cpu_table::Row<'_>| {
            columns(text)
                .map_while(move |cpu| Some((cpu, row.next_count()?)))
                .collect()
        };
        let kinds = rows(text).map(|row| (row.label.to_owned(), counts_of(row)));
        Self {
            kinds: kinds
                .filter(|(_, counts): &(String, BTreeMap<CpuId, u64>)| !counts.is_empty())
                .collect(),
        }
    }

    /// Returns by how much the counts increased since `before`, for the CPUs in both readings.
    /// Counts that did not increase are left out.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let kinds = self.kinds.iter().filter_map(|(kind, counts)| {
            let old = before.kinds.get(kind)?;
            let grown = counts
                .iter()
                .filter_map(|(cpu, &after)| Some((*cpu, count_since(*old.get(cpu)?, after))));
            let grown: BTreeMap<CpuId, u64> = grown.filter(|&(_, count)| count > 0).collect();
            (!grown.is_empty()).then(|| (kind.clone(), grown))
        });
        Self {
            kinds: kinds.collect(),
        }
    }

    /// Returns the kinds of softirq that ran on any of `cpus`, and how often they ran on these
    /// CPUs. The largest sum comes first.
    #[must_use]
    pub fn on(&self, cpus: &CpuList) -> Vec<(&str, u64)> {
        let sums = self.kinds.iter().map(|(kind, counts)| {
            (
                kind.as_str(),
                counts
                    .iter()
                    .filter(|&(&cpu, _)| cpus.contains(cpu))
                    .map(|(_, count)| count)
                    .sum::<u64>(),
            )
        });
        let mut touching: Vec<_> = sums.filter(|&(_, count)| count > 0).collect();
        touching.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        touching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "                    CPU0       CPU1       \n          HI:          0          1\n       \
         TIMER:       7840       6832\n";
    const AFTER: &str = "                    CPU0       CPU1       \n          HI:          0          4\n       \
         TIMER:       7850       6833\n";

    #[test]
    fn the_difference_names_what_ran_on_the_given_cpus_largest_first() {
        let delta = Softirqs::parse(AFTER).since(&Softirqs::parse(BEFORE));
        assert_eq!(delta.on(&"1".parse().unwrap()), [("HI", 3), ("TIMER", 1)]);
        assert_eq!(delta.on(&"0".parse().unwrap()), [("TIMER", 10)]);
        assert!(!delta.kinds["HI"].contains_key(&CpuId(0)));
    }

    #[test]
    fn odd_tables_give_what_can_be_told_and_no_more() {
        assert_eq!(Softirqs::parse(""), Softirqs::default());
        let more_columns = Softirqs::parse("  CPU0 CPU1\n HI: 1 2 3 4\n TIMER: 9\n NET");
        assert_eq!(
            more_columns.kinds["HI"],
            BTreeMap::from([(CpuId(0), 1), (CpuId(1), 2)])
        );
        assert_eq!(more_columns.kinds["TIMER"], BTreeMap::from([(CpuId(0), 9)]));
        assert_eq!(more_columns.kinds.len(), 2);
    }

    #[test]
    fn counts_survive_json() {
        let read = Softirqs::parse(AFTER);
        assert_eq!(
            serde_json::from_str::<Softirqs>(&serde_json::to_string(&read).unwrap()).unwrap(),
            read
        );
    }
}
