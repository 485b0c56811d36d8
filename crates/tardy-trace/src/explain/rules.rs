//! Counts how often real-time loops in a trace violate rules: those of the kernel's monitors
//! `rtapp` (Documentation/trace/rv/monitor_rtapp.rst, since Linux 6.17), and a few others. The
//! kernel need not have these monitors.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::Waker;
use crate::event::{Event, Kind, Thread};
use crate::text::Text;

/// FUTEX_WAIT and FUTEX_WAIT_BITSET without their flags (include/uapi/linux/futex.h): these calls
/// wait without priority inheritance.
const FUTEX_WAITS: [i64; 2] = [0, 9];
const FUTEX_COMMAND: i64 = 0x7f;
/// Flag of clone(2) for a new thread of the same program (include/uapi/linux/sched.h).
const CLONE_THREAD: i64 = 0x1_0000;
/// Times on monotonic clocks are below this value (31 years); wall clock times have been above it
/// since 2001.
const WALL_CLOCK_NS: i64 = 1_000_000_000_000_000_000;
/// Bit in a timer's mode that means that the time is relative to now.
const RELATIVE: i64 = 1;
/// Maximum number of different wakers (by name and priority) that are counted.
const WAKERS_MAX: usize = 1000;
/// Maximum number of monitors whose reports are counted; Linux 7.3 has 15.
const REPORTS_MAX: usize = 100;

/// How often real-time loops did what they must avoid.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Page faults in user space: the program touched pages that were not mapped.
    pub page_faults_user: u64,
    /// Page faults in the kernel that occurred on the program's behalf.
    pub page_faults_kernel: u64,
    /// Sleeps for a given time instead of until a given time. Each of them shifts all later cycles
    /// by its latency.
    pub sleeps_relative: u64,
    /// Sleeps on a clock that can be set, such as CLOCK_REALTIME.
    pub sleeps_on_wall_clock: u64,
    /// Waits for a futex without priority inheritance.
    pub futex_waits_plain: u64,
    /// Wake-ups by threads of lower priority, counted for each name and priority of a waker.
    pub woken_by_lower: BTreeMap<(Text, i32), u64>,
    /// Wake-ups from a softirq.
    pub woken_from_softirq: u64,
    /// Waits for kernel locks.
    pub lock_waits: LockWaits,
    /// How many threads of the same program the thread started.
    pub threads_started: u64,
    /// Violations that the kernel's own monitors reported, by monitor.
    pub reports: BTreeMap<Text, u64>,
    /// Page faults before a timer first woke the thread. The other counts do not include them,
    /// because a thread may have page faults while it starts.
    pub page_faults_at_start: u64,
    has_begun: bool,
}

/// Waits for kernel locks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LockWaits {
    /// Number of waits.
    pub count: u64,
    /// Sum of all waits, in ns.
    pub sum_ns: u64,
    /// Length of the longest wait, in ns.
    pub max_ns: u64,
    /// When the current wait started.
    began: Option<u64>,
}

/// Whether the counts are for all explained threads together, or for some threads individually.
#[derive(Debug, Default)]
pub(crate) struct RuleScopes {
    all: Rules,
    threads: Option<HashMap<i32, Rules>>,
    /// Threads of tardy itself. They wake a loop in order to end it, and these wake-ups are not
    /// counted as violations.
    observers: Vec<i32>,
}

impl RuleScopes {
    /// Counts threads individually; at first there are none.
    pub(crate) fn single_threads() -> Self {
        Self {
            threads: Some(HashMap::default()),
            ..Self::default()
        }
    }

    pub(super) fn add_observer(&mut self, pid: i32) {
        self.observers.push(pid);
    }

    pub(super) fn is_observer(&self, pid: i32) -> bool {
        self.observers.contains(&pid)
    }

    pub(super) fn all(&self) -> &Rules {
        &self.all
    }

    pub(crate) fn add(&mut self, pid: i32) {
        self.threads.get_or_insert_default().entry(pid).or_default();
    }

    pub(crate) fn of(&self, pid: i32) -> Option<&Rules> {
        match &self.threads {
            Some(threads) => threads.get(&pid),
            None => Some(&self.all),
        }
    }

    pub(crate) fn of_mut(&mut self, pid: i32) -> Option<&mut Rules> {
        match &mut self.threads {
            Some(threads) => threads.get_mut(&pid),
            None => Some(&mut self.all),
        }
    }

    /// Forgets the waits in progress, because the events at their ends may be lost.
    pub(crate) fn lose(&mut self) {
        self.all.lock_waits.began = None;
        for rules in self.threads.iter_mut().flat_map(HashMap::values_mut) {
            rules.lock_waits.began = None;
        }
    }

    /// Returns the number of threads that are counted individually.
    pub(crate) fn len(&self) -> usize {
        self.threads.as_ref().map_or(0, HashMap::len)
    }
}

impl Rules {
    /// Processes an event that was written while the thread was on the CPU.
    pub(crate) fn take(&mut self, event: &Event) {
        // If an interrupt writes the event while the thread is on the CPU, the event is not an
        // action of the thread.
        if event.head.is_in_interrupt() || event.head.is_in_softirq() || event.head.is_in_nmi() {
            return;
        }
        match event.kind {
            Kind::PageFault { is_user: true, .. } => self.page_faults_user += 1,
            Kind::PageFault { is_user: false, .. } => self.page_faults_kernel += 1,
            Kind::Futex { operation } if FUTEX_WAITS.contains(&(operation & FUTEX_COMMAND)) => {
                self.futex_waits_plain += 1
            }
            Kind::TaskStart { flags } if flags & CLONE_THREAD != 0 => self.threads_started += 1,
            Kind::ContentionBegin { .. } => self.lock_waits.began = Some(event.time),
            Kind::ContentionEnd => {
                if let Some(began) = self.lock_waits.began.take() {
                    let waited = event.time.saturating_sub(began);
                    self.lock_waits.count += 1;
                    self.lock_waits.sum_ns = self.lock_waits.sum_ns.saturating_add(waited);
                    self.lock_waits.max_ns = self.lock_waits.max_ns.max(waited);
                }
            }
            _ => {}
        }
    }

    /// Processes a report of one of the kernel's monitors.
    pub(super) fn reported(&mut self, monitor: Text) {
        if self.reports.len() < REPORTS_MAX || self.reports.contains_key(&monitor) {
            *self.reports.entry(monitor).or_default() += 1;
        }
    }

    /// Processes an event by which the thread is woken.
    pub(crate) fn woken(&mut self, thread: Thread, waker: Waker) {
        match waker {
            Waker::Softirq => self.woken_from_softirq += 1,
            Waker::Thread(waker)
                if waker.pid != 0 && waker.priority > thread.priority && thread.priority < 100 =>
            {
                let key = (waker.name, waker.priority);
                if self.woken_by_lower.len() < WAKERS_MAX || self.woken_by_lower.contains_key(&key)
                {
                    *self.woken_by_lower.entry(key).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// Records that a timer woke the thread. From the first such wake-up on, actions count as
    /// violations, because the thread's loop has started; earlier counts are reset.
    pub(crate) fn begin(&mut self) {
        if !self.has_begun {
            let page_faults_at_start = self.page_faults_user + self.page_faults_kernel;
            *self = Self {
                page_faults_at_start,
                has_begun: true,
                ..Self::default()
            };
        }
    }

    /// Counts a sleep that has ended, if its timer was relative or on the wall clock.
    pub(crate) fn slept(&mut self, mode: Option<i64>, soft_expires: i64) {
        self.sleeps_relative += u64::from(mode.is_some_and(|mode| mode & RELATIVE != 0));
        self.sleeps_on_wall_clock += u64::from(soft_expires > WALL_CLOCK_NS);
    }
    /// Records that the thread waited for a futex without priority inheritance.
    pub(crate) fn waited_at_futex(&mut self) {
        self.futex_waits_plain += 1;
    }
}
