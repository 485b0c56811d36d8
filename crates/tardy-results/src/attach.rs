//! The latencies of a running program's wake-ups, as `tardy attach` shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::verdict::{Evidence, Outcome, Verdict, Window, judge};
use tardy_samples::cycles::Cycles;
use tardy_samples::cycles::cut::told_waker;
use tardy_samples::wake_up_kind::{WakeUpKind, WokenBy};
use tardy_samples::wake_up_tally::{OTHERS, TallyRow, WORST_MAX, WakeUpTally};
use tardy_trace::timers::{TimerClock, TimerCounts, TimerKind};
use tardy_trace::wake_ups::{Cause, Parts, WakeUp, WakingCounts};

use crate::exit::Exit;
use crate::explain::LoopRow;
use crate::explain::cycles::loops;

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachEnd {
    /// The requested time has passed.
    Finished,
    /// A signal ended the recording.
    Interrupted,
    /// The program ended.
    ProcessEnded,
    /// The trace became unusable.
    TraceEnded,
    /// A latency above the limit ended the recording (`--on-threshold`).
    Threshold,
}

/// The recorded program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachedProcess {
    pub id: u32,
    pub name: String,
    /// The single thread that was recorded, if the user asked for one.
    pub thread: Option<u32>,
}

/// The trace of the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachTrace {
    /// Number of events that were read.
    pub events: u64,
    /// Number of gaps in the trace where events were lost.
    pub losses: u64,
    /// Number of lost events that the kernel counted; it may have lost more.
    pub lost_events: u64,
    /// Number of gaps in which only events that explain cycles were lost. All wake-ups in these
    /// gaps were recorded.
    pub explanation_losses: u64,
    /// Number of lost events that explain cycles, and are not needed to measure latencies.
    pub lost_explanations: u64,
    /// Reason, other than lost events, why the recording is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// How often the timers of one kind ended in each outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KindCounts {
    pub timer: TimerKind,
    #[serde(flatten)]
    pub counts: TimerCounts,
}

/// Median, 99 % quantile and maximum of a latency, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Figures {
    pub median_ns: Nanos,
    pub p99_ns: Nanos,
    pub max_ns: Nanos,
}

/// All wake-ups of one kind of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    pub thread: i32,
    pub name: String,
    /// The kind of wake-up, as in the name of the series.
    pub kind: String,
    /// The name of the series in a run folder. If several threads have the same name, their series
    /// are numbered.
    pub series: String,
    pub woken_by: WokenBy,
    /// The kind of timer; absent if no timer of the program woke the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerKind>,
    pub wake_ups: u64,
    /// Number of wake-ups that missed the deadline; absent if there is no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Number of wake-ups whose latency is only a lower bound, because the trace has no switch to
    /// the thread.
    pub unseen: u64,
    #[serde(flatten)]
    pub lateness: Figures,
    /// The parts of the latency that this kind of wake-up has, in chronological order. Quantiles of
    /// parts do not add up to the quantile of their sum.
    pub parts: Vec<PartFigures>,
}

/// A part of the latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartFigures {
    pub part: &'static str,
    #[serde(flatten)]
    pub figures: Figures,
}

/// One of the wake-ups with the largest latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorstWakeUp {
    pub thread: i32,
    pub name: String,
    /// The kind of wake-up, as in the name of the series.
    pub kind: String,
    /// The waker of the thread; absent if a timer of the program woke it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<TimerClock>,
    pub cpu: u32,
    /// The due time, always on the monotonic clock, even if the timer uses another clock.
    pub due_ns: Nanos,
    /// Time since the start of the recording.
    pub at_ns: Nanos,
    pub lateness_ns: Nanos,
    /// The parts of the latency in ns. Their sum is the latency.
    pub parts: BTreeMap<&'static str, i64>,
}

/// Number of wake-ups caused by the timers of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockCount {
    pub clock: TimerClock,
    pub wake_ups: u64,
}

/// What `tardy attach` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttachResult {
    /// The program; absent if every real-time thread of the machine was recorded.
    pub process: Option<AttachedProcess>,
    /// The functions between which time was measured; absent if wake-ups were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<[String; 2]>,
    /// Number of recorded threads, including those that no timer woke.
    pub threads_followed: usize,
    pub end: AttachEnd,
    /// Start of the recording on the monotonic clock.
    pub begin_ns: Nanos,
    pub length_ns: Nanos,
    /// Latencies of all threads together; absent if no thread woke up.
    pub all: Option<Figures>,
    pub wake_ups: u64,
    /// The threads, worst first.
    pub threads: Vec<ThreadRow>,
    pub timers: Vec<KindCounts>,
    /// How often the threads' wake-ups had each outcome.
    pub wakings: WakingCounts,
    /// Number of wake-ups that were not caused by the threads' timers.
    pub other_wake_ups: u64,
    pub clocks: Vec<ClockCount>,
    /// The worst wake-ups, worst first.
    pub worst: Vec<WorstWakeUp>,
    /// What the threads did between their sleeps, and the longest cycles.
    pub cycles: Cycles,
    /// The threads to which the rules for real-time loops apply.
    pub loops: Vec<LoopRow>,
    pub trace: AttachTrace,
    /// Notes that a reader needs to understand the numbers.
    pub notes: Vec<String>,
    /// The part of `notes` that explains why wake-ups may be missing.
    #[serde(skip)]
    pub unsure: Vec<String>,
    /// The verdict on the deadline; absent if there is no deadline.
    pub verdict: Option<Verdict>,
    /// The run folder, if one was written.
    pub folder: Option<String>,
}

/// Facts about the recording, apart from its wake-ups.
#[derive(Debug, Clone)]
pub struct AttachFacts {
    pub process: Option<AttachedProcess>,
    /// The functions between which time was measured; absent if wake-ups were measured.
    pub functions: Option<[String; 2]>,
    pub end: AttachEnd,
    pub begin: Nanos,
    pub length: Nanos,
    /// Number of threads that were followed.
    pub threads: usize,
    /// The most recent name of each followed thread, and of each thread that woke one of them.
    pub names: BTreeMap<i32, String>,
    pub counts: Vec<(TimerKind, TimerCounts)>,
    pub wakings: WakingCounts,
    pub other_wake_ups: u64,
    pub cycles: Cycles,
    /// The reason why the functions in which threads slept are unknown; absent if they are known.
    pub no_stacks: Option<String>,
    pub trace: AttachTrace,
    pub folder: Option<String>,
}

/// Counts wake-ups, and computes the result.
#[derive(Debug)]
pub struct Tally {
    requirement: Requirement,
    counts: WakeUpTally,
}

/// Returns the requirement that the wake-ups must meet.
#[must_use]
pub fn requirement(deadline: Option<Nanos>, misses: Option<f64>) -> Requirement {
    Requirement {
        misses_allowed: misses,
        ..Requirement::window(deadline.map(Window::deadline))
    }
}

impl Tally {
    /// Creates an empty tally. `deadline` is the requirement's deadline; `misses` is the fraction
    /// of wake-ups that may exceed it.
    #[must_use]
    pub fn new(deadline: Option<Nanos>, misses: Option<f64>) -> Self {
        let requirement = requirement(deadline, misses);
        Self {
            counts: WakeUpTally::new(requirement.window),
            requirement,
        }
    }

    /// Returns the tally for a recording without a set end, see [`WakeUpTally::bounded`].
    #[must_use]
    pub fn bounded(self) -> Self {
        Self {
            counts: self.counts.bounded(),
            ..self
        }
    }

    /// Counts a wake-up.
    pub fn add(&mut self, wake_up: &WakeUp, kind: &WakeUpKind) {
        self.counts.add(wake_up, kind);
    }

    /// Computes the result of the recording.
    #[must_use]
    pub fn result(mut self, mut attached: AttachFacts) -> AttachResult {
        attached.cycles.worst.truncate(WORST_MAX);
        let loops = loops(&attached.cycles);
        // The rules are not stored twice: `loops` contains them, together with their texts.
        attached.cycles.rules.clear();
        attached.names.insert(OTHERS, "others".to_owned());
        let name = |thread: i32| attached.names.get(&thread).cloned().unwrap_or_default();
        let has_deadline = self.requirement.window.is_some();
        let rows = self.counts.rows();
        let row = |row: &&TallyRow| thread_row(row, name(row.thread), has_deadline);
        let mut threads: Vec<ThreadRow> = rows.iter().filter_map(row).collect();
        threads.sort_by_key(|row| std::cmp::Reverse(row.lateness.max_ns));
        let begin = attached.begin;
        let told = |(wake_up, kind): &(WakeUp, WakeUpKind)| WorstWakeUp {
            thread: wake_up.thread,
            name: name(wake_up.thread),
            kind: kind.name(),
            by: match wake_up.cause {
                Cause::Timer { .. } | Cause::Functions => None,
                cause => told_waker(cause.waker(), &name),
            },
            timer: kind.timer(),
            clock: clock_of(wake_up),
            cpu: wake_up.cpu,
            due_ns: Nanos(wake_up.due),
            at_ns: Nanos(wake_up.due) - begin,
            lateness_ns: Nanos(wake_up.lateness()),
            parts: Parts::NAMES
                .into_iter()
                .zip(wake_up.parts.values())
                .skip(parts_before(kind.woken_by()))
                .collect(),
        };
        let timers: Vec<KindCounts> = attached
            .counts
            .iter()
            .filter(|(_, counts)| counts.started > 0)
            .map(|&(timer, counts)| KindCounts { timer, counts })
            .collect();
        let unsure = unsure(&timers, attached.wakings, &attached.trace);
        let mut notes = unsure.clone();
        notes.extend(self.notes(attached.wakings, &threads));
        let trace = &attached.trace;
        notes.extend((trace.explanation_losses > 0).then(|| {
            format!(
                "the kernel's trace lost {} events that explain cycles, at {} places: {} cycles \
                 were cut off, and rules may have been broken more often than counted. All \
                 wake-ups at these places were recorded",
                trace.lost_explanations, trace.explanation_losses, attached.cycles.cut_off
            )
        }));
        notes.extend(attached.no_stacks.as_ref().map(|why| {
            format!(
                "the kernel does not record where threads sleep ({why}), so every sleep ends a \
                 cycle"
            )
        }));
        AttachResult {
            all: figures(self.counts.all()),
            wake_ups: self.counts.all().count(),
            verdict: has_deadline.then(|| self.verdict(attached.length, unsure.clone())),
            clocks: self
                .counts
                .clocks()
                .iter()
                .map(|(&clock, &wake_ups)| ClockCount { clock, wake_ups })
                .collect(),
            worst: self.counts.worst().iter().map(told).collect(),
            threads,
            timers,
            notes,
            unsure,
            wakings: attached.wakings,
            process: attached.process,
            functions: attached.functions,
            threads_followed: attached.threads,
            end: attached.end,
            begin_ns: begin,
            length_ns: attached.length,
            other_wake_ups: attached.other_wake_ups,
            cycles: attached.cycles,
            loops,
            trace: attached.trace,
            folder: attached.folder,
        }
    }

    fn verdict(&self, measured: Nanos, incomplete: Vec<String>) -> Verdict {
        let evidence = Evidence {
            misses: self.counts.rows().iter().map(|row| row.misses).sum(),
            due_times: self.counts.all().count(),
            measured,
            incomplete,
            ..Evidence::default()
        };
        judge(&self.requirement, evidence)
    }

    fn notes(&self, wakings: WakingCounts, threads: &[ThreadRow]) -> Vec<String> {
        let mut notes = Vec::new();
        let unmeasured = wakings.no_entry + wakings.unknown_timer;
        if unmeasured * 10 > wakings.wakings && unmeasured > 1 {
            notes.push(format!(
                "{unmeasured} of {} wake-ups have no latency, because the trace does not show \
                 when they were due",
                wakings.wakings
            ));
        }
        let unseen: u64 = threads.iter().map(|row| row.unseen).sum();
        // A few wake-ups are normally not followed by a switch to the thread, because a thread may
        // be woken while it is still going to sleep.
        if unseen * 10 > self.counts.all().count() {
            notes.push(format!(
                "the trace has no switch to the thread for {unseen} of {} wake-ups: their latency \
                 ends at the wake-up, and is a lower bound",
                self.counts.all().count()
            ));
        }
        if let Some(set) = self.counts.clocks().get(&TimerClock::Set) {
            notes.push(format!(
                "the clock of {set} timers was set before they expired: the latency of these \
                 wake-ups starts at the timer interrupt, and is a lower bound"
            ));
        }
        notes
    }
}

/// Returns the row of a thread and kind, for people; `None` if it has no wake-ups.
fn thread_row(row: &TallyRow, name: String, has_deadline: bool) -> Option<ThreadRow> {
    let part = |(part, histogram): (&'static str, &Histogram)| {
        Some(PartFigures {
            part,
            figures: figures(histogram)?,
        })
    };
    let kind = &row.kind;
    Some(ThreadRow {
        thread: row.thread,
        series: kind.series(&name),
        name,
        kind: kind.name(),
        woken_by: kind.woken_by(),
        timer: kind.timer(),
        wake_ups: row.lateness.count(),
        misses: has_deadline.then_some(row.misses),
        unseen: row.unseen,
        lateness: figures(&row.lateness)?,
        parts: Parts::NAMES
            .into_iter()
            .zip(&row.parts)
            .skip(parts_before(kind.woken_by()))
            .filter_map(part)
            .collect(),
    })
}

impl AttachResult {
    /// Returns the exit code of the command.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match (
            self.verdict.as_ref().map(|verdict| verdict.outcome),
            self.end,
        ) {
            (Some(Outcome::Failed), _) => Exit::Failed,
            (Some(Outcome::Inconclusive), _) => Exit::Inconclusive,
            _ if !self.unsure.is_empty() || self.wake_ups == 0 => Exit::Inconclusive,
            (_, AttachEnd::Interrupted) => Exit::Interrupted,
            _ => Exit::Done,
        }
    }
}

/// Returns how many parts of the latency are missing if the wake-up was caused by `by`. These are
/// the first in [`Parts::NAMES`].
fn parts_before(by: WokenBy) -> usize {
    match by {
        WokenBy::Timer => 0,
        WokenBy::Interrupt | WokenBy::Softirq => 3,
        WokenBy::Thread => 4,
        WokenBy::Functions => Parts::NAMES.len(),
    }
}

fn clock_of(wake_up: &WakeUp) -> Option<TimerClock> {
    match wake_up.cause {
        Cause::Timer { clock, .. } => Some(clock),
        _ => None,
    }
}

/// Returns the reasons why wake-ups may be missing.
fn unsure(timers: &[KindCounts], wakings: WakingCounts, trace: &AttachTrace) -> Vec<String> {
    let lost: u64 = timers.iter().map(|row| row.counts.lost).sum();
    let words = (lost > 0 || wakings.lost > 0 || trace.losses > 0).then(|| {
        format!(
            "the kernel's trace lost {} events at {} places: the expiry of {lost} timers and the \
             latency of {} wake-ups are unknown",
            trace.lost_events, trace.losses, wakings.lost
        )
    });
    trace.incomplete.iter().cloned().chain(words).collect()
}

/// Returns the median, the 99 % quantile and the largest value; `None` if there are no values.
fn figures(histogram: &Histogram) -> Option<Figures> {
    let count = histogram.count();
    let values = histogram.values_at(&[count.div_ceil(2), count - count / 100]);
    Some(Figures {
        median_ns: Nanos((*values.first()?)?),
        p99_ns: Nanos((*values.get(1)?)?),
        max_ns: Nanos(histogram.max()?),
    })
}

#[cfg(test)]
mod tests {
    use tardy_samples::wake_up_tally::ROWS_MAX;
    use tardy_trace::wake_ups::Start;

    use super::*;

    const SLEEP: WakeUpKind = WakeUpKind::Timer(TimerKind::Sleep);

    fn wake_up(thread: i32, due: i64, switch: i64) -> WakeUp {
        WakeUp {
            thread,
            cause: Cause::Timer {
                kind: TimerKind::Sleep,
                clock: TimerClock::Monotonic,
            },
            cpu: 1,
            due,
            ran: due + 60 + switch,
            parts: Parts {
                slack: 50,
                timer: 10,
                switch,
                ..Parts::default()
            },
            start: Start::Switch,
        }
    }

    fn attached(counts: TimerCounts, losses: u64) -> AttachFacts {
        AttachFacts {
            functions: None,
            process: Some(AttachedProcess {
                id: 7,
                name: "loop".into(),
                thread: None,
            }),
            end: AttachEnd::Finished,
            begin: Nanos(1_000),
            length: Nanos(1_000_000_000),
            threads: 2,
            names: BTreeMap::from([(7, "loop".to_owned()), (8, "worker".to_owned())]),
            counts: vec![
                (TimerKind::Sleep, counts),
                (TimerKind::Itimer, TimerCounts::default()),
            ],
            wakings: WakingCounts::default(),
            other_wake_ups: 3,
            cycles: Cycles::default(),
            no_stacks: None,
            trace: AttachTrace {
                events: 10,
                losses,
                lost_events: 5 * losses,
                explanation_losses: 0,
                lost_explanations: 0,
                incomplete: None,
            },
            folder: None,
        }
    }

    fn result(deadline: Option<i64>, lost: u64) -> AttachResult {
        let mut tally = Tally::new(deadline.map(Nanos), None);
        (1..=1000).for_each(|place| tally.add(&wake_up(7, 1_000 * place, place), &SLEEP));
        tally.add(&wake_up(8, 5_000, 5_000), &SLEEP);
        let counts = TimerCounts {
            started: 1001 + lost,
            wake_ups: 1001,
            lost,
            ..TimerCounts::default()
        };
        tally.result(attached(counts, lost))
    }

    #[test]
    fn figures_are_values_that_were_counted_and_the_worst_thread_comes_first() {
        let found = result(None, 0);
        assert_eq!(
            found
                .threads
                .iter()
                .map(|row| (row.name.as_str(), row.wake_ups))
                .collect::<Vec<_>>(),
            [("worker", 1), ("loop", 1000)]
        );
        assert_eq!(
            found.threads[1].lateness,
            Figures {
                median_ns: Nanos(560),
                p99_ns: Nanos(1050),
                max_ns: Nanos(1060)
            }
        );
        let switch = found.threads[1]
            .parts
            .iter()
            .find(|part| part.part == "switch")
            .unwrap();
        assert_eq!(
            switch.figures,
            Figures {
                median_ns: Nanos(500),
                p99_ns: Nanos(990),
                max_ns: Nanos(1000)
            }
        );
        assert_eq!(found.timers.len(), 1, "kinds without a timer are left out");
        assert_eq!((found.wake_ups, found.worst.len()), (1001, WORST_MAX));
        assert_eq!(
            (
                found.worst[0].thread,
                found.worst[0].at_ns,
                found.worst[1].lateness_ns
            ),
            (8, Nanos(4_000), Nanos(1060))
        );
        for worst in &found.worst {
            assert_eq!(worst.parts.values().sum::<i64>(), worst.lateness_ns.get());
        }
        assert_eq!((found.verdict.is_none(), found.exit()), (true, Exit::Done));
    }

    #[test]
    fn misses_fail_a_deadline_and_losses_leave_it_open() {
        let failed = result(Some(1_059), 0);
        assert_eq!(
            failed
                .threads
                .iter()
                .filter_map(|row| row.misses)
                .sum::<u64>(),
            2
        );
        assert_eq!(failed.exit(), Exit::Failed);
        assert_eq!(result(Some(5_060), 0).exit(), Exit::Done);
        let open = result(Some(5_060), 1);
        assert_eq!((open.exit(), open.notes.len()), (Exit::Inconclusive, 1));
        assert_eq!(result(Some(1_059), 1).exit(), Exit::Failed);
    }

    #[test]
    fn nothing_seen_is_inconclusive_and_an_interruption_tells_itself() {
        let nothing = Tally::new(Some(Nanos(1)), None).result(attached(TimerCounts::default(), 0));
        assert_eq!((nothing.exit(), nothing.all), (Exit::Inconclusive, None));
        let nothing = Tally::new(None, None).result(attached(TimerCounts::default(), 0));
        assert_eq!(nothing.exit(), Exit::Inconclusive);
        let mut interrupted = result(None, 0);
        interrupted.end = AttachEnd::Interrupted;
        assert_eq!(interrupted.exit(), Exit::Interrupted);
    }

    #[test]
    fn a_bounded_tally_counts_the_threads_that_it_has_no_row_for_together() {
        let mut tally = Tally::new(Some(Nanos(100)), None).bounded();
        let threads = i32::try_from(ROWS_MAX).unwrap() + 50;
        for thread in (1..=threads).chain(1..=threads) {
            tally.add(
                &wake_up(thread, 0, i64::from(thread)),
                &WakeUpKind::Timer(TimerKind::Sleep),
            );
        }
        let found = tally.result(attached(TimerCounts::default(), 0));
        assert_eq!(found.threads.len(), ROWS_MAX + 1);
        let others = &found.threads[0];
        assert_eq!(
            (others.name.as_str(), others.wake_ups, others.misses),
            ("others", 100, Some(100))
        );
        let wake_ups: u64 = found.threads.iter().map(|row| row.wake_ups).sum();
        assert_eq!((wake_ups, found.wake_ups), (612, 612));
    }

    #[test]
    fn a_bounded_tally_has_one_row_for_each_waker_of_further_threads() {
        let mut tally = Tally::new(None, None).bounded();
        for number in 0..2 * ROWS_MAX {
            let call = tardy_samples::wake_up_kind::call(&format!("call{number}"));
            let kind = WakeUpKind::new(&Cause::Thread(9), Some(&call));
            tally.add(&wake_up(7, 0, 1), &kind);
        }
        let found = tally.result(attached(TimerCounts::default(), 0));
        assert_eq!(found.threads.len(), ROWS_MAX + 1);
        let is_others = |row: &&ThreadRow| row.name == "others";
        let others = found.threads.iter().find(is_others).unwrap();
        assert_eq!((others.kind.as_str(), others.wake_ups), ("thread", 256));
    }

    #[test]
    fn wake_ups_by_others_are_rows_with_their_parts_and_count_for_the_deadline() {
        let mut tally = Tally::new(Some(Nanos(1_000)), None);
        let call = tardy_samples::wake_up_kind::call("read");
        let causes = [
            Cause::Thread(9),
            Cause::Interrupt("eth0".into()),
            Cause::Softirq(3),
        ];
        for (cause, waking) in causes.into_iter().zip([0, 30, 40]) {
            let parts = Parts {
                waking,
                switch: 2_000,
                ..Parts::default()
            };
            let by_other = WakeUp {
                cause,
                parts,
                ran: 5_000 + waking + 2_000,
                ..wake_up(7, 5_000, 0)
            };
            tally.add(&by_other, &WakeUpKind::new(&cause, Some(&call)));
        }
        let mut facts = attached(TimerCounts::default(), 0);
        facts.names.insert(9, "waker".into());
        let found = tally.result(facts);
        assert_eq!((found.exit(), found.wake_ups), (Exit::Failed, 3));
        assert_eq!(found.threads_followed, 2, "without their waker");
        assert_eq!(found.clocks, [], "they have no clock of a timer");
        let rows: Vec<_> = found
            .threads
            .iter()
            .map(|row| (row.kind.as_str(), row.parts.len(), row.misses))
            .collect();
        assert_eq!(
            rows,
            [
                ("read-softirq", 2, Some(1)),
                ("read-irq", 2, Some(1)),
                ("read-thread", 1, Some(1))
            ]
        );
        let by: Vec<_> = found
            .worst
            .iter()
            .filter_map(|worst| worst.by.as_deref())
            .collect();
        assert_eq!(by, ["softirq NET_RX", "irq eth0", "waker/9"]);
        for worst in &found.worst {
            assert_eq!(worst.parts.values().sum::<i64>(), worst.lateness_ns.get());
        }
    }
}
