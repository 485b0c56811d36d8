//! The watchdog. A probe that never sleeps would take its CPU away from everything else, and
//! possibly block the machine.
//!
//! The watchdog's thread has a priority above the probes and checks their CPU time about twice a
//! second. If a probe used 80 % of the CPU time at four checks in a row, the watchdog makes it an
//! ordinary task and stops the run. The machine then stays usable, even if the loop never sleeps.
//! If the watchdog itself cannot run, RLIMIT_RTTIME protects the machine.
//!
//! A check takes about 20 us, and would delay a sample that is due at the same time on the same
//! CPU. Checks are therefore in the middle of the longest interval between due times, and there are
//! none before the run's end if no probe is checked.
//!
//! After the run's end, the watchdog frees starved threads of the tool, so that another program's
//! loop cannot keep the run from ending.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tardy_core::cpu::CpuId;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_probes::recording::control::Control;
use tardy_run::plan::{Plan, ThreadPlan};
use tardy_sys::rlimit::{self, Resource};
use tardy_sys::{affinity, clock, sched, scoped};

use super::starvation::StarvationWatch;
use super::threads::{MeasuringThread, StartBarrier};

const PRIORITY: u32 = 99;
/// The least time between two checks.
const LOOKS: Nanos = Nanos::from_millis(500);
/// A probe must be busy at this number of consecutive checks before the watchdog acts.
const BUSY_LOOKS: u32 = 4;
/// A thread is busy if it used more than this percentage of the time between two checks. A probe at
/// the shortest allowed period uses 25 %. A probe that never sleeps gets at most 95 %, because the
/// kernel reserves the remaining 5 % for ordinary tasks (sched_rt_runtime_us, the fair server).
const BUSY_PERCENT: i64 = 80;
/// How long a thread may run without blocking before the kernel sends SIGXCPU, in us. After twice
/// this time, the kernel kills the process. The watchdog acts much earlier.
const RUNAWAY_MICROS: u64 = 10_000_000;
const STACK_BYTES: usize = 256 << 10;

/// The watchdog of a run in progress.
#[derive(Debug)]
pub(super) struct Watchdog {
    is_ending: Arc<AtomicBool>,
    found: Arc<Mutex<WatchdogFindings>>,
    handle: JoinHandle<()>,
    old_limit: Option<(u64, u64)>,
}

/// What the watchdog had to do.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchdogFindings {
    /// CPUs whose probes never slept.
    pub(super) ended: Vec<Option<CpuId>>,
    /// CPUs whose probes were starved after the run's end.
    pub(super) starved: Vec<Option<CpuId>>,
}

struct WatchedThread {
    tid: i32,
    cpu: Option<CpuId>,
    cpu_time: i64,
    busy_looks: u32,
}

impl Watchdog {
    /// Watches `threads` from a thread on the housekeeping CPUs. This thread learns the start by
    /// waiting at `line` itself, because a probe that never sleeps can keep every other thread of
    /// the tool from running.
    pub(super) fn start(
        threads: &[MeasuringThread],
        plan: &Plan,
        line: &Arc<StartBarrier>,
        control: &Arc<Control>,
    ) -> io::Result<Self> {
        let old_limit = rlimit::get(Resource::RealTimeMicros).ok();
        if let Some((soft, hard)) = old_limit {
            // At the soft limit the kernel sends a signal, which stops the run normally. At the
            // hard limit it kills the process.
            let _ = rlimit::set(
                Resource::RealTimeMicros,
                RUNAWAY_MICROS.min(soft),
                (2 * RUNAWAY_MICROS).min(hard),
            );
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        let found = Arc::new(Mutex::new(WatchdogFindings::default()));
        let cpu_of: BTreeMap<i32, Option<CpuId>> = threads
            .iter()
            .map(|thread| (thread.tid, thread.cpu))
            .collect();
        let mut watched: Vec<WatchedThread> = threads
            .iter()
            .filter(|thread| thread.is_watched)
            .map(|thread| WatchedThread {
                tid: thread.tid,
                cpu: thread.cpu,
                cpu_time: 0,
                busy_looks: 0,
            })
            .collect();
        let cpus = plan.housekeeping_cpus.clone();
        let length = plan.planned_length().unwrap_or(Nanos::MAX);
        let plans: Vec<ThreadPlan> = plan
            .threads
            .iter()
            .map(|entry| entry.plan.clone())
            .collect();
        let (ending, finding, control, line) = (
            Arc::clone(&is_ending),
            Arc::clone(&found),
            Arc::clone(control),
            Arc::clone(line),
        );
        let handle = std::thread::Builder::new()
            .name("tardy-watchdog".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
                let _ = sched::set_policy(0, sched::Policy::Fifo { priority: PRIORITY });
                let start = line.wait();
                let looks = Looks::new(&plans, start);
                let mut before = start;
                let mut starvation = StarvationWatch::default();
                while !ending.load(Ordering::Acquire) {
                    let now = Nanos(clock::monotonic());
                    let mut next = looks.after(now);
                    if watched.is_empty() && !control.is_past_end(now) {
                        next = next.max(start.saturating_add(length));
                    }
                    std::thread::park_timeout((next - now).to_std());
                    let now = Nanos(clock::monotonic());
                    // If the thread was woken early, the time since the previous check may be
                    // short. Such a check is skipped, because it would have too little data.
                    if now - before >= LOOKS {
                        for thread in &mut watched {
                            if thread.is_runaway((now - before).get()) {
                                thread.end(&control, &finding);
                            }
                        }
                        // Before the run's end, everything that delays a thread is part of the
                        // measurement.
                        if control.is_past_end(now) {
                            let freed = starvation.look(PRIORITY, &cpus);
                            if let Ok(mut found) = finding.lock() {
                                // On a busy machine, other threads of the tool may also be starved.
                                // The run then ends later, but its samples are complete.
                                found
                                    .starved
                                    .extend(freed.iter().filter_map(|thread| cpu_of.get(thread)));
                            }
                        }
                        before = now;
                    }
                }
            });
        let handle = handle.map_err(scoped::refused)?;
        Ok(Self {
            is_ending,
            found,
            handle,
            old_limit,
        })
    }

    /// Lets the watchdog look for starved threads from now on. Must be called when the run has been
    /// stopped, possibly before its planned end.
    pub(super) fn expect_end(&self) {
        self.handle.thread().unpark();
    }

    /// Stops watching. Returns what the watchdog had to do.
    pub(super) fn stop(self) -> WatchdogFindings {
        self.is_ending.store(true, Ordering::Release);
        self.handle.thread().unpark();
        let _ = self.handle.join();
        if let Some((soft, hard)) = self.old_limit {
            let _ = rlimit::set(Resource::RealTimeMicros, soft, hard);
        }
        self.found
            .lock()
            .map(|found| found.clone())
            .unwrap_or_default()
    }
}

/// The times at which the watchdog checks the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Looks {
    first: Nanos,
    step: Nanos,
}

impl Looks {
    /// Returns times in the middle of the longest interval without a due time. If periods differ,
    /// all due times are taken modulo the shortest period. If due times depend on the cycle before,
    /// no time is better than another.
    fn new(threads: &[ThreadPlan], start: Nanos) -> Self {
        let grids: Vec<(Nanos, Nanos)> = threads
            .iter()
            .filter(|thread| thread.clocks.are_plain())
            .filter_map(|thread| match thread.at(start).schedule {
                Schedule::Grid { period, start, .. } => Some((period, start)),
                Schedule::Event { .. } => None,
            })
            .collect();
        let shortest = grids.iter().map(|&(period, _)| period).min();
        let step = shortest.unwrap_or(LOOKS).min(LOOKS);
        let after_start = |&(_, due): &(Nanos, Nanos)| (due - start).get().rem_euclid(step.get());
        let dues: BTreeSet<i64> = grids.iter().map(after_start).collect();
        let first = dues.first().copied().unwrap_or_default();
        let next = dues.iter().copied().skip(1).chain([first + step.get()]);
        let widest = dues.iter().zip(next).max_by_key(|&(due, next)| next - due);
        let middle = widest.map_or(0, |(due, next)| due + (next - due) / 2);
        Self {
            first: start + Nanos(middle),
            step,
        }
    }

    /// Returns the first of these times that is at least [`LOOKS`] after `now`.
    fn after(&self, now: Nanos) -> Nanos {
        let earliest = now + LOOKS;
        let past = (earliest - self.first).get().rem_euclid(self.step.get());
        if past == 0 {
            earliest
        } else {
            earliest + self.step - Nanos(past)
        }
    }
}

impl WatchedThread {
    fn is_runaway(&mut self, elapsed: i64) -> bool {
        let Ok(cpu_time) = clock::cpu_time_of_thread(self.tid) else {
            return false;
        };
        let used = cpu_time - std::mem::replace(&mut self.cpu_time, cpu_time);
        self.busy_looks = if used * 100 >= elapsed * BUSY_PERCENT {
            self.busy_looks + 1
        } else {
            0
        };
        self.busy_looks == BUSY_LOOKS
    }

    fn end(&self, control: &Control, found: &Mutex<WatchdogFindings>) {
        // The thread becomes an ordinary task first, because this frees the machine no matter how
        // the loop reacts to the request to stop.
        let _ = sched::set_policy(self.tid, sched::Policy::Other { nice: 19 });
        control.stop();
        if let Ok(mut found) = found.lock() {
            found.ended.push(self.cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use tardy_run::system_clock::ThreadClocks;

    use super::*;

    fn thread(schedule: Schedule) -> ThreadPlan {
        ThreadPlan {
            cpu: None,
            copy: None,
            schedule,
            seed: 0,
            cycles: None,
            stop_above: None,
            clocks: ThreadClocks::default(),
        }
    }

    fn grid(period: Nanos, start: Nanos) -> ThreadPlan {
        thread(Schedule::Grid {
            period,
            start,
            dither: Nanos::ZERO,
        })
    }

    #[test]
    fn checks_are_far_from_every_due_time() {
        let start = Nanos::from_millis(12_345);
        for period in [
            50_000,
            1_000_000,
            1_500_000,
            15_000_000,
            999_999_937,
            10_000_000_000,
        ] {
            let period = Nanos(period);
            let other = Nanos(period.get() * 3);
            let first = Nanos(period.get() / 4);
            let threads = [grid(other, first), grid(period, first)];
            let looks = Looks::new(&threads, start);
            let mut now = start - Nanos(77);
            for _ in 0..1_000 {
                let next = looks.after(now);
                assert!(
                    next - now >= LOOKS && next - now <= LOOKS + LOOKS,
                    "{period}"
                );
                let from_due = (next - start - first).get().rem_euclid(period.get());
                if period < LOOKS || period.get() % LOOKS.get() == 0 {
                    let step = period.min(LOOKS).get();
                    assert_eq!(from_due % step, step / 2, "{period}");
                }
                now = next + Nanos(20_011);
            }
        }
    }

    #[test]
    fn checks_are_between_staggered_due_times() {
        let start = Nanos(12_345);
        let offsets = [0, 250_000, 500_000, 600_000];
        let threads = offsets.map(|offset| grid(Nanos::from_millis(1), Nanos(offset)));
        let next = Looks::new(&threads, start).after(start);
        assert_eq!((next - start).get() % 1_000_000, 800_000);
    }

    #[test]
    fn without_a_grid_checks_are_half_a_second_apart() {
        let looks = Looks::new(&[thread(Schedule::Event { request: Nanos(5) })], Nanos(7));
        let next = looks.after(Nanos(7));
        assert_eq!(looks.after(next), next + LOOKS);
    }
}
