//! The events that explanations need, for all kernels.
//!
//! The loop of a program is recognised in the trace by the thread ID that the program reports. The
//! ID is used on two conditions. First, the calibration has shown that a thread has the same ID in
//! the trace as in this process. Second, the thread with the reported ID must have mapped the
//! loops' memory. Futex calls are recorded only if the run measures a program's loop, because
//! recording them makes every system call of every thread take the slow path.
//!
//! Page faults, locks and new threads are recorded only for measuring threads: once these threads
//! have announced themselves, filters select them. Without the filters, there would be too many
//! events: loads cause a hundred thousand page faults a second.

/// An event, given by its folder below `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedEvent {
    /// The folder of the event's system, such as `sched`.
    pub system: &'static str,
    /// Name of the event, such as `sched_switch`.
    pub event: &'static str,
    /// Whether explanations require the event.
    pub is_needed: bool,
}

impl std::fmt::Display for WantedEvent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.system, self.event)
    }
}

/// Every event that explanations use. There are few events per wake-up, because each of them costs
/// about a quarter of a microsecond on the measured CPU.
///
/// Two events are not in the list. `hrtimer_expire_exit` is not needed, because the end of the
/// interrupt gives the same time. `hrtimer_cancel` is not needed: if a cancelled timer expires
/// later, it was set again, which `hrtimer_start` shows (`enqueue_hrtimer` of
/// kernel/time/hrtimer.c). Either of them would occur with every wake-up, or with every exit from
/// idle.
pub const WANTED: &[WantedEvent] = &[
    needed("sched", "sched_switch"),
    needed("sched", "sched_waking"),
    helpful("sched", "sched_migrate_task"),
    helpful("irq", "irq_handler_entry"),
    helpful("irq", "irq_handler_exit"),
    helpful("irq", "softirq_raise"),
    helpful("irq", "softirq_entry"),
    helpful("irq", "softirq_exit"),
    helpful("timer", "hrtimer_start"),
    helpful("timer", "hrtimer_expire_entry"),
    helpful("nmi", "nmi_handler"),
    helpful("workqueue", "workqueue_execute_start"),
    helpful("workqueue", "workqueue_execute_end"),
    helpful("ipi", "ipi_send_cpu"),
    helpful("ipi", "ipi_send_cpumask"),
    helpful("csd", "csd_queue_cpu"),
];

/// Events that are recorded only for measuring threads. They show why such a thread waited in the
/// kernel, or which rules for loops it violated. Loads cause a hundred thousand of these events per
/// second.
pub const OF_PROBES: &[WantedEvent] = &[
    helpful("exceptions", "page_fault_user"),
    helpful("exceptions", "page_fault_kernel"),
    helpful("lock", "contention_begin"),
    helpful("lock", "contention_end"),
    helpful("task", "task_newtask"),
];

/// Events that are recorded only if the loop of a program is judged. They make every system call of
/// every thread on the system take the slow path, so they are not recorded in other runs.
pub const OF_LOOPS: &[WantedEvent] = &[helpful("syscalls", "sys_enter_futex")];

/// Each monitor of the kernel's runtime verification reports violations by an event. The event's
/// name is this text followed by the monitor's name. The events of all enabled monitors are
/// recorded if the loop of a program is judged.
pub const VIOLATIONS: &str = "rv:error_";

/// Event systems for interrupts between CPUs and for CPU-local timers. Only the systems are listed,
/// because the events in them differ from architecture to architecture. All events of these systems
/// that end in `_entry` or `_exit` are recorded.
pub const INTERRUPT_SYSTEMS: [&str; 2] = ["irq_vectors", "ipi"];

/// Events that show the timers of a running program, and the wake-ups that these cause.
pub mod of_timers {
    use super::{WantedEvent, helpful, needed};

    /// A timer is set.
    pub const START: WantedEvent = needed("timer", "hrtimer_start");
    /// A timer is cancelled.
    pub const CANCEL: WantedEvent = needed("timer", "hrtimer_cancel");
    /// A CPU calls a timer's function.
    pub const EXPIRE_ENTRY: WantedEvent = needed("timer", "hrtimer_expire_entry");
    /// A timer's function has returned, so it does not cause any later wake-up.
    pub const EXPIRE_EXIT: WantedEvent = needed("timer", "hrtimer_expire_exit");
    /// A thread is woken.
    pub const WAKING: WantedEvent = needed("sched", "sched_waking");
    /// A thread runs.
    pub const SWITCH: WantedEvent = needed("sched", "sched_switch");
    /// A thread moves to another CPU.
    pub const MIGRATE: WantedEvent = helpful("sched", "sched_migrate_task");
    /// Interrupts and softirqs that may wake a thread, each with a filter. The filters select
    /// softirqs of timers, networks, block devices and tasklets. They do not select softirqs of the
    /// scheduler and of RCU, because these occur with every tick.
    pub const INTERRUPTS: [(WantedEvent, Option<&str>); 4] = [
        (helpful("irq", "irq_handler_entry"), None),
        (helpful("irq", "irq_handler_exit"), None),
        (helpful("irq", "softirq_entry"), Some(THAT_WAKE)),
        (helpful("irq", "softirq_exit"), Some(THAT_WAKE)),
    ];
    /// Selects the softirqs from TIMER_SOFTIRQ to TASKLET_SOFTIRQ, and HRTIMER_SOFTIRQ, of
    /// include/linux/interrupt.h.
    const THAT_WAKE: &str = "(vec >= 1 && vec <= 6) || vec == 8";
}

const fn needed(system: &'static str, event: &'static str) -> WantedEvent {
    WantedEvent {
        system,
        event,
        is_needed: true,
    }
}

const fn helpful(system: &'static str, event: &'static str) -> WantedEvent {
    WantedEvent {
        system,
        event,
        is_needed: false,
    }
}
