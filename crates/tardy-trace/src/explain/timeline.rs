//! Reconstructs what one CPU was doing, as a stack of contexts: from the events, and from what each
//! event states about the context in which it was written.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::expiring::ExpiringTimer;
use super::sent::Sender;
use crate::event::{Event, Head, Kind, Thread};
use crate::recent::Recent;
use crate::text::Text;

/// Maximum number of moments that are stored per CPU; they take 12 MB. They suffice for 13 s at
/// 10,000 events a second, and for 0.7 s at 200,000.
const MOMENTS_MAX: usize = 1 << 17;
/// Maximum number of interrupts per CPU for which the sender is stored.
const SENDERS_MAX: usize = 1 << 14;
/// The softirq in which timers expire if they do not expire in a hard interrupt.
const HRTIMER_SOFTIRQ: i64 = 8;

/// The topmost context of the CPU's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Nmi,
    /// An interrupt, with its name if the trace has it.
    Interrupt(Option<Text>),
    /// A softirq, with its number if the trace has it.
    Softirq(Option<i64>),
    Thread,
}

/// What a CPU does from one moment until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    pub(super) time: u64,
    pub(super) top: Context,
    /// The thread on the CPU; a context may have interrupted it.
    pub(super) thread: Option<Thread>,
    /// The context that the event describes.
    pub(super) head: Head,
    /// Whether events were lost after this moment.
    pub(super) is_lost: bool,
    /// Whether the time slice of the thread on the CPU is extended.
    pub(super) is_extended: bool,
    /// The call stack, if a trigger of the event recorded it.
    pub(super) stack: Option<u32>,
}

impl Moment {
    /// Returns whether the CPU does the same at both moments.
    fn is_like(&self, other: &Self) -> bool {
        let pid = |moment: &Self| moment.thread.map(|thread| thread.pid);
        pid(self) == pid(other)
            && (self.is_lost, self.is_extended, self.top)
                == (other.is_lost, other.is_extended, other.top)
    }
}

/// All CPUs, sorted by number. Most machines number their CPUs from 0 without a gap.
#[derive(Debug, Default)]
pub(super) struct Cpus(Vec<(u32, Timeline)>);

impl Cpus {
    #[inline]
    fn place(&self, cpu: u32) -> Result<usize, usize> {
        match self.0.get(cpu as usize) {
            Some(&(number, _)) if number == cpu => Ok(cpu as usize),
            _ => self.0.binary_search_by_key(&cpu, |&(number, _)| number),
        }
    }

    pub(super) fn get(&self, cpu: u32) -> Option<&Timeline> {
        self.place(cpu).ok().map(|place| &self.0[place].1)
    }

    pub(super) fn get_mut(&mut self, cpu: u32) -> Option<&mut Timeline> {
        self.place(cpu).ok().map(|place| &mut self.0[place].1)
    }

    #[inline]
    pub(super) fn get_or_add(&mut self, cpu: u32) -> &mut Timeline {
        let place = self.place(cpu).unwrap_or_else(|place| {
            self.0.insert(place, (cpu, Timeline::default()));
            place
        });
        &mut self.0[place].1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Timeline)> {
        self.0.iter().map(|(cpu, timeline)| (*cpu, timeline))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Timeline> {
        self.0.iter().map(|(_, timeline)| timeline)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Timeline> {
        self.0.iter_mut().map(|(_, timeline)| timeline)
    }
}

/// What a CPU does now, and what it did recently.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    moments: VecDeque<Moment>,
    /// The contexts that have interrupted the thread, such as interrupts and softirqs.
    stack: Vec<Context>,
    thread: Option<Thread>,
    /// When the outermost interrupt on the CPU started, and how many nested sections had preemption
    /// off at that time. `None` if the CPU is in no interrupt, or if the entry was not seen.
    pub(super) interrupt: Option<(u64, u8)>,
    /// The timer whose function the CPU is executing.
    pub(super) expiring: Option<ExpiringTimer>,
    /// The stack of the interrupted functions, if a trigger recorded it.
    pub(super) interrupted_stack: Option<u32>,
    /// When the CPU entered the interrupt in which the softirq of timers was last raised.
    pub(super) timer_softirq_raised: Option<u64>,
    /// The timer that will end the extended time slice of the thread on the CPU.
    extension: Option<u64>,
    /// Whether the kernel sets a flag in events that are written during a softirq. On PREEMPT_RT it
    /// does not, because threads serve softirqs.
    are_softirqs_flagged: bool,
    /// Whether the trace shows when softirqs are entered, and no event was lost since this was last
    /// seen.
    are_softirqs_traced: bool,
    /// When interrupts from other CPUs arrived, and who sent them.
    senders: VecDeque<(u64, Sender)>,
    /// The softirqs that each thread was serving when it lost the CPU (PREEMPT_RT).
    suspended: HashMap<i32, Vec<Context>>,
}

impl Timeline {
    /// Returns the thread on the CPU.
    pub(super) fn thread(&self) -> Option<Thread> {
        self.thread
    }

    /// Returns when the last event was written.
    pub(super) fn last(&self) -> Option<u64> {
        self.moments.back().map(|moment| moment.time)
    }

    /// Returns what the CPU was doing at `time`.
    pub(super) fn moment(&self, time: u64) -> Option<&Moment> {
        self.after(time)
            .checked_sub(1)
            .map(|index| &self.moments[index])
    }

    /// Returns the number of moments at or before `time`. Most queries ask for a recent time, and
    /// the whole list does not fit into a cache, so the search starts at the end.
    fn after(&self, time: u64) -> usize {
        let (older, newer) = self.moments.as_slices();
        let is_newer = newer.first().is_some_and(|moment| moment.time <= time);
        let (before, moments) = if is_newer {
            (older.len(), newer)
        } else {
            (0, older)
        };
        let mut back = 16;
        while back < moments.len() && moments[moments.len() - back].time > time {
            back *= 4;
        }
        let begin = moments.len().saturating_sub(back);
        before + begin + moments[begin..].partition_point(|moment| moment.time <= time)
    }

    /// Keeps track of whether the time slice of the thread on the CPU is extended. When the thread
    /// returns to its program, the kernel sets a timer with the function at `slice_expired`
    /// (kernel/rseq.c, `__rseq_arm_slice_extension_timer`). If the trace does not show cancelled
    /// timers, the slice is taken to end at the next switch.
    pub(super) fn follow_extension(&mut self, kind: &Kind, slice_expired: u64) {
        match *kind {
            Kind::TimerStart {
                timer, function, ..
            } if function == slice_expired => self.extension = Some(timer),
            Kind::TimerCancel { timer } | Kind::TimerExpireEntry { timer, .. }
                if self.extension == Some(timer) =>
            {
                self.extension = None
            }
            Kind::Switch { .. } => self.extension = None,
            _ => {}
        }
    }

    /// Processes an event. `known` has the names and priorities of threads, by thread ID. If the
    /// event is the arrival of an interrupt, `sender` sent it.
    pub(super) fn apply(
        &mut self,
        event: &Event,
        known: &Recent<i32, Thread>,
        sender: Option<Sender>,
    ) {
        self.learn_thread(event.head, known);
        self.learn_context(event);
        match event.kind {
            Kind::VectorEntry { name } | Kind::IrqEntry { name, .. } => {
                if !self
                    .stack
                    .iter()
                    .any(|context| matches!(context, Context::Interrupt(_)))
                {
                    self.interrupt = Some((event.time, event.head.preempt_depth()));
                    self.interrupted_stack = None;
                }
                self.stack.push(Context::Interrupt(Some(name)));
            }
            Kind::VectorExit { .. } | Kind::IrqExit { .. } => {
                self.leave(|context| matches!(context, Context::Interrupt(_)))
            }
            Kind::SoftirqRaise {
                vector: HRTIMER_SOFTIRQ,
            } => self.timer_softirq_raised = self.interrupt.map(|(time, _)| time),
            Kind::SoftirqEntry { vector } => {
                self.are_softirqs_flagged |= event.head.is_in_softirq();
                self.are_softirqs_traced = true;
                self.stack.push(Context::Softirq(Some(vector)));
            }
            Kind::SoftirqExit { .. } => {
                self.leave(|context| matches!(context, Context::Softirq(_)))
            }
            Kind::Nmi { took } => self.insert_nmi(event, took),
            Kind::Switch {
                previous,
                previous_state,
                next,
            } => self.switch(previous.pid, previous_state, next),
            _ => {}
        }
        // A CPU is never in more than a few contexts at once. If there are more, the trace is
        // damaged: it has entries without exits.
        self.stack.truncate(16);
        self.push(event.time, event.head);
        if let Some(sender) = sender {
            self.senders.push_back((event.time, sender));
            if self.senders.len() > SENDERS_MAX {
                self.senders.pop_front();
            }
        }
    }

    /// Adds the stack of the last event.
    pub(super) fn apply_stack(&mut self, place: u32) {
        let Some(last) = self.moments.back_mut() else {
            return;
        };
        last.stack = Some(place);
        if self.interrupt.is_some_and(|(time, _)| time == last.time) {
            self.interrupted_stack = Some(place);
        }
    }

    /// Returns whether the CPU is serving a softirq, even if an interrupt has interrupted it.
    pub(super) fn is_softirq_interrupted(&self) -> bool {
        self.stack
            .iter()
            .any(|context| matches!(context, Context::Softirq(_)))
    }

    /// Forgets what the CPU is doing, because events were lost before `time`, and marks the last
    /// moment.
    pub(super) fn lose(&mut self, time: u64) {
        if let Some(last) = self.moments.back_mut() {
            last.is_lost = true;
        }
        self.are_softirqs_traced = false;
        self.stack.clear();
        self.suspended.clear();
        (
            self.thread,
            self.interrupt,
            self.timer_softirq_raised,
            self.expiring,
            self.extension,
        ) = (None, None, None, None, None);
        self.push(time, Head::default());
    }

    /// Returns who sent the interrupt that arrived at `time`.
    pub(super) fn sender(&self, time: u64) -> Option<Sender> {
        let place = self.senders.partition_point(|&(sent, _)| sent < time);
        self.senders
            .get(place)
            .filter(|&&(sent, _)| sent == time)
            .map(|&(_, sender)| sender)
    }

    /// Forgets the moments before `time`, so that the others fit into a cache.
    pub(super) fn forget_before(&mut self, time: u64) {
        while self
            .moments
            .get(1)
            .is_some_and(|second| second.time <= time)
        {
            self.moments.pop_front();
        }
        while self.senders.front().is_some_and(|&(sent, _)| sent < time) {
            self.senders.pop_front();
        }
    }

    /// Divides `from..to` into intervals without gaps, and passes to `visit` each interval and what
    /// the CPU did in it. Adjacent intervals with equal contexts are merged. For the time before
    /// the first moment, `visit` gets `None`.
    pub(super) fn stretches(
        &self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(u64, u64, Option<&Moment>),
    ) {
        let begin = self
            .moments
            .front()
            .map_or(to, |moment| moment.time.clamp(from, to));
        if begin > from {
            visit(from, begin, None);
        }
        let mut found: Option<(u64, u64, &Moment)> = None;
        let mut moments = self
            .moments
            .range(self.after(from).saturating_sub(1)..)
            .peekable();
        while let Some(moment) = moments.next() {
            let start = moment.time.max(from);
            if start >= to {
                break;
            }
            let end = moments.peek().map_or(to, |next| next.time.min(to));
            match &mut found {
                _ if start >= end => {}
                Some((_, longer, first)) if first.is_like(moment) => *longer = end,
                _ => {
                    if let Some((start, end, moment)) = found.replace((start, end, moment)) {
                        visit(start, end, Some(moment));
                    }
                }
            }
        }
        if let Some((start, end, moment)) = found {
            visit(start, end, Some(moment));
        }
    }

    /// Returns whether an event after `from` and before `to` was written while the CPU executed a
    /// thread with interrupts on.
    pub(super) fn were_interrupts_on(&self, from: u64, to: u64) -> bool {
        let mut found = false;
        let mut moments = self.moments.range(self.after(from)..).peekable();
        while let Some(moment) = moments.next_if(|moment| moment.time < to) {
            // If another event follows at the same time, the moment has no length.
            let end = moments.peek().map_or(to, |next| next.time);
            found |=
                moment.time < end && moment.top == Context::Thread && !moment.head.is_irqs_off();
        }
        found
    }

    fn push(&mut self, time: u64, head: Head) {
        if self.moments.len() == MOMENTS_MAX {
            self.moments.pop_front();
        }
        let top = self.stack.last().copied().unwrap_or(Context::Thread);
        self.moments.push_back(Moment {
            time,
            top,
            thread: self.thread,
            head,
            is_lost: false,
            is_extended: self.extension.is_some(),
            stack: None,
        });
    }

    /// Sets the thread on the CPU to the one that the event names. This is needed because some
    /// kernels do not trace the switch from the idle task. After such a switch, the next event of
    /// the CPU shows which thread has got the CPU, but not when.
    fn learn_thread(&mut self, head: Head, known: &Recent<i32, Thread>) {
        if self.thread.is_some_and(|thread| thread.pid == head.pid) {
            return;
        }
        let unnamed = Thread {
            pid: head.pid,
            priority: 120,
            name: Text::default(),
        };
        self.thread = Some(known.get(&head.pid).copied().unwrap_or(unnamed));
        if let Some(last) = self.moments.back_mut().filter(|last| {
            last.top == Context::Thread && last.thread.is_some_and(|thread| thread.pid == 0)
        }) {
            last.thread = self.thread;
        }
    }

    /// Adds entries and exits that the trace lacks, as far as the flags of other events reveal
    /// them.
    fn learn_context(&mut self, event: &Event) {
        let is_own = matches!(
            event.kind,
            Kind::VectorEntry { .. }
                | Kind::IrqEntry { .. }
                | Kind::VectorExit { .. }
                | Kind::IrqExit { .. }
        );
        let has_interrupt = self
            .stack
            .iter()
            .any(|context| matches!(context, Context::Interrupt(_)));
        if !event.head.is_in_interrupt() && has_interrupt {
            self.stack
                .retain(|context| !matches!(context, Context::Interrupt(_)));
            self.interrupt = None;
        } else if event.head.is_in_interrupt() && !has_interrupt && !is_own {
            self.stack.push(Context::Interrupt(None));
        }
        if matches!(
            event.kind,
            Kind::SoftirqEntry { .. } | Kind::SoftirqExit { .. }
        ) {
            return;
        }
        let is_softirq = |context: &Context| matches!(context, Context::Softirq(vector) if self.are_softirqs_flagged || vector.is_none());
        if !event.head.is_in_softirq() {
            self.stack.retain(|context| !is_softirq(context));
        } else if !self.are_softirqs_traced
            && !self
                .stack
                .iter()
                .any(|context| matches!(context, Context::Softirq(_)))
        {
            // If the trace does not show when softirqs are entered, a flagged event means that a
            // softirq is being served. If the trace shows it, a flagged event means that an
            // interrupt came within the softirq but outside of any handler: before the first or
            // after the last one.
            self.stack.insert(0, Context::Softirq(None));
        }
    }

    /// Removes the topmost context for which `is_it` returns true, and all contexts above it.
    fn leave(&mut self, is_it: impl Fn(&Context) -> bool) {
        if let Some(place) = self.stack.iter().rposition(is_it) {
            self.stack.truncate(place);
        }
        if !self
            .stack
            .iter()
            .any(|context| matches!(context, Context::Interrupt(_)))
        {
            self.interrupt = None;
        }
    }

    fn switch(&mut self, previous: i32, previous_state: i64, next: Thread) {
        // If a thread loses the CPU while it serves a softirq, it resumes the softirq when it gets
        // a CPU again. This does not apply to a thread that has ended.
        self.stack
            .retain(|context| matches!(context, Context::Softirq(_)));
        if !self.stack.is_empty() && previous_state & 0x30 == 0 && self.suspended.len() < 4096 {
            self.suspended
                .insert(previous, std::mem::take(&mut self.stack));
        }
        self.stack.clear();
        if !self.suspended.is_empty() {
            self.stack = self.suspended.remove(&next.pid).unwrap_or_default();
        }
        (self.thread, self.interrupt) = (Some(next), None);
    }

    /// Adds both the start and the end of a non-maskable interrupt. The kernel writes only one
    /// event, at the end of the handler, which took the time `took`.
    fn insert_nmi(&mut self, event: &Event, took: i64) {
        let Some(last) = self.moments.back().copied() else {
            return;
        };
        let began = event
            .time
            .saturating_sub(u64::try_from(took).unwrap_or(0))
            .max(last.time);
        self.moments.push_back(Moment {
            time: began,
            top: Context::Nmi,
            stack: None,
            ..last
        });
    }
}
