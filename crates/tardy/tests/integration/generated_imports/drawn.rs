//! Draws random measurements, from which the writers make files.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// A thread's values in the tool's unit, each with its number of occurrences.
pub(super) struct Thread {
    pub(super) values: BTreeMap<u64, u64>,
}

/// A file as a tool writes it.
pub(super) struct File {
    pub(super) text: String,
    /// Whether the values are in ns instead of us, for formats whose text does not state the unit.
    pub(super) is_nanoseconds: bool,
}

pub(super) fn one_in(random: &mut Pcg64Mcg, count: u32) -> bool {
    random.random_range(0..count) == 0
}

impl Thread {
    /// Generates random latencies near `usual`, and sometimes a few much larger ones.
    pub(super) fn near(random: &mut Pcg64Mcg, usual: u64) -> Self {
        let most = 10_f64.powf(random.random_range(0.5..7.5)) as u64;
        let mut values = BTreeMap::new();
        for _ in 0..random.random_range(1..30) {
            let value = usual + random.random_range(0..=usual);
            *values.entry(value).or_default() += random.random_range(1..=most);
        }
        for _ in 0..random.random_range(0..4) {
            let late = usual as f64 * 10_f64.powf(random.random_range(0.2..2.5));
            *values.entry(late as u64).or_default() += random.random_range(1..4);
        }
        Self { values }
    }

    /// A thread that was stopped before its first sample.
    pub(super) fn idle() -> Self {
        Self {
            values: BTreeMap::new(),
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.values.values().sum()
    }

    pub(super) fn minimum(&self) -> Option<u64> {
        self.values.keys().next().copied()
    }

    pub(super) fn maximum(&self) -> Option<u64> {
        self.values.keys().next_back().copied()
    }

    pub(super) fn sum(&self) -> u64 {
        let values = self.values.iter();
        values.map(|(value, count)| value * count).sum()
    }

    /// The number of samples that are at least `from` and less than `to`.
    pub(super) fn within(&self, from: u64, to: u64) -> u64 {
        self.values.range(from..to).map(|(_, count)| count).sum()
    }

    pub(super) fn from(&self, value: u64) -> u64 {
        self.values.range(value..).map(|(_, count)| count).sum()
    }
}

/// Generates a few random threads, rarely many, with values in ns or us.
pub(super) fn threads(random: &mut Pcg64Mcg, is_nanoseconds: bool) -> Vec<Thread> {
    let count = if one_in(random, 20) {
        random.random_range(30..80)
    } else {
        random.random_range(1..7)
    };
    let usual = if is_nanoseconds {
        random.random_range(2_000..60_000)
    } else {
        random.random_range(2..60)
    };
    (0..count).map(|_| Thread::near(random, usual)).collect()
}

/// Generates `count` random CPU numbers in order, often with gaps.
pub(super) fn cpus(random: &mut Pcg64Mcg, count: usize) -> Vec<usize> {
    let mut next = random.random_range(0..3);
    let has_gaps = one_in(random, 2);
    (0..count)
        .map(|_| {
            let cpu = next;
            next += 1;
            if has_gaps {
                next += random.random_range(0..4);
            }
            cpu
        })
        .collect()
}
