//! Computes the bound of the scheduling latency according to the theory of de Oliveira, Casini, de
//! Oliveira and Cucinotta, "Demystifying the Real-Time Linux Scheduling Latency" (ECRTS 2020), from
//! watched intervals.
//!
//! Theorem 8: the latency is at most the least positive L with
//! `L = max(D_ST, D_POID) + D_PAIE + D_PSD + I(L)`, where I(L) is the time of hard interrupts
//! within L. In this module, all times are counted in instructions. The module reads no files.
//!
//! The plugin measures the terms of this bound. It reports only the longest interval of each term,
//! because the intervals of all terms would double the size of its output. If `__schedule` is
//! entered while preemption is off, the whole time since preemption was switched off belongs to
//! D_PSD (preemption off for scheduling). For the idle task, D_PAIE is the whole path from the due
//! time to the scheduler, because the idle task polls and cannot be preempted.
//!
//! The whole length of an interrupt is included if any part of it can lie within the latency. The
//! paper instead counts the interrupts that arrive in a window. This makes a difference because the
//! interrupt that makes the switch due starts before the switch is due.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limit of the bound, as a multiple of this sum: the bound without interrupts, plus the longest
/// interrupt of each kind. A bound above this limit counts as infinite.
const CONVERGENCE: u64 = 100;
const STEPS_MAX: u32 = 10_000;

/// What is assumed about interrupts within the latency (section 5 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// There is no interrupt, not even the one that makes the switch due.
    Nothing,
    /// There is one interrupt, as long as the longest of all interrupts.
    WorstSingle,
    /// There is one interrupt of each kind, as long as the longest of its kind.
    OneOfEach,
    /// Interrupts of each kind follow one another at their shortest observed distance. Each
    /// interrupt lasts as long as the longest of its kind.
    Sporadic,
    /// The interrupts of each kind are those of one observed window: the window in which interrupts
    /// of this kind took the most time. Each interrupt has its observed length.
    SlidingWindow,
    /// The number of interrupts of each kind is the largest number that any observed window
    /// contains. Each interrupt lasts as long as the longest of its kind.
    SlidingWindowWorst,
}

impl Interrupts {
    /// All assumptions.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::WorstSingle,
        Self::OneOfEach,
        Self::Sporadic,
        Self::SlidingWindow,
        Self::SlidingWindowWorst,
    ];

    /// Returns the assumption's name in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Nothing => "no interrupt",
            Self::WorstSingle => "the longest interrupt, once",
            Self::OneOfEach => "the longest of each kind, once",
            Self::Sporadic => "sporadic",
            Self::SlidingWindow => "sliding window",
            Self::SlidingWindowWorst => "sliding window, the longest of each kind",
        }
    }
}

/// The longest interval of each kind, in instructions. Instructions that were executed in hard
/// interrupts are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stretches {
    /// `D_POID`.
    pub before_scheduler: u64,
    /// `D_PAIE`.
    pub switch_due: u64,
    /// `D_PSD`.
    pub to_schedule: u64,
    /// `D_ST`.
    pub switch_tail: u64,
}

impl Stretches {
    /// Returns the maximum latency if there are no interrupts.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.before_scheduler
            .max(self.switch_tail)
            .saturating_add(self.switch_due)
            .saturating_add(self.to_schedule)
    }
}

/// The interrupts of one guest in one phase, by kind: when each started and how long it took, in
/// the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instances(BTreeMap<u64, Vec<(u64, u64)>>);

impl Instances {
    /// Adds an interrupt. Interrupts must be added in the order of time.
    pub fn add(&mut self, kind: u64, began: u64, length: u64) {
        self.0.entry(kind).or_default().push((began, length));
    }

    /// Returns the number of interrupts.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0
            .values()
            .map(|instances| instances.len() as u64)
            .sum()
    }
}

/// Returns the bound in instructions; `None` if it does not converge.
///
/// The whole length of an interrupt is included if any part of it can lie within the latency. So
/// the interrupt that makes the switch due counts, too.
#[must_use]
pub fn bound(stretches: Stretches, guests: &[Instances], interrupts: Interrupts) -> Option<u64> {
    let kinds = kinds(guests);
    let base = stretches.sum();
    let most = base
        .saturating_add(kinds.iter().map(|kind| kind.longest).sum())
        .saturating_mul(CONVERGENCE);
    let mut latency = base;
    for _ in 0..STEPS_MAX {
        let next = base.saturating_add(taken(&kinds, interrupts, latency));
        if next <= latency {
            return Some(latency);
        }
        if next > most {
            return None;
        }
        latency = next;
    }
    None
}

/// The interrupts of one kind.
struct OfKind<'a> {
    longest: u64,
    /// The shortest time from the start of an interrupt of this kind to the start of the next one.
    gap: Option<u64>,
    /// The interrupts of each guest.
    instances: Vec<&'a [(u64, u64)]>,
}

fn kinds(guests: &[Instances]) -> Vec<OfKind<'_>> {
    let mut kinds: BTreeMap<u64, OfKind<'_>> = BTreeMap::new();
    for (kind, instances) in guests.iter().flat_map(|guest| &guest.0) {
        let of_kind = kinds.entry(*kind).or_insert(OfKind {
            longest: 0,
            gap: None,
            instances: Vec::new(),
        });
        of_kind.longest = instances
            .iter()
            .map(|(_, length)| *length)
            .fold(of_kind.longest, u64::max);
        let gap = instances
            .windows(2)
            .map(|pair| pair[1].0.saturating_sub(pair[0].0))
            .min();
        of_kind.gap = of_kind.gap.into_iter().chain(gap).min();
        of_kind.instances.push(instances);
    }
    kinds.into_values().collect()
}

/// Returns how much time interrupts take in a window of this length.
fn taken(kinds: &[OfKind<'_>], interrupts: Interrupts, window: u64) -> u64 {
    let sum = |of: &dyn Fn(&OfKind<'_>) -> u64| kinds.iter().map(of).fold(0, u64::saturating_add);
    match interrupts {
        Interrupts::Nothing => 0,
        Interrupts::WorstSingle => kinds.iter().map(|kind| kind.longest).max().unwrap_or(0),
        Interrupts::OneOfEach => sum(&|kind| kind.longest),
        // An interrupt that started before the window may still run in the window.
        Interrupts::Sporadic => sum(&|kind| {
            let count = kind.gap.map_or(1, |gap| {
                window.saturating_add(kind.longest) / gap.max(1) + 1
            });
            kind.longest.saturating_mul(count)
        }),
        Interrupts::SlidingWindow => sum(&|kind| {
            kind.instances
                .iter()
                .map(|of| worst_window(of, window).1)
                .max()
                .unwrap_or(0)
        }),
        Interrupts::SlidingWindowWorst => sum(&|kind| {
            let count = kind
                .instances
                .iter()
                .map(|of| worst_window(of, window).0)
                .max()
                .unwrap_or(0);
            count.saturating_mul(kind.longest)
        }),
    }
}

/// Looks at the interrupts that lie at least partly in a window of this length, for all positions
/// of the window. Returns the largest number of such interrupts, and the largest sum of their whole
/// lengths. These two maxima may come from different positions.
fn worst_window(instances: &[(u64, u64)], window: u64) -> (u64, u64) {
    let (mut count, mut whole, mut sum, mut behind) = (0, 0, 0_u64, 0);
    for (first, (began, length)) in instances.iter().enumerate() {
        // The window starts when this interrupt ends.
        while behind < instances.len()
            && instances[behind].0 <= began.saturating_add(*length).saturating_add(window)
        {
            sum += instances[behind].1;
            behind += 1;
        }
        count = count.max((behind - first) as u64);
        whole = whole.max(sum);
        sum -= length;
    }
    (count, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRETCHES: Stretches = Stretches {
        before_scheduler: 100,
        switch_due: 5,
        to_schedule: 50,
        switch_tail: 30,
    };

    fn instances(of: &[(u64, u64, u64)]) -> Vec<Instances> {
        let mut guest = Instances::default();
        of.iter()
            .for_each(|&(kind, began, length)| guest.add(kind, began, length));
        vec![guest]
    }

    #[test]
    fn without_interrupts_it_is_the_longer_wait_and_the_way_through_the_scheduler() {
        assert_eq!(bound(STRETCHES, &[], Interrupts::Nothing), Some(155));
        assert_eq!(
            bound(
                Stretches {
                    switch_tail: 120,
                    ..STRETCHES
                },
                &[],
                Interrupts::Nothing
            ),
            Some(175)
        );
        for interrupts in Interrupts::ALL {
            assert_eq!(
                bound(STRETCHES, &[], interrupts),
                Some(155),
                "{interrupts:?}"
            );
        }
    }

    #[test]
    fn each_assumption_of_interrupts_adds_what_it_says() {
        // Two kinds of interrupts. An interrupt of the first kind takes 10, and another one, 1000
        // later, takes 20. Each interrupt of the second kind takes 7, and the first two of them
        // start 100 apart.
        let guests = instances(&[
            (1, 0, 10),
            (2, 500, 7),
            (2, 600, 7),
            (1, 1000, 20),
            (2, 5000, 7),
        ]);
        let found = |interrupts| bound(STRETCHES, &guests, interrupts);
        assert_eq!(found(Interrupts::WorstSingle), Some(155 + 20));
        assert_eq!(found(Interrupts::OneOfEach), Some(155 + 27));
        // The latency has room for one interrupt of the first kind, and for (window + 7) / 100 + 1
        // of the second kind.
        assert_eq!(found(Interrupts::Sporadic), Some(155 + 20 + 2 * 7));
        assert_eq!(found(Interrupts::SlidingWindow), Some(155 + 20 + 2 * 7));
        assert_eq!(
            found(Interrupts::SlidingWindowWorst),
            Some(155 + 20 + 2 * 7)
        );
        // In a longer latency, both interrupts of the first kind can occur. `SlidingWindowWorst`
        // counts each of them with the length of the longer one.
        let long = Stretches {
            before_scheduler: 1000,
            ..STRETCHES
        };
        assert_eq!(
            bound(long, &guests, Interrupts::SlidingWindow),
            Some(1055 + 30 + 14)
        );
        assert_eq!(
            bound(long, &guests, Interrupts::SlidingWindowWorst),
            Some(1055 + 40 + 14)
        );
    }

    #[test]
    fn interrupts_that_come_faster_than_they_end_have_no_bound() {
        let guests = instances(&[(1, 0, 90), (1, 90, 90), (1, 50_000, 90)]);
        assert_eq!(bound(STRETCHES, &guests, Interrupts::Sporadic), None);
        assert!(bound(STRETCHES, &guests, Interrupts::SlidingWindow).is_some());
    }

    #[test]
    fn of_several_guests_the_worst_counts() {
        let mut guests = instances(&[(1, 0, 10)]);
        guests.extend(instances(&[(1, 0, 30)]));
        assert_eq!(
            bound(STRETCHES, &guests, Interrupts::WorstSingle),
            Some(185)
        );
    }
}
