//! Counts how often a loop did what a real-time loop must avoid. Run folders store the counts in
//! this form.

use serde::{Deserialize, Serialize};
use tardy_trace::event::Thread;
use tardy_trace::explain::Rules;
use tardy_trace::text::Text;

/// How often a loop did what a real-time loop must avoid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopRules {
    /// Name of the loop's thread.
    pub thread: String,
    /// ID of the thread, in recordings by `tardy attach`; absent in other recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i32>,
    /// The thread's priority in the kernel: -1 for a deadline task, 0 to 98 for a real-time task
    /// (99 minus its priority), 100 to 139 for any other task.
    pub priority: i32,
    /// The kinds of events in the trace. If the trace lacks the events for a count, the count is 0,
    /// which then means "unknown".
    pub recorded: RecordedKinds,
    /// Number of page faults in user space: accesses by the program to pages that were not mapped.
    pub page_faults_user: u64,
    /// Number of page faults in the kernel while it worked for the program.
    pub page_faults_kernel: u64,
    /// Number of page faults before the first wake-up by a timer. No other count includes these.
    pub page_faults_at_start: u64,
    /// Number of sleeps for a relative time, instead of until an absolute time.
    pub sleeps_relative: u64,
    /// Number of sleeps on a clock whose time can be set.
    pub sleeps_on_wall_clock: u64,
    /// Number of waits at a futex without priority inheritance.
    pub futex_waits_plain: u64,
    /// Wake-ups by threads of lower priority, the most frequent waker first.
    pub woken_by_lower: Vec<LowerWaker>,
    /// Number of wake-ups from a softirq.
    pub woken_from_softirq: u64,
    /// Number of waits for locks of the kernel.
    pub lock_waits: u64,
    /// Total time of these waits.
    pub lock_waits_sum_ns: u64,
    /// Time of the longest of these waits.
    pub lock_waits_max_ns: u64,
    /// Number of threads of the same program that the loop started.
    #[serde(default)]
    pub threads_started: u64,
    /// Violations that the kernel's runtime-verification monitors reported, for each enabled
    /// monitor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorReports>,
}

/// The kinds of events that show violations of the rules for loops. A field is true if the trace
/// contains events of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordedKinds {
    /// Whether the trace contains page faults.
    pub page_faults: bool,
    /// Whether the trace contains the events that show when timers are set.
    pub timers: bool,
    /// Whether the trace contains wake-ups.
    pub wakings: bool,
    /// Whether the trace contains waits for kernel locks.
    pub contention: bool,
    /// Whether the trace contains calls of futex(2).
    pub futex: bool,
    /// Whether the trace contains starts of threads and processes.
    #[serde(default)]
    pub task_starts: bool,
}

impl RecordedKinds {
    /// Returns the kinds of the events with these names, such as `sched:sched_waking`.
    #[must_use]
    pub fn of(events: &[String]) -> Self {
        let has = |name: &str| events.iter().any(|event| event == name);
        Self {
            page_faults: has("exceptions:page_fault_user"),
            timers: has("timer:hrtimer_start"),
            wakings: has("sched:sched_waking"),
            contention: has("lock:contention_begin"),
            futex: has("syscalls:sys_enter_futex"),
            task_starts: has("task:task_newtask"),
        }
    }
}

/// A thread of lower priority that woke a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerWaker {
    /// Name of the thread, as the kernel stores it.
    pub name: String,
    /// The thread's priority in the kernel.
    pub priority: i32,
    /// Number of wake-ups.
    pub count: u64,
}

/// Violations that one monitor of the kernel's runtime verification reported for a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorReports {
    /// Name of the monitor, such as `sleep`.
    pub monitor: String,
    /// Number of violations.
    pub count: u64,
}

impl LoopRules {
    /// Makes the record from the counts of a thread.
    #[must_use]
    pub fn of(thread: Thread, rules: &Rules, recorded: RecordedKinds) -> Self {
        let waker = |(&(name, priority), &count): (&(Text, i32), &u64)| LowerWaker {
            name: name.to_string(),
            priority,
            count,
        };
        let mut woken_by_lower: Vec<LowerWaker> = rules.woken_by_lower.iter().map(waker).collect();
        woken_by_lower.sort_by_key(|waker| std::cmp::Reverse(waker.count));
        Self {
            thread: thread.name.to_string(),
            id: None,
            priority: thread.priority,
            recorded,
            page_faults_user: rules.page_faults_user,
            page_faults_kernel: rules.page_faults_kernel,
            page_faults_at_start: rules.page_faults_at_start,
            sleeps_relative: rules.sleeps_relative,
            sleeps_on_wall_clock: rules.sleeps_on_wall_clock,
            futex_waits_plain: rules.futex_waits_plain,
            woken_by_lower,
            woken_from_softirq: rules.woken_from_softirq,
            lock_waits: rules.lock_waits.count,
            lock_waits_sum_ns: rules.lock_waits.sum_ns,
            lock_waits_max_ns: rules.lock_waits.max_ns,
            threads_started: rules.threads_started,
            monitors: Vec::new(),
        }
    }

    /// Adds what the kernel's runtime-verification monitors reported. `monitors` contains the names
    /// of the enabled monitors.
    #[must_use]
    pub fn with_monitors<'a>(
        mut self,
        rules: &Rules,
        monitors: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let reports = |monitor: &str| MonitorReports {
            monitor: monitor.to_owned(),
            count: rules
                .reports
                .get(&Text::from(monitor))
                .copied()
                .unwrap_or(0),
        };
        self.monitors = monitors.into_iter().map(reports).collect();
        self
    }

    /// Adds the counts of another part of the recording.
    pub fn add(&mut self, other: &Self) {
        let counts = [
            (&mut self.page_faults_user, other.page_faults_user),
            (&mut self.page_faults_kernel, other.page_faults_kernel),
            (&mut self.page_faults_at_start, other.page_faults_at_start),
            (&mut self.sleeps_relative, other.sleeps_relative),
            (&mut self.sleeps_on_wall_clock, other.sleeps_on_wall_clock),
            (&mut self.futex_waits_plain, other.futex_waits_plain),
            (&mut self.woken_from_softirq, other.woken_from_softirq),
            (&mut self.lock_waits, other.lock_waits),
            (&mut self.lock_waits_sum_ns, other.lock_waits_sum_ns),
            (&mut self.threads_started, other.threads_started),
        ];
        for (own, more) in counts {
            *own = own.saturating_add(more);
        }
        self.lock_waits_max_ns = self.lock_waits_max_ns.max(other.lock_waits_max_ns);
        for waker in &other.woken_by_lower {
            let is_same =
                |own: &&mut LowerWaker| own.name == waker.name && own.priority == waker.priority;
            match self.woken_by_lower.iter_mut().find(is_same) {
                Some(own) => own.count += waker.count,
                None => self.woken_by_lower.push(waker.clone()),
            }
        }
        self.woken_by_lower
            .sort_by_key(|waker| std::cmp::Reverse(waker.count));
    }
}
