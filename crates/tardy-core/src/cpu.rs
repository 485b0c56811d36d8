//! CPU numbers and lists of them, in the kernel's notation: `0-3,6`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A CPU's number in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A set of CPUs, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuList(BTreeSet<CpuId>);

/// Largest accepted CPU number. The kernel's own limit (NR_CPUS) is 8192 on x86-64.
pub const CPU_MAX: u32 = 8191;

impl CpuList {
    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().copied()
    }

    /// Returns whether the list contains `cpu`.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the CPUs of `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns the CPUs that are in both lists.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Parses a CPU mask of the kernel, such as `ff,00000003`: 32-bit words in hexadecimal, the
    /// highest first. Returns `None` for any other text.
    #[must_use]
    pub fn from_mask(mask: &str) -> Option<Self> {
        let words = mask
            .trim()
            .split(',')
            .rev()
            .map(|word| u32::from_str_radix(word, 16));
        let mut cpus = BTreeSet::new();
        for (first, word) in (0..=CPU_MAX).step_by(32).zip(words) {
            let word = word.ok()?;
            cpus.extend(
                (0..32)
                    .filter(|bit| word >> bit & 1 == 1)
                    .map(|bit| CpuId(first + bit)),
            );
        }
        Some(Self(cpus))
    }

    /// Returns the list as a mask that the kernel accepts.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(0, |last| last.0 / 32);
        let word = |word: u32| {
            (0..32)
                .filter(|bit| self.contains(CpuId(word * 32 + bit)))
                .fold(0_u32, |mask, bit| mask | 1 << bit)
        };
        let text: Vec<String> = (0..=words)
            .rev()
            .map(|at| {
                if at == words {
                    format!("{:x}", word(at))
                } else {
                    format!("{:08x}", word(at))
                }
            })
            .collect();
        text.join(",")
    }

    /// Returns the list with its noun, such as `CPU 1` or `CPUs 0-3`.
    #[must_use]
    pub fn named(&self) -> String {
        format!("CPU{} {self}", if self.len() == 1 { "" } else { "s" })
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        self.0.insert(cpu);
    }
}

impl FromIterator<CpuId> for CpuList {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| next.0 == last.0 + 1) {
                last = next;
            }
            if !text.is_empty() {
                text.push(',');
            }
            if first == last {
                text.push_str(&first.to_string());
            } else {
                text.push_str(&format!("{first}-{last}"));
            }
        }
        formatter.pad(&text)
    }
}

/// The text is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a list of CPUs: write numbers and ranges, as in 0-3,6")]
pub struct ParseCpuListError(String);

impl FromStr for CpuList {
    type Err = ParseCpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseCpuListError(text.to_owned());
        let number = |part: &str| {
            part.trim()
                .parse::<u32>()
                .ok()
                .filter(|&n| n <= CPU_MAX)
                .ok_or_else(error)
        };
        let mut cpus = BTreeSet::new();
        for part in text
            .trim()
            .split(',')
            .filter(|part| !part.trim().is_empty())
        {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(error());
            }
            cpus.extend((first..=last).map(CpuId));
        }
        Ok(Self(cpus))
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

impl TryFrom<String> for CpuList {
    type Error = ParseCpuListError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_notation_is_read_and_written() {
        let list: CpuList = "0-2,5,7-8\n".parse().unwrap();
        assert_eq!(
            list.iter().map(|cpu| cpu.0).collect::<Vec<_>>(),
            [0, 1, 2, 5, 7, 8]
        );
        assert_eq!(list.to_string(), "0-2,5,7-8");
        assert!("".parse::<CpuList>().unwrap().is_empty());
        assert_eq!(
            [list.named(), "3".parse::<CpuList>().unwrap().named()],
            ["CPUs 0-2,5,7-8", "CPU 3"]
        );
    }

    #[test]
    fn nonsense_is_refused_and_huge_ranges_too() {
        for text in ["a", "3-1", "1-", "-1", "0-99999999", "1;2"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn masks_are_read_from_their_end() {
        let read = |mask: &str| CpuList::from_mask(mask).map(|cpus| cpus.to_string());
        assert_eq!(read("3\n").as_deref(), Some("0-1"));
        assert_eq!(read("1,00000002").as_deref(), Some("1,32"));
        assert_eq!(read("0").as_deref(), Some(""));
        assert_eq!((read("nonsense"), read("")), (None, None));
        assert_eq!(CpuList::default().to_mask(), "0");
    }

    proptest! {
        #[test]
        fn any_set_survives_a_round_trip_through_a_mask(cpus in proptest::collection::btree_set(0_u32..300, 0..40)) {
            let list: CpuList = cpus.into_iter().map(CpuId).collect();
            prop_assert_eq!(CpuList::from_mask(&list.to_mask()).unwrap(), list);
        }

        #[test]
        fn any_set_survives_a_round_trip_through_text(cpus in proptest::collection::btree_set(0_u32..300, 0..40)) {
            let list: CpuList = cpus.into_iter().map(CpuId).collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }
    }
}
