//! Converts the code that a guest executed before a sample to events as in a trace: interrupts,
//! softirqs, timers, the wake-up, switches.

use tardy_trace::event::{Event, Head, Kind as EventKind, Thread};
use tardy_trace::text::Text;

use crate::calls::{Call, Callee, Calls, MomentKind};
use crate::stream::{Context, Window};

/// The function that the kernel calls when a timer ends a thread's sleep.
const WAKER: &str = "hrtimer_wakeup";
/// The functions that serve softirqs, each with the number of its softirq.
const SOFTIRQS: [(&str, i64); 13] = [
    ("tasklet_hi_action", 0),
    ("run_timer_softirq", 1),
    ("net_tx_action", 2),
    ("net_rx_action", 3),
    ("blk_done_softirq", 4),
    ("irq_poll_softirq", 5),
    ("tasklet_action", 6),
    ("run_rebalance_domains", 7),
    ("sched_balance_softirq", 7),
    ("hrtimer_run_softirq", 8),
    ("rcu_core_si", 9),
    ("workqueue_softirq_action", 6),
    ("rcu_process_callbacks", 9),
];
const HRTIMER_SOFTIRQ: i64 = 8;
/// Address that the timer has in the events. The address is not a real one: there is only one
/// timer, so any address will do.
const TIMER: u64 = 1;

/// Returns the number that serves as the thread ID of a task, because the kernel's own number is
/// unknown. The idle task has the number 0.
pub(crate) fn pid(task: u32, tasks: &[String]) -> i32 {
    let is_idle = tasks
        .get(task as usize)
        .is_some_and(|name| name.starts_with("swapper/"));
    if is_idle {
        0
    } else {
        i32::try_from(task).unwrap_or(i32::MAX)
    }
}

/// Converts the calls of a window to events of a trace.
pub(crate) fn events(
    window: &Window,
    calls: &Calls,
    tasks: &[String],
    waking: Option<WakingCalls>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let mut teller = Teller {
        context: Context::default(),
        thread: Thread {
            pid: 0,
            priority: 120,
            name: Text::default(),
        },
        due: window.due,
        events: &mut events,
    };
    let own = pid(window.task, tasks);
    let is_function = |call: &Call, name: &str| matches!(call.callee, Callee::Function(function) if *calls.names[function as usize] == *name);
    let mut interrupt: Option<EventKind> = None;
    let timer = EventKind::TimerStart {
        timer: TIMER,
        function: TIMER,
        expires: window.due,
        soft_expires: window.due,
        mode: Some(0),
    };
    let mut has_timer = false;
    // The first events introduce the thread's name and priority, and its timer.
    let own_priority = calls
        .moments
        .iter()
        .rev()
        .find_map(|moment| match moment.what {
            MomentKind::Task { task, priority } if task == window.task => Some(priority),
            _ => None,
        });
    let name = |task: u32| Text::from(tasks.get(task as usize).map_or("", String::as_str));
    let own_thread = Thread {
        pid: own,
        priority: own_priority.unwrap_or(120),
        name: name(window.task),
    };
    for moment in &calls.moments {
        match moment.what {
            MomentKind::Task { task, priority } => {
                let next = Thread {
                    pid: pid(task, tasks),
                    priority,
                    name: name(task),
                };
                if !has_timer {
                    (has_timer, teller.thread) = (true, own_thread);
                    // If the CPU is idle when the sample is due, it executes nothing until some
                    // time later.
                    let before = moment.at.min(-1);
                    teller.tell(before, timer, 0);
                    teller.thread = next;
                    teller.tell(
                        before,
                        EventKind::Switch {
                            previous: own_thread,
                            previous_state: 1,
                            next,
                        },
                        0,
                    );
                    continue;
                }
                let previous = teller.thread;
                if previous.pid != next.pid {
                    teller.tell(
                        moment.at,
                        EventKind::Switch {
                            previous,
                            previous_state: 0,
                            next,
                        },
                        0,
                    );
                }
                teller.thread = next;
            }
            MomentKind::Context(context) => {
                let left = teller.context.is_in_interrupt() && !context.is_in_interrupt();
                if left && let Some(exit) = interrupt.take() {
                    teller.tell(moment.at, exit, 0);
                }
                teller.context = context;
            }
            MomentKind::Called(place) => {
                let call = &calls.calls[place];
                let Callee::Function(function) = call.callee else {
                    continue;
                };
                let name = calls.names[function as usize].as_ref();
                if let Some((entry, exit)) = vector(name) {
                    interrupt = Some(exit);
                    teller.tell(moment.at, entry, INTERRUPT);
                } else if let Some(&(_, vector)) =
                    SOFTIRQS.iter().find(|(action, _)| *action == name)
                {
                    teller.tell(moment.at, EventKind::SoftirqEntry { vector }, 0);
                } else if name.starts_with("raise_softirq")
                    && call.parent.is_some_and(|parent| {
                        is_function(&calls.calls[parent], "hrtimer_interrupt")
                    })
                {
                    teller.tell(
                        moment.at,
                        EventKind::SoftirqRaise {
                            vector: HRTIMER_SOFTIRQ,
                        },
                        0,
                    );
                }
                if waking.is_some_and(|waking| waking.timer == Some(place)) {
                    let now = window.due.saturating_add(moment.at);
                    teller.tell(
                        moment.at,
                        EventKind::TimerExpireEntry {
                            timer: TIMER,
                            function: TIMER,
                            now,
                        },
                        0,
                    );
                } else if waking.is_some_and(|waking| waking.waker == place) {
                    teller.tell(
                        moment.at,
                        EventKind::Waking {
                            thread: own_thread,
                            target_cpu: 0,
                        },
                        0,
                    );
                }
            }
            MomentKind::Returned(place) => {
                let call = &calls.calls[place];
                if waking.is_some_and(|waking| waking.timer == Some(place)) {
                    teller.tell(moment.at, EventKind::TimerExpireExit { timer: TIMER }, 0);
                }
                let softirq = SOFTIRQS
                    .iter()
                    .find(|(action, _)| is_function(call, action));
                if let Some(&(_, vector)) = softirq {
                    teller.tell(moment.at, EventKind::SoftirqExit { vector }, 0);
                }
            }
        }
    }
    events
}

/// TRACE_FLAG_HARDIRQ and TRACE_FLAG_IRQS_OFF of include/linux/trace_events.h.
const INTERRUPT: u8 = 0x09;

struct Teller<'a> {
    context: Context,
    thread: Thread,
    due: i64,
    events: &'a mut Vec<Event>,
}

impl Teller<'_> {
    fn tell(&mut self, at: i64, kind: EventKind, more: u8) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let context = self.context;
        let flags = flag(context.are_interrupts_off(), 0x01)
            | flag(context.is_switch_due(), 0x04)
            | flag(context.is_in_interrupt(), 0x08)
            | flag(context.is_in_softirq(), 0x10)
            | more;
        let head = Head {
            flags,
            preempt_count: context.depth().min(0x0f),
            pid: self.thread.pid,
        };
        let time = self.due.saturating_add(at).max(0).cast_unsigned();
        self.events.push(Event {
            time,
            cpu: 0,
            head,
            kind,
        });
    }
}

/// Returns the events for the entry into an interrupt and for the exit from it, from the function
/// that the processor enters.
fn vector(function: &str) -> Option<(EventKind, EventKind)> {
    let name: Text = match function.strip_prefix("asm_sysvec_") {
        Some("apic_timer_interrupt") => "local_timer".into(),
        Some("reschedule_ipi") => "reschedule".into(),
        Some(other) => other.into(),
        None if ["asm_common_interrupt", "asm_spurious_interrupt"].contains(&function) => {
            let (irq, name) = (0, "device".into());
            return Some((
                EventKind::IrqEntry { irq, name },
                EventKind::IrqExit { irq, returned: 1 },
            ));
        }
        None => return None,
    };
    Some((
        EventKind::VectorEntry { name },
        EventKind::VectorExit { name },
    ))
}

/// The calls by which the thread was woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WakingCalls {
    /// Index of the call of the timer's function; `None` if no timer woke the thread.
    timer: Option<usize>,
    /// Index of the call of the scheduler's function.
    waker: usize,
}

/// Finds the calls by which the thread was woken. If the thread slept on a timer, these are the
/// calls of this timer. Otherwise, they are the calls of another timer; if there is none, the call
/// that made the switch to the thread due.
pub(crate) fn waking(window: &Window, calls: &Calls) -> Option<WakingCalls> {
    if slept_on_timer(window, calls) {
        return woken_by_sleep(window, calls);
    }
    let waker = woken_by_timer(window, calls).or_else(|| switch_made_due(window, calls));
    match waker {
        Some(waker)
            if timer_function(calls, waker).is_none_or(|timer| name(calls, timer) != WAKER) =>
        {
            Some(WakingCalls {
                timer: timer_function(calls, waker),
                waker,
            })
        }
        _ => woken_by_sleep(window, calls),
    }
}

impl WakingCalls {
    /// Returns the name of the function that the timer calls.
    pub(crate) fn timer_name<'a>(&self, calls: &'a Calls) -> Option<&'a str> {
        self.timer.map(|timer| name(calls, timer))
    }
}

fn name(calls: &Calls, call: usize) -> &str {
    match calls.calls[call].callee {
        Callee::Function(function) => calls.names[function as usize].as_ref(),
        _ => "",
    }
}

/// Returns a call and all its callers, innermost first.
fn outwards(calls: &Calls, call: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(call), |&call| calls.calls[call].parent)
}

/// If the function of a high-resolution timer made `call`, directly or indirectly, returns the call
/// of that function.
fn timer_function(calls: &Calls, call: usize) -> Option<usize> {
    let is_run = |call: usize| name(calls, call).starts_with("__hrtimer_run_queues");
    outwards(calls, call).find(|&call| calls.calls[call].parent.is_some_and(is_run))
}

/// Returns the first time, at or after the due time, at which the thread got the CPU.
fn got_cpu(window: &Window, calls: &Calls) -> Option<i64> {
    let mut running = None;
    calls.moments.iter().find_map(|moment| {
        let MomentKind::Task { task, .. } = moment.what else {
            return None;
        };
        let is_switch = running.replace(task).is_some_and(|before| before != task);
        (is_switch && task == window.task && moment.at >= 0).then_some(moment.at)
    })
}

/// Returns whether the thread slept on a timer: once it has the CPU, it then returns from a
/// function that sleeps.
fn slept_on_timer(window: &Window, calls: &Calls) -> bool {
    let Some(since) = got_cpu(window, calls) else {
        return false;
    };
    let is_sleep = |call: usize| {
        let name = name(calls, call);
        name.contains("nanosleep") || name.contains("hrtimeout")
    };
    (0..calls.calls.len()).any(|call| calls.calls[call].begin >= since && is_sleep(call))
}

/// Returns the first wake-up at or after the due time that a timer's function made, not counting
/// timers that end a sleep. If there is none, returns the last such wake-up between the moment when
/// the thread gave up the CPU and the due time: the due times of a device are only estimates, so
/// the wake-up can come before them.
fn woken_by_timer(window: &Window, calls: &Calls) -> Option<usize> {
    let is_waking = |&place: &usize| {
        name(calls, place).starts_with("try_to_wake_up")
            && timer_function(calls, place).is_some_and(|timer| name(calls, timer) != WAKER)
    };
    let places = || (0..calls.calls.len()).filter(is_waking);
    let begin = |&place: &usize| calls.calls[place].begin;
    let (mut had_cpu, mut slept_since) = (false, i64::MIN);
    for moment in calls.moments.iter().take_while(|moment| moment.at < 0) {
        if let MomentKind::Task { task, .. } = moment.what {
            if had_cpu && task != window.task {
                slept_since = moment.at;
            }
            had_cpu = task == window.task;
        }
    }
    let since_due = places().find(|place| begin(place) >= 0);
    since_due.or_else(|| places().rev().find(|place| begin(place) >= slept_since))
}

/// Returns the wake-up that made the switch to the thread due. This wake-up is the last one before
/// the thread got the CPU.
fn switch_made_due(window: &Window, calls: &Calls) -> Option<usize> {
    let until = got_cpu(window, calls).unwrap_or(i64::MAX);
    let (mut is_due, mut due_since) = (false, None);
    for moment in calls.moments.iter().take_while(|moment| moment.at <= until) {
        if let MomentKind::Context(context) = moment.what {
            if context.is_switch_due() && !is_due {
                due_since = Some(moment.at);
            }
            is_due = context.is_switch_due();
        }
    }
    let since = due_since?;
    let is_waking = |&place: &usize| {
        let call = &calls.calls[place];
        (call.begin..=call.end).contains(&since) && name(calls, place).starts_with("try_to_wake_up")
    };
    (0..calls.calls.len()).rev().find(is_waking)
}

/// Returns the call of a timer that woke a thread from a sleep. The call is in the first timer
/// interrupt at or after the due time that wakes a thread from a sleep. If this interrupt makes
/// several such calls, returns the last one, because timers that are due earlier are called
/// earlier.
fn woken_by_sleep(window: &Window, calls: &Calls) -> Option<WakingCalls> {
    let run = |call| {
        outwards(calls, call).find(|&call| name(calls, call).starts_with("__hrtimer_run_queues"))
    };
    let mut found: Option<(usize, usize)> = None;
    for waker in 0..calls.calls.len() {
        if calls.calls[waker].begin < 0 || !name(calls, waker).starts_with("try_to_wake_up") {
            continue;
        }
        let mut above = outwards(calls, waker).skip(1).take(3);
        let Some(timer) = above.find(|&call| name(calls, call) == WAKER) else {
            continue;
        };
        if found.is_some_and(|(first, _)| run(first) != run(timer)) {
            break;
        }
        found = Some((timer, waker));
    }
    let end = i64::try_from(window.latency).unwrap_or(i64::MAX);
    let (timer, waker) = found.filter(|&(timer, _)| calls.calls[timer].begin <= end)?;
    Some(WakingCalls {
        timer: Some(timer),
        waker,
    })
}
