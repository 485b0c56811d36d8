//! Frees threads of the tool that still get no CPU time after the run should have ended. Without
//! this, another program's loop could keep the run from ending, if it never sleeps, has a higher
//! real-time priority, and the kernel does not throttle it.
//!
//! A thread that was runnable but had not run at ten checks in a row gets priority 99, and four
//! checks later it may run on the housekeeping CPUs. No thread is freed before the run's end,
//! because until then everything that delays a thread is part of the measurement.

use std::collections::BTreeMap;

use tardy_core::cpu::CpuList;
use tardy_sys::{affinity, clock, sched};

/// Number of consecutive checks, half a second apart, at which a thread is runnable but has not
/// run, before it gets the highest priority.
const LOOKS_BEFORE_PRIORITY: u32 = 10;
/// Number of such checks before a starved thread is moved to the housekeeping CPUs. If the higher
/// priority did not help, the loop that starves the thread has the highest priority itself.
const LOOKS_BEFORE_MOVE: u32 = 14;

/// Threads of the tool that are waiting for a CPU.
#[derive(Debug, Default)]
pub(super) struct StarvationWatch {
    waiting: BTreeMap<i32, WaitingThread>,
}

#[derive(Debug, Clone, Copy)]
struct WaitingThread {
    cpu_time: i64,
    looks: u32,
}

/// How to free a starved thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rescue {
    Priority,
    Move,
}

impl StarvationWatch {
    /// Checks all threads of the process, and frees those that have waited for too long: first with
    /// `priority`, then with `cpus`. Returns the threads whose priority it changed.
    pub(super) fn look(&mut self, priority: u32, cpus: &CpuList) -> Vec<i32> {
        let mut freed = Vec::new();
        for thread in threads() {
            match self.note(
                thread,
                is_runnable(thread),
                clock::cpu_time_of_thread(thread).unwrap_or_default(),
            ) {
                Some(Rescue::Priority) => {
                    // If the process may not set priorities, the kernel refuses this. To move the
                    // thread to other CPUs later, no privilege is needed.
                    let _ = sched::set_policy(thread, sched::Policy::Fifo { priority });
                    freed.push(thread);
                }
                Some(Rescue::Move) => {
                    let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
                    let _ = affinity::set(thread, &cpus);
                }
                None => {}
            }
        }
        freed
    }

    fn note(&mut self, thread: i32, is_runnable: bool, cpu_time: i64) -> Option<Rescue> {
        let before = self.waiting.get(&thread).copied();
        let stood_still = is_runnable && before.is_some_and(|before| before.cpu_time == cpu_time);
        let looks = before
            .filter(|_| stood_still)
            .map_or(0, |before| before.looks + 1);
        self.waiting
            .insert(thread, WaitingThread { cpu_time, looks });
        match looks {
            LOOKS_BEFORE_PRIORITY => Some(Rescue::Priority),
            LOOKS_BEFORE_MOVE => Some(Rescue::Move),
            _ => None,
        }
    }
}

/// Returns the threads of this process.
fn threads() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn is_runnable(thread: i32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"))
        .is_ok_and(|stat| says_runnable(&stat))
}

/// Returns whether the state in /proc/pid/stat is runnable. The state follows the name, which may
/// contain any characters (proc(5)).
fn says_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runnable_thread_that_never_runs_is_freed_by_priority_and_then_by_another_cpu() {
        let mut watch = StarvationWatch::default();
        let rescues: Vec<Option<Rescue>> = (0..20).map(|_| watch.note(7, true, 1000)).collect();
        let at = |rescue| rescues.iter().position(|found| *found == Some(rescue));
        // The first check cannot compare with an earlier one.
        assert_eq!(
            (at(Rescue::Priority), at(Rescue::Move)),
            (Some(10), Some(14))
        );
        assert_eq!(rescues.iter().flatten().count(), 2);
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_in_between_is_left_alone() {
        let mut watch = StarvationWatch::default();
        for look in 0..100 {
            assert_eq!(watch.note(1, false, 1000), None, "it sleeps");
            assert_eq!(
                watch.note(2, true, 1000 + look / 5),
                None,
                "it runs now and then"
            );
            assert_eq!(
                watch.note(3, look % 8 > 0, 1000),
                None,
                "it is woken up now and then"
            );
        }
    }

    #[test]
    fn the_state_stands_behind_the_last_bracket_of_the_name() {
        assert!(says_runnable("12 (a) S b) R 1 12 12 0"));
        assert!(!says_runnable("12 (a) R b) S 1 12 12 0") && !says_runnable(""));
        // The current thread is running, and belongs to this process.
        let own = sched::thread_id();
        assert!(is_runnable(own) && threads().contains(&own));
    }
}
