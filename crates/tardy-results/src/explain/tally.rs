//! Lateness counted by who held the CPU, and by part of the way.

use std::collections::BTreeMap;

use serde::Serialize;
use tardy_core::histogram::{Budget, Histogram};
use tardy_trace::explain::Component;

use super::HolderFacts;

/// How late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// All latenesses together.
    pub sum_ns: u64,
    pub min_ns: u64,
    /// Half are at most as late.
    pub median_ns: u64,
    /// 99 of 100 are at most as late.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// A part of the way.
#[derive(Debug, Serialize)]
pub struct ComponentRow {
    pub component: Component,
    pub sum_ns: u64,
    /// Of a wake-up that has it.
    pub median_ns: u64,
    pub max_ns: u64,
    /// Wake-ups that have it.
    pub wake_ups: u64,
}

/// Someone who held the CPU.
#[derive(Debug, Serialize)]
pub struct HolderRow {
    /// Who.
    #[serde(flatten)]
    pub holder: HolderFacts,
    pub sum_ns: u64,
    /// Of all lateness, from 0 to 1.
    pub share: f64,
    /// Wake-ups that had to wait for it.
    pub wake_ups: u64,
    /// The most in one wake-up.
    pub max_ns: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct HolderTotal {
    sum_ns: u64,
    wake_ups: u64,
    max_ns: u64,
}

impl HolderTotal {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.wake_ups += 1;
        self.max_ns = self.max_ns.max(ns);
    }
}

/// Lengths of time: their sum, and quantiles that are values that occurred, as long as there are
/// not too many different ones.
#[derive(Debug)]
struct Lengths {
    histogram: Histogram,
    sum_ns: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(Budget::ANALYSIS),
            sum_ns: 0,
        }
    }
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.histogram.record(i64::try_from(ns).unwrap_or(i64::MAX));
    }

    /// Quantiles are the least values that so many are not above.
    fn lateness(&self) -> Option<Lateness> {
        let count = self.histogram.count();
        let rank = |hundredths: u64| (count * hundredths).div_ceil(100).max(1);
        let at: Vec<u64> = self
            .histogram
            .values_at(&[1, rank(50), rank(99), count])
            .into_iter()
            .flatten()
            .map(i64::unsigned_abs)
            .collect();
        let [min_ns, median_ns, p99_ns, max_ns] = at[..] else {
            return None;
        };
        Some(Lateness {
            sum_ns: self.sum_ns,
            min_ns,
            median_ns,
            p99_ns,
            max_ns,
        })
    }
}

/// The most rows of holders: a trace of made-up names has no more memory.
const HOLDERS_MAX: usize = 100_000;

/// Counts wake-ups. `K` tells holders apart.
#[derive(Debug)]
pub(super) struct Tally<K> {
    all: Lengths,
    components: BTreeMap<Component, Lengths>,
    holders: BTreeMap<K, HolderTotal>,
}

/// What was counted.
pub(super) struct LatenessBreakdown {
    pub(super) lateness: Option<Lateness>,
    /// In the order of the way.
    pub(super) components: Vec<ComponentRow>,
    /// Most lateness first.
    pub(super) holders: Vec<HolderRow>,
}

impl LatenessBreakdown {
    /// What of the lateness has no holder.
    pub(super) fn unexplained_ns(&self) -> u64 {
        self.sum(|row| row.holder.cause.is_unexplained())
    }

    /// What of it is one of two causes.
    pub(super) fn cannot_tell_ns(&self) -> u64 {
        self.sum(|row| row.holder.or.is_some())
    }

    fn sum(&self, is_it: impl Fn(&HolderRow) -> bool) -> u64 {
        self.holders
            .iter()
            .filter(|row| is_it(row))
            .map(|row| row.sum_ns)
            .sum()
    }
}

impl<K: Ord + Copy> Tally<K> {
    pub(super) fn new() -> Self {
        Self {
            all: Lengths::default(),
            components: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }

    /// Takes in a wake-up that was so late, with its pieces. `others` is who stands for all once
    /// there are too many.
    pub(super) fn take(
        &mut self,
        lateness: u64,
        pieces: impl Iterator<Item = (Component, K, u64)>,
        others: K,
    ) {
        self.all.add(lateness);
        let (mut components, mut holders) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
        for (component, holder, ns) in pieces {
            *components.entry(component).or_default() += ns;
            *holders.entry(holder).or_default() += ns;
        }
        for (component, ns) in components {
            self.components.entry(component).or_default().add(ns);
        }
        for (holder, ns) in holders {
            let is_room = self.holders.len() < HOLDERS_MAX || self.holders.contains_key(&holder);
            self.holders
                .entry(if is_room { holder } else { others })
                .or_default()
                .add(ns);
        }
    }

    /// What was counted, with holders in words.
    pub(super) fn finish(self, facts: impl Fn(&K) -> HolderFacts) -> LatenessBreakdown {
        let lateness = self.all.lateness();
        let all = self.all.sum_ns;
        let row = |(holder, held): (&K, &HolderTotal)| HolderRow {
            holder: facts(holder),
            sum_ns: held.sum_ns,
            share: if all == 0 {
                0.0
            } else {
                held.sum_ns as f64 / all as f64
            },
            wake_ups: held.wake_ups,
            max_ns: held.max_ns,
        };
        let mut holders: Vec<HolderRow> = self.holders.iter().map(row).collect();
        holders.sort_by_key(|row| std::cmp::Reverse(row.sum_ns));
        let component = |(&component, lengths): (&Component, &Lengths)| {
            let lateness = lengths.lateness()?;
            let Lateness {
                sum_ns,
                median_ns,
                max_ns,
                ..
            } = lateness;
            Some(ComponentRow {
                component,
                sum_ns,
                median_ns,
                max_ns,
                wake_ups: lengths.histogram.count(),
            })
        };
        LatenessBreakdown {
            lateness,
            components: self.components.iter().filter_map(component).collect(),
            holders,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let of = |values: &mut dyn Iterator<Item = u64>| {
            let mut lengths = Lengths::default();
            values.for_each(|value| lengths.add(value));
            lengths.lateness()
        };
        assert_eq!(of(&mut [].into_iter()), None);
        assert_eq!(
            of(&mut [7].into_iter()),
            Some(Lateness {
                sum_ns: 7,
                min_ns: 7,
                median_ns: 7,
                p99_ns: 7,
                max_ns: 7
            })
        );
        let hundred = of(&mut (1..=100).rev()).expect("there are some");
        assert_eq!(
            (
                hundred.median_ns,
                hundred.p99_ns,
                hundred.max_ns,
                hundred.sum_ns
            ),
            (50, 99, 100, 5050)
        );
    }
}
