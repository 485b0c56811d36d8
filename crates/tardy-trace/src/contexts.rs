//! What a CPU is in besides its thread: a timer's function, an interrupt, a softirq. From this
//! follows who wakes a thread, and since when the waker is at work.
//!
//! The events that this needs: the entries and exits of timers' functions, interrupts and softirqs.
//! Without them, a waker in an interrupt has no name and no entry.

use foldhash::HashMap;

use crate::event::{Event, Kind};
use crate::text::Text;

/// CPUs with recorded interrupts, at most (NR_CPUS).
const CPUS_MAX: usize = 8192;

/// Waker of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// The trace does not say.
    #[default]
    Unknown,
    /// A timer's function.
    Timer,
    /// An interrupt; its handler, where that is known.
    Interrupt(Text),
    /// A softirq; its number, where that is known.
    Softirq(Option<i64>),
    /// The thread with this number.
    Thread(i32),
}

/// Interrupt context of a CPU, which may wake a thread. Each with the time of its entry.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    timer: Option<(u64, u64)>,
    interrupt: Option<(Text, u64)>,
    softirq: Option<(i64, u64)>,
}

/// The interrupt contexts of all CPUs.
#[derive(Debug, Default)]
pub struct Contexts {
    cpus: HashMap<u32, Context>,
}

impl Contexts {
    /// Takes in what comes next.
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

    /// Forgets everything: events were lost.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }

    /// Who wakes a thread by this event.
    #[must_use]
    pub fn waker(&self, event: &Event) -> Waker {
        self.waker_and_reference(event).0
    }

    /// Who wakes a thread by this event, and since when: the entry of the interrupt or softirq, if
    /// it is in the trace. A thread wakes another one at the time of the event.
    #[must_use]
    pub fn waker_and_reference(&self, event: &Event) -> (Waker, Option<u64>) {
        let context = self.cpus.get(&event.cpu).copied().unwrap_or_default();
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
            Kind::IrqExit { .. } => self.interrupt = None,
            Kind::SoftirqEntry { vector } => self.softirq = Some((vector, event.time)),
            Kind::SoftirqExit { .. } => self.softirq = None,
            _ => {}
        }
    }
}
