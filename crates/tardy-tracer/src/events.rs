//! The list of events that explanations use, for all kernels.
//!
//! A program's loop is identified by the thread ID that it reports. The ID is used on two
//! conditions. First, the ID that the calibration's thread has in the trace is the one that this
//! thread sees itself. Second, the thread with the reported ID has mapped the loops' memory. Only
//! runs that measure a program's loop record futex calls, because the event sends all threads
//! through the slow path of system calls.
//!
//! Page faults, locks and new threads are recorded for measuring threads only, by filters that name
//! these threads once they have announced themselves. Loads fault a hundred thousand times a
//! second.

/// An event, by its folder below `events`.
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

/// Every event that explanations use. Few events come with each wake-up, because each costs about a
/// quarter of a microsecond on the measured CPU.
///
/// The list leaves out two events. `hrtimer_expire_exit` is not needed, because the end of the
/// interrupt gives the same time. `hrtimer_cancel` is not needed, because a cancelled timer that
/// expires later was enqueued again, which `hrtimer_start` shows (`enqueue_hrtimer` of
/// kernel/time/hrtimer.c). These two events occur with every wake-up, or with every exit from idle.
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

/// Events recorded for measuring threads only: they show why a measuring thread waited in the
/// kernel, or which rules for loops it broke. Loads cause a hundred thousand of these events per
/// second.
pub const OF_PROBES: &[WantedEvent] = &[
    helpful("exceptions", "page_fault_user"),
    helpful("exceptions", "page_fault_kernel"),
    helpful("lock", "contention_begin"),
    helpful("lock", "contention_end"),
    helpful("task", "task_newtask"),
];

/// Events recorded only if the loop of a program is judged. These events force every thread of the
/// system through the slow path of its system calls, so other runs omit them.
pub const OF_LOOPS: &[WantedEvent] = &[helpful("syscalls", "sys_enter_futex")];

/// Each monitor of the kernel's runtime verification reports violations by an event. The event's
/// name starts with this text, and the monitor's name follows. The events of all enabled monitors
/// are recorded if the loop of a program is judged.
pub const VIOLATIONS: &str = "rv:error_";

/// Event systems for interrupts between CPUs and for CPU-local timers. Only the systems are listed,
/// because each architecture has its own events. All events of these systems that end in `_entry`
/// or `_exit` are recorded.
pub const INTERRUPT_SYSTEMS: [&str; 2] = ["irq_vectors", "ipi"];

/// Events about the timers of a running program and the wake-ups they cause.
pub mod of_timers {
    use super::{WantedEvent, helpful, needed};

    /// A timer is set.
    pub const START: WantedEvent = needed("timer", "hrtimer_start");
    /// A timer is cancelled.
    pub const CANCEL: WantedEvent = needed("timer", "hrtimer_cancel");
    /// A timer's function is called.
    pub const EXPIRE_ENTRY: WantedEvent = needed("timer", "hrtimer_expire_entry");
    /// A timer's function has returned, so this timer causes no later wake-up.
    pub const EXPIRE_EXIT: WantedEvent = needed("timer", "hrtimer_expire_exit");
    /// A thread is woken.
    pub const WAKING: WantedEvent = needed("sched", "sched_waking");
    /// A thread runs.
    pub const SWITCH: WantedEvent = needed("sched", "sched_switch");
    /// Interrupts and softirqs that may wake a thread, each with a filter. The filters select
    /// softirqs of timers, networks, block devices and tasklets. The filters leave out softirqs of
    /// the scheduler and of RCU, because these come with every tick.
    pub const INTERRUPTS: [(WantedEvent, Option<&str>); 4] = [
        (helpful("irq", "irq_handler_entry"), None),
        (helpful("irq", "irq_handler_exit"), None),
        (helpful("irq", "softirq_entry"), Some(THAT_WAKE)),
        (helpful("irq", "softirq_exit"), Some(THAT_WAKE)),
    ];
    /// The softirqs from TIMER_SOFTIRQ to TASKLET_SOFTIRQ, and HRTIMER_SOFTIRQ, of
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
