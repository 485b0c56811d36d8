//! Reads a trace to find the wake-ups of threads.
//!
//! Runs with `--explain` do not record the end of a timer's function. The end of the timer's
//! interrupt gives the same information. A wake-up during the interrupt counts as the timer's only
//! if the interrupted thread is the same.
//!
//! A stack is not treated as an event of the stream. It belongs to the previous event on its CPU,
//! and contains the ID of the thread that ran at that time. Otherwise, a stack after a switch would
//! make it seem as if the previous thread ran again.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::blocked::ThreadWaits;
use super::cause::Wait;
use super::donors::{self, Donors};
use super::expiring::{ExpiringTimer, SetTimers, Timer};
use super::rules::{RuleScopes, Rules};
use super::sent::SentInterrupts;
use super::timeline::{Cpus, Timeline};
use super::waiting::{Functions, Target, WaitingThread, Way};
use super::{Component, DueFrom, Facts, Grid, Piece, WakeUp, Waker};
use crate::event::{Event, Kind, Thread};
use crate::merge::Item;
use crate::recent::Recent;
use crate::text::Text;

/// Minimum number of recently seen threads about which facts are stored.
const THREADS_MAX: usize = 1 << 12;
/// Maximum number of kernel workers that are stored.
const WORKERS_MAX: usize = 1 << 18;
/// The usual number of pieces of a wake-up; space for them is reserved in advance.
pub(super) const PIECES_USUAL: usize = 8;
/// Maximum number of unused buffers for pieces that are kept.
const SPARE_MAX: usize = 64;
/// The interrupt reads the timer's clock. If the time that it read and the time of the event differ
/// by less than this many ns, the timer uses the monotonic clock.
const SAME_CLOCK_NS: u64 = 1_000_000_000;

/// Reads a trace event by event, and returns explained wake-ups.
#[derive(Debug)]
pub struct Explainer {
    target: Target,
    facts: Facts,
    cpus: Cpus,
    /// What was last known about each thread.
    threads: Recent<i32, Thread>,
    timers: SetTimers,
    /// The work item that each kernel worker runs.
    work: HashMap<i32, u64>,
    /// Wake-ups whose threads do not run yet, by thread.
    waiting: HashMap<i32, WaitingThread>,
    /// The grids of due times, by thread ID; a grid replaces the thread's timers. The number is
    /// that of the last due time for which the thread was woken.
    grids: BTreeMap<i32, (Grid, Option<i64>)>,
    judged: RuleScopes,
    blocked: ThreadWaits,
    donors: Donors,
    sent: SentInterrupts,
    finished: Vec<WakeUp>,
    unfinished: u64,
    /// Whether a wake-up that spans lost events is explained, because its end is known from a
    /// sample.
    spans_losses: bool,
    /// Buffers of wake-ups that are no longer needed.
    spare: Vec<Vec<Piece>>,
}

impl Explainer {
    /// Creates an explainer that has read nothing yet. `threads` are names that are already known.
    #[must_use]
    pub fn new(
        target: Target,
        facts: Facts,
        threads: &std::collections::HashMap<i32, Text>,
    ) -> Self {
        let mut known = Recent::new(THREADS_MAX);
        for (&pid, &name) in threads {
            let thread = Thread {
                pid,
                priority: 120,
                name,
            };
            known.insert(pid, thread);
        }
        Self {
            target,
            facts,
            cpus: Cpus::default(),
            threads: known,
            timers: SetTimers::default(),
            work: HashMap::default(),
            waiting: HashMap::default(),
            grids: BTreeMap::new(),
            judged: RuleScopes::default(),
            blocked: ThreadWaits::default(),
            donors: Donors::default(),
            sent: SentInterrupts::default(),
            finished: Vec::new(),
            unfinished: 0,
            spans_losses: false,
            spare: Vec::new(),
        }
    }

    /// From now on, due times come from these grids (by thread ID) instead of from timers. In each
    /// period of a thread's grid, the first wake-up that may come from a timer is due at the start
    /// of the period. All other wake-ups are due when the thread is woken; so are all wake-ups of
    /// threads without a grid. If `grids` is empty, due times come from timers.
    #[must_use]
    pub fn with_grids(mut self, grids: impl IntoIterator<Item = (i32, Grid)>) -> Self {
        self.grids = grids
            .into_iter()
            .map(|(pid, grid)| (pid, (grid, None)))
            .collect();
        self
    }

    /// Processes the next item of the stream.
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.event(event),
            Item::Lost { cpu, time, .. } => {
                self.cpus.get_or_add(*cpu).lose(*time);
                self.timers.lose(*time);
                self.work.clear();
                self.judged.lose();
                self.blocked.lose();
                self.donors.lose();
                // While events were lost, the thread may have run, slept and been woken again.
                if !self.spans_losses {
                    self.unfinished += self.waiting.len() as u64;
                    self.waiting.clear();
                }
            }
        }
    }

    /// Also explains wake-ups of this thread from now on.
    pub fn follow(&mut self, pid: i32) {
        match &mut self.target {
            Target::Pids(pids) if !pids.contains(&pid) => pids.push(pid),
            Target::Pids(_) => {}
            Target::Names(_) => self.target = Target::Pids(vec![pid]),
        }
    }

    /// Returns whether a wake-up has ended since the last call of [`Explainer::finished`].
    pub(super) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Takes the memory of pieces that are no longer needed, to use it for other ones.
    pub(super) fn give_back(&mut self, mut pieces: Vec<Piece>) {
        if self.spare.len() < SPARE_MAX {
            pieces.clear();
            self.spare.push(pieces);
        }
    }

    /// Returns an empty buffer for pieces.
    pub(super) fn room(&mut self) -> Vec<Piece> {
        self.spare
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(PIECES_USUAL))
    }

    /// Returns the wake-ups that ended since the last call.
    pub fn finished(&mut self) -> impl Iterator<Item = WakeUp> {
        self.finished.drain(..)
    }

    /// Returns how often real-time loops did what they must avoid.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        self.judged.all()
    }

    /// From now on, also explains wake-ups during which events were lost. The caller knows from
    /// samples when each wake-up ended.
    pub(super) fn span_losses(&mut self) {
        self.spans_losses = true;
    }

    /// From now on, counts only what the threads given to [`Explainer::judge`] do, for each thread
    /// individually.
    pub(super) fn judge_single_threads(&mut self) {
        self.judged = RuleScopes::single_threads();
    }

    /// From now on, counts what this thread does, too.
    pub(super) fn judge(&mut self, pid: i32) {
        self.judged.add(pid);
    }

    /// Stops counting wake-ups by this thread as violations of the rules for real-time loops.
    pub(super) fn add_observer(&mut self, pid: i32) {
        self.judged.add_observer(pid);
    }

    /// Returns the counts of a thread.
    pub(super) fn rules_of(&self, pid: i32) -> Option<&Rules> {
        self.judged.of(pid)
    }

    /// Returns the number of wake-ups whose end is not in the trace, or is uncertain because events
    /// were lost during the wake-up.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished + self.waiting.len() as u64
    }

    fn event(&mut self, event: &Event) {
        // A stack belongs to the event before it. After a switch, a stack still names the thread
        // that lost the CPU, so it does not show which thread runs now.
        if let Kind::Stack { place } = event.kind {
            if let (Some(place), Some(timeline)) = (place, self.cpus.get_mut(event.cpu)) {
                timeline.apply_stack(place);
            }
            return;
        }
        // If a thread itself wrote an event, the thread runs. If the trace lacks the switch to it,
        // this event is the first sign of that.
        if self.waiting.contains_key(&event.head.pid) {
            self.first_sign(event);
        }
        self.learn(event);
        if self.is_target(event.head.pid) {
            if let Some(rules) = self.judged.of_mut(event.head.pid) {
                rules.take(event);
            }
            self.blocked.take_own(event);
        }
        if self.facts.has_proxy_execution {
            self.donors.take(event);
        }
        match event.kind {
            Kind::TimerStart {
                timer,
                expires,
                soft_expires,
                mode,
                ..
            } => {
                let by = event.head.pid;
                let set = Timer {
                    expires,
                    soft_expires,
                    mode,
                    by,
                };
                self.timers.insert(timer, set, event.time);
            }
            Kind::TimerCancel { timer } => drop(self.timers.remove(timer)),
            Kind::TimerExpireEntry {
                timer,
                function,
                now,
            } => self.expire(event, timer, function, now),
            Kind::TimerExpireExit { .. } => self.end_expiry(event, |_| true),
            Kind::VectorExit { .. } | Kind::IrqExit { .. } => {
                self.end_expiry(event, |expiring| expiring.is_in_interrupt)
            }
            Kind::SoftirqExit { .. } => {
                self.end_expiry(event, |expiring| !expiring.is_in_interrupt)
            }
            Kind::IpiSend { cpu } => self.send(event, [cpu]),
            Kind::IpiSendMany { cpus } => self.send(event, cpus.iter()),
            Kind::FunctionQueue { cpu, function } => self.sent.queue(cpu, event.time, function),
            Kind::WorkStart { function } if self.work.len() < WORKERS_MAX => {
                self.work.insert(event.head.pid, function);
            }
            Kind::WorkEnd => drop(self.work.remove(&event.head.pid)),
            // A monitor may report a violation while another thread runs.
            Kind::Violation {
                monitor,
                pid: Some(pid),
            } if self.is_target(pid) => {
                if let Some(rules) = self.judged.of_mut(pid) {
                    rules.reported(monitor);
                }
            }
            Kind::Waking { thread, target_cpu } if self.target.is(thread) => {
                self.waking(event, thread, target_cpu)
            }
            Kind::Migrate { pid, to_cpu } => {
                if let Some(waiting) = self
                    .waiting
                    .get_mut(&pid)
                    .filter(|waiting| waiting.moves.len() < 1000)
                {
                    waiting.moves.push((event.time, to_cpu));
                }
            }
            _ => {}
        }
        let timeline = self.cpus.get_or_add(event.cpu);
        let sender = match event.kind {
            Kind::VectorEntry { name } => self.sent.arrive(event.cpu, event.time, name),
            _ => None,
        };
        if let Some(function) = self.facts.slice_expired {
            timeline.follow_extension(&event.kind, function);
        }
        timeline.apply(event, &self.threads, sender);
        if let Kind::Switch { next, .. } = event.kind
            && let Some(waiting) = self.waiting.remove(&next.pid)
        {
            self.finish(waiting, event.cpu, event.time, None);
        }
    }

    /// Records that a CPU sends an interrupt to other CPUs.
    fn send(&mut self, event: &Event, cpus: impl IntoIterator<Item = u32>) {
        let name = self.threads.get(&event.head.pid).map_or_else(
            || {
                if event.head.pid == 0 {
                    "idle".into()
                } else {
                    Text::default()
                }
            },
            |thread| thread.name,
        );
        for cpu in cpus {
            self.sent.send(cpu, event.time, name);
        }
    }

    fn is_target(&self, pid: i32) -> bool {
        match &self.target {
            Target::Pids(pids) => pids.contains(&pid),
            Target::Names(_) => self
                .threads
                .get(&pid)
                .is_some_and(|&thread| self.target.is(thread)),
        }
    }

    fn learn(&mut self, event: &Event) {
        let mut learn = |thread: Thread| match self.threads.touch(&thread.pid) {
            Some(known) => *known = thread,
            None => self.threads.insert(thread.pid, thread),
        };
        match event.kind {
            Kind::Switch { previous, next, .. } => {
                // If the thread's switch to this CPU was seen, its name and priority are already
                // known.
                if self.cpus.get(event.cpu).and_then(Timeline::thread) != Some(previous) {
                    learn(previous);
                }
                learn(next);
            }
            Kind::Waking { thread, .. } => learn(thread),
            _ => {}
        }
    }

    fn expire(&mut self, event: &Event, timer: u64, function: u64, now: i64) {
        let timeline = self.cpus.get_or_add(event.cpu);
        let interrupt = if event.head.is_in_interrupt() {
            timeline.interrupt.map(|(time, _)| time)
        } else {
            timeline.timer_softirq_raised.take()
        };
        let (pid, is_in_interrupt) = (event.head.pid, event.head.is_in_interrupt());
        let expiring = ExpiringTimer {
            time: event.time,
            now,
            function,
            timer: self.timers.remove(timer),
            interrupt,
            pid,
            is_in_interrupt,
        };
        timeline.expiring = Some(expiring);
    }

    fn end_expiry(&mut self, event: &Event, is_it: impl FnOnce(&ExpiringTimer) -> bool) {
        let timeline = self.cpus.get_or_add(event.cpu);
        if timeline.expiring.as_ref().is_some_and(is_it) {
            timeline.expiring = None;
        }
    }

    fn waking(&mut self, event: &Event, thread: Thread, target_cpu: u32) {
        let is_of_thread =
            !event.head.is_in_interrupt() && !event.head.is_in_softirq() && event.head.pid != 0;
        self.blocked.woken(
            thread.pid,
            event.time,
            self.threads
                .get(&event.head.pid)
                .copied()
                .filter(|_| is_of_thread),
        );
        let runs_already = self.cpus.values().any(|timeline| {
            timeline
                .thread()
                .is_some_and(|running| running.pid == thread.pid)
        });
        if runs_already && event.head.pid == thread.pid {
            return;
        }
        let timeline = self.cpus.get_or_add(event.cpu);
        let interrupted_depth = timeline.interrupt.map(|(_, depth)| depth);
        let functions = Functions {
            stack: timeline.interrupt.and(timeline.interrupted_stack),
            is_softirq: timeline.is_softirq_interrupted(),
        };
        let entered = timeline
            .interrupt
            .map(|(time, _)| time)
            .filter(|_| event.head.is_in_interrupt());
        let expiring = timeline
            .expiring
            .filter(|expiring| expiring.pid == event.head.pid);
        let by_thread = self
            .threads
            .get(&event.head.pid)
            .copied()
            .unwrap_or(Thread {
                pid: event.head.pid,
                priority: 120,
                name: Text::default(),
            });
        let waker = match expiring {
            Some(expiring) => Waker::Timer(expiring.function),
            None if event.head.is_in_interrupt() => Waker::Interrupt,
            None if event.head.is_in_softirq() => Waker::Softirq,
            None => Waker::Thread(by_thread),
        };
        let timed = expiring.and_then(|expiring| Some((expiring, expiring.timer?)));
        let is_of_observer = self.judged.is_observer(event.head.pid) && is_of_thread;
        if let Some(rules) = self.judged.of_mut(thread.pid).filter(|_| !is_of_observer) {
            if timed.is_some() {
                rules.begin();
            }
            rules.woken(
                thread,
                if expiring.is_some() && !event.head.is_in_interrupt() {
                    Waker::Softirq
                } else {
                    waker
                },
            );
            if let Some((_, timer)) = timed.filter(|(_, timer)| timer.by == thread.pid) {
                rules.slept(timer.mode, timer.soft_expires);
            }
        }
        let on_grid = self
            .grids
            .get_mut(&thread.pid)
            .filter(|_| waker.may_be_timer())
            .and_then(|(grid, last)| {
                let (place, due) = grid.last_due(event.time);
                (last.replace(place) != Some(place)).then_some(due)
            });
        let (due, slack_end, due_from) = match (on_grid, timed) {
            (Some(due), _) => (due, due, DueFrom::Period),
            (None, Some((expiring, timer))) if self.grids.is_empty() => {
                let at = |time| self.on_trace_clock(expiring, time).min(event.time);
                (at(timer.soft_expires), at(timer.expires), DueFrom::Timer)
            }
            _ => (event.time, event.time, DueFrom::Waking),
        };
        let way = expiring.filter(|_| due_from != DueFrom::Waking);
        let waiting = WaitingThread {
            thread,
            due,
            slack_end,
            due_from,
            waker,
            interrupt: way.map_or(
                entered.filter(|_| due_from == DueFrom::Period),
                |expiring| expiring.interrupt,
            ),
            expiry: way.map(|expiring| expiring.time),
            waking: event.time,
            waking_cpu: event.cpu,
            interrupted_depth,
            functions,
            queue: (event.time, target_cpu),
            moves: Vec::new(),
        };
        // If a thread is woken twice, it ran in between, although the trace does not show it.
        if self.waiting.insert(thread.pid, waiting).is_some() {
            self.unfinished += 1;
        }
    }

    /// Converts a time on the timer's clock to a time on the trace's clock. The timer's interrupt
    /// read the timer's clock shortly before the event. If the timer's clock is not the trace's
    /// clock, the converted due time is too late by the short time between this reading and the
    /// event. The latency is then too small by the same amount.
    fn on_trace_clock(&self, expiring: ExpiringTimer, time: i64) -> u64 {
        let is_same = self.facts.is_monotonic
            && expiring.time.abs_diff(expiring.now.max(0).cast_unsigned()) < SAME_CLOCK_NS;
        if is_same {
            time.max(0).cast_unsigned()
        } else {
            expiring
                .time
                .saturating_add_signed(time.saturating_sub(expiring.now))
        }
    }

    fn first_sign(&mut self, event: &Event) {
        // A thread may be woken while it is still about to go to sleep. The event of this wake-up
        // has the thread's own ID, and shows only that the thread has not left its CPU yet.
        if matches!(event.kind, Kind::Waking { thread, .. } if thread.pid == event.head.pid) {
            return;
        }
        let Some(waiting) = self.waiting.remove(&event.head.pid) else {
            return;
        };
        let last = self
            .cpus
            .get(event.cpu)
            .and_then(Timeline::last)
            .unwrap_or(event.time);
        let ran = last.clamp(waiting.waking, event.time);
        self.finish(waiting, event.cpu, ran, Some(event.time));
    }

    /// Ends the wake-up of a thread. A sample shows that the thread ran at `woke`, although no
    /// event has shown this yet.
    pub(super) fn settle(&mut self, pid: i32, woke: u64) {
        let Some(waiting) = self.waiting.remove(&pid) else {
            return;
        };
        if waiting.waking > woke {
            self.waiting.insert(pid, waiting);
            return;
        }
        let (_, cpu) = waiting.last_queue();
        let last = self
            .cpus
            .get(cpu)
            .and_then(|timeline| timeline.moment(woke))
            .map_or(woke, |moment| moment.time);
        let ran = last.clamp(waiting.waking, woke);
        self.finish(waiting, cpu, ran, Some(woke));
    }

    /// Forgets what CPUs did before `time`, but nothing after the earliest due time of a waiting
    /// thread.
    pub(super) fn forget_before(&mut self, time: u64) {
        let time = self
            .waiting
            .values()
            .map(|waiting| waiting.due)
            .fold(time, u64::min);
        self.cpus
            .values_mut()
            .for_each(|timeline| timeline.forget_before(time));
        self.blocked.forget_before(time);
        self.donors.forget_before(time);
    }

    /// Returns the thread that was on each CPU at `time`, if known.
    pub(super) fn running(&self, time: u64) -> impl Iterator<Item = (u32, Thread)> {
        self.cpus
            .iter()
            .filter_map(move |(cpu, timeline)| Some((cpu, timeline.moment(time)?.thread?)))
    }

    /// Returns the names of the threads in the trace, by thread ID.
    pub(super) fn names(&self) -> impl Iterator<Item = (i32, Text)> {
        self.threads
            .values()
            .filter(|thread| !thread.name.is_empty())
            .map(|thread| (thread.pid, thread.name))
    }

    /// Returns what was last known about a thread.
    pub(super) fn thread(&self, pid: i32) -> Thread {
        self.threads.get(&pid).copied().unwrap_or(Thread {
            pid,
            priority: 120,
            name: Text::default(),
        })
    }

    /// Replaces those parts of `pieces` in which the sample's thread itself waited.
    pub(super) fn lay_waits(&self, pid: i32, pieces: &mut Vec<Piece>) {
        self.blocked.lay(pid, pieces);
    }

    /// Returns the index of the stack that was recorded with the event of a CPU at `time`.
    pub(super) fn stack_at(&self, cpu: u32, time: u64) -> Option<u32> {
        self.cpus
            .get(cpu)?
            .moment(time)
            .filter(|moment| moment.time == time)?
            .stack
    }

    fn finish(&mut self, waiting: WaitingThread, cpu: u32, ran: u64, first_sign: Option<u64>) {
        let ran = ran.max(waiting.waking);
        // The times of the events that lead to the thread are corrected so that none is earlier
        // than the previous one.
        let interrupt = waiting
            .interrupt
            .map(|time| time.clamp(waiting.due, waiting.waking));
        let expiry = waiting
            .expiry
            .map(|time| time.clamp(interrupt.unwrap_or(waiting.due), waiting.waking));
        let timer_end = interrupt.or(expiry).unwrap_or(waiting.waking);
        let slack_end = waiting.slack_end.clamp(waiting.due, timer_end);
        let WaitingThread {
            thread,
            waking_cpu,
            interrupted_depth,
            functions,
            ..
        } = waiting;
        let way = Way {
            thread,
            waking_cpu,
            interrupted_depth,
            functions,
        };
        let mut pieces = self.room();
        if slack_end > waiting.due {
            let holder = super::Holder::of(super::Cause::Slack);
            let (start, end) = (waiting.due, slack_end);
            let known = super::Certainty::Seen;
            pieces.push(Piece {
                component: Component::Timer,
                holder,
                known,
                cpu: waking_cpu,
                start,
                end,
                stack: None,
                ended: None,
            });
        }
        if waiting.due_from != DueFrom::Waking {
            self.cut(
                way,
                Component::Timer,
                waiting.waking_cpu,
                slack_end,
                timer_end,
                &mut pieces,
            );
            let expiry = expiry.unwrap_or(timer_end);
            self.cut(
                way,
                Component::Interrupt,
                waiting.waking_cpu,
                timer_end,
                expiry,
                &mut pieces,
            );
            self.cut(
                way,
                Component::Expiry,
                waiting.waking_cpu,
                expiry,
                waiting.waking,
                &mut pieces,
            );
        }
        // Without migration events, only the CPU on which the thread ran is known.
        let is_known = waiting.last_queue().1 == cpu;
        let (mut from, mut on) = if is_known {
            waiting.queue
        } else {
            (waiting.waking, cpu)
        };
        let moves = if is_known { &waiting.moves[..] } else { &[] };
        for &(until, next) in moves.iter().chain([&(ran, cpu)]) {
            self.cut(
                way,
                Component::Switch,
                on,
                from.clamp(waiting.waking, ran),
                until.clamp(waiting.waking, ran),
                &mut pieces,
            );
            (from, on) = (until, next);
        }
        self.finished.push(WakeUp {
            thread: waiting.thread,
            due: waiting.due,
            due_from: waiting.due_from,
            waker: waiting.waker,
            interrupt,
            expiry,
            waking: waiting.waking,
            waking_cpu: waiting.waking_cpu,
            ran,
            first_sign,
            cpu,
            pieces,
        });
    }

    /// Divides a component into pieces wherever the CPU starts to do something else.
    pub(super) fn cut(
        &self,
        way: Way,
        component: Component,
        cpu: u32,
        from: u64,
        to: u64,
        pieces: &mut Vec<Piece>,
    ) {
        if from >= to {
            return;
        }
        let nothing = Timeline::default();
        let timeline = self.cpus.get(cpu).unwrap_or(&nothing);
        let mut wait = Wait {
            facts: &self.facts,
            thread: way.thread,
            component,
            were_interrupts_on: component == Component::Timer
                && timeline.were_interrupts_on(from, to),
            interrupted_depth: way.interrupted_depth.filter(|_| cpu == way.waking_cpu),
            found: None,
            is_earlier_extension: true,
        };
        let first = pieces.len();
        let Functions {
            mut stack,
            is_softirq,
        } = if cpu == way.waking_cpu {
            way.functions
        } else {
            Functions::default()
        };
        let has_stacks = stack.is_some();
        // What the CPU resumes when the context on top of it ends.
        let mut below = None;
        timeline.stretches(from, to, |start, end, moment| {
            wait.found = wait.found.or_else(|| Some(moment?.thread?.pid));
            wait.is_earlier_extension &= moment.is_some_and(|moment| moment.is_extended);
            if has_stacks {
                stack = moment
                    .filter(|moment| moment.time > from)
                    .and_then(|moment| moment.stack)
                    .or(stack);
            }
            let (mut holder, mut known) = wait.holder(moment, end - start, end == to, |pid| {
                self.work.get(&pid).copied()
            });
            if let Some(owner) = moment.and_then(|moment| moment.thread)
                && let Some(donor) = self.donors.of(owner.pid, way.thread, start, end)
            {
                let is_switch = end - start <= self.facts.switch_ns;
                (holder, known) = donors::owner(holder, known, owner, donor, is_switch);
            }
            if let Some(moment) = moment.filter(|_| holder.cause == super::Cause::Interrupt) {
                let sender = timeline.sender(moment.time);
                holder.sender = sender.map(|sender| sender.name);
                holder.work = sender.and_then(|sender| sender.function);
            }
            match pieces.last_mut() {
                Some(last)
                    if (last.component, last.known, last.cpu) == (component, known, cpu)
                        && last.holder == holder =>
                {
                    last.end = end
                }
                _ => {
                    let is_found = holder.cause != super::Cause::Softirq
                        || below.map_or(is_softirq, |below| below == holder);
                    pieces.push(Piece {
                        component,
                        holder,
                        known,
                        cpu,
                        start,
                        end,
                        stack: stack.filter(|_| is_found),
                        ended: None,
                    });
                }
            }
            if has_stacks && !matches!(holder.cause, super::Cause::Interrupt | super::Cause::Nmi) {
                below = Some(holder);
            }
        });
        if !has_stacks {
            return;
        }
        for piece in &mut pieces[first..] {
            piece.stack = piece
                .stack
                .filter(|_| piece.has_functions(self.facts.switch_ns));
        }
    }
}
