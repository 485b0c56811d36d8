//! Chooses CPUs of the host for guests. Each guest is bound to one CPU, because the two threads of
//! QEMU take turns. If several labs run on the host, each uses CPUs that no other lab uses.

use tardy_sys::affinity;

use super::cache::{Cache, Lock};

/// The CPU that this thread, and the QEMU processes that it starts, are bound to.
#[derive(Debug)]
pub struct HostCpu {
    /// Lock of the CPU, held until this value is dropped; absent if other labs use all CPUs, so
    /// that this lab shares a CPU with one of them.
    _turn: Option<Lock>,
}

impl HostCpu {
    /// Binds this thread to a CPU that no other lab uses, or to any CPU if all are used. `worker`
    /// is the number of this thread among the lab's worker threads, from 0.
    #[must_use]
    pub fn take(cache: &Cache, worker: usize) -> Self {
        let cpus = affinity::get(0).unwrap_or_default();
        let (cpu, turn) = choose(&cpus, worker, |cpu| cache.try_lock(&format!("cpu-{cpu}")));
        if let Some(cpu) = cpu {
            // If the kernel refuses to bind the thread, guests only take longer.
            affinity::set(0, &[cpu]).ok();
        }
        Self { _turn: turn }
    }
}

/// Returns the first CPU whose lock `turn` can take; the search starts at the worker's own CPU. If
/// all locks are held, returns the worker's own CPU without a lock.
fn choose<T>(
    cpus: &[u32],
    worker: usize,
    mut turn: impl FnMut(u32) -> Option<T>,
) -> (Option<u32>, Option<T>) {
    let own = worker % cpus.len().max(1);
    let order = cpus[own..].iter().chain(&cpus[..own]);
    for &cpu in order {
        if let Some(turn) = turn(cpu) {
            return (Some(cpu), Some(turn));
        }
    }
    (cpus.get(own).copied(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_another_lab_has_is_passed_over_and_shared_only_when_all_are_taken() {
        let but = |taken: &'static [u32]| move |cpu: u32| (!taken.contains(&cpu)).then_some(cpu);
        assert_eq!(choose(&[2, 5], 0, but(&[])), (Some(2), Some(2)));
        assert_eq!(choose(&[2, 5], 0, but(&[2])), (Some(5), Some(5)));
        assert_eq!(choose(&[2, 5], 3, but(&[5])), (Some(2), Some(2)));
        assert_eq!(choose(&[2, 5], 1, but(&[2, 5])), (Some(5), None));
        assert_eq!(choose(&[], 1, but(&[])), (None, None));
    }

    #[test]
    fn two_labs_take_different_cpus_and_give_them_back() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (
            Cache::at(folder.path().to_owned()),
            Cache::at(folder.path().to_owned()),
        );
        let held = one.try_lock("cpu-0").unwrap();
        assert!(
            other.try_lock("cpu-0").is_none(),
            "another open file has the lock"
        );
        drop(held);
        assert!(other.try_lock("cpu-0").is_some());
    }
}
