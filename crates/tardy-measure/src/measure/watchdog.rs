//! The watchdog: a probe that never sleeps would take its CPU away from everything else, and with it, perhaps, the machine.
//!
//! A thread above the probes' priority looks at their CPU time twice a second. One that has used most of two seconds is made an
//! ordinary task and the run is stopped. RLIMIT_RTTIME stands behind it, should the watchdog itself be kept from running.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_probes::recording::control::Control;
use tardy_sys::rlimit::{self, Resource};
use tardy_sys::{affinity, clock, sched, scoped};

use super::threads::MeasuringThread;

const PRIORITY: u32 = 99;
const LOOKS: std::time::Duration = std::time::Duration::from_millis(500);
/// Looks in a row at which a thread must be busy.
const BUSY_LOOKS: u32 = 4;
/// Share of the time between two looks that makes a thread busy, in percent. A probe at the shortest period allowed uses a quarter; one that
/// never sleeps gets 95 of 100 and no more, because the kernel keeps the rest for ordinary tasks (sched_rt_runtime_us, the fair server).
const BUSY_PERCENT: i64 = 80;
/// us that a thread may run without blocking before the kernel ends the process: far beyond the watchdog.
const RUNAWAY_MICROS: u64 = 10_000_000;
const STACK_BYTES: usize = 256 << 10;

/// The watchdog under way.
#[derive(Debug)]
pub(super) struct Watchdog {
    is_ending: Arc<AtomicBool>,
    bitten: Arc<Mutex<Vec<Option<CpuId>>>>,
    handle: JoinHandle<()>,
    old_limit: Option<(u64, u64)>,
}

struct WatchedThread {
    tid: i32,
    cpu: Option<CpuId>,
    cpu_time: i64,
    busy_looks: u32,
}

impl Watchdog {
    /// Watches `threads`, from `cpus`.
    pub(super) fn start(threads: &[MeasuringThread], cpus: &CpuList, control: &Arc<Control>) -> io::Result<Self> {
        let old_limit = rlimit::get(Resource::RealTimeMicros).ok();
        if let Some((soft, hard)) = old_limit {
            // At the soft limit a signal comes, which ends the run in order; at the hard one the kernel ends the process.
            let _ = rlimit::set(Resource::RealTimeMicros, RUNAWAY_MICROS.min(soft), (2 * RUNAWAY_MICROS).min(hard));
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        let bitten = Arc::new(Mutex::new(Vec::new()));
        let mut watched: Vec<WatchedThread> = threads
            .iter()
            .filter(|thread| thread.is_watched)
            .map(|thread| WatchedThread { tid: thread.tid, cpu: thread.cpu, cpu_time: 0, busy_looks: 0 })
            .collect();
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let (ending, bites, control) = (Arc::clone(&is_ending), Arc::clone(&bitten), Arc::clone(control));
        let handle = std::thread::Builder::new().name("tardy-watchdog".into()).stack_size(STACK_BYTES).spawn(move || {
            let _ = affinity::set(0, &cpus);
            let _ = sched::set_policy(0, sched::Policy::Fifo { priority: PRIORITY });
            let mut before = clock::monotonic();
            while !ending.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOKS);
                let now = clock::monotonic();
                // A look that comes early, because the end is near, would judge from too little.
                if now - before >= LOOKS.as_nanos() as i64 {
                    for thread in &mut watched {
                        if thread.is_runaway(now - before) {
                            thread.end(&control, &bites);
                        }
                    }
                    before = now;
                }
            }
        });
        let handle = handle.map_err(scoped::refused)?;
        Ok(Self { is_ending, bitten, handle, old_limit })
    }

    /// Stops watching; tells the CPUs whose probes had to be ended.
    pub(super) fn stop(self) -> Vec<Option<CpuId>> {
        self.is_ending.store(true, Ordering::Release);
        self.handle.thread().unpark();
        let _ = self.handle.join();
        if let Some((soft, hard)) = self.old_limit {
            let _ = rlimit::set(Resource::RealTimeMicros, soft, hard);
        }
        self.bitten.lock().map(|bitten| bitten.clone()).unwrap_or_default()
    }
}

impl WatchedThread {
    fn is_runaway(&mut self, elapsed: i64) -> bool {
        let Ok(cpu_time) = clock::cpu_time_of_thread(self.tid) else {
            return false;
        };
        let used = cpu_time - std::mem::replace(&mut self.cpu_time, cpu_time);
        self.busy_looks = if used * 100 >= elapsed * BUSY_PERCENT { self.busy_looks + 1 } else { 0 };
        self.busy_looks == BUSY_LOOKS
    }

    fn end(&self, control: &Control, bitten: &Mutex<Vec<Option<CpuId>>>) {
        // An ordinary task first: from here on the machine can breathe, whatever the loop does about the stop.
        let _ = sched::set_policy(self.tid, sched::Policy::Other { nice: 19 });
        control.stop();
        if let Ok(mut bitten) = bitten.lock() {
            bitten.push(self.cpu);
        }
    }
}
