//! Which threads had each CPU while other threads waited for it, and for how long.
//!
//! The trace must contain all switches, but it may lack those from and to the idle task. If the
//! trace does not show when a thread got a CPU, this CPU was idle before, and there was no waiting
//! thread. The turn is then stored as if it followed the previous one.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::event::Thread;

/// Maximum number of CPUs (NR_CPUS).
const CPUS_MAX: usize = 8192;
/// Number of recent turns that are stored for each CPU.
const TURNS_MAX: usize = 256;

/// A thread that had a CPU for a part of an interval; ID 0 is the idle task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupant {
    /// The thread.
    pub thread: Thread,
    /// For how long it had the CPU, in ns.
    pub length: i64,
}

/// A time in which one thread had the CPU, in ns on the trace's clock.
#[derive(Debug, Clone, Copy)]
struct Turn {
    thread: Thread,
    start: i64,
    end: i64,
}

#[derive(Debug, Default)]
struct Cpu {
    /// The thread that has the CPU now, and since when.
    current: Option<(Thread, i64)>,
    turns: VecDeque<Turn>,
}

/// The threads that recently had the CPUs.
#[derive(Debug, Default)]
pub(crate) struct Occupants {
    cpus: HashMap<u32, Cpu>,
}

impl Occupants {
    /// Records that a CPU switched from one thread to another.
    pub(crate) fn switch(&mut self, cpu: u32, time: i64, previous: Thread, next: Thread) {
        if self.cpus.len() >= CPUS_MAX && !self.cpus.contains_key(&cpu) {
            return;
        }
        let cpu = self.cpus.entry(cpu).or_default();
        if let Some((_, start)) = cpu.current.replace((next, time)) {
            if cpu.turns.len() == TURNS_MAX {
                cpu.turns.pop_front();
            }
            cpu.turns.push_back(Turn {
                thread: previous,
                start,
                end: time,
            });
        }
    }

    /// Records that switches may be missing from the trace.
    pub(crate) fn lose(&mut self) {
        for cpu in self.cpus.values_mut() {
            cpu.current = None;
        }
    }

    /// Returns the thread that had the CPU longest between `start` and `end`; `None` if another
    /// thread could have had it for longer, because it is unknown which thread had the CPU.
    pub(crate) fn longest(&self, cpu: u32, start: i64, end: i64) -> Option<Occupant> {
        let cpu = self.cpus.get(&cpu)?;
        let mut unknown = end - start;
        let mut found: Vec<Occupant> = Vec::new();
        let now = cpu
            .current
            .map(|(thread, start)| Turn { thread, start, end });
        let turns = cpu.turns.iter().rev().take_while(|turn| turn.end > start);
        for turn in now.iter().chain(turns) {
            let length = turn.end.min(end) - turn.start.max(start);
            if length <= 0 {
                continue;
            }
            unknown -= length;
            match found.iter_mut().find(|it| it.thread.pid == turn.thread.pid) {
                Some(occupant) => occupant.length += length,
                None => found.push(Occupant {
                    thread: turn.thread,
                    length,
                }),
            }
        }
        let longest = found.into_iter().max_by_key(|occupant| occupant.length)?;
        (longest.length > unknown).then_some(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_events::thread;

    fn occupants(switches: &[(i64, i32, i32)]) -> Occupants {
        let mut occupants = Occupants::default();
        for &(time, previous, next) in switches {
            occupants.switch(0, time, thread(previous), thread(next));
        }
        occupants
    }

    fn longest(occupants: &Occupants, start: i64, end: i64) -> Option<(i32, i64)> {
        let found = occupants.longest(0, start, end)?;
        Some((found.thread.pid, found.length))
    }

    #[test]
    fn the_thread_with_the_longest_time_in_all_of_its_turns_is_found() {
        let found = occupants(&[(0, 9, 1), (10, 1, 2), (30, 2, 3), (60, 3, 2), (80, 2, 1)]);
        assert_eq!(longest(&found, 10, 80), Some((2, 40)));
        assert_eq!(longest(&found, 35, 70), Some((3, 25)));
        // Thread 1 still has the CPU.
        assert_eq!(longest(&found, 20, 200), Some((1, 120)));
        assert_eq!(longest(&found, 50, 50), None);
        assert_eq!(found.longest(1, 10, 80), None);
    }

    #[test]
    fn no_thread_is_found_if_another_one_may_have_had_the_cpu_for_longer() {
        let mut found = occupants(&[(0, 9, 1), (10, 1, 2), (60, 2, 1)]);
        assert_eq!(longest(&found, 10, 60), Some((2, 50)));
        found.lose();
        found.switch(0, 100, thread(5), thread(6));
        assert_eq!(longest(&found, 60, 100), None);
        assert_eq!(longest(&found, 60, 140), None);
        assert_eq!(longest(&found, 60, 150), Some((6, 50)));
    }

    #[test]
    fn a_thread_that_got_an_idle_cpu_had_it_from_the_beginning_of_the_wait() {
        // The CPU was idle, got thread 3, and a thread was woken at 20.
        let found = occupants(&[(0, 9, 1), (10, 1, 2), (30, 3, 4), (45, 4, 5)]);
        assert_eq!(longest(&found, 20, 45), Some((4, 15)));
        assert_eq!(longest(&found, 20, 34), Some((3, 10)));
    }

    #[test]
    fn only_recent_turns_are_stored() {
        let turns = TURNS_MAX as i64 + 10;
        let switches: Vec<_> = (0..=turns).map(|time| (time, 1, 1)).collect();
        let found = occupants(&switches);
        assert_eq!(found.cpus[&0].turns.len(), TURNS_MAX);
        assert_eq!(longest(&found, 0, turns), Some((1, TURNS_MAX as i64)));
        assert_eq!(longest(&found, -1000, turns), None);
    }
}
