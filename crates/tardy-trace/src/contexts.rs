//! Interrupt contexts of the CPUs: the timer function, interrupt or softirq that interrupts the
//! thread of a CPU. The contexts identify the waker of a thread, and the time at which the waker
//! started.
//!
//! Required events: the entries and exits of timers' functions, interrupts and softirqs. Without
//! them, a waker in an interrupt has no name and no entry.

use foldhash::HashMap;

use crate::event::{Event, Kind};
use crate::text::Text;

/// Maximum number of CPUs (NR_CPUS).
const CPUS_MAX: usize = 8192;

/// Waker of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// The trace does not show the waker.
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

/// Interrupt context of a CPU. An interrupt context may wake a thread. Each part has the time of
/// its entry.
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
    /// Processes the next event.
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

    /// Forgets all contexts, because events were lost.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }

    /// Returns the waker of a thread in this event.
    #[must_use]
    pub fn waker(&self, event: &Event) -> Waker {
        self.waker_and_reference(event).0
    }

    /// Returns the waker of a thread in this event, and the reference time: the entry of the
    /// timer's function, interrupt or softirq, if it is in the trace. If the waker is a thread, the
    /// reference is the event itself.
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
