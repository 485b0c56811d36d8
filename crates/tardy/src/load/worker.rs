//! One working process of a load, below the guardian: `tardy __load PLAN`.
//!
//! It is started fresh (one thread, nothing inherited that matters), is bound to its CPUs, works until its standard input ends, and tells once
//! a second on standard output how much it did.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_run::plan::{LoadPlan, Share};
use tardy_sys::process::{self, Reaped};
use tardy_sys::sched::Policy;
use tardy_sys::usage::{Who, usage};
use tardy_sys::{affinity, clock, rlimit, sched, signal};

use super::info::{LoadInfo, WorkError};
use super::plan::Absent;

/// What a worker is told: its load's plan, and which part of it is its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// The load.
    pub load: LoadPlan,
    /// The CPUs of this worker: one, or all of the load's.
    pub cpus: CpuList,
    /// This worker's number among the load's, from 0.
    pub index: usize,
    /// The memory budget of this worker in bytes.
    pub memory: u64,
}

/// How much was done, since the worker's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Work {
    /// Operations; each load says which.
    pub operations: u64,
    /// Bytes moved, where the load moves any.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// CPU time of the worker and its children; of living ones where they are programs.
    pub cpu_time: Nanos,
}

impl std::ops::Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            bytes: self.bytes.saturating_add(other.bytes),
            errors: self.errors.saturating_add(other.errors),
            cpu_time: self.cpu_time.saturating_add(other.cpu_time),
        }
    }
}

/// One line from a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerReport {
    /// It begins to work, at this moment of the monotonic clock.
    Working(Nanos),
    /// How much was done so far.
    Work(Work),
    /// The load cannot run here.
    Absent(Absent),
    /// Something went wrong, or is worth saying.
    Problem(String),
}

const REPORT_INTERVAL: Nanos = Nanos::from_secs(1);
/// The first report comes early: whoever started the load wants to know that it is at work.
const FIRST_REPORT: Nanos = Nanos::from_millis(100);
/// How often standard input is looked at: often enough that a phase ends when it should, rarely enough to cost nothing.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(5);

/// A worker at work.
#[derive(Debug)]
pub struct Worker {
    /// What it was told.
    pub plan: WorkerPlan,
    work: Work,
    next_report: i64,
    next_check: i64,
    stopped: bool,
    runs_programs: bool,
}

impl Worker {
    fn new(plan: WorkerPlan) -> Self {
        let now = clock::monotonic();
        Self { plan, work: Work::default(), next_report: now + FIRST_REPORT.get(), next_check: now, stopped: false, runs_programs: false }
    }

    /// Whether to go on. Call it between operations: it costs a clock read, and reports when a second has passed.
    pub fn go_on(&mut self) -> bool {
        let now = clock::monotonic();
        if now >= self.next_check {
            self.next_check = now + STOP_CHECK_INTERVAL.get();
            self.stopped |= stop_is_asked(Duration::ZERO);
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL.get();
            self.report();
        }
        !self.stopped
    }

    /// Sleeps for `duration`, but no longer than until the stop, and reports in between. Says whether to go on.
    pub fn rest(&mut self, duration: Nanos) -> bool {
        let end = clock::monotonic() + duration.get();
        while !self.stopped && self.sleep_until(end.min(self.next_report)) < end {
            self.go_on();
        }
        self.go_on()
    }

    /// Sleeps until `due` on the monotonic clock, but no longer than until the stop, and does nothing else: no report, which takes its time. Returns when it
    /// woke, in ns.
    pub fn sleep_until(&mut self, due: i64) -> i64 {
        loop {
            let now = clock::monotonic();
            if now >= due || self.stopped {
                return now;
            }
            self.stopped = stop_is_asked(Duration::from_nanos((due - now).unsigned_abs()));
        }
    }

    /// Waits until `source` is readable, the stop is asked for or a report is due.
    pub fn wait_for(&mut self, source: BorrowedFd<'_>) {
        let wait = Duration::from_nanos((self.next_report - clock::monotonic()).max(0).unsigned_abs());
        let stdin = std::io::stdin();
        self.stopped |= signal::wait_readable_within(&[stdin.as_fd(), source], Some(wait)).is_ok_and(|readable| readable[0]);
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

    /// Sends the work so far.
    pub(super) fn report(&mut self) {
        let living = if self.runs_programs { crate::guardian::children::living_cpu_time() } else { Nanos::ZERO };
        // Living processes are counted in ticks, ended ones exactly: the sum must not fall when one of them ends.
        self.work.cpu_time = self.work.cpu_time.max(cpu_time().saturating_add(living));
        self.say(&WorkerReport::Work(self.work));
    }

    /// From now on the CPU time of living descendants counts, too: a program may run for the whole phase, and is not waited for before its end.
    pub(super) fn counts_living_programs(&mut self) {
        self.runs_programs = true;
    }

    /// Sends a text for the run's warnings.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.say(&WorkerReport::Problem(text.into()));
    }

    fn say(&mut self, report: &WorkerReport) {
        let mut line = serde_json::to_vec(report).expect("a report is plain data, which always becomes JSON");
        line.push(b'\n');
        // Where nobody reads any more the guardian is gone, and so is the reason to work.
        if std::io::stdout().lock().write_all(&line).is_err() {
            self.stopped = true;
        }
    }

    /// The CPU that the worker is bound to, where it is one.
    #[must_use]
    pub fn cpu(&self) -> Option<CpuId> {
        self.plan.cpus.iter().next().filter(|_| self.plan.cpus.len() == 1)
    }

    /// A size or number of the plan.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.plan.load.parameters.number(name)
    }
}

fn cpu_time() -> Nanos {
    let used = |who| usage(who).map_or(0, |usage| usage.user + usage.system);
    Nanos(used(Who::Process) + used(Who::Children))
}

/// The stop request is the end of standard input; nothing is ever written to it.
fn stop_is_asked(wait: Duration) -> bool {
    signal::wait_readable_within(&[std::io::stdin().as_fd()], Some(wait)).is_ok_and(|readable| readable[0])
}

/// Runs the worker that `plan` (JSON) describes; the exit code is the process's.
#[must_use]
pub fn run(plan: &str) -> ExitCode {
    let plan: WorkerPlan = match serde_json::from_str(plan) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("tardy: the plan of a load is unreadable: {error}; this is started by tardy itself, not by hand");
            return ExitCode::from(2);
        }
    };
    let Some(info) = super::find(&plan.load.name) else {
        eprintln!("tardy: there is no load `{}`; see `tardy list loads`", plan.load.name);
        return ExitCode::from(2);
    };
    let mut worker = Worker::new(plan);
    let result = set_up(&worker.plan.cpus).and_then(|()| {
        take_share(&mut worker);
        worker.say(&WorkerReport::Working(Nanos(clock::monotonic())));
        (info.run)(&mut worker)
    });
    end_descendants();
    worker.report();
    conclude(info, &mut worker, result)
}

fn conclude(info: &LoadInfo, worker: &mut Worker, result: Result<(), WorkError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(WorkError::Absent(absent)) => {
            worker.say(&WorkerReport::Absent(absent));
            ExitCode::SUCCESS
        }
        Err(error) => {
            worker.tell(format!("{}: {error}", info.name));
            ExitCode::FAILURE
        }
    }
}

/// ns that the kernel may delay a timer of an ordinary thread: its own default (init/init_task.c, `.timer_slack_ns = 50000`).
const TIMER_SLACK_DEFAULT: u32 = 50_000;

/// Undoes what the worker may have inherited from whoever started the tool, and binds it to its CPUs.
fn set_up(cpus: &CpuList) -> Result<(), WorkError> {
    use super::info::Doing;
    // The guardian blocks the signals that it waits for; a program that inherits that does not end when it is asked to.
    signal::unblock_all().doing("unblock signals")?;
    process::set_parent_death_signal(process::KILL).doing("ask for a signal at the parent's end")?;
    process::become_subreaper().doing("become the reaper of the load's processes")?;
    // A real-time tool started under chrt hands its policy down; a negative nice value can always be given up, a positive one not always.
    sched::set_policy(0, Policy::Other { nice: 0 })
        .or_else(|_| sched::set_policy(0, Policy::Other { nice: 19 }))
        .doing("leave the real-time policy")?;
    sched::set_timer_slack(TIMER_SLACK_DEFAULT).doing("set the timer slack")?;
    let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    affinity::set(0, &cpus).doing("bind the load to its CPUs; are they online, and allowed to this cgroup?")?;
    rlimit::set(rlimit::Resource::CoreBytes, 0, 0).doing("forbid core dumps")?;
    // Loads are the first to go when memory runs out; raising the value needs no right. Kernels without an OOM killer have no such file.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "1000")
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(WorkError::System { doing: "become the OOM killer's first choice", source: error });
    }
    Ok(())
}

/// Without a share of its own the load works all the same, and the phase's table shows what it got.
fn take_share(worker: &mut Worker) {
    let share = worker.plan.load.share.clone();
    if let Err(error) = super::sharing::enter(&share, worker.plan.index, super::sharing::weight(&worker.plan.load)) {
        let place = if let Share::Group(group) = &share { group.display().to_string() } else { "a session of its own".to_owned() };
        worker.tell(format!("has no share of its own beside other loads: {place}: {error}"));
    }
}

/// Ends what the load's own processes left; as their subreaper, this process inherits them all.
fn end_descendants() {
    loop {
        match process::reap_any(false) {
            Ok(Reaped::Ended(..)) => {}
            Ok(Reaped::NoChildren) | Err(_) => return,
            Ok(Reaped::NoneYet) => {
                for child in crate::guardian::children::of_this_process() {
                    // A child that ended in between needs no signal.
                    let _ = process::kill(child, process::KILL);
                }
                if process::reap_any(true).is_err() {
                    return;
                }
            }
        }
    }
}

/// The parameters with their values, for one line of text.
#[must_use]
pub fn describe_parameters(parameters: &tardy_run::parameter::Values) -> String {
    parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
