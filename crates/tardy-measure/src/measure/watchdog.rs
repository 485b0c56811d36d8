//! The watchdog. A probe that never sleeps would take its CPU away from everything else, and
//! possibly block the machine.
//!
//! The watchdog's thread has a priority above the probes and checks their CPU time twice a second.
//! If a probe used 80 % of each half second for two seconds, the watchdog makes it an ordinary task
//! and stops the run. The machine then stays usable, even if the loop never sleeps. If the watchdog
//! itself cannot run, RLIMIT_RTTIME protects the machine.
//!
//! After the run's end, the watchdog frees starved threads of the tool, so that another program's
//! loop cannot keep the run from ending.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_probes::recording::control::Control;
use tardy_sys::rlimit::{self, Resource};
use tardy_sys::{affinity, clock, sched, scoped};

use super::starvation::StarvationWatch;
use super::threads::MeasuringThread;

const PRIORITY: u32 = 99;
const LOOKS: std::time::Duration = std::time::Duration::from_millis(500);
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
    /// Watches `threads` from a thread on `cpus`.
    pub(super) fn start(
        threads: &[MeasuringThread],
        cpus: &CpuList,
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
        let cpus = cpus.clone();
        let (ending, finding, control) = (
            Arc::clone(&is_ending),
            Arc::clone(&found),
            Arc::clone(control),
        );
        let handle = std::thread::Builder::new()
            .name("tardy-watchdog".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
                let _ = sched::set_policy(0, sched::Policy::Fifo { priority: PRIORITY });
                let mut before = clock::monotonic();
                let mut starvation = StarvationWatch::default();
                while !ending.load(Ordering::Acquire) {
                    std::thread::park_timeout(LOOKS);
                    let now = clock::monotonic();
                    // Near the run's end, the time since the previous check may be short. Such a
                    // check is skipped, because it would have too little data.
                    if now - before >= LOOKS.as_nanos() as i64 {
                        for thread in &mut watched {
                            if thread.is_runaway(now - before) {
                                thread.end(&control, &finding);
                            }
                        }
                        // Before the run's end, everything that delays a thread is part of the
                        // measurement.
                        if control.is_past_end(Nanos(now)) {
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
