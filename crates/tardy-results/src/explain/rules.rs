//! The rules of a real-time loop: how often the loop broke each of them, and the remedy. If the
//! trace was recorded without the kinds of events that show violations of a rule, the count for
//! this rule is absent, not zero.

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_samples::loop_rules::{LoopRules, MonitorReports, RecordedKinds};
use tardy_trace::event::{Event, Kind};

use super::words::priority;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRow {
    pub rule: &'static str,
    /// Short description of a violation of the rule.
    pub what: &'static str,
    /// Number of violations; `None` if the kinds of events that show violations were not recorded.
    pub count: Option<u64>,
    /// Details of the violations, such as the wakers or the longest wait; empty if there are none.
    pub detail: String,
    /// The remedy; if the count is absent, the event that must be recorded to get the count.
    pub remedy: &'static str,
}

/// Notes which kinds of events the trace contains, for any thread.
pub(super) fn note(recorded: &mut RecordedKinds, event: &Event) {
    match event.kind {
        Kind::PageFault { .. } => recorded.page_faults = true,
        Kind::TimerStart { .. } => recorded.timers = true,
        Kind::Waking { .. } => recorded.wakings = true,
        Kind::ContentionBegin { .. } => recorded.contention = true,
        Kind::Futex { .. } => recorded.futex = true,
        Kind::TaskStart { .. } => recorded.task_starts = true,
        _ => {}
    }
}

/// The rules of one loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopRow {
    /// Name of the loop's thread.
    pub thread: String,
    /// ID of the loop's thread; present if other threads may have the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i32>,
    /// The thread's priority in the kernel's notation.
    pub priority: i32,
    pub rules: Vec<RuleRow>,
    /// Violations that the kernel's runtime-verification monitors reported, for each enabled
    /// monitor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorReports>,
}

impl LoopRow {
    pub(crate) fn of(rules: &LoopRules) -> Self {
        Self {
            thread: rules.thread.clone(),
            id: rules.id,
            priority: rules.priority,
            rules: rows(rules),
            monitors: rules.monitors.clone(),
        }
    }

    /// Returns whether the thread has a real-time policy.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.priority < 100
    }
}

fn nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

pub(super) fn rows(rules: &LoopRules) -> Vec<RuleRow> {
    let recorded = rules.recorded;
    let row = |rule, what, is_recorded: bool, count, detail: String, remedy, record| RuleRow {
        rule,
        what,
        count: is_recorded.then_some(count),
        detail: if is_recorded && count > 0 {
            detail
        } else {
            String::new()
        },
        remedy: if is_recorded { remedy } else { record },
    };
    let faults = rules.page_faults_user + rules.page_faults_kernel;
    let at_start = match rules.page_faults_at_start {
        0 => String::new(),
        count => format!(
            "; {count} page faults before the thread's first wake-up by a timer are not counted"
        ),
    };
    let lower: u64 = rules.woken_by_lower.iter().map(|waker| waker.count).sum();
    let wakers = rules.woken_by_lower.iter().take(3);
    let wakers: Vec<String> = wakers
        .map(|waker| {
            format!(
                "{} by {} ({})",
                waker.count,
                waker.name,
                priority(waker.priority)
            )
        })
        .collect();
    let mut rows = vec![
        row(
            "page_faults",
            "page faults",
            recorded.page_faults,
            faults,
            format!(
                "{} in user space, {} in the kernel on the program's behalf{at_start}",
                rules.page_faults_user, rules.page_faults_kernel
            ),
            "call mlockall(MCL_CURRENT | MCL_FUTURE), and touch stack and memory before the loop",
            "record exceptions:page_fault_user and page_fault_kernel",
        ),
        row(
            "sleeps_relative",
            "sleeps for a duration",
            recorded.timers,
            rules.sleeps_relative,
            "each sleep shifts all later cycles by its latency".to_owned(),
            "sleep until an absolute time: clock_nanosleep with TIMER_ABSTIME",
            "record timer:hrtimer_start",
        ),
        row(
            "sleeps_on_wall_clock",
            "sleeps on a clock that can be set",
            recorded.timers,
            rules.sleeps_on_wall_clock,
            "CLOCK_REALTIME jumps when it is set".to_owned(),
            "use CLOCK_MONOTONIC",
            "record timer:hrtimer_start",
        ),
        row(
            "woken_by_lower_priority",
            "woken by a thread of lower priority",
            recorded.wakings,
            lower,
            wakers.join(", "),
            "give the waker at least the same priority, or share data with it under a lock with \
             priority inheritance",
            "record sched:sched_waking",
        ),
        row(
            "woken_from_softirq",
            "woken from a softirq",
            recorded.wakings,
            rules.woken_from_softirq,
            "a softirq waits for all other softirqs of its CPU".to_owned(),
            "wait with clock_nanosleep instead of timerfd; on PREEMPT_RT give the softirq's \
             thread (ktimers) a priority",
            "record sched:sched_waking",
        ),
        row(
            "futex_without_inheritance",
            "waits on a lock without priority inheritance",
            recorded.futex,
            rules.futex_waits_plain,
            "waits on condition variables count as well".to_owned(),
            "set PTHREAD_PRIO_INHERIT on mutexes that threads of lower priority take",
            "record syscalls:sys_enter_futex",
        ),
        row(
            "kernel_lock_waits",
            "waits for locks of the kernel",
            recorded.contention,
            rules.lock_waits,
            format!(
                "{} in total, {} in the longest wait",
                nanos(rules.lock_waits_sum_ns),
                nanos(rules.lock_waits_max_ns)
            ),
            "keep system calls that allocate, map memory or do I/O out of the loop",
            "record lock:contention_begin and contention_end",
        ),
        row(
            "threads_started",
            "threads started by the loop",
            recorded.task_starts,
            rules.threads_started,
            "from Linux 6.17 on, a new thread may enlarge the program's hash of futexes, and \
             threads that lock meanwhile wait"
                .to_owned(),
            "start all threads before the loop, or call prctl(PR_FUTEX_HASH, \
             PR_FUTEX_HASH_SET_SLOTS, SLOTS, 0) before the first thread starts",
            "record task:task_newtask",
        ),
    ];
    // Priority inversion is possible only for a real-time thread.
    if rules.priority >= 100 {
        rows.retain(|row| !matches!(row.rule, "woken_by_lower_priority"));
    }
    rows
}
