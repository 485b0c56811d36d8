//! Follows the wake-ups of a running program through the kernel's trace. This module reads nothing
//! of the program itself except its files in /proc, and never stops the program. If the user asks
//! for the time between two functions of the program, the kernel observes these functions by
//! uprobes.

mod error;
mod filters;
pub mod function;
mod places;
pub mod process;
pub mod target;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;
use tardy_samples::cycles::Cycles;
use tardy_samples::cycles::chains::SlowestChains;
use tardy_samples::cycles::cut::Cutter;
use tardy_samples::loop_rules::LoopRules;
use tardy_samples::wake_up_kind::WakeUpKind;
use tardy_sys::clock::{self, Clock};
use tardy_trace::chains::Chains;
use tardy_trace::contexts::Waker;
use tardy_trace::event::{Kind, Thread};
use tardy_trace::merge::Item;
use tardy_trace::stints::{Doing, Stint, Stints};
use tardy_trace::symbols::Symbols;
use tardy_trace::text::Text;
use tardy_trace::timers::{ClockOffsets, TimerCounts, TimerKind};
use tardy_trace::wake_ups::{Cause, Parts, Start, WakeUp, WakeUpWatch, WakingCounts};

pub use self::error::NotAttached;
use self::filters::functions;
use self::function::Function;
use self::places::Places;
use self::target::{Look, Target};
use self::traces::{Recorded, Traces};
use crate::calibration::kernel_symbols;
use crate::evidence::Evidence;
use crate::tracer::{NotTraced, demand_clock_of_trace};

/// Interval at which the trace's pages and the list of threads are read.
const PERIOD: Duration = Duration::from_millis(100);
/// Maximum time in ns from an event until the event can be read; explanations use the same value.
const LATE_NS: u64 = 20_000_000;
/// Maximum number of other threads whose own wake-ups are recorded because they wake followed
/// threads.
const LINKED_MAX: usize = 16;
/// Maximum number of names of wakers that are stored. Names of threads that were followed and have
/// ended are also stored up to this number.
const NAMES_MAX: usize = 4096;
/// Text that this thread writes into the trace, to find its own thread ID there.
const MARK: &str = "tardy: attach";

/// Why the recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The given time has passed.
    Time,
    /// The observer stopped the recording.
    Stopped,
    /// The program exited.
    Process,
    /// The trace cannot be used any more.
    Trace,
}

/// What was recorded, apart from the wake-ups.
#[derive(Debug, Clone)]
pub struct Recording {
    /// When the recording started, on the monotonic clock.
    pub begin: Nanos,
    /// When the recording ended, on the monotonic clock.
    pub end: Nanos,
    pub why: End,
    /// Threads that were followed, with their latest names.
    pub threads: BTreeMap<i32, String>,
    /// How the timers of each kind ended.
    pub counts: Vec<(TimerKind, TimerCounts)>,
    /// What became of the followed threads' wake-ups.
    pub wakings: WakingCounts,
    /// How often something other than their own timers woke the threads.
    pub other_wake_ups: u64,
    /// Names of other threads that woke followed threads.
    pub wakers: BTreeMap<i32, String>,
    /// Cycles of the threads, from wake-up to sleep.
    pub cycles: Cycles,
    /// Why the places where threads slept are unknown; absent if they are known.
    pub no_stacks: Option<String>,
    /// Number of events that were read.
    pub events_read: u64,
    /// Number of gaps in which events were lost.
    pub losses: u64,
    /// Number of lost events, as far as the kernel counted them.
    pub lost_events: u64,
    /// Number of gaps in the events that are needed only for explanations.
    pub explanation_losses: u64,
    /// Number of lost events that are only needed for explanations, as far as the kernel counted
    /// them.
    pub lost_explanations: u64,
    /// Why the trace is incomplete, if the reason is not that a buffer was full.
    pub incomplete: Option<String>,
}

/// Receives what is found while threads are followed. The recording takes it as `dyn Observer`:
/// generic code would be compiled in the crate that implements it, which is not optimised.
pub trait Observer {
    /// Waits for `pause`, and returns whether to stop the recording.
    fn wait(&mut self, pause: Duration) -> bool;

    /// Receives a wake-up, with its kind and the name of the woken thread.
    fn wake_up(&mut self, wake_up: &WakeUp, kind: &WakeUpKind, name: &str);

    /// Receives the threads that are no longer followed.
    fn left(&mut self, threads: &BTreeSet<i32>);

    /// Is called after each pause, with everything that was found so far.
    fn turn(&mut self, so_far: SoFar<'_>);

    /// Is called once at the end, with everything that was found.
    fn end(&mut self, found: SoFar<'_>);
}

/// Gives access to everything that was found so far.
#[derive(Debug)]
pub struct SoFar<'a>(&'a mut Attachment);

/// The threads that are followed.
#[derive(Debug)]
pub struct Attachment {
    target: Target,
    traces: Traces,
    watch: WakeUpWatch,
    stints: Stints,
    places: Places,
    /// For each thread: when its last sleep ended, and the place where it waited.
    slept: BTreeMap<i32, (i64, Option<u32>)>,
    /// Stints that have just ended, with the places where the threads waited.
    ended: Vec<(Stint, Option<u32>)>,
    cutter: Cutter,
    /// Whether the time between two functions is measured instead of wake-ups.
    is_between_functions: bool,
    root: Root,
    chains: Chains,
    slowest: SlowestChains,
    /// Threads that woke followed threads, but are not followed themselves; their wake-ups are
    /// recorded, too.
    linked: BTreeSet<i32>,
    has_new_link: bool,
    /// Names of other threads that woke followed threads.
    wakers: BTreeMap<i32, String>,
    /// All threads that were followed at any time, with their latest names.
    threads: BTreeMap<i32, String>,
    followed: FollowedThreads,
    functions: Vec<(u64, TimerKind)>,
    begin: Nanos,
    incomplete: Option<String>,
    /// The parts of the trace around the worst wake-ups, if they are to be stored.
    evidence: Option<Evidence>,
}

impl Attachment {
    /// Starts to record the wake-ups of the threads of `target`. If `between` is given, records
    /// instead how long the threads take from the first to the second of these two functions of the
    /// program.
    ///
    /// # Errors
    /// Returns [`NotAttached`] after removing the tracefs instance.
    pub fn start(
        mut target: Target,
        between: Option<&[Function; 2]>,
        root: &Root,
    ) -> Result<Self, NotAttached> {
        let failed = |what| move |error| NotTraced::System { what, error };
        demand_clock_of_trace(root)?;
        // Users without privileges can neither open tracefs nor see the kernel's symbols. Tracefs
        // is opened first, because its error names the missing privilege.
        Tracefs::open(root).map_err(NotTraced::NoTracefs)?;
        let symbols = Symbols::parse(&kernel_symbols());
        let functions = functions(&symbols);
        if !functions.iter().any(|&(_, kind)| kind == TimerKind::Sleep) {
            return Err(NotAttached::HiddenFunctions);
        }
        let threads = match target.look() {
            Look::There(threads) => threads,
            // If this fails, the recording finds the same problem when it first checks the trace,
            // and reports it.
            Look::Unknown | Look::Ended => BTreeMap::new(),
        };
        let numbers: BTreeSet<i32> = threads.keys().copied().collect();
        let mut traces = Traces::start(root, &functions, &numbers, between)?;
        traces
            .mark(MARK)
            .map_err(failed("cannot write a mark into the trace"))?;
        let begin = Nanos(clock::monotonic());
        let mut watch = WakeUpWatch::new(functions.iter().copied());
        let mut stints = Stints::default();
        for &thread in threads.keys() {
            watch.follow(thread);
            stints.follow(thread);
        }
        watch.set_offsets(offsets());
        // Events before the mark are used, too; the mark is needed only to see which thread IDs the
        // trace uses.
        std::thread::sleep(Duration::from_nanos(LATE_NS));
        let until = u64::try_from(begin.get()).unwrap_or_default();
        traces
            .read(&mut None)
            .map_err(failed("cannot read the trace's pages"))?;
        let mut number = None;
        while let Some(recorded) = traces.next_before(until) {
            let Recorded::Item(item) = recorded else {
                continue;
            };
            if let Item::Event(event) = &item
                && matches!(event.kind, Kind::Marker { text } if text.as_str().starts_with(MARK))
            {
                number = Some(event.head.pid);
            }
            watch.take(&item);
            stints.take(&item);
        }
        match number {
            Some(number) if number == process::own_number(root) => {}
            Some(_) => return Err(NotAttached::OtherNumbers),
            None => return Err(NotAttached::MarkLost),
        }
        let followed = FollowedThreads {
            now: numbers,
            absent: BTreeSet::new(),
        };
        let mut places = Places::new(symbols);
        functions
            .iter()
            .for_each(|&(address, _)| places.meet(address));
        Ok(Self {
            target,
            traces,
            watch,
            stints,
            places,
            slept: BTreeMap::new(),
            ended: Vec::new(),
            cutter: between.map_or_else(Cutter::default, |_| Cutter::between_marks()),
            is_between_functions: between.is_some(),
            root: root.clone(),
            chains: Chains::default(),
            slowest: SlowestChains::default(),
            linked: BTreeSet::new(),
            has_new_link: false,
            wakers: BTreeMap::new(),
            threads,
            followed,
            functions,
            begin,
            incomplete: None,
            evidence: None,
        })
    }

    /// Returns when the recording started, on the monotonic clock.
    #[must_use]
    pub fn begin(&self) -> Nanos {
        self.begin
    }

    /// Stores the raw trace around the worst wake-ups, in at most `bytes_max` bytes.
    #[must_use]
    pub fn keeping_worst(self, bytes_max: Option<u64>) -> Self {
        Self {
            evidence: Some(self.traces.evidence(bytes_max)),
            ..self
        }
    }

    /// Follows the threads until `until` (monotonic clock), until the program exits, or until the
    /// observer stops it.
    pub fn follow(mut self, until: Nanos, observer: &mut dyn Observer) -> Recording {
        let why = loop {
            let left = until - Nanos(clock::monotonic());
            if left <= Nanos::ZERO {
                break End::Time;
            }
            let pause = PERIOD.min(Duration::from_nanos(left.get().unsigned_abs()));
            if observer.wait(pause) {
                break End::Stopped;
            }
            self.advance(observer);
            if self.incomplete.is_some() {
                break End::Trace;
            }
            if !self.look_for_threads(observer) {
                break End::Process;
            }
            observer.turn(SoFar(&mut self));
        };
        let end = Nanos(clock::monotonic());
        self.advance(observer);
        self.traces.stop();
        self.read();
        self.hand_over(u64::MAX, observer);
        self.watch.finish();
        self.cutter.finish();
        observer.end(SoFar(&mut self));
        let [counts, explanations] = self.traces.counts();
        Recording {
            begin: self.begin,
            end,
            why,
            counts: TimerKind::ALL
                .map(|kind| (kind, self.watch.counts(kind)))
                .to_vec(),
            wakings: self.watch.wakings(),
            other_wake_ups: self.watch.other_wake_ups(),
            wakers: self.wakers.clone(),
            cycles: SoFar(&mut self).cycles(),
            no_stacks: self.traces.no_stacks.clone(),
            events_read: counts.events + explanations.events,
            losses: counts.losses,
            lost_events: counts.lost_events,
            explanation_losses: explanations.losses,
            lost_explanations: explanations.lost_events,
            threads: self.threads,
            incomplete: self.incomplete,
        }
    }

    /// Reads the available pages, and passes complete wake-ups to the observer.
    fn advance(&mut self, observer: &mut dyn Observer) {
        let now = u64::try_from(clock::monotonic()).unwrap_or_default();
        self.read();
        // If another program changed the trace, the events since the last check cannot be used.
        if let Some(change) = self.traces.change() {
            self.incomplete.get_or_insert(change);
        }
        self.hand_over(now.saturating_sub(LATE_NS), observer);
    }

    fn read(&mut self) {
        self.watch.set_offsets(offsets());
        if let Err(error) = self.traces.read(&mut self.evidence) {
            self.incomplete
                .get_or_insert_with(|| format!("the trace could not be read to its end: {error}"));
        }
    }

    /// Passes wake-ups before `until` to the observer, as long as the trace is complete.
    fn hand_over(&mut self, until: u64, observer: &mut dyn Observer) {
        while self.incomplete.is_none()
            && let Some(recorded) = self.traces.next_before(until)
        {
            let Recorded::Item(item) = recorded else {
                // The code that measures cycles is not told about this loss, because it cuts off
                // any cycle in which the stack of a sleep may be missing.
                self.watch.lose_explanations();
                self.stints.lose_switches_of_others();
                continue;
            };
            self.watch.take(&item);
            self.stints.take(&item);
            let mut ended = std::mem::take(&mut self.ended);
            ended.extend(self.stints.finished().map(|stint| {
                let place = place_of(&stint, &self.traces, &mut self.places);
                (stint, place)
            }));
            for (stint, place) in &ended {
                if let Doing::Asleep { .. } = stint.doing {
                    self.slept.insert(stint.thread, (stint.end, *place));
                    if place.is_some_and(|place| self.places.is_plain_futex(place)) {
                        self.watch.waited_at_futex(stint.thread);
                    }
                }
            }
            for wake_up in self.watch.finished() {
                self.cutter.wake_up(&wake_up);
                if self.is_between_functions {
                    continue;
                }
                // If a sleep ended before the wake-up, it does not belong to the wake-up: the
                // thread was woken before it slept again.
                let slept = self.slept.get(&wake_up.thread);
                let call = slept
                    .filter(|(end, _)| *end >= wake_up.woken())
                    .and_then(|(_, place)| self.places.call((*place)?));
                let kind = WakeUpKind::new(&wake_up.cause, call);
                let name = self.threads.get(&wake_up.thread).map_or("", String::as_str);
                observer.wake_up(&wake_up, &kind, name);
                keep(&mut self.evidence, &wake_up);
            }
            let (mut is_inside, mut slept) = (false, i64::MIN);
            for (stint, place) in ended.drain(..) {
                let mut occupant = None;
                match stint.doing {
                    Doing::Asleep { .. } => {
                        slept = stint.start;
                        let home = self.cutter.waiting_place(stint.thread).flatten();
                        is_inside = home.is_some() && place.is_some() && home != place;
                    }
                    Doing::Ready { cpu, held } => {
                        let (thread, ran) = (stint.thread, stint.end);
                        let by = |start, end| self.stints.occupant(cpu, start, end);
                        let chain = self.chains.run(thread, ran, held, by, is_inside);
                        if let Some(chain) = chain {
                            self.slowest.add(chain);
                        }
                        let due = self.cutter.due(&stint);
                        occupant = by(due.map_or(stint.start, |due| due.max(slept)), stint.end);
                    }
                    Doing::Preempted { cpu } => {
                        occupant = self.stints.occupant(cpu, stint.start, stint.end);
                    }
                    Doing::Running => {}
                }
                self.cutter.take(stint, place, occupant);
            }
            self.ended = ended;
            self.mark(&item, observer);
            // The stints must be processed first, because this event may be the first one that
            // shows the waker running.
            self.link(&item);
        }
    }

    /// Records that a thread reached one of the two functions.
    fn mark(&mut self, item: &Item, observer: &mut dyn Observer) {
        let event = match item {
            Item::Event(event) => event,
            Item::Lost { .. } => return self.cutter.lose(),
        };
        let Kind::Mark { is_end } = event.kind else {
            return;
        };
        let thread = event.head.pid;
        let time = i64::try_from(event.time).unwrap_or(i64::MAX);
        if !self.followed.now.contains(&thread) {
            return;
        }
        if let Some((due, ran)) = self.cutter.mark(thread, time, is_end) {
            let between = WakeUp {
                thread,
                cause: Cause::Functions,
                cpu: event.cpu,
                due,
                ran,
                parts: Parts::default(),
                start: Start::Switch,
            };
            let name = self.threads.get(&thread).map_or("", String::as_str);
            observer.wake_up(&between, &WakeUpKind::Between, name);
            keep(&mut self.evidence, &between);
        }
    }

    /// Records which thread woke which other thread.
    fn link(&mut self, item: &Item) {
        self.chains.take_loss(item);
        let Item::Event(event) = item else {
            return;
        };
        match event.kind {
            Kind::Waking { .. } => {
                let waker = self.stints.waker(event);
                self.chains.wake(event, waker);
                if let Waker::Thread(thread) = waker
                    && thread != 0
                    && !self.wakers.contains_key(&thread)
                    && self.wakers.len() < NAMES_MAX
                {
                    let name = process::name(&self.root, thread);
                    if let Some(priority) = process::priority(&self.root, thread) {
                        let (pid, name) = (thread, Text::from(name.as_str()));
                        self.watch.learn(Thread {
                            pid,
                            priority,
                            name,
                        });
                    }
                    self.wakers.insert(thread, name);
                    if !self.threads.contains_key(&thread) && self.linked.len() < LINKED_MAX {
                        self.has_new_link |= self.linked.insert(thread);
                    }
                }
            }
            // This arm handles only linked threads, which are not followed. For followed threads,
            // the stints show when they run.
            Kind::Switch { next, .. } if self.linked.contains(&next.pid) => {
                let time = i64::try_from(event.time).unwrap_or(i64::MAX);
                let by = |start, end| self.stints.occupant(event.cpu, start, end);
                self.chains.run(next.pid, time, None, by, false);
            }
            _ => {}
        }
    }

    /// Starts to follow new threads, and stops following ended ones. Returns false if the program
    /// has ended.
    fn look_for_threads(&mut self, observer: &mut dyn Observer) -> bool {
        let there = match self.target.look() {
            Look::There(there) => there,
            Look::Unknown => return true,
            Look::Ended => return false,
        };
        let (come, gone) = self.followed.look(there.keys().copied().collect());
        for (thread, name) in there {
            let name_before = self.threads.entry(thread).or_default();
            if !name.is_empty() {
                *name_before = name;
            }
        }
        for &thread in &come {
            self.watch.follow(thread);
            self.stints.follow(thread);
        }
        for &thread in &gone {
            self.watch.unfollow(thread);
            self.stints.unfollow(thread);
            self.cutter.unfollow(thread);
            self.slept.remove(&thread);
            // The result also names threads that have ended. They are removed from it only while it
            // has more than `NAMES_MAX` threads.
            if self.threads.len() > NAMES_MAX {
                self.threads.remove(&thread);
            }
        }
        if !gone.is_empty() {
            observer.left(&gone);
        }
        if !come.is_empty() || !gone.is_empty() || self.has_new_link {
            self.has_new_link = false;
            let (followed, linked) = (&self.followed.now, &self.linked);
            self.traces
                .follow(&self.functions, followed, linked, !come.is_empty());
        }
        true
    }
}

impl SoFar<'_> {
    /// Returns the cycles measured so far, the slowest chains, and how often the threads violated
    /// the rules for real-time loops.
    pub fn cycles(&mut self) -> Cycles {
        let Attachment {
            cutter,
            places,
            threads,
            wakers,
            slowest,
            watch,
            traces,
            ..
        } = &mut *self.0;
        let name = |thread: i32| {
            let known = threads.get(&thread).or(wakers.get(&thread));
            known.cloned().unwrap_or_default()
        };
        let mut cycles = cutter.result(places.all(), &name);
        cycles.chains = slowest.result(&name);
        let recorded = traces.recorded_kinds();
        cycles.rules = threads
            .iter()
            .filter_map(|(&thread, name)| {
                let (known, rules) = watch.rules(thread)?;
                Some(LoopRules {
                    thread: name.clone(),
                    id: Some(thread),
                    ..LoopRules::of(known, rules, recorded)
                })
            })
            .collect();
        // Real-time threads are listed first.
        cycles.rules.sort_by_key(|rules| rules.priority);
        cycles
    }

    /// Returns how many threads are followed now.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.0.followed.now.len()
    }

    /// Returns a trace.dat that shows the worst wake-ups, if it has changed since the last call.
    pub fn worst_trace(&mut self) -> Option<Vec<u8>> {
        let Attachment {
            evidence,
            traces,
            threads,
            places,
            ..
        } = &mut *self.0;
        let (head, cpus) = traces.head(threads, places.symbol_lines());
        evidence.as_mut()?.changed(|| head, &cpus)
    }

    /// Forgets the worst wake-ups, so that those of the next hour are stored.
    pub fn forget_worst(&mut self) {
        if let Some(evidence) = &mut self.0.evidence {
            evidence.forget();
        }
    }
}

/// If a wake-up is one of the worst, stores the trace around it.
fn keep(evidence: &mut Option<Evidence>, wake_up: &WakeUp) {
    if let Some(evidence) = evidence
        && let Ok(due) = u64::try_from(wake_up.due)
        && let Ok(ran) = u64::try_from(wake_up.ran)
    {
        evidence.sample(due, ran.max(due));
    }
}

/// The threads that are followed.
#[derive(Debug, Default)]
struct FollowedThreads {
    now: BTreeSet<i32>,
    /// The threads that the last search did not find.
    absent: BTreeSet<i32>,
}

impl FollowedThreads {
    /// Returns which threads are new and which have ended, given the current threads. A thread
    /// counts as ended if two searches in a row do not find it, because its last events have been
    /// read by then.
    fn look(&mut self, there: BTreeSet<i32>) -> (BTreeSet<i32>, BTreeSet<i32>) {
        let come = &there - &self.now;
        let absent = &self.now - &there;
        let gone = &absent & &self.absent;
        self.now = &(&self.now | &come) - &gone;
        self.absent = &absent - &gone;
        (come, gone)
    }
}

/// Returns the place where a thread waited during a sleep.
fn place_of(stint: &Stint, traces: &Traces, places: &mut Places) -> Option<u32> {
    match stint.doing {
        Doing::Asleep {
            stack: Some(stack),
            is_relative,
            ..
        } => places.number(stack, is_relative, traces.stack(stack)),
        _ => None,
    }
}

fn offsets() -> ClockOffsets {
    ClockOffsets {
        realtime: Clock::Realtime.ahead(),
        boottime: clock::boottime_ahead(),
        tai: Clock::Tai.ahead(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_gone_at_the_second_look_that_does_not_find_it() {
        let mut followed = FollowedThreads {
            now: [7, 8].into(),
            ..FollowedThreads::default()
        };
        assert_eq!(
            followed.look([7, 9].into()),
            ([9].into(), [].into()),
            "8 may have events that are not read yet"
        );
        assert_eq!(followed.look([7, 9].into()), ([].into(), [8].into()));
        assert_eq!(followed.now, [7, 9].into());
        assert_eq!(
            followed.look([7, 8].into()),
            ([8].into(), [].into()),
            "the number again"
        );
        assert_eq!(
            followed.look([7, 8, 9].into()),
            ([].into(), [].into()),
            "9 was there all the while"
        );
        assert_eq!(followed.look([7, 8].into()), ([].into(), [].into()));
    }
}
