//! Runs the process of a worker, from its start to its end. It is started as `tardy __load`.

use std::process::ExitCode;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_run::plan::Share;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::sched::Policy;
use tardy_sys::{affinity, clock, rlimit, sched, signal};

use super::info::{ErrorContext, Job, LoadInfo, Run, WorkError};
use super::worker::{Worker, WorkerPlan, WorkerReport};

/// Waits for a plan (a line of JSON on standard input), and runs the worker that the plan describes.
/// Returns the exit code of the process.
#[must_use]
pub fn run() -> ExitCode {
    // The process may wait until after the init has died.
    let _ = process::set_parent_death_signal(process::KILL);
    let mut plan = String::new();
    match std::io::stdin().read_line(&mut plan) {
        // The measurement ended before the worker's phase.
        Ok(0) => return ExitCode::SUCCESS,
        Ok(_) => {}
        Err(error) => {
            tardy_sys::say!("tardy: a load cannot read its plan: {error}");
            return ExitCode::from(2);
        }
    }
    let plan: WorkerPlan = match serde_json::from_str(&plan) {
        Ok(plan) => plan,
        Err(error) => {
            tardy_sys::say!(
                "tardy: the plan of a load is unreadable: {error}; this process is started by \
                 tardy itself, not by hand"
            );
            return ExitCode::from(2);
        }
    };
    let Some(info) = super::find(&plan.load.name) else {
        tardy_sys::say!(
            "tardy: there is no load `{}`; see `tardy list loads`",
            plan.load.name
        );
        return ExitCode::from(2);
    };
    let mut worker = Worker::new(plan);
    let result = set_up(&worker.plan.cpus).and_then(|()| {
        take_share(&mut worker);
        let job: Job = match info.run {
            Run::Plain(run) => Box::new(run),
            Run::Prepared(prepare) => prepare(&mut worker)?,
        };
        info.rights.keep_only(&mut worker)?;
        worker.say(&WorkerReport::Working(Nanos(clock::monotonic())));
        job(&mut worker)
    });
    end_descendants();
    worker.report();
    conclude(info, &mut worker, result)
}

fn conclude(info: &LoadInfo, worker: &mut Worker, result: Result<(), WorkError>) -> ExitCode {
    match result {
        Ok(()) => {
            if let Some(at) = worker.stopped_at() {
                worker.say(&WorkerReport::Resting(at));
                // The process sleeps until it is killed, at the latest when the guardian ends.
                loop {
                    std::thread::park();
                }
            }
            ExitCode::SUCCESS
        }
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

/// Time by which the kernel may delay a timer of an ordinary thread, in ns. This is the kernel's
/// default (init/init_task.c, `.timer_slack_ns = 50000`).
const TIMER_SLACK_DEFAULT: u32 = 50_000;

/// Resets settings that the worker may have inherited, and binds the worker to its CPUs.
fn set_up(cpus: &CpuList) -> Result<(), WorkError> {
    // The guardian blocks the signals that it waits for. A program that inherited the blocked
    // signals would not end when it is asked to.
    signal::unblock_all().doing("unblock signals")?;
    process::set_parent_death_signal(process::KILL)
        .doing("request a signal for the parent's death")?;
    process::become_subreaper().doing("become the reaper of the load's processes")?;
    // Makes the worker an ordinary task, because it may have inherited a real-time policy or the
    // guardian's nice value. Any process may raise its nice value from a negative value to 0.
    // Lowering a positive value to 0 needs a right; without it, the worker takes 19.
    sched::set_policy(0, Policy::Other { nice: 0 })
        .or_else(|_| sched::set_policy(0, Policy::Other { nice: 19 }))
        .doing("leave the real-time policy")?;
    sched::set_timer_slack(TIMER_SLACK_DEFAULT).doing("set the timer slack")?;
    let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    affinity::set(0, &cpus)
        .doing("bind the load to its CPUs (are they online, and allowed for this cgroup?)")?;
    rlimit::set(rlimit::Resource::CoreBytes, 0, 0).doing("forbid core dumps")?;
    // The kernel should kill loads first when memory runs out. Raising the value needs no right.
    // Kernels without an OOM killer have no such file.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "1000")
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(WorkError::System {
            doing: "become the OOM killer's first choice",
            source: error,
        });
    }
    Ok(())
}

/// Moves the worker into its share of the CPUs. If this fails, the load still works, and the
/// phase's table shows how much CPU time it got.
fn take_share(worker: &mut Worker) {
    let share = worker.plan.load.share.clone();
    if let Err(error) = super::sharing::enter(
        &share,
        worker.plan.index,
        super::sharing::weight(&worker.plan.load),
    ) {
        let place = if let Share::Group(group) = &share {
            group.display().to_string()
        } else {
            "a separate session".to_owned()
        };
        worker.tell(format!(
            "could not get a CPU share separate from other loads ({place}: {error})"
        ));
    }
}

/// Ends the remaining processes of the load. This process is their subreaper, so they all become
/// its children.
fn end_descendants() {
    loop {
        match process::reap_any(false) {
            Ok(WaitResult::Ended(..)) => {}
            Ok(WaitResult::NoChildren) | Err(_) => return,
            Ok(WaitResult::NoneYet) => {
                for child in crate::children::of_this_process() {
                    // A child that has ended meanwhile needs no signal.
                    let _ = process::kill(child, process::KILL);
                }
                if process::reap_any(true).is_err() {
                    return;
                }
            }
        }
    }
}
