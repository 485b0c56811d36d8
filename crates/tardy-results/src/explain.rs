//! Explains late wake-ups in a trace: counts them, ranks the holders of the CPU, shows the worst
//! wake-ups in full, and checks whether loops follow the rules.
//!
//! A trace is read several times: first to find its clock, its due times and the threshold, then
//! for the explanation itself. Memory use is small: only a histogram per component, a row per
//! holder, and the worst wake-ups are stored.

pub mod cycles;
mod due;
pub mod executed;
mod holder;
pub(crate) mod outside;
mod ranking;
pub mod remedies;
mod rules;
pub mod run;
pub mod source;
pub mod stacks;
mod story;
mod tally;
mod threshold;
pub mod words;

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_samples::loop_rules::{LoopRules, RecordedKinds};
use tardy_trace::event::{Decoder, Kind};
use tardy_trace::explain::{Explainer, Facts, Preemption, Target};
use tardy_trace::file::{Buffer, FileError, TraceFile};
use tardy_trace::merge::{Item, Merge};
use tardy_trace::perfetto::{LeftOut, Writer};

pub use self::holder::HolderFacts;
use self::ranking::Ranking;
pub use self::rules::{LoopRow, RuleRow};
pub use self::story::{Mark, Story, StoryPiece};
pub use self::tally::{ComponentRow, HolderRow, Lateness};
pub use self::threshold::{Late, Ordinary, Threshold, ThresholdSource};

/// Parameters for explaining a trace.
#[derive(Debug, Clone)]
pub struct Question {
    /// The threads whose wake-ups are to be explained.
    pub target: Target,
    /// The name of the buffer to read. If absent, the buffer that contains events is read.
    pub buffer: Option<String>,
    /// Number of worst wake-ups that are shown in full.
    pub worst: usize,
    /// Which wake-ups are ranked.
    pub late: Late,
    /// Whether the kernel can preempt kernel code, if the user stated it.
    pub preemption: Option<Preemption>,
    /// The period of the thread; present if due times come from a grid that is fitted to the
    /// thread's wake-ups.
    pub period: Option<Nanos>,
}

/// Why a trace cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The trace cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The trace has no buffer with the requested name.
    #[error("the trace has no buffer {asked:?}: it has {}", there.join(", "))]
    Buffer {
        asked: String,
        /// The names of the buffers that exist.
        there: Vec<String>,
    },
    /// The clock with which the trace was recorded does not give times.
    #[error(
        "the trace was recorded with the clock {0}, whose timestamps are not times: record the \
         trace with `trace-cmd record -C mono`"
    )]
    Clock(String),
    /// The trace contains no wake-up of the thread.
    #[error(
        "the trace has no wake-up of {asked}; it has wake-ups of {there}: name one with --task, \
         or record sched:sched_waking and sched:sched_switch of all threads"
    )]
    NoWakeUp {
        asked: String,
        /// Threads that have wake-ups in the trace.
        there: String,
    },
    /// There are too few wake-ups to fit a grid.
    #[error(
        "the trace has fewer than two periods in which an interrupt woke {asked}: no due times \
         can be fitted; omit --period"
    )]
    NoPeriod { asked: String },
    /// The file for Perfetto cannot be written.
    #[error("the trace for Perfetto cannot be written: {0}")]
    Perfetto(#[from] io::Error),
}

/// The explanation of a trace.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Facts about the trace that was read.
    pub trace: TraceFacts,
    /// The explained threads.
    pub thread: ThreadFacts,
    /// Counts of the wake-ups.
    pub wake_ups: WakeUpCounts,
    /// The latency above which wake-ups are ranked.
    pub threshold: Threshold,
    /// Latencies of the ranked wake-ups; `None` if no wake-up is ranked.
    pub lateness: Option<Lateness>,
    /// Latency by component, in chronological order.
    pub components: Vec<ComponentRow>,
    /// Holders of the CPU, sorted by the latency that they caused, largest first.
    pub holders: Vec<HolderRow>,
    /// The wake-ups that are not ranked; absent if all of them are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinary: Option<Ordinary>,
    /// The part of the ranked wake-ups' latency for which no holder is known, because events were
    /// lost, or because the trace started after the due time.
    pub unexplained_ns: u64,
    /// The part of the ranked wake-ups' latency that has two possible causes.
    pub cannot_tell_ns: u64,
    /// The worst wake-ups, worst first.
    pub worst: Vec<Story>,
    /// Rules of a real-time loop, with the number of violations.
    pub rules: Vec<RuleRow>,
    /// The parts of the trace that are missing in the file for Perfetto, if such a file was written
    /// and is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_of_perfetto: Option<LeftOut>,
}

/// Facts about the trace that was read.
#[derive(Debug, Default, Serialize)]
pub struct TraceFacts {
    /// The release of the kernel, for example 6.1.0-32-rt-amd64.
    pub kernel: Option<String>,
    /// The clock of the time stamps, as the file names it. `trace-cmd extract` sometimes names the
    /// clock of another buffer.
    pub clock: String,
    /// Whether the time stamps use the monotonic clock. To decide this, the time stamps of timers'
    /// events are compared with the times that the timers read from their clock. If they use
    /// another clock, due times are about 1 us too late, because the time from the timer interrupt
    /// to the expiry of its timers is unknown. The computed latencies are then too small.
    pub is_monotonic: bool,
    /// Number of CPUs with events.
    pub cpus: usize,
    pub events: u64,
    /// Time from the first to the last event.
    pub length_ns: u64,
    /// Number of places where events were lost.
    pub losses: u64,
    /// Number of lost events that the kernel counted; it may have lost more.
    pub lost_events: u64,
    /// Descriptions of damage in the file; only the first kinds are listed.
    pub damage: Vec<String>,
    /// Whether the trace has `sched_waking` events. If not, the explanation uses `sched_wakeup`,
    /// which comes about 1 us later.
    pub has_waking: bool,
    /// Number of switches to the idle thread. Some kernels do not trace switches from the idle
    /// thread.
    pub switches_into_idle: u64,
    /// Number of switches from the idle thread.
    pub switches_out_of_idle: u64,
    /// Events that the explanation needs but the trace does not have.
    pub missing: Vec<&'static str>,
}

/// The explained threads.
#[derive(Debug, Serialize)]
pub struct ThreadFacts {
    pub name: String,
    /// Thread IDs in the kernel's initial namespace, not in that of a container.
    pub pids: BTreeSet<i32>,
    /// The kernel's priority at the last wake-up: -1 for deadline, 0 to 98 for real-time (99 minus
    /// the thread's real-time priority), 100 to 139 for others.
    pub priority: i32,
    /// The period in ns that was fitted to the wake-ups; absent unless due times lie on a grid.
    pub period_ns: Option<f64>,
}

/// Counts of wake-ups.
#[derive(Debug, Default, Serialize)]
pub struct WakeUpCounts {
    /// Completed wake-ups.
    pub all: u64,
    /// Number of wake-ups whose due time comes from their timer.
    pub timed: u64,
    /// Wake-ups whose due time comes from a fitted period.
    pub periodic: u64,
    /// Number of ranked wake-ups, which have a latency above the threshold.
    pub ranked: u64,
    /// Wake-ups after which the trace has no switch to the thread. The latency of these wake-ups is
    /// a lower bound.
    pub lower_bounds: u64,
    /// Wake-ups whose latency is unknown, because they did not end within the trace, or because
    /// events were lost before they ended.
    pub unfinished: u64,
}

/// When a timer expires, its event contains the time that the timer read from its clock. If, in any
/// such event, the time stamp is less than this limit after that time, then time stamps and timers
/// use the same clock.
const SAME_CLOCK_NS: u64 = 20_000;
/// Maximum number of trace items that are read to find the clock.
const CLOCK_ITEMS_MAX: usize = 1_000_000;
/// Maximum number of threads that are listed if the requested thread is missing.
const THREADS_NAMED: usize = 12;

/// Explains the wake-ups of a thread. If `perfetto` is given, also writes the schedule and all
/// wake-ups there, as a trace for Perfetto.
///
/// # Errors
/// Fails with an [`ExplainError`] if the trace cannot be read or has no matching wake-up, or if
/// `perfetto` cannot be written.
pub fn explain(
    bytes: &[u8],
    question: &Question,
    perfetto: Option<&mut dyn Write>,
) -> Result<Explanation, ExplainError> {
    let file = TraceFile::parse(bytes)?;
    let buffer = buffer(&file, question.buffer.as_deref())?;
    if matches!(buffer.clock.as_str(), "counter" | "uptime")
        || (buffer.clock == "x86-tsc" && file.counter.is_none())
    {
        return Err(ExplainError::Clock(buffer.clock.clone()));
    }
    let mut decoder = Decoder::new(&file.formats);
    let is_waking = |item: Item| matches!(item, Item::Event(event) if matches!(event.kind, Kind::Waking { .. }));
    let has_waking = Merge::new(buffer, &decoder, file.counter).any(is_waking);
    if !has_waking {
        decoder = Decoder::of_wakeups(&file.formats);
    }
    let items = || Merge::new(buffer, &decoder, file.counter);
    let kernel = file
        .kernel
        .as_deref()
        .and_then(|uname| uname.split_whitespace().nth(2))
        .map(str::to_owned);
    let is_realtime = kernel
        .as_ref()
        .is_some_and(|release| release.contains("-rt"));
    let is_monotonic = is_monotonic(items()).unwrap_or(buffer.clock == "mono");
    let preemption = question
        .preemption
        .or(is_realtime.then_some(Preemption::Full));
    let facts = Facts {
        preemption,
        is_monotonic,
        ..Facts::default().with_symbols(&file.symbols)
    };
    let new_explainer = || Explainer::new(question.target.clone(), facts, &file.commands);

    let grids = question
        .period
        .map(|period| due::grids(new_explainer(), items(), period, !is_monotonic))
        .unwrap_or_default();
    let period_ns = grids.values().next().map(|grid| grid.period_ns);
    let new_explainer = || new_explainer().with_grids(grids.clone());
    let threshold = match question.late {
        Late::Above(above) => Threshold::asked(above),
        Late::Worst => Threshold::of(&latenesses(new_explainer(), items()), None),
    };
    let mut explainer = new_explainer();
    let mut seen = TraceContents::default();
    let mut ranking = Ranking::new(threshold, question.worst);
    let mut perfetto = perfetto.map(|out| Writer::new(out, is_monotonic));
    let mut merge = items();
    for item in &mut merge {
        seen.take(&item);
        explainer.take(&item);
        if let Some(perfetto) = &mut perfetto {
            perfetto.item(&item)?;
        }
        for wake_up in explainer.finished() {
            if let Some(perfetto) = &mut perfetto {
                perfetto.wake_up(&wake_up, words::component, |piece| {
                    words::holder(&HolderFacts::of(&piece.holder, piece.known, &file.symbols))
                })?;
            }
            ranking.take(wake_up);
        }
    }
    let asked = || match &question.target {
        Target::Pids(pids) => pids
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        Target::Names(names) => names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let Some(thread) = ranking.thread() else {
        return Err(ExplainError::NoWakeUp {
            asked: asked(),
            there: seen.woken(),
        });
    };
    if question.period.is_some() && period_ns.is_none() {
        return Err(ExplainError::NoPeriod { asked: asked() });
    }
    let left_out = perfetto.map(Writer::finish).transpose()?;
    let damage = merge
        .damage()
        .iter()
        .map(|(cpu, damage)| format!("CPU {cpu}: {damage}"))
        .collect();
    let rules = rules::rows(&LoopRules::of(thread, explainer.rules(), seen.kinds));
    let trace = seen.facts(
        kernel,
        buffer.clock.clone(),
        is_monotonic,
        has_waking,
        damage,
    );
    let mut explanation = ranking.explanation(trace, rules, explainer.unfinished(), &file.symbols);
    explanation.thread.period_ns = period_ns;
    explanation.left_out_of_perfetto = left_out.filter(|left_out| *left_out != LeftOut::default());
    Ok(explanation)
}

/// Returns the latencies of all wake-ups.
fn latenesses(mut explainer: Explainer, items: impl Iterator<Item = Item>) -> Histogram {
    let mut found = Histogram::new(Budget::ANALYSIS);
    for item in items {
        explainer.take(&item);
        for wake_up in explainer.finished() {
            found.record(i64::try_from(wake_up.lateness()).unwrap_or(i64::MAX));
        }
    }
    found
}

fn buffer<'a, 'b>(
    file: &'a TraceFile<'b>,
    name: Option<&str>,
) -> Result<&'a Buffer<'b>, ExplainError> {
    file.buffer(name).ok_or_else(|| ExplainError::Buffer {
        asked: name.unwrap_or_default().to_owned(),
        there: file
            .buffers
            .iter()
            .map(|buffer| {
                if buffer.name.is_empty() {
                    "the main one".to_owned()
                } else {
                    buffer.name.clone()
                }
            })
            .collect(),
    })
}

/// Returns whether the time stamps use the timers' clock; `None` if no timer expires in the first
/// [`CLOCK_ITEMS_MAX`] items.
fn is_monotonic(items: impl Iterator<Item = Item>) -> Option<bool> {
    let distance = |item| match item {
        Item::Event(event) => match event.kind {
            Kind::TimerExpireEntry { now, .. } => u64::try_from(now)
                .ok()
                .map(|now| event.time.checked_sub(now).unwrap_or(u64::MAX)),
            _ => None,
        },
        Item::Lost { .. } => None,
    };
    items
        .take(CLOCK_ITEMS_MAX)
        .filter_map(distance)
        .min()
        .map(|nearest| nearest < SAME_CLOCK_NS)
}

/// The contents of a trace, for all threads.
#[derive(Debug, Default)]
struct TraceContents {
    kinds: RecordedKinds,
    cpus: BTreeSet<u32>,
    events: u64,
    first: Option<u64>,
    last: u64,
    losses: u64,
    lost_events: u64,
    into_idle: u64,
    out_of_idle: u64,
    has_timer_start: bool,
    has_timer_expiry: bool,
    has_interrupts: bool,
    has_softirqs: bool,
    threads: std::collections::BTreeMap<tardy_trace::text::Text, u64>,
}

impl TraceContents {
    fn take(&mut self, item: &Item) {
        self.first.get_or_insert(item.time());
        self.last = item.time();
        let event = match item {
            Item::Event(event) => event,
            Item::Lost { count, .. } => {
                self.losses += 1;
                self.lost_events = self.lost_events.saturating_add(count.unwrap_or(0));
                return;
            }
        };
        self.events += 1;
        self.cpus.insert(event.cpu);
        rules::note(&mut self.kinds, event);
        match event.kind {
            Kind::Switch { previous, next, .. } => {
                self.into_idle += u64::from(next.pid == 0);
                self.out_of_idle += u64::from(previous.pid == 0);
            }
            Kind::Waking { thread, .. } => {
                *self.threads.entry(thread.name).or_default() += 1;
            }
            Kind::TimerStart { .. } => self.has_timer_start = true,
            Kind::TimerExpireEntry { .. } => self.has_timer_expiry = true,
            Kind::VectorEntry { .. } | Kind::IrqEntry { .. } => self.has_interrupts = true,
            Kind::SoftirqEntry { .. } => self.has_softirqs = true,
            _ => {}
        }
    }

    /// Returns the names of threads that have wake-ups, the most frequent first.
    fn woken(&self) -> String {
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let names: Vec<_> = threads
            .iter()
            .take(THREADS_NAMED)
            .map(|(name, _)| name.to_string())
            .collect();
        if names.is_empty() {
            "no thread".to_owned()
        } else {
            names.join(", ")
        }
    }

    fn facts(
        self,
        kernel: Option<String>,
        clock: String,
        is_monotonic: bool,
        has_waking: bool,
        damage: Vec<String>,
    ) -> TraceFacts {
        let needed = [
            (self.has_timer_start, "timer:hrtimer_start"),
            (self.has_timer_expiry, "timer:hrtimer_expire_entry"),
            (self.has_interrupts, "irq_vectors:* and irq:irq_handler_*"),
            (self.has_softirqs, "irq:softirq_*"),
        ];
        TraceFacts {
            kernel,
            clock,
            is_monotonic,
            cpus: self.cpus.len(),
            events: self.events,
            length_ns: self.first.map_or(0, |first| self.last - first),
            losses: self.losses,
            lost_events: self.lost_events,
            damage,
            has_waking,
            switches_into_idle: self.into_idle,
            switches_out_of_idle: self.out_of_idle,
            missing: needed
                .into_iter()
                .filter(|&(is_there, _)| !is_there)
                .map(|(_, event)| event)
                .collect(),
        }
    }
}
