//! Explains each wake-up of a thread: which tasks and interrupts had the CPU from the time at which
//! the thread was due until it ran.
//!
//! First, this interval is cut into [`Component`]s at these events: due time, timer interrupt, call
//! of the timer's function, wake-up and switch. Then, each component is cut into [`Piece`]s
//! wherever the holder of the CPU changes. Pieces are whole ns of the trace's clock and follow one
//! another without a gap, so their sum always equals the interval. Each piece states how certain
//! its holder is. Time is unexplained only if it is before the start of the trace, or if events
//! were lost.

mod blocked;
mod cause;
mod donors;
mod expiring;
pub(crate) mod rules;
mod samples;
mod sent;
mod timeline;
mod waiting;
mod wake_up;

use serde::Serialize;

pub use self::rules::{LockWaits, Rules};
pub use self::samples::{Delay, Samples};
pub use self::waiting::Target;
pub use self::wake_up::Explainer;
use crate::event::Thread;
use crate::symbols::Symbols;
use crate::text::Text;

/// Facts that are not in the trace, but are needed to decide between possible causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether the kernel can preempt its own code, if known.
    pub preemption: Option<Preemption>,
    /// Whether the machine is a virtual machine, from which the host can take the CPU; absent if
    /// unknown.
    pub is_guest: Option<bool>,
    /// Whether the trace uses the monotonic clock. If so, a due time on that clock needs no
    /// conversion.
    pub is_monotonic: bool,
    /// How much time, in ns, may be attributed to the switch itself, directly before the thread
    /// runs.
    pub switch_ns: u64,
    /// Address of the function that ends the extended time slice of a thread (rseq), if the kernel
    /// has it.
    pub slice_expired: Option<u64>,
    /// Whether the kernel lets the owner of a mutex run in place of a thread that waits for the
    /// mutex (proxy execution).
    pub has_proxy_execution: bool,
}

impl Facts {
    /// Adds the facts that follow from the names of the kernel's functions and variables. The
    /// kernel has proxy execution if it has the variable that switches it on (kernel/sched/core.c,
    /// since Linux 7.1). Without CONFIG_KALLSYMS_ALL, the names of variables are missing.
    #[must_use]
    pub fn with_symbols(self, symbols: &Symbols) -> Self {
        Self {
            slice_expired: symbols.address("rseq_slice_expired"),
            has_proxy_execution: symbols.address("__sched_proxy_exec").is_some(),
            ..self
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            preemption: None,
            is_guest: None,
            is_monotonic: true,
            switch_ns: 10_000,
            slice_expired: None,
            has_proxy_execution: false,
        }
    }
}

/// When a kernel can preempt its own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// The kernel never preempts its own code (`preempt=none`), or only at few points
    /// (`preempt=voluntary`).
    No,
    /// The kernel preempts its own code wherever nothing forbids this: `preempt=full`, PREEMPT_RT.
    Full,
}

/// A part of the latency. Each variant states what happens in its part. The latency of a wake-up lasts from the due time
/// until the thread ran; that of a sample lasts until the thread then read the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// From the due time of a sample to the expiry for which the timer was set, if that is later.
    Request,
    /// From the due time to the entry of the timer interrupt.
    Timer,
    /// From the entry of the timer interrupt to the call of the timer's function. If timers expire
    /// in a softirq, this includes the thread that serves the softirq.
    Interrupt,
    /// From the call of the timer's function until the thread was woken.
    Expiry,
    /// If no timer woke the thread: from the due time of a sample until the waker woke the thread.
    Waker,
    /// From the wake-up until the CPU switched to the thread.
    Switch,
    /// If the switch to the thread is not traced: from the last event before the thread ran until
    /// the thread's first clock read.
    SwitchAndReturn,
    /// From the switch to the thread until its first clock read.
    Return,
    /// The thread was awake at the due time, so it was not woken.
    Awake,
}

impl Component {
    /// Every component. A run folder stores indexes in this list, so new components are added at
    /// the end.
    pub const ALL: [Self; 9] = [
        Self::Timer,
        Self::Interrupt,
        Self::Expiry,
        Self::Switch,
        Self::Request,
        Self::Waker,
        Self::SwitchAndReturn,
        Self::Return,
        Self::Awake,
    ];
}

/// Why the thread did not run yet, or had not read the clock yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A non-maskable interrupt.
    Nmi,
    /// A hard interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A thread of higher priority ran.
    HigherPriority,
    /// A thread of the same real-time priority ran.
    EqualPriority,
    /// Another thread ran. Both threads are ordinary ones, so they share the CPU fairly.
    Turns,
    /// The kernel switched to a thread of lower priority, because of the fair server or the
    /// throttling of real-time threads.
    FairServer,
    /// A thread had interrupts off.
    InterruptsOff,
    /// A thread had preemption off.
    PreemptionOff,
    /// A thread was in kernel code that this kernel does not preempt.
    KernelCode,
    /// The CPU did something else, so the thread that serves the softirq did not run yet.
    BeforeSoftirq,
    /// The switch itself.
    Switch,
    /// The CPU was leaving its idle state.
    LeavingIdle,
    /// The interrupt came late although interrupts were on, delayed by the hardware, the firmware
    /// or the host.
    LateInterrupt,
    /// The thread allowed its timer to be late (timer slack; by default 50 us, none for real-time
    /// threads).
    Slack,
    /// The thread itself had not left the CPU yet.
    Itself,
    /// The thread itself ran: its code and system calls.
    OwnCode,
    /// The thread had the CPU at first, but then waited for a page or a lock before it read the
    /// clock.
    Blocked,
    /// The timer was set for later than the sample's due time.
    LaterTimer,
    /// The waker was still executing the code that leads to the wake-up.
    Waker,
    /// The thread waited for a page of memory.
    PageFault,
    /// The thread waited for a kernel lock.
    KernelLock,
    /// The kernel extended the time slice of a thread that had requested this (rseq).
    ExtendedSlice,
    /// The owner of a mutex ran in place of the donor (proxy execution). The donor waits for the
    /// mutex, and its priority is equal to that of the late thread, or higher.
    LockOwner,
    /// Events were lost.
    Lost,
    /// The trace had not started at this time, or the time is too long ago to be stored.
    Unknown,
}

impl Cause {
    /// Every cause. A run folder stores indexes in this list, so new causes are added at the end.
    pub const ALL: [Self; 26] = [
        Self::Nmi,
        Self::Interrupt,
        Self::Softirq,
        Self::HigherPriority,
        Self::EqualPriority,
        Self::Turns,
        Self::FairServer,
        Self::InterruptsOff,
        Self::PreemptionOff,
        Self::KernelCode,
        Self::BeforeSoftirq,
        Self::Switch,
        Self::LeavingIdle,
        Self::LateInterrupt,
        Self::Slack,
        Self::Itself,
        Self::Lost,
        Self::Unknown,
        Self::OwnCode,
        Self::Blocked,
        Self::LaterTimer,
        Self::Waker,
        Self::PageFault,
        Self::KernelLock,
        Self::ExtendedSlice,
        Self::LockOwner,
    ];

    /// Returns whether this cause stands for unexplained time.
    #[must_use]
    pub fn is_unexplained(self) -> bool {
        matches!(self, Self::Lost | Self::Unknown)
    }
}

/// How certain a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Events in the trace prove the cause.
    Seen,
    /// According to the events in the trace, no other cause is likely.
    Inferred,
    /// The cause is either the one that the piece names, or this one.
    CannotTell(Cause),
}

/// What had the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Holder {
    /// Why the thread had to wait.
    pub cause: Cause,
    /// Name of the interrupt, softirq or thread; empty if the holder is none of these.
    pub name: Text,
    /// The kernel's priority of a thread, as in [`Thread::priority`].
    pub priority: Option<i32>,
    /// For a kernel worker: the address of the function that it ran as a work item. If the holder
    /// is an interrupt that another CPU sent: the address of the function that the interrupt ran on
    /// this CPU.
    pub work: Option<u64>,
    /// If the holder is an interrupt that another CPU sent: the thread on the sending CPU. If the
    /// holder is the owner of a mutex: the donor.
    pub sender: Option<Text>,
}

/// A part of the interval, in which one holder had the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The component that contains the piece.
    pub component: Component,
    /// What had the CPU during the piece.
    pub holder: Holder,
    /// How certain the cause is.
    pub known: Certainty,
    /// The CPU.
    pub cpu: u32,
    /// When the piece starts, in ns on the trace's clock.
    pub start: u64,
    /// When the piece ends.
    pub end: u64,
    /// Index of the call stack of the code that the waking interrupt interrupted.
    pub stack: Option<u32>,
    /// Index of the call stack with which the holder gave up the CPU in the end.
    pub ended: Option<u32>,
}

impl Holder {
    /// Returns a holder that has no name.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        Self {
            cause,
            name: Text::default(),
            priority: None,
            work: None,
            sender: None,
        }
    }
}

impl Piece {
    /// Returns the length of the piece in ns.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// Returns true if kernel functions are the reason for the piece, and if the piece is long
    /// enough for an explanation to name them: longer than `least` ns.
    pub(crate) fn has_functions(&self, least: u64) -> bool {
        let is_of_code = matches!(
            self.holder.cause,
            Cause::InterruptsOff | Cause::PreemptionOff | Cause::KernelCode | Cause::Softirq
        );
        is_of_code
            && matches!(self.component, Component::Timer | Component::Switch)
            && self.length() > least
    }
}

/// Where a due time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueFrom {
    /// It is the expiry of the timer that woke the thread.
    Timer,
    /// It is on the grid of periods that the caller gave.
    Period,
    /// It is the time of the wake-up, because something other than a timer woke the thread.
    Waking,
}

/// Due times of a thread whose timers the trace lacks: one per period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// One of the due times, in ns on the trace's clock.
    pub origin: u64,
    /// The distance between due times in ns, at least 1.
    pub period_ns: f64,
}

impl Grid {
    /// Returns the number of the last due time that is not after `time`, and that due time. If the
    /// period is not a whole number of ns, the due time is rounded by at most 1 ns.
    #[must_use]
    pub fn last_due(&self, time: u64) -> (i64, u64) {
        let since = i128::from(time) - i128::from(self.origin);
        let place = ((since + 1) as f64 / self.period_ns).floor();
        let due = i128::from(self.origin) + (place * self.period_ns).round() as i128;
        (
            place as i64,
            u64::try_from(due.max(0)).unwrap_or(u64::MAX).min(time),
        )
    }
}

/// What woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// A timer, identified by its function's address.
    Timer(u64),
    /// A hard interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A thread.
    Thread(Thread),
}

impl Waker {
    /// Returns whether a timer that the trace does not show may have caused the wake-up. This is
    /// possible even if the waker is a thread, because threads serve softirqs on PREEMPT_RT and
    /// under load.
    #[must_use]
    pub fn may_be_timer(&self) -> bool {
        match self {
            Self::Timer(_) | Self::Interrupt | Self::Softirq => true,
            Self::Thread(thread) => ["ktimers", "ksoftirqd"]
                .iter()
                .any(|name| thread.name.as_str().starts_with(name)),
        }
    }
}

/// A wake-up of a thread, with its explanation.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeUp {
    /// The thread that was woken.
    pub thread: Thread,
    /// When the thread was due, in ns on the trace's clock.
    pub due: u64,
    /// Where the due time comes from.
    pub due_from: DueFrom,
    /// What woke the thread.
    pub waker: Waker,
    /// When the timer interrupt was entered.
    pub interrupt: Option<u64>,
    /// When the timer's function was called.
    pub expiry: Option<u64>,
    /// When the thread became runnable.
    pub waking: u64,
    /// The CPU on which the waker ran.
    pub waking_cpu: u32,
    /// When the thread ran. If the trace lacks the switch, this is the time of the last event
    /// before the thread is known to run, so that the latency is a lower bound.
    pub ran: u64,
    /// The first event of the thread, if the trace lacks the switch.
    pub first_sign: Option<u64>,
    /// The CPU on which the thread ran.
    pub cpu: u32,
    /// The pieces of the latency, in the order of time, without a gap.
    pub pieces: Vec<Piece>,
}

impl WakeUp {
    /// Returns the time from due to running, in ns.
    #[must_use]
    pub fn lateness(&self) -> u64 {
        self.ran - self.due
    }
}
