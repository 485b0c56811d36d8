//! The measuring threads, which prepare, arm, loop, disarm and publish.
//!
//! The first measuring thread that passes the barrier chooses the start. By then, files, memory,
//! threads and `run.json` exist, so the tool never waits for them after the first due time, and its
//! own preparation does not show up as latency. In the 100 ms before the first due time, the tool
//! writes the heads of series and the start in `run.json`, without waiting for the disk
//! (`tests/integration/start.rs` delays every fsync).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_machine::{cgroup, groups};
use tardy_probes::probe::{Member, StartGate};
use tardy_probes::recording::control::Control;
use tardy_run::overhead::ThreadOverhead;
use tardy_run::plan::ThreadEntry;
use tardy_run::system_clock::SystemClock;
use tardy_sys::post::Post;
use tardy_sys::{affinity, clock, memlock, sched, scoped};

use super::overhead::StartCounts;
use super::scheduling::Scheduling;

/// Stack of a measuring thread in bytes. The stack is small, because all of it is locked into
/// memory. [`memlock::touch_stack`] touches 64 KiB of it.
const STACK_BYTES: usize = 256 << 10;

/// What a thread reports at its end.
#[derive(Debug)]
pub(super) struct ThreadReport {
    pub(super) overhead: Option<ThreadOverhead>,
    pub(super) error: Option<std::io::Error>,
    /// Scheduling of the thread after its loop had ended.
    pub(super) scheduling: Option<Scheduling>,
}

/// A thread that is ready and waits for the start.
#[derive(Debug)]
pub(super) struct MeasuringThread {
    pub(super) tid: i32,
    pub(super) name: String,
    pub(super) cpu: Option<CpuId>,
    /// Scheduling of the thread when it was ready.
    pub(super) scheduling: Option<Scheduling>,
    pub(super) is_watched: bool,
    /// The clock on which the thread's timer is set.
    pub(super) timer_clock: SystemClock,
    pub(super) warnings: Vec<Warning>,
    handle: JoinHandle<ThreadReport>,
}

/// Time from the release of the first thread to the first due time. All other threads must be
/// released within this time.
const LEAD: Nanos = Nanos::from_millis(100);
const NOT_CHOSEN: i64 = i64::MIN;

/// The barrier at which the measuring threads wait for the start of the run. It gives all of them
/// the same start time.
///
/// The start is chosen by the measuring thread that is released first, not by the thread that
/// prepares the run. An ordinary task on a busy machine, or a disk, can delay the preparation. Such
/// delays happen before the start is chosen, so they do not delay a due time.
#[derive(Debug)]
pub(super) struct StartBarrier {
    barrier: Barrier,
    start: AtomicI64,
}

impl StartBarrier {
    /// Makes a barrier for a number of measuring threads.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self {
            barrier: Barrier::new(threads + 1),
            start: AtomicI64::new(NOT_CHOSEN),
        })
    }

    /// Waits until all threads have arrived, and returns the start time of the run's grids. Must be
    /// the last call before the loop.
    pub(super) fn wait(&self) -> Nanos {
        self.barrier.wait();
        let proposed = Nanos(clock::monotonic()) + LEAD;
        match self.start.compare_exchange(
            NOT_CHOSEN,
            proposed.get(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => proposed,
            Err(chosen) => Nanos(chosen),
        }
    }
}

/// Starts a measuring thread of `entry` and waits until it is ready. The thread itself calls
/// `mark`.
pub(super) fn launch(
    entry: &ThreadEntry,
    member: Member,
    line: &Arc<StartBarrier>,
    control: &Arc<Control>,
    group: Option<&Path>,
    mark: impl FnOnce() + Send + 'static,
) -> std::io::Result<MeasuringThread> {
    let (probe, cpu, timer_clock) = (
        entry.probe.as_str(),
        entry.plan.cpu,
        entry.plan.clocks.timer.clock,
    );
    let group = group.map(Path::to_owned);
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let (line, control) = (Arc::clone(line), Arc::clone(control));
    let label = if member.role.is_empty() {
        probe.to_owned()
    } else {
        format!("{probe}.{}", member.role)
    };
    let name = format!(
        "{label}/{}",
        cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string())
    );
    let is_watched = member.is_watched;
    let handle = std::thread::Builder::new()
        .name(name.clone())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // When a thread joins a group with a cpuset, the kernel changes its CPUs, so the thread
            // is bound to its CPU afterwards.
            let joined = group.as_deref().map_or(Ok(()), groups::join_thread);
            let mut warnings = prepare(&member);
            if let Err(error) = joined {
                warnings.push(Warning::Problem {
                    text: format!(
                        "a measuring thread did not join --probe-cgroup ({error}): the thread runs \
                         in the tool's own group"
                    ),
                });
            }
            let _post = post(&member, &warnings);
            mark();
            memlock::touch_stack();
            let before = Cell::new(None);
            let wait = || {
                let _ = ready.send((sched::thread_id(), Scheduling::of(0).ok(), warnings));
                drop(ready);
                let start = line.wait();
                before.set(Some(StartCounts::now()));
                start
            };
            let run = AssertUnwindSafe(|| (member.run)(StartGate::new(&control, wait)));
            let result = catch_unwind(run);
            // If this thread failed in its loop, it must call `leave` here, because the other
            // threads still wait for it.
            if before.get().is_some() && !matches!(result, Ok(Ok(_))) {
                control.leave();
            }
            let result = result.unwrap_or_else(|panic| resume_unwind(panic));
            // If a thread failed before the start, it reports only its error, because it has no
            // overhead.
            let overhead = before.get().map(|before| before.since(&label, cpu));
            ThreadReport {
                overhead,
                error: result.err(),
                scheduling: Scheduling::of(0).ok(),
            }
        });
    let handle = handle.map_err(scoped::refused)?;
    match is_ready.recv() {
        Ok((tid, scheduling, warnings)) => Ok(MeasuringThread {
            tid,
            name,
            cpu,
            scheduling,
            is_watched,
            timer_clock,
            warnings,
            handle,
        }),
        Err(_) => Err(handle
            .join()
            .ok()
            .and_then(|report| report.error)
            .unwrap_or_else(|| std::io::Error::other("it exited before it was ready"))),
    }
}

impl MeasuringThread {
    /// Returns whether the thread has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for the thread's end.
    pub(super) fn join(self) -> std::io::Result<ThreadReport> {
        self.handle
            .join()
            .map_err(|_| std::io::Error::other("a measuring thread ended unexpectedly"))
    }
}

/// Marks samples that a thread took on a CPU other than its own. If the kernel does not report the
/// CPU of each sample, only the scheduling check once a second can find such samples.
fn post(member: &Member, warnings: &[Warning]) -> Option<Post> {
    let is_bound = member.cpus.len() == 1
        && !warnings
            .iter()
            .any(|warning| matches!(warning, Warning::NotBound { .. }));
    let cpu = member.cpus.iter().next().filter(|_| is_bound)?;
    Post::take(cpu.0).ok()
}

fn prepare(member: &Member) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let cpus: Vec<u32> = member.cpus.iter().map(|cpu| cpu.0).collect();
    if let Some(cpu) = member.cpus.iter().next()
        && let Err(error) = affinity::set(0, &cpus)
    {
        warnings.push(Warning::NotBound {
            cpu,
            error: error.to_string(),
        });
    }
    if let sched::Policy::Other { nice: 0 } = member.policy {
        return warnings;
    }
    match sched::set_policy(0, member.policy) {
        // Real-time threads have no timer slack on supported kernels, but older kernels applied it
        // to them.
        Ok(()) => drop(sched::set_timer_slack(1)),
        Err(error) => warnings.push(Warning::NoRealTimePolicy {
            policy: describe(member.policy),
            error: cgroup::why_no_real_time(&Root::system(), &error),
        }),
    }
    warnings
}

fn describe(policy: sched::Policy) -> String {
    match policy {
        sched::Policy::Other { .. } => "SCHED_OTHER".to_owned(),
        sched::Policy::Fifo { priority } => format!("SCHED_FIFO {priority}"),
        sched::Policy::RoundRobin { priority } => format!("SCHED_RR {priority}"),
        sched::Policy::Deadline {
            runtime, period, ..
        } => format!(
            "SCHED_DEADLINE {} in {}",
            Nanos(runtime as i64),
            Nanos(period as i64)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tardy_core::cpu::CpuList;
    use tardy_core::series::Schedule;
    use tardy_run::plan::ThreadPlan;
    use tardy_run::system_clock::ThreadClocks;
    use tardy_sys::sched::Policy;

    use super::*;

    /// Stands for a probe's files and memory in a test: adds a note to the test's list when it is
    /// dropped.
    struct DropNote(Arc<Mutex<Vec<&'static str>>>);

    impl Drop for DropNote {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
        }
    }

    /// How the loop of a test's thread ends.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum LoopEnd {
        Done,
        Fails,
        Panics,
    }

    fn member(
        log: &Arc<Mutex<Vec<&'static str>>>,
        length: std::time::Duration,
        end: LoopEnd,
    ) -> Member {
        let held = DropNote(Arc::clone(log));
        Member {
            role: "",
            cpus: CpuList::default(),
            policy: Policy::Other { nice: 0 },
            is_watched: false,
            run: Box::new(move |ready| {
                let start = ready.wait();
                std::thread::sleep(length);
                held.0.lock().unwrap().push("measured");
                match end {
                    LoopEnd::Done => Ok(start.control.leave()),
                    LoopEnd::Fails => Err(std::io::Error::other("made to fail")),
                    LoopEnd::Panics => panic!("made to panic"),
                }
            }),
        }
    }

    #[test]
    fn no_thread_takes_anything_apart_while_another_one_measures() {
        let entry = ThreadEntry {
            probe: "made".into(),
            plan: ThreadPlan {
                cpu: None,
                copy: None,
                schedule: Schedule::Event { request: Nanos(1) },
                seed: 0,
                cycles: None,
                stop_above: None,
                clocks: ThreadClocks::default(),
            },
        };
        for end in [LoopEnd::Done, LoopEnd::Fails, LoopEnd::Panics] {
            let log = Arc::new(Mutex::new(Vec::new()));
            let control = Arc::new(Control::new(None, None));
            let line = StartBarrier::new(3);
            let lengths = [0, 20, 60].map(std::time::Duration::from_millis);
            // The last thread ends its loop as the test specifies.
            let ends = [LoopEnd::Done, LoopEnd::Done, end];
            let threads: Vec<_> = lengths
                .into_iter()
                .zip(ends)
                .map(|(length, end)| {
                    let member = member(&log, length, end);
                    launch(&entry, member, &line, &control, None, || ()).unwrap()
                })
                .collect();
            line.wait();
            let failed: Vec<bool> = threads
                .into_iter()
                .map(|thread| thread.join().is_ok_and(|report| report.error.is_none()))
                .map(|is_good| !is_good)
                .collect();
            assert_eq!(failed, [false, false, end != LoopEnd::Done]);
            let log = log.lock().unwrap();
            let last_measured = log.iter().rposition(|&what| what == "measured");
            let first_dropped = log.iter().position(|&what| what == "dropped");
            assert!(last_measured < first_dropped, "{log:?}");
        }
    }
}
