//! The measuring threads: prepare, arm, loop, disarm, publish.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use tardy_core::cpu::CpuId;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_sys::{affinity, memlock, sched};

use super::overhead::{Before, ThreadOverhead};
use crate::probe::control::Control;
use crate::probe::{ProbeInfo, ThreadPlan};
use crate::record::ring::Producer;

/// Small, because all of it is locked into memory; [`memlock::touch_stack`] touches 64 KiB of it.
const STACK_BYTES: usize = 256 << 10;

/// What a thread says at its end.
#[derive(Debug)]
pub(super) struct ThreadReport {
    pub(super) overhead: ThreadOverhead,
    pub(super) error: Option<std::io::Error>,
}

/// A thread that is ready and waits for the start.
#[derive(Debug)]
pub(super) struct MeasuringThread {
    pub(super) tid: i32,
    pub(super) cpu: Option<CpuId>,
    pub(super) warnings: Vec<Warning>,
    handle: JoinHandle<ThreadReport>,
}

/// Where threads wait for the start, and learn when it is.
#[derive(Debug)]
pub(super) struct StartLine {
    barrier: Barrier,
    start: AtomicI64,
}

impl StartLine {
    /// For so many measuring threads.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { barrier: Barrier::new(threads + 1), start: AtomicI64::new(0) })
    }

    /// Lets all threads go; grids begin at `start`.
    pub(super) fn go(&self, start: Nanos) {
        self.start.store(start.get(), Ordering::Release);
        self.barrier.wait();
    }

    fn wait(&self) -> Nanos {
        self.barrier.wait();
        Nanos(self.start.load(Ordering::Acquire))
    }
}

/// What a thread is started with.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) probe: &'static ProbeInfo,
    pub(super) plan: ThreadPlan,
    pub(super) policy: sched::Policy,
    pub(super) producer: Producer,
}

/// Starts a thread and waits until it is ready.
pub(super) fn launch(launch: Launch, line: &Arc<StartLine>, control: &Arc<Control>) -> std::io::Result<MeasuringThread> {
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let (line, control) = (Arc::clone(line), Arc::clone(control));
    let cpu = launch.plan.cpu;
    let name = format!("{}/{}", launch.probe.name, cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string()));
    let handle = std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
        let warnings = prepare(cpu, launch.policy);
        memlock::touch_stack();
        let _ = ready.send((sched::thread_id(), warnings));
        drop(ready);
        let start = line.wait();
        measure(launch.probe, &at(&launch.plan, start), launch.producer, &control)
    })?;
    let (tid, warnings) = is_ready.recv().map_err(|_| std::io::Error::other("a measuring thread ended before it began"))?;
    Ok(MeasuringThread { tid, cpu, warnings, handle })
}

impl MeasuringThread {
    /// Whether it has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for its end.
    pub(super) fn join(self) -> std::io::Result<ThreadReport> {
        self.handle.join().map_err(|_| std::io::Error::other("a measuring thread ended unexpectedly"))
    }
}

/// The plan with its grid moved from offsets to the clock.
pub(super) fn at(plan: &ThreadPlan, start: Nanos) -> ThreadPlan {
    let schedule = match plan.schedule {
        Schedule::Grid { period, start: offset, dither } => Schedule::Grid { period, start: start + offset, dither },
        event @ Schedule::Event { .. } => event,
    };
    ThreadPlan { schedule, ..plan.clone() }
}

fn prepare(cpu: Option<CpuId>, policy: sched::Policy) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(cpu) = cpu
        && let Err(error) = affinity::set(0, &[cpu.0])
    {
        warnings.push(Warning::NotBound { cpu, error: error.to_string() });
    }
    if let sched::Policy::Other { .. } = policy {
        return warnings;
    }
    match sched::set_policy(0, policy) {
        // Real-time threads have no slack on any kernel of ours; older ones looked at the value.
        Ok(()) => drop(sched::set_timer_slack(1)),
        Err(error) => warnings.push(Warning::NoRealTimePolicy { policy: describe(policy), error: error.to_string() }),
    }
    warnings
}

fn describe(policy: sched::Policy) -> String {
    match policy {
        sched::Policy::Other { .. } => "SCHED_OTHER".to_owned(),
        sched::Policy::Fifo { priority } => format!("SCHED_FIFO {priority}"),
        sched::Policy::RoundRobin { priority } => format!("SCHED_RR {priority}"),
        sched::Policy::Deadline { runtime, period, .. } => format!("SCHED_DEADLINE {} in {}", Nanos(runtime as i64), Nanos(period as i64)),
    }
}

fn measure(probe: &ProbeInfo, plan: &ThreadPlan, producer: Producer, control: &Control) -> ThreadReport {
    let before = Before::now();
    let result = (probe.measure)(plan, producer, control);
    ThreadReport { overhead: before.since(probe.name, plan.cpu), error: result.err() }
}
