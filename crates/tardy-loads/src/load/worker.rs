//! Defines one working process of a load, below the guardian. It is started as `tardy __load`.
//!
//! The process is started as a new program with one thread. The first line of its standard input is
//! its plan. The process binds itself to its CPUs, works until its standard input ends, and reports
//! its work on standard output once a second.
//! After the end of its input, it undoes its changes and sleeps until the guardian ends. The
//! process must not exit earlier, because the exit of a process delays samples.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_run::plan::LoadPlan;
use tardy_sys::usage::{UsageScope, usage};
use tardy_sys::{clock, signal};

use super::Unsupported;

/// The number of passes after which a worker rests. With it, a load can do its work a given number
/// of times, as the events in figure 3 of abeni2002 do.
pub(super) const PASSES: Parameter = Parameter::count(
    "passes",
    "number of passes that each worker makes before it rests; with 0, workers never rest",
    "0",
    0,
    1 << 40,
);

/// The input of a worker, which consists of the load's plan and the worker's own part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    pub load: LoadPlan,
    /// The CPUs of this worker: one, or all CPUs of the load.
    pub cpus: CpuList,
    /// This worker's number among the load's workers, from 0.
    pub index: usize,
    /// The memory budget of this worker in bytes.
    pub memory: u64,
}

/// The work that was done since the worker's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Work {
    /// Number of operations; each load defines them.
    pub operations: u64,
    /// Number of bytes moved, if the load moves data.
    pub bytes: u64,
    /// Number of operations that failed.
    pub errors: u64,
    /// CPU time of the worker and its ended children, and of living descendants if the load runs
    /// programs.
    pub cpu_time: Nanos,
    /// The part of `cpu_time` spent in the kernel.
    pub kernel_time: Nanos,
}

impl std::ops::Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            bytes: self.bytes.saturating_add(other.bytes),
            errors: self.errors.saturating_add(other.errors),
            cpu_time: self.cpu_time.saturating_add(other.cpu_time),
            kernel_time: self.kernel_time.saturating_add(other.kernel_time),
        }
    }
}

/// One line that a worker sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerReport {
    /// The worker starts to work. The value is the time on the monotonic clock.
    Working(Nanos),
    /// The work so far.
    Work(Work),
    /// The worker saw the request to stop at this time, has undone its changes, and sleeps until it
    /// is killed.
    Resting(Nanos),
    /// The load cannot run here.
    Absent(Unsupported),
    /// A problem, or a remark for the user.
    Problem(String),
}

const REPORT_INTERVAL: Nanos = Nanos::from_secs(1);
/// Time from the worker's start to its first report. It is short, so that the report soon confirms
/// that the load works.
const FIRST_REPORT: Nanos = Nanos::from_millis(100);
/// Interval between checks of standard input: short enough that a phase ends on time, long enough
/// to cost little.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(5);

/// The state of a worker while it works.
#[derive(Debug)]
pub struct Worker {
    /// The worker's input.
    pub plan: WorkerPlan,
    work: Work,
    passes: u64,
    next_report: i64,
    next_check: i64,
    /// When the worker saw the request to stop.
    stopped_at: Option<Nanos>,
    runs_programs: bool,
}

impl Worker {
    pub(super) fn new(plan: WorkerPlan) -> Self {
        let now = clock::monotonic();
        Self {
            plan,
            work: Work::default(),
            passes: 0,
            next_report: now + FIRST_REPORT.get(),
            next_check: now,
            stopped_at: None,
            runs_programs: false,
        }
    }

    /// Returns whether to continue. Must be called between operations. Costs a clock read, and
    /// sends a report when a second has passed.
    pub fn go_on(&mut self) -> bool {
        let now = clock::monotonic();
        if now >= self.next_check {
            self.next_check = now + STOP_CHECK_INTERVAL.get();
            self.note_stop(stop_is_asked(Duration::ZERO));
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL.get();
            self.report();
        }
        self.stopped_at.is_none()
    }

    fn note_stop(&mut self, is_asked: bool) {
        if is_asked {
            self.stopped_at.get_or_insert(Nanos(clock::monotonic()));
        }
    }

    /// Returns the time at which the worker saw the request to stop.
    pub(super) fn stopped_at(&self) -> Option<Nanos> {
        self.stopped_at
    }

    /// Works like [`Self::go_on`], for loads with the parameter [`PASSES`]. Must be called before
    /// each pass. After the last pass it rests until the load must stop.
    pub(super) fn begin_pass(&mut self) -> bool {
        let most = self.number(PASSES.name);
        while most > 0 && self.passes >= most && self.rest(Nanos::from_secs(3600)) {}
        self.passes += 1;
        self.go_on()
    }

    /// Sleeps for `duration`, but not beyond the request to stop, and sends reports meanwhile.
    /// Returns whether to continue.
    pub fn rest(&mut self, duration: Nanos) -> bool {
        let end = clock::monotonic() + duration.get();
        while self.stopped_at.is_none() && self.sleep_until(end.min(self.next_report)) < end {
            self.go_on();
        }
        self.go_on()
    }

    /// Sleeps until `due` on the monotonic clock, but not beyond the request to stop. Sends no
    /// reports, because that would take time. Returns the time at which it woke up, in ns.
    pub fn sleep_until(&mut self, due: i64) -> i64 {
        loop {
            let now = clock::monotonic();
            if now >= due || self.stopped_at.is_some() {
                return now;
            }
            self.note_stop(stop_is_asked(Duration::from_nanos(
                (due - now).unsigned_abs(),
            )));
        }
    }

    /// Waits until `source` is readable, the stop is requested or a report is due.
    pub fn wait_for(&mut self, source: BorrowedFd<'_>) {
        let wait = Duration::from_nanos(
            (self.next_report - clock::monotonic())
                .max(0)
                .unsigned_abs(),
        );
        let stdin = std::io::stdin();
        let is_asked = signal::wait_readable_within(&[stdin.as_fd(), source], Some(wait))
            .is_ok_and(|readable| readable[0]);
        self.note_stop(is_asked);
    }

    /// Counts work that was done.
    pub fn did(&mut self, operations: u64, bytes: u64) {
        self.work.operations += operations;
        self.work.bytes += bytes;
    }

    /// Counts an operation that failed.
    pub fn failed(&mut self) {
        self.work.errors += 1;
    }

    /// Sends a report of the work so far.
    pub(super) fn report(&mut self) {
        let (living_user, living_kernel) = if self.runs_programs {
            crate::children::living_cpu_time()
        } else {
            Default::default()
        };
        let (user, kernel) = cpu_time();
        // The time of living processes is counted in ticks, the time of ended processes exactly.
        // The sum could therefore fall when a process ends, so the largest sum so far is reported.
        self.work.kernel_time = self
            .work
            .kernel_time
            .max(kernel.saturating_add(living_kernel));
        let all = user
            .saturating_add(kernel)
            .saturating_add(living_user)
            .saturating_add(living_kernel);
        self.work.cpu_time = self.work.cpu_time.max(all);
        self.say(&WorkerReport::Work(self.work));
    }

    /// Counts the CPU time of living descendants, too, from now on. A program may run for the whole
    /// phase, and is reaped only at the end of the phase.
    pub(super) fn counts_living_programs(&mut self) {
        self.runs_programs = true;
    }

    /// Sends a text for the run's warnings.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.say(&WorkerReport::Problem(text.into()));
    }

    pub(super) fn say(&mut self, report: &WorkerReport) {
        let mut line = serde_json::to_vec(report).expect("a report can always be written as JSON");
        line.push(b'\n');
        // If the reader is gone, so is the guardian, and the worker must stop.
        let is_unheard = std::io::stdout().lock().write_all(&line).is_err();
        self.note_stop(is_unheard);
    }

    /// Returns memory of the size of the parameter `block`. The memory is never freed, because
    /// freeing megabytes takes hundreds of us, in which some kernels run nothing else.
    pub(super) fn block(&self) -> &'static mut [u8] {
        vec![0; self.number("block") as usize].leak()
    }

    /// Returns the CPU to which the worker is bound; `None` if it is not bound to exactly one CPU.
    #[must_use]
    pub fn cpu(&self) -> Option<CpuId> {
        self.plan
            .cpus
            .iter()
            .next()
            .filter(|_| self.plan.cpus.len() == 1)
    }

    /// Returns the value of a size or number in the plan.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.plan.load.parameters.number(name)
    }
}

/// Returns the CPU time of this process and its ended children, in user mode and in the kernel.
fn cpu_time() -> (Nanos, Nanos) {
    let used = |who| usage(who).map_or((0, 0), |usage| (usage.user, usage.system));
    let ((user, kernel), (user_of_children, kernel_of_children)) =
        (used(UsageScope::Process), used(UsageScope::Children));
    (
        Nanos(user + user_of_children),
        Nanos(kernel + kernel_of_children),
    )
}

/// Returns whether standard input has ended within `wait`. The end of standard input requests the
/// stop. Standard input never contains data.
fn stop_is_asked(wait: Duration) -> bool {
    signal::wait_readable_within(&[std::io::stdin().as_fd()], Some(wait))
        .is_ok_and(|readable| readable[0])
}

/// Returns the parameters with their values as one line of text.
#[must_use]
pub fn describe_parameters(parameters: &tardy_run::parameter::Values) -> String {
    parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}
