//! Wake-ups counted: by holder, by component, and the worst of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tardy_trace::event::Thread;
use tardy_trace::explain::{Cause, Component, DueFrom, Holder, Known, WakeUp};
use tardy_trace::symbols::Symbols;

use super::words::{self, known_word, or};
use super::{Explanation, Question, RuleRow, Story, ThreadFacts, TraceFacts, WakeUpCounts};

/// How late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// All latenesses together.
    pub sum_ns: u64,
    /// The least.
    pub min_ns: u64,
    /// Half are at most as late.
    pub median_ns: u64,
    /// 99 of 100 are at most as late.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// A part of the way.
#[derive(Debug, Serialize)]
pub struct ComponentRow {
    /// Which.
    pub component: Component,
    /// All of it.
    pub sum_ns: u64,
    /// Of a wake-up that has it.
    pub median_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Wake-ups that have it.
    pub wake_ups: u64,
}

/// Someone who held the processor.
#[derive(Debug, Serialize)]
pub struct HolderRow {
    /// What kept the thread waiting.
    pub cause: Cause,
    /// Of the interrupt, softirq or thread.
    pub name: String,
    /// The kernel's priority of a thread.
    pub priority: Option<i32>,
    /// The function that a kernel worker was busy with: its name, else its address.
    pub work: Option<String>,
    /// How that is known: `seen`, `inferred`, `cannot_tell`.
    pub known: &'static str,
    /// What it may have been as well.
    pub or: Option<Cause>,
    /// All of it.
    pub sum_ns: u64,
    /// Of all lateness, from 0 to 1.
    pub share: f64,
    /// Wake-ups that had to wait for it.
    pub wake_ups: u64,
    /// The most in one wake-up.
    pub max_ns: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Held {
    sum_ns: u64,
    wake_ups: u64,
    max_ns: u64,
}

impl Held {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.wake_ups += 1;
        self.max_ns = self.max_ns.max(ns);
    }
}

/// The most rows of holders: a trace of made-up names has no more memory.
const HOLDERS_MAX: usize = 100_000;

/// Takes wake-ups in.
#[derive(Debug)]
pub(super) struct Ranking<'a> {
    question: &'a Question,
    counts: WakeUpCounts,
    pids: BTreeSet<i32>,
    thread: Option<Thread>,
    latenesses: Vec<u64>,
    components: BTreeMap<Component, Vec<u64>>,
    holders: BTreeMap<(Holder, Known), Held>,
    /// The worst wake-ups, the worst first.
    worst: Vec<WakeUp>,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(question: &'a Question) -> Self {
        Self {
            question,
            counts: WakeUpCounts::default(),
            pids: BTreeSet::new(),
            thread: None,
            latenesses: Vec::new(),
            components: BTreeMap::new(),
            holders: BTreeMap::new(),
            worst: Vec::new(),
        }
    }

    /// The thread as it was woken last.
    pub(super) fn thread(&self) -> Option<Thread> {
        self.thread
    }

    pub(super) fn take(&mut self, wake_up: WakeUp) {
        self.thread = Some(wake_up.thread);
        self.pids.insert(wake_up.thread.pid);
        self.counts.all += 1;
        self.counts.timed += u64::from(wake_up.due_from == DueFrom::Timer);
        self.counts.periodic += u64::from(wake_up.due_from == DueFrom::Period);
        self.counts.lower_bounds += u64::from(wake_up.first_sign.is_some());
        let late = wake_up.lateness();
        if i64::try_from(late).is_ok_and(|late| late <= self.question.above.get()) {
            return;
        }
        self.counts.ranked += 1;
        self.latenesses.push(late);
        let (mut components, mut holders) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
        for piece in &wake_up.pieces {
            *components.entry(piece.component).or_default() += piece.length();
            *holders.entry((piece.holder, piece.known)).or_default() += piece.length();
        }
        for (component, ns) in components {
            self.components.entry(component).or_default().push(ns);
        }
        for (key, ns) in holders {
            if self.holders.len() < HOLDERS_MAX || self.holders.contains_key(&key) {
                self.holders.entry(key).or_default().add(ns);
            } else {
                let unknown = Holder { cause: Cause::Unknown, name: "too many names".into(), priority: None, work: None };
                self.holders.entry((unknown, Known::Seen)).or_default().add(ns);
            }
        }
        // Of equally late ones the first stays.
        let place = self.worst.partition_point(|other| other.lateness() >= late);
        if place < self.question.worst {
            self.worst.insert(place, wake_up);
            self.worst.truncate(self.question.worst);
        }
    }

    pub(super) fn explanation(self, trace: TraceFacts, rules: Vec<RuleRow>, unfinished: u64, symbols: &Symbols) -> Explanation {
        let lateness = Lateness::of(self.latenesses);
        let all = lateness.map_or(0, |lateness| lateness.sum_ns);
        let row = |(&(holder, known), held): (&(Holder, Known), &Held)| HolderRow {
            cause: holder.cause,
            name: holder.name.to_string(),
            priority: holder.priority,
            work: holder.work.map(|address| words::function(address, symbols)),
            known: known_word(known),
            or: or(known),
            sum_ns: held.sum_ns,
            share: if all == 0 { 0.0 } else { held.sum_ns as f64 / all as f64 },
            wake_ups: held.wake_ups,
            max_ns: held.max_ns,
        };
        let mut holders: Vec<HolderRow> = self.holders.iter().map(row).collect();
        holders.sort_by_key(|row| std::cmp::Reverse(row.sum_ns));
        let sum = |is_it: fn(&HolderRow) -> bool| holders.iter().filter(|row| is_it(row)).map(|row| row.sum_ns).sum();
        let thread = self.thread.unwrap_or_default();
        Explanation {
            trace,
            thread: ThreadFacts { name: thread.name.to_string(), pids: self.pids, priority: thread.priority, period_ns: None },
            wake_ups: WakeUpCounts { unfinished, ..self.counts },
            lateness,
            components: self.components.into_iter().filter_map(component_row).collect(),
            unexplained_ns: sum(|row| row.cause.is_unexplained()),
            cannot_tell_ns: sum(|row| row.or.is_some()),
            holders,
            worst: self.worst.iter().map(|wake_up| Story::of(wake_up, symbols)).collect(),
            rules,
            left_out_of_perfetto: None,
        }
    }
}

fn component_row((component, lengths): (Component, Vec<u64>)) -> Option<ComponentRow> {
    let wake_ups = lengths.len() as u64;
    let lateness = Lateness::of(lengths)?;
    Some(ComponentRow { component, sum_ns: lateness.sum_ns, median_ns: lateness.median_ns, max_ns: lateness.max_ns, wake_ups })
}

impl Lateness {
    /// Quantiles are values that occurred: the least that so many are not above.
    fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let at = |hundredths: usize| values.get((values.len() * hundredths).div_ceil(100).max(1) - 1).copied();
        Some(Self {
            sum_ns: values.iter().fold(0, |sum: u64, &value| sum.saturating_add(value)),
            min_ns: *values.first()?,
            median_ns: at(50)?,
            p99_ns: at(99)?,
            max_ns: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(Lateness::of(vec![]), None);
        assert_eq!(Lateness::of(vec![7]), Some(Lateness { sum_ns: 7, min_ns: 7, median_ns: 7, p99_ns: 7, max_ns: 7 }));
        let hundred = Lateness::of((1..=100).rev().collect()).expect("there are some");
        assert_eq!((hundred.median_ns, hundred.p99_ns, hundred.max_ns, hundred.sum_ns), (50, 99, 100, 5050));
    }
}
