//! Explains late samples of a watched guest: the holders of the CPU from the due time to the clock
//! read, and the executed functions.
//!
//! The model is the same as for traced runs. Its input is the executed code, converted to events as
//! in a trace (`events.rs`).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_samples::delays::{DelayChunk, DelayHolder, DelayPiece, DelayWaker, SampleDelay};
use tardy_trace::event::Event;
use tardy_trace::explain::{Cause, Component, Delay, Facts, Samples, Waker};
use tardy_trace::merge::Item as TraceItem;

use crate::call_tree::CallTree;
use crate::calls::{Call, Callee, Calls, Reader};
use crate::events::{WakingCalls, events, pid, waking};
use crate::kind::Kind;
use crate::store::{self, StoreError, WatchedGuest};
use crate::stream::{Item, Window};

/// A section that delayed a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionInTheWay {
    pub kind: Kind,
    /// The function in which the section started.
    pub begins_in: String,
    pub ends_in: String,
    /// When the section started, relative to the due time; negative if it started before.
    pub begin_ns: Nanos,
    pub length_ns: Nanos,
    /// The task that had the CPU when the section started.
    pub task: String,
}

/// A function that was executed at some time from the due time to the clock read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionRow {
    pub function: String,
    /// Time of the function including its callees and interrupts.
    pub inclusive_ns: u64,
    /// Time of the function's own instructions, without its callees.
    pub exclusive_ns: u64,
    /// How often the function was called or continued.
    pub calls: u64,
}

/// A stack of functions, and how long its innermost function was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackTime {
    /// The holder that had the CPU meanwhile, as an index into the list of holders of
    /// [`LateSample::delay`].
    pub holder: usize,
    /// The functions, innermost first.
    pub functions: Vec<Arc<str>>,
    pub ns: u64,
}

/// A late sample.
#[derive(Debug, Clone)]
pub struct LateSample {
    /// Name of the thread that took the sample.
    pub thread: String,
    pub latency: u64,
    /// The sample and its holders, in the form in which they are stored in a file of delays.
    pub delay: DelayChunk,
    /// Sections that delayed the sample, longest first.
    pub sections: Vec<SectionInTheWay>,
    /// Executed functions, sorted by their self time, largest first.
    pub functions: Vec<FunctionRow>,
    pub stacks: Vec<StackTime>,
    /// The calls of the executed functions as a tree.
    pub tree: CallTree,
    /// The input of the model, with times on the guest's clock.
    pub events: Vec<Event>,
}

impl LateSample {
    /// Returns when the sample was due.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.delay.samples[0].due
    }
}

/// Passes each late sample of a run folder to `visit`, in the order in which the guest took them.
///
/// # Errors
/// Returns [`StoreError`].
pub fn late_samples(
    run: &Path,
    facts: Facts,
    mut visit: impl FnMut(LateSample),
) -> Result<(), StoreError> {
    let Some(watched) = store::read(run)? else {
        return Ok(());
    };
    if watched.windows == 0 {
        return Ok(());
    }
    let mut intervals = Vec::new();
    store::read_items(run, |item, _| {
        if let Item::Window(window) = item {
            let length = window.latency / watched.instruction_ns.max(1);
            intervals.push((window.clock_at.saturating_sub(length), window.clock_at));
        }
    })?;
    let mut sections: Vec<Vec<SectionInTheWay>> = vec![Vec::new(); intervals.len()];
    let mut reader = Reader::new(&watched.code);
    let mut place = 0;
    let mut found = Vec::new();
    store::read_items(run, |item, stream| match item {
        Item::Section(section) => {
            let begin = section.ended_at.saturating_sub(section.length);
            let overlaps = |&(from, to): &(u64, u64)| begin < to && section.ended_at > from;
            for (interval, sections) in intervals
                .iter()
                .zip(&mut sections)
                .filter(|(interval, _)| overlaps(interval))
            {
                let site = stream.sites()[section.site as usize];
                if site.kind == Kind::Blocked {
                    continue;
                }
                let nanos = |count: i128| {
                    Nanos(
                        i64::try_from(count * i128::from(watched.instruction_ns))
                            .unwrap_or(i64::MAX),
                    )
                };
                sections.push(SectionInTheWay {
                    kind: site.kind,
                    begins_in: function(&watched, site.begin_pc),
                    ends_in: function(&watched, site.end_pc),
                    begin_ns: nanos(i128::from(begin) - i128::from(interval.0)),
                    length_ns: nanos(section.length.into()),
                    task: stream.tasks()[section.task as usize].clone(),
                });
            }
        }
        Item::Window(window) => {
            let calls = reader.calls(&window, stream.blocks(), watched.instruction_ns);
            found.push((place, late_sample(&window, calls, facts, stream.tasks())));
            place += 1;
        }
        Item::Longest(_) | Item::Mark { .. } | Item::End(_) => {}
    })?;
    for (place, mut sample) in found {
        sample.sections = std::mem::take(&mut sections[place]);
        sample
            .sections
            .sort_by_key(|section| std::cmp::Reverse(section.length_ns));
        visit(sample);
    }
    Ok(())
}

fn function(watched: &WatchedGuest, address: u64) -> String {
    watched
        .functions
        .get(&format!("{address:x}"))
        .cloned()
        .unwrap_or_else(|| format!("{address:#x}"))
}

fn late_sample(window: &Window, calls: Calls, facts: Facts, tasks: &[String]) -> LateSample {
    let waking = waking(window, &calls);
    let events = events(window, &calls, tasks, waking);
    let mut samples = Samples::new(facts, &HashMap::new());
    let pid = pid(window.task, tasks);
    samples.follow(pid);
    events
        .iter()
        .for_each(|event| samples.take(&TraceItem::Event(*event)));
    let due = window.due.max(0).cast_unsigned();
    let delay = samples.explain(&[pid], 0, due, due + window.latency);
    let (delay, places) = in_words(window, &delay, &calls, waking);
    let stacks = stacks(&delay.samples[0], &places, &calls);
    let functions = functions(window, &calls, tasks);
    LateSample {
        thread: tasks.get(window.task as usize).cloned().unwrap_or_default(),
        latency: window.latency,
        delay,
        sections: Vec::new(),
        functions,
        stacks,
        tree: CallTree::new(&calls, window.latency, tasks),
        events,
    }
}

/// Position of a piece of a delay: the index of its holder, and its start and end relative to the
/// due time.
type Place = (usize, i64, i64);

/// Returns the pieces of a sample in the form in which they are stored in a file of delays. If
/// kernel code caused a piece, names the innermost function that took more than half of the piece,
/// and its callers. Also returns the position of each piece.
fn in_words(
    window: &Window,
    delay: &Delay,
    calls: &Calls,
    waking: Option<WakingCalls>,
) -> (DelayChunk, Vec<Place>) {
    let mut chunk = DelayChunk::default();
    let (mut places, mut pieces) = (Vec::new(), Vec::new());
    let mut at = 0_i64;
    for piece in &delay.pieces {
        let (begin, end) = (at, at + i64::try_from(piece.length()).unwrap_or(i64::MAX));
        at = end;
        let is_of_code = matches!(
            piece.holder.cause,
            Cause::InterruptsOff
                | Cause::PreemptionOff
                | Cause::KernelCode
                | Cause::Softirq
                | Cause::BeforeSoftirq
        );
        let path = (is_of_code && piece.component != Component::Return)
            .then(|| longest_path(calls, begin, end))
            .flatten();
        let stack = path.map_or_else(Vec::new, |call| calls.path(call).cloned().collect());
        let holder = DelayHolder {
            cause: piece.holder.cause,
            known: piece.known,
            name: piece.holder.name.to_string(),
            priority: piece.holder.priority,
            work: None,
            stack,
            ended: Vec::new(),
            sender: None,
        };
        let holder = chunk
            .holders
            .iter()
            .position(|known| *known == holder)
            .unwrap_or_else(|| {
                chunk.holders.push(holder);
                chunk.holders.len() - 1
            });
        places.push((holder, begin, end));
        pieces.push(DelayPiece {
            component: piece.component,
            holder,
            cpu: piece.cpu,
            length: piece.length(),
        });
    }
    let waker = match delay.waker {
        None => DelayWaker::Nobody,
        Some(Waker::Timer(_)) => {
            let function = waking.and_then(|waking| waking.timer_name(calls));
            DelayWaker::Timer(function.unwrap_or_default().into())
        }
        Some(Waker::Interrupt) => DelayWaker::Interrupt,
        Some(Waker::Softirq) => DelayWaker::Softirq,
        Some(Waker::Thread(thread)) => DelayWaker::Thread(thread.name.to_string().into()),
    };
    chunk.samples.push(SampleDelay {
        due: Nanos(window.due),
        cpu: delay.cpu,
        waker,
        is_switch_seen: delay.is_switch_seen,
        pieces,
    });
    (chunk, places)
}

/// Returns the innermost call that took, together with its callees, more than half of an interval.
fn longest_path(calls: &Calls, begin: i64, end: i64) -> Option<usize> {
    let inside = |call: &Call| call.end.min(end) - call.begin.max(begin);
    let mut innermost = None;
    // The search follows `parent`, because callers do not always precede their callees in the list:
    // a caller whose call was not seen was added only when it continued.
    loop {
        let next = calls
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.parent == innermost && inside(call) * 2 > end - begin);
        match next.max_by_key(|(_, call)| inside(call)) {
            Some((place, _)) => innermost = Some(place),
            None => return innermost,
        }
    }
}

/// Returns how long each stack of functions was executed while each holder had the CPU.
fn stacks(sample: &SampleDelay, places: &[Place], calls: &Calls) -> Vec<StackTime> {
    let mut by_call: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for &(holder, begin, end) in places {
        let from = calls
            .stretches
            .partition_point(|stretch| stretch.end <= begin);
        for stretch in calls.stretches[from..]
            .iter()
            .take_while(|stretch| stretch.begin < end)
        {
            let ns = stretch.end.min(end) - stretch.begin.max(begin);
            *by_call.entry((holder, stretch.call)).or_default() += ns.max(0).cast_unsigned();
        }
    }
    debug_assert_eq!(places.len(), sample.pieces.len());
    let mut by_path: BTreeMap<(usize, Vec<Arc<str>>), u64> = BTreeMap::new();
    for ((holder, call), ns) in by_call {
        *by_path
            .entry((holder, calls.path(call).cloned().collect()))
            .or_default() += ns;
    }
    by_path
        .into_iter()
        .map(|((holder, functions), ns)| StackTime {
            holder,
            functions,
            ns,
        })
        .collect()
}

fn functions(window: &Window, calls: &Calls, tasks: &[String]) -> Vec<FunctionRow> {
    let woke = i64::try_from(window.latency).unwrap_or(i64::MAX);
    let inside = |begin: i64, end: i64| (end.min(woke) - begin.max(0)).max(0).cast_unsigned();
    let mut rows: HashMap<Callee, FunctionRow> = HashMap::new();
    let row = |callee: Callee| FunctionRow {
        function: calls.name(callee, tasks),
        inclusive_ns: 0,
        exclusive_ns: 0,
        calls: 0,
    };
    for call in calls
        .calls
        .iter()
        .filter(|call| !matches!(call.callee, Callee::Task(_)) && inside(call.begin, call.end) > 0)
    {
        let is_recursive = std::iter::successors(call.parent, |&parent| calls.calls[parent].parent)
            .any(|parent| calls.calls[parent].callee == call.callee);
        let row = rows.entry(call.callee).or_insert_with(|| row(call.callee));
        row.calls += 1;
        if !is_recursive {
            row.inclusive_ns += inside(call.begin, call.end);
        }
    }
    for stretch in &calls.stretches {
        if let Some(row) = rows.get_mut(&calls.calls[stretch.call].callee) {
            row.exclusive_ns += inside(stretch.begin, stretch.end);
        }
    }
    let mut rows: Vec<FunctionRow> = rows.into_values().collect();
    rows.sort_by(|one, other| {
        other
            .exclusive_ns
            .cmp(&one.exclusive_ns)
            .then_with(|| one.function.cmp(&other.function))
    });
    rows
}
