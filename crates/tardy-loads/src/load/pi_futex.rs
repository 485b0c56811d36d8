//! `pi-futex`: builds chains of locks whose owners inherit the priority of waiters.

use std::time::Duration;

use tardy_core::cpu::CpuId;
use tardy_run::parameter::Parameter;
use tardy_sys::capability;
use tardy_sys::inheriting_lock::InheritingLock;
use tardy_sys::sched::{self, Policy};
use tardy_sys::scoped;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::pace::Pace;
use super::resolution::Resolution;
use super::threads::{self, RoundWork};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "pi-futex",
    does: "threads form chains through locks with priority inheritance: each thread holds one lock \
           and waits for the next lock; the last thread is a real-time task",
    effect: "the kernel follows each chain with raw locks held and interrupts off, and raises and \
             lowers the priority of every lock owner in the chain",
    source: "today",
    parameters: &[
        Parameter::count("chains", "number of chains for each load CPU", "1", 1, 64),
        Parameter::count("length", "number of threads in a chain", "8", 2, 64),
        Parameter::count(
            "priority",
            "real-time priority of each chain's last thread; with 0, the thread is an ordinary task",
            "1",
            0,
            49,
        ),
    ],
    can_do_harm: false,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[capability::SYS_NICE],
        opens: "",
    },
    resolve,
    run: Run::Plain(run),
};

/// Stack and kernel memory of a thread, in bytes, rounded up.
const THREAD_BYTES: u64 = 128 << 10;
/// How long the first owner of a chain holds its lock. The owner sleeps while it holds the lock, so
/// that the others start to wait.
const HOLD: Duration = Duration::from_micros(50);
/// Pause of the real-time thread after each round. Without the pause, threads that inherit its
/// priority could occupy a CPU for a long time.
const REST: Duration = Duration::from_micros(200);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let cpus = resolution.plan.cpus.len().max(1) as u64;
    let share = resolution.share;
    let limit = share
        .processes
        .saturating_sub(1)
        .min(share.memory / THREAD_BYTES)
        / cpus;
    let length = resolution.fit_within("length", limit, "processes or memory")?;
    let chains = resolution.fit_within("chains", limit / length, "processes or memory")?;
    resolution.plan.budget.memory = chains * length * cpus * THREAD_BYTES;
    resolution.plan.budget.processes = chains * length * cpus + 1;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let length = worker.number("length") as usize;
    let beside = worker.plan.load.beside;
    let load_cpus: Vec<CpuId> = worker.plan.cpus.iter().collect();
    let threads = worker.number("chains") as usize * length * load_cpus.len();
    // Neighbours in a chain run on different CPUs if possible, so that they contend for a lock.
    let cpus: Vec<CpuId> = load_cpus.iter().copied().cycle().take(threads).collect();
    let locks: Vec<InheritingLock> = (0..threads).map(|_| InheritingLock::new()).collect();
    locks[0]
        .lock()
        .and_then(|()| locks[0].unlock())
        .doing("take a lock with priority inheritance (CONFIG_FUTEX_PI)")?;
    let priority = u32::try_from(worker.number("priority")).unwrap_or(0);
    let lends = priority > 0 && may_be_real_time(priority);
    if priority > 0 && !lends {
        worker.tell(
            "without real-time priority, the kernel follows the chains, but no priority is \
             inherited; run as root, or allow real-time priority with ulimit -r",
        );
    }
    threads::repeat(worker, &cpus, "take a chain of locks", |index| {
        let chain = &locks[index / length * length..][..length];
        let place = index % length;
        if lends && place + 1 == length {
            sched::set_policy(0, Policy::Fifo { priority })?;
        }
        let lends = lends && place + 1 == length;
        // A task that inherits a real-time priority is exempt from the kernel's shares for loads.
        let mut pace = Pace::new(threads.div_ceil(load_cpus.len()), beside);
        Ok(move || {
            let done = round(chain, place, lends)?;
            pace.rest();
            Ok(done)
        })
    })
}

/// Returns whether this process may have a real-time policy. To find out, a thread that ends at
/// once tries to get the policy.
fn may_be_real_time(priority: u32) -> bool {
    scoped::apart(|| sched::set_policy(0, Policy::Fifo { priority }))
        .is_ok_and(|tried| tried.is_ok())
}

/// Takes the thread's own lock, then the lock of its lower neighbour. The order is the same in all
/// threads, so no deadlock is possible.
fn round(chain: &[InheritingLock], place: usize, lends: bool) -> std::io::Result<RoundWork> {
    let mut waits = take(&chain[place])?;
    let below = match place.checked_sub(1) {
        Some(below) => take(&chain[below]).and_then(|more| chain[below].unlock().map(|()| more)),
        None => {
            std::thread::sleep(HOLD);
            Ok(0)
        }
    };
    chain[place].unlock()?;
    waits += below?;
    if lends {
        std::thread::sleep(REST);
    }
    Ok(RoundWork {
        operations: waits,
        bytes: 0,
    })
}

/// Takes a lock. Returns 1 if the lock was held, in which case the kernel walked the chain, and 0
/// if it was free.
fn take(lock: &InheritingLock) -> std::io::Result<u64> {
    if lock.try_lock() {
        return Ok(0);
    }
    lock.lock().map(|()| 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_threads_comes_through() {
        let chain: Vec<InheritingLock> = (0..4).map(|_| InheritingLock::new()).collect();
        let chain = &chain;
        std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4)
                .map(|place| {
                    scope.spawn(move || {
                        (0..50).try_for_each(|_| round(chain, place, false).map(drop))
                    })
                })
                .collect();
            for task in tasks {
                task.join().unwrap().unwrap();
            }
        });
        assert!(chain.iter().all(|lock| !lock.is_wanted()));
    }
}
