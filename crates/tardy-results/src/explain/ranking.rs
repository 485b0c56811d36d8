//! Counts the wake-ups of a trace by holder and by component, and stores the worst wake-ups.

use std::collections::{BTreeSet, HashMap};

use tardy_samples::delay_totals::{DelayTotals, HOLDERS_MAX, OTHERS};
use tardy_trace::event::Thread;
use tardy_trace::explain::{Cause, Certainty, DueFrom, Holder, WakeUp};
use tardy_trace::symbols::Symbols;

use super::tally::LatenessBreakdown;
use super::{
    Explanation, HolderFacts, Ordinary, RuleRow, Story, ThreadFacts, Threshold, TraceFacts,
    WakeUpCounts,
};

/// Collects wake-ups one by one.
#[derive(Debug)]
pub(super) struct Ranking {
    threshold: Threshold,
    /// Maximum number of worst wake-ups that are shown as time lines.
    most: usize,
    counts: WakeUpCounts,
    pids: BTreeSet<i32>,
    thread: Option<Thread>,
    totals: DelayTotals,
    ordinary: DelayTotals,
    /// All holders; the totals identify each holder by its index in this list.
    holders: Vec<(Holder, Certainty)>,
    places: HashMap<(Holder, Certainty), usize>,
    /// The worst wake-ups, worst first.
    worst: Vec<WakeUp>,
}

impl Ranking {
    pub(super) fn new(threshold: Threshold, most: usize) -> Self {
        let others = Holder {
            name: "too many names".into(),
            ..Holder::of(Cause::Unknown)
        };
        Self {
            threshold,
            most,
            counts: WakeUpCounts::default(),
            pids: BTreeSet::new(),
            thread: None,
            totals: DelayTotals::default(),
            ordinary: DelayTotals::default(),
            holders: vec![(others, Certainty::Seen)],
            places: HashMap::new(),
            worst: Vec::new(),
        }
    }

    /// Returns the thread, with the name and priority of its last wake-up.
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
        let pieces = wake_up.pieces.iter();
        if i64::try_from(late).is_ok_and(|late| late <= self.threshold.above_ns.get()) {
            self.ordinary.take(
                late,
                &mut pieces.map(|piece| (piece.component, OTHERS, piece.length())),
            );
            return;
        }
        self.counts.ranked += 1;
        let (holders, places) = (&mut self.holders, &mut self.places);
        let mut pieces = pieces.map(|piece| {
            let holder = (piece.holder, piece.known);
            let is_room = holders.len() < HOLDERS_MAX;
            let place = *places.entry(holder).or_insert_with(|| {
                if !is_room {
                    return OTHERS;
                }
                holders.push(holder);
                holders.len() - 1
            });
            (piece.component, place, piece.length())
        });
        self.totals.take(late, &mut pieces);
        // If latencies are equal, the earlier wake-up stays in the list.
        let place = self.worst.partition_point(|other| other.lateness() >= late);
        if place < self.most {
            self.worst.insert(place, wake_up);
            self.worst.truncate(self.most);
        }
    }

    pub(super) fn explanation(
        self,
        trace: TraceFacts,
        rules: Vec<RuleRow>,
        unfinished: u64,
        symbols: &Symbols,
    ) -> Explanation {
        let tallied = LatenessBreakdown::new(&self.totals, |place| {
            let (holder, known) = &self.holders[place];
            HolderFacts::of(holder, *known, symbols)
        });
        let thread = self.thread.unwrap_or_default();
        Explanation {
            trace,
            thread: ThreadFacts {
                name: thread.name.to_string(),
                pids: self.pids,
                priority: thread.priority,
                period_ns: None,
            },
            wake_ups: WakeUpCounts {
                unfinished,
                ..self.counts
            },
            threshold: self.threshold,
            ordinary: Ordinary::of(&self.ordinary),
            unexplained_ns: tallied.unexplained_ns(),
            cannot_tell_ns: tallied.cannot_tell_ns(),
            lateness: tallied.lateness,
            components: tallied.components,
            holders: tallied.holders,
            worst: self
                .worst
                .iter()
                .map(|wake_up| Story::of(wake_up, symbols))
                .collect(),
            rules,
            left_out_of_perfetto: None,
        }
    }
}
