//! The stints of followed threads: at any time, a thread runs, is preempted, sleeps, or waits for a
//! CPU after its wake-up.
//!
//! The stints of a thread follow one another without a gap. The trace must contain `sched_switch`
//! from and to the followed threads, `sched_waking` of these threads, and a kernel stack after each
//! switch by which a thread went to sleep. The switches between other threads show which thread had
//! a CPU while a followed one waited for it, and `sched_migrate_task` shows on which CPU it waited.
//! The entries and exits of timer functions, interrupts and softirqs show what woke a thread;
//! without them, it is unknown which interrupt did.
//!
//! If interrupts and softirqs come while a thread runs, their time counts as time in which the
//! thread ran.

use foldhash::HashMap;

use crate::contexts::{Contexts, Held, Waker};
use crate::event::{Event, Kind};
use crate::merge::Item;
use crate::occupants::{Occupant, Occupants};
use crate::wake_ups::PREEMPTED;

/// States of a thread that has exited (EXIT_DEAD and EXIT_ZOMBIE of include/linux/sched.h).
const ENDED: i64 = 0x10 | 0x20;
/// What a thread did during a stint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// The thread had a CPU.
    Running,
    /// The thread was runnable, but another thread had got its CPU.
    Preempted {
        /// The CPU on which the thread waited longest.
        cpu: u32,
    },
    /// The thread slept.
    Asleep {
        /// Index in the trace of the stack with which the thread went to sleep.
        stack: Option<u32>,
        /// Whether the thread's last timer before the sleep was relative.
        is_relative: bool,
        /// What ended the sleep.
        waker: Waker,
    },
    /// The thread had been woken, and waited for a CPU.
    Ready {
        /// The CPU on which the thread waited longest.
        cpu: u32,
        /// The longest of this CPU's recent interrupts and softirqs that ended after the thread
        /// fell asleep.
        held: Option<Held>,
    },
}

/// A time in which a thread did the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint {
    /// Thread ID in the initial PID namespace.
    pub thread: i32,
    /// When the stint started, in ns on the trace's clock.
    pub start: i64,
    /// When the stint ended and the next one started.
    pub end: i64,
    /// What the thread did.
    pub doing: Doing,
}

impl Stint {
    /// Returns the length of the stint in ns.
    #[must_use]
    pub fn length(&self) -> i64 {
        self.end - self.start
    }
}

/// What a thread does at present.
#[derive(Debug, Clone, Copy)]
enum State {
    Running {
        since: i64,
        /// If the thread was woken before it had left the CPU: when, and by what.
        woken: Option<(i64, Waker)>,
        is_relative: bool,
    },
    Preempted {
        since: i64,
        wait: Wait,
        is_relative: bool,
    },
    Asleep {
        since: i64,
        /// The wait for a CPU, since the thread was woken.
        wait: Wait,
        stack: Option<u32>,
        is_relative: bool,
        woken: Option<(i64, Waker)>,
    },
}

/// A wait for a CPU.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// The CPU on which the thread waits now, and since when.
    cpu: u32,
    since: i64,
    /// The CPU on which the thread waited longest before, and how long.
    longest: (u32, i64),
}

impl Wait {
    fn begin(cpu: u32, since: i64) -> Self {
        Self {
            cpu,
            since,
            longest: (cpu, 0),
        }
    }

    fn longest_until(&self, time: i64) -> (u32, i64) {
        let stay = time - self.since;
        if stay > self.longest.1 {
            (self.cpu, stay)
        } else {
            self.longest
        }
    }

    fn moves(&mut self, time: i64, to_cpu: u32) {
        self.longest = self.longest_until(time);
        (self.cpu, self.since) = (to_cpu, time);
    }

    /// Returns the CPU on which the thread waited longest, when it gets the CPU `gets`. If the
    /// trace lacks a move, this is the only known CPU.
    fn end(&self, time: i64, gets: u32) -> u32 {
        if self.cpu == gets {
            self.longest_until(time).0
        } else {
            gets
        }
    }
}

/// Reads a trace event by event, and returns stints.
#[derive(Debug, Default)]
pub struct Stints {
    /// The followed threads; what a thread does is unknown until its first event.
    threads: HashMap<i32, Option<State>>,
    contexts: Contexts,
    occupants: Occupants,
    finished: Vec<Stint>,
}

impl Stints {
    /// Starts following a thread, given by its ID in the initial PID namespace.
    pub fn follow(&mut self, thread: i32) {
        self.threads.entry(thread).or_default();
    }

    /// Stops following a thread.
    pub fn unfollow(&mut self, thread: i32) {
        self.threads.remove(&thread);
    }

    /// Returns the stints that ended since the last call, in the order in which they ended.
    pub fn finished(&mut self) -> impl Iterator<Item = Stint> {
        self.finished.drain(..)
    }

    /// Processes the next item of the stream.
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.take_event(event),
            Item::Lost { .. } => {
                self.threads.values_mut().for_each(|state| *state = None);
                self.contexts.clear();
                self.occupants.lose();
            }
        }
    }

    /// Records that switches between other threads may be missing from the trace.
    pub fn lose_switches_of_others(&mut self) {
        self.occupants.lose();
    }

    /// Returns the thread that had a CPU longest in an interval of the recent past; `None` if it is
    /// unknown.
    #[must_use]
    pub fn occupant(&self, cpu: u32, start: i64, end: i64) -> Option<Occupant> {
        self.occupants.longest(cpu, start, end)
    }

    /// Returns what wakes a thread in this event.
    #[must_use]
    pub fn waker(&self, event: &Event) -> Waker {
        self.contexts.waker(event)
    }

    fn take_event(&mut self, event: &Event) {
        let time = i64::try_from(event.time).unwrap_or(i64::MAX);
        // A stack names the thread that has just left the CPU.
        if !matches!(event.kind, Kind::Stack { .. }) {
            self.runs(time, event.cpu, event.head.pid);
        }
        match event.kind {
            Kind::Switch {
                previous,
                previous_state,
                next,
            } => {
                self.contexts
                    .switch(event.cpu, event.time, previous.pid, next.pid);
                self.occupants.switch(event.cpu, time, previous, next);
                self.leaves(time, event.cpu, previous.pid, previous_state);
                self.gets(time, event.cpu, next.pid);
            }
            Kind::Waking { thread, .. } if self.threads.contains_key(&thread.pid) => {
                let waker = self.waker(event);
                match self.threads.get_mut(&thread.pid) {
                    Some(Some(State::Running { woken, .. })) => *woken = Some((time, waker)),
                    Some(Some(State::Asleep { woken, wait, .. })) => {
                        *woken = Some((time, waker));
                        *wait = Wait::begin(wait.cpu, time);
                    }
                    _ => {}
                }
            }
            Kind::Migrate { pid, to_cpu } => {
                if let Some(Some(State::Preempted { wait, .. } | State::Asleep { wait, .. })) =
                    self.threads.get_mut(&pid)
                {
                    wait.moves(time, to_cpu);
                }
            }
            // The thread may have had the CPU since before the recording started.
            Kind::Mark { .. } => {
                if let Some(state @ None) = self.threads.get_mut(&event.head.pid) {
                    *state = Some(State::Running {
                        since: time,
                        woken: None,
                        is_relative: false,
                    });
                }
            }
            Kind::Stack { place } => {
                if let Some(Some(State::Asleep { stack, .. })) =
                    self.threads.get_mut(&event.head.pid)
                    && stack.is_none()
                {
                    *stack = place;
                }
            }
            Kind::TimerStart {
                mode: Some(mode), ..
            } if !event.head.is_in_interrupt() && !event.head.is_in_softirq() => {
                if let Some(Some(State::Running { is_relative, .. })) =
                    self.threads.get_mut(&event.head.pid)
                {
                    *is_relative = mode & 1 != 0;
                }
            }
            _ => self.contexts.take(event),
        }
    }

    /// Records that a thread has a CPU, because the thread wrote an event. This is the first sign
    /// if the kernel does not trace the switch from the idle task. If the thread slept, it is
    /// assumed that it got the idle CPU when it was woken; if it was preempted, that it got the CPU
    /// at the time of the event.
    fn runs(&mut self, time: i64, cpu: u32, thread: i32) {
        let since = match self.threads.get(&thread) {
            // The thread may have been woken before it went to sleep.
            Some(Some(State::Asleep {
                since,
                woken: Some((woke, _)),
                ..
            })) => *woke.max(since),
            Some(Some(State::Preempted { .. })) => time,
            _ => return,
        };
        self.gets(since.min(time), cpu, thread);
    }

    /// Records that a thread loses its CPU.
    fn leaves(&mut self, time: i64, cpu: u32, thread: i32, state: i64) {
        let Some(known) = self.threads.get_mut(&thread) else {
            return;
        };
        let (mut relative, mut woken_before) = (false, None);
        if let Some(State::Running {
            since,
            woken,
            is_relative,
        }) = *known
        {
            (relative, woken_before) = (is_relative, woken);
            self.finished.push(Stint {
                thread,
                start: since,
                end: time,
                doing: Doing::Running,
            });
        }
        *known = if state == 0 || state >= PREEMPTED {
            Some(State::Preempted {
                since: time,
                wait: Wait::begin(cpu, time),
                is_relative: relative,
            })
        } else if state & ENDED != 0 {
            None
        } else {
            Some(State::Asleep {
                since: time,
                wait: Wait::begin(cpu, time),
                stack: None,
                is_relative: relative,
                woken: woken_before,
            })
        };
    }

    /// Records that a thread gets this CPU.
    fn gets(&mut self, time: i64, cpu: u32, thread: i32) {
        let Some(known) = self.threads.get_mut(&thread) else {
            return;
        };
        let mut push = |start, end, doing| {
            self.finished.push(Stint {
                thread,
                start,
                end,
                doing,
            });
        };
        let mut relative = false;
        match *known {
            Some(State::Preempted {
                since,
                wait,
                is_relative,
            }) => {
                let cpu = wait.end(time, cpu);
                push(since, time, Doing::Preempted { cpu });
                relative = is_relative;
            }
            Some(State::Asleep {
                since,
                wait,
                stack,
                is_relative,
                woken,
            }) => {
                let cpu = wait.end(time, cpu);
                let (woke, waker) = woken.unwrap_or((time, Waker::Unknown));
                let woke = woke.clamp(since, time);
                let asleep = Doing::Asleep {
                    stack,
                    is_relative,
                    waker,
                };
                push(since, woke, asleep);
                let held = self.contexts.longest_after(cpu, since);
                push(woke, time, Doing::Ready { cpu, held });
            }
            Some(State::Running { .. }) | None => {}
        }
        *known = Some(State::Running {
            since: time,
            woken: None,
            is_relative: relative,
        });
    }
}

#[cfg(test)]
mod tests;
