//! Sums latency by holder of the CPU and by component.

use serde::Serialize;
use tardy_samples::delay_totals::DelayTotals;
pub use tardy_samples::delay_totals::{ComponentRow, Lateness};

use super::HolderFacts;

/// A holder of the CPU, and the latency that it caused.
#[derive(Debug, Serialize)]
pub struct HolderRow {
    #[serde(flatten)]
    pub holder: HolderFacts,
    pub sum_ns: u64,
    /// Share of the total latency, from 0 to 1.
    pub share: f64,
    /// Number of wake-ups that this holder delayed.
    pub wake_ups: u64,
    /// Largest latency that this holder caused in one wake-up.
    pub max_ns: u64,
}

/// The counted latencies, by component and by holder.
pub(super) struct LatenessBreakdown {
    pub(super) lateness: Option<Lateness>,
    /// Components in chronological order.
    pub(super) components: Vec<ComponentRow>,
    /// Holders sorted by the latency that they caused, largest first.
    pub(super) holders: Vec<HolderRow>,
}

impl LatenessBreakdown {
    /// Converts `totals`. `facts` returns the holder with a given index.
    pub(super) fn new(totals: &DelayTotals, facts: impl Fn(usize) -> HolderFacts) -> Self {
        let lateness = totals.lateness();
        let all = lateness.map_or(0, |lateness| lateness.sum_ns);
        let mut holders: Vec<HolderRow> = totals
            .holders()
            .iter()
            .map(|(&place, held)| HolderRow {
                holder: facts(place),
                sum_ns: held.sum_ns,
                share: if all == 0 {
                    0.0
                } else {
                    held.sum_ns as f64 / all as f64
                },
                wake_ups: held.wake_ups,
                max_ns: held.max_ns,
            })
            .collect();
        holders.sort_by_key(|row| std::cmp::Reverse(row.sum_ns));
        Self {
            lateness,
            components: totals.components(),
            holders,
        }
    }

    /// Returns the sum of the latency for which no holder is known.
    pub(super) fn unexplained_ns(&self) -> u64 {
        self.sum(|row| row.holder.cause.is_unexplained())
    }

    /// Returns the sum of the latency that has two possible causes.
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
