//! What interrupts the thread on each CPU: a timer's function, an interrupt or a softirq. This
//! shows what woke a thread, and when the waker itself had started. It also shows which interrupt
//! or softirq had a CPU while a thread waited for this CPU.
//!
//! The trace must contain the entries and exits of timers' functions, interrupts and softirqs.
//! Without these events, it is unknown which interrupt woke a thread, and when the interrupt
//! started.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::event::{Event, Kind};
use crate::text::Text;

/// Maximum number of CPUs (NR_CPUS).
const CPUS_MAX: usize = 8192;

/// What woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// The trace does not show what woke the thread.
    #[default]
    Unknown,
    /// A timer's function.
    Timer,
    /// An interrupt, with its handler if known.
    Interrupt(Text),
    /// A softirq, with its number if known.
    Softirq(Option<i64>),
    /// The thread with this ID.
    Thread(i32),
}

/// Number of recent interrupts and softirqs that are stored for each CPU.
const HELD_MAX: usize = 16;

/// An interrupt or a softirq that had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The interrupt or softirq.
    pub by: Waker,
    /// When the interrupt or softirq was entered, in ns of the trace's clock.
    pub start: i64,
    /// When the interrupt or softirq was left.
    pub end: i64,
}

impl Held {
    /// Returns whether the interrupt or softirq had the CPU for at least half of this interval.
    #[must_use]
    pub fn is_most_of(&self, start: i64, end: i64) -> bool {
        let overlap = self.end.min(end) - self.start.max(start);
        overlap > 0 && overlap >= (end - start) / 2
    }
}

/// What interrupts the thread on a CPU, and so may wake another thread. For the timer's function,
/// the interrupt and the softirq, the time of each entry is stored.
#[derive(Debug, Clone, Default)]
struct Context {
    timer: Option<(u64, u64)>,
    interrupt: Option<(Text, u64)>,
    softirq: Option<(i64, u64)>,
    /// Whether the CPU switched threads during the softirq, which is possible on PREEMPT_RT.
    is_preempted: bool,
    held: VecDeque<Held>,
}

/// What interrupts the threads on all CPUs.
#[derive(Debug, Default)]
pub struct Contexts {
    cpus: HashMap<u32, Context>,
}

impl Contexts {
    /// Processes an event.
    pub fn take(&mut self, event: &Event) {
        let is_change = matches!(
            event.kind,
            Kind::TimerExpireEntry { .. }
                | Kind::TimerExpireExit { .. }
                | Kind::IrqEntry { .. }
                | Kind::IrqExit { .. }
                | Kind::SoftirqEntry { .. }
                | Kind::SoftirqExit { .. }
        );
        if is_change && (self.cpus.len() < CPUS_MAX || self.cpus.contains_key(&event.cpu)) {
            self.cpus.entry(event.cpu).or_default().take(event);
        }
    }

    /// Records that a CPU switched to another thread.
    pub fn switch(&mut self, cpu: u32) {
        if let Some(context) = self.cpus.get_mut(&cpu) {
            context.is_preempted = true;
        }
    }

    /// Forgets all contexts, because events were lost.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }

    /// Returns the longest of a CPU's recent interrupts and softirqs that ended after `since`.
    /// Leaves out softirqs during which the CPU switched threads.
    #[must_use]
    pub fn longest_after(&self, cpu: u32, since: i64) -> Option<Held> {
        let held = self.cpus.get(&cpu)?.held.iter();
        held.filter(|held| held.end > since)
            .max_by_key(|held| held.end - held.start)
            .copied()
    }

    /// Returns what wakes a thread in this event.
    #[must_use]
    pub fn waker(&self, event: &Event) -> Waker {
        self.waker_and_reference(event).0
    }

    /// Returns what wakes a thread in this event, and the reference time of the wake-up: the time
    /// at which the timer's function, interrupt or softirq was entered, if the trace shows it. If a
    /// thread is the waker, the reference time is the time of the event.
    #[must_use]
    pub fn waker_and_reference(&self, event: &Event) -> (Waker, Option<u64>) {
        let none = Context::default();
        let context = self.cpus.get(&event.cpu).unwrap_or(&none);
        let is_interrupt = event.head.is_in_interrupt() || event.head.is_in_nmi();
        if let Some((_, entry)) = context.timer
            && (is_interrupt || event.head.is_in_softirq())
        {
            (Waker::Timer, Some(entry))
        } else if is_interrupt {
            let (name, entry) = context.interrupt.unzip();
            (Waker::Interrupt(name.unwrap_or_default()), entry)
        } else if event.head.is_in_softirq() {
            let (number, entry) = context.softirq.unzip();
            (Waker::Softirq(number), entry)
        } else {
            (Waker::Thread(event.head.pid), Some(event.time))
        }
    }
}

impl Context {
    fn take(&mut self, event: &Event) {
        match event.kind {
            Kind::TimerExpireEntry { timer, .. } => self.timer = Some((timer, event.time)),
            Kind::TimerExpireExit { timer }
                if self.timer.is_some_and(|(entered, _)| entered == timer) =>
            {
                self.timer = None;
            }
            Kind::IrqEntry { name, .. } => self.interrupt = Some((name, event.time)),
            Kind::IrqExit { .. } => {
                if let Some((name, entry)) = self.interrupt.take() {
                    self.hold(Waker::Interrupt(name), entry, event.time);
                }
            }
            Kind::SoftirqEntry { vector } => {
                self.softirq = Some((vector, event.time));
                self.is_preempted = false;
            }
            Kind::SoftirqExit { .. } => {
                if let Some((vector, entry)) = self.softirq.take()
                    && !self.is_preempted
                {
                    self.hold(Waker::Softirq(Some(vector)), entry, event.time);
                }
            }
            _ => {}
        }
    }

    fn hold(&mut self, by: Waker, start: u64, end: u64) {
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        let [start, end] = [start, end].map(|time| i64::try_from(time).unwrap_or(i64::MAX));
        self.held.push_back(Held { by, start, end });
    }
}
