//! Checks whether the measuring threads are still scheduled as when they started. Container
//! managers, tuning daemons and users sometimes move threads of other programs to other CPUs or
//! lower their priority. If this happens to a measuring thread, the run does not measure what the
//! user requested.
//!
//! The watch checks the policy, priority and CPUs of the threads once a second. Each thread also
//! checks its own scheduling when it ends. The watch need not check on which CPU each sample was
//! taken, because [`tardy_sys::post`] does this.

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::record::SchedulingChange;

use super::scheduling::Scheduling;
use super::threads::MeasuringThread;

const INTERVAL: Nanos = Nanos::from_secs(1);

/// Checks the scheduling once a second, and stores at most one change per thread.
#[derive(Debug)]
pub(super) struct SchedulingWatch {
    next: Nanos,
    changes: Vec<SchedulingChange>,
}

impl SchedulingWatch {
    /// Starts the watch for a run that starts at `start`.
    pub(super) fn new(start: Nanos) -> Self {
        Self {
            next: start + INTERVAL,
            changes: Vec::new(),
        }
    }

    /// If a second has passed since the last check, checks the scheduling.
    pub(super) fn update(&mut self, now: Nanos, threads: &[MeasuringThread]) {
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        for thread in threads.iter().filter(|thread| !thread.is_finished()) {
            // Reading fails if the thread has just ended. In this case, the thread has checked
            // itself.
            if let Ok(scheduling) = Scheduling::of(thread.tid) {
                self.note(
                    now,
                    &thread.name,
                    thread.cpu,
                    thread.scheduling.as_ref(),
                    scheduling,
                );
            }
        }
    }

    /// Compares the scheduling of a thread when it started (`before`, if known) with its scheduling
    /// at `now` (`after`), and stores a change.
    pub(super) fn note(
        &mut self,
        now: Nanos,
        thread: &str,
        cpu: Option<CpuId>,
        before: Option<&Scheduling>,
        after: Scheduling,
    ) {
        let Some(before) = before.filter(|before| **before != after) else {
            return;
        };
        let is_known = self.changes.iter().any(|change| change.thread == thread);
        if !is_known {
            let (before, after) = (before.to_string(), after.to_string());
            self.changes.push(SchedulingChange {
                thread: thread.to_owned(),
                cpu,
                seen_ns: now,
                before,
                after,
            });
        }
    }

    /// Returns the stored changes.
    pub(super) fn into_changes(self) -> Vec<SchedulingChange> {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_no_change_is_none() {
        let began = Scheduling {
            policy: 1,
            priority: 95,
            cpus: "1".parse().unwrap(),
        };
        let demoted = Scheduling {
            policy: 0,
            priority: 0,
            cpus: "0-1".parse().unwrap(),
        };
        let mut watch = SchedulingWatch::new(Nanos::ZERO);
        watch.note(
            Nanos(1),
            "cyclic/1",
            Some(CpuId(1)),
            Some(&began),
            began.clone(),
        );
        watch.note(
            Nanos(2),
            "cyclic/1",
            Some(CpuId(1)),
            Some(&began),
            demoted.clone(),
        );
        watch.note(
            Nanos(3),
            "cyclic/1",
            Some(CpuId(1)),
            Some(&began),
            demoted.clone(),
        );
        watch.note(Nanos(3), "app/-", None, None, demoted);
        let changes = watch.into_changes();
        let told: Vec<_> = changes
            .iter()
            .map(|change| {
                (
                    change.seen_ns.get(),
                    change.before.as_str(),
                    change.after.as_str(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [(2, "SCHED_FIFO 95 on CPU 1", "SCHED_OTHER on CPU 0-1")]
        );
    }
}
