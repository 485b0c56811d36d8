//! Manages a running load: its workers, their restarts, their work so far, and their end.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_machine::undo::{Undo, run_all};
use tardy_run::plan::{LoadPlan, Share};
use tardy_sys::{clock, process};

use super::message::{LoadEnd, LoadEvent};
use super::reserve::{Reserve, WorkerProcess};
use crate::load::sharing;
use crate::load::worker::{Work, WorkerPlan, WorkerReport};

/// Maximum number of restarts of a worker in a phase. A load that dies more often has a lasting
/// problem.
const RESTARTS_MAX: u32 = 3;
/// Pause before the first restart. The pause doubles for each further restart.
const RESTART_DELAY: Nanos = Nanos::from_millis(200);

/// The receiver of events.
type EventSink<'a> = &'a mut dyn FnMut(LoadEvent);

/// A load of a phase.
#[derive(Debug)]
pub(super) struct RunningLoad {
    phase: u32,
    plan: LoadPlan,
    slots: Vec<Slot>,
    /// When the load was asked to stop.
    asked_at: Option<Nanos>,
    /// When the load will be killed, if it was asked to stop.
    kill_at: Option<Nanos>,
    /// Whether the load got less time to stop than its own limit. Killing the load is then not an
    /// error.
    is_cut: bool,
}

/// One worker of the load. Several processes may do its work, one after the other.
#[derive(Debug)]
struct Slot {
    plan: WorkerPlan,
    process: Option<WorkerProcess>,
    /// Work that the worker's earlier processes did.
    before: Work,
    current: Work,
    restarts: u32,
    restart_at: Option<Nanos>,
    end: Option<LoadEnd>,
    absent: bool,
}

impl RunningLoad {
    /// Starts all workers of the load.
    pub(super) fn start(
        phase: u32,
        mut plan: LoadPlan,
        reserve: &mut Reserve,
        tell: EventSink<'_>,
    ) -> Self {
        tell(LoadEvent::Started {
            load: plan.label.clone(),
            phase,
            at: Nanos(clock::monotonic()),
        });
        let weight = sharing::weight(&plan);
        if let Share::Group(group) = &plan.share
            && let Err(error) = (0..plan.worker_count())
                .try_for_each(|index| sharing::make(&sharing::of_worker(group, index), weight))
        {
            let text = format!(
                "could not get a CPU share separate from other loads (control group {}: {error})",
                group.display()
            );
            tell(LoadEvent::Problem {
                load: Some(plan.label.clone()),
                text,
            });
            plan.share = Share::Tasks;
        }
        let worker_cpus: Vec<CpuList> = if plan.each_cpu {
            plan.cpus
                .iter()
                .map(|cpu| CpuList::from_iter([cpu]))
                .collect()
        } else {
            vec![plan.cpus.clone()]
        };
        let memory = plan.budget.memory / worker_cpus.len().max(1) as u64;
        let slots = worker_cpus.into_iter().enumerate();
        let slots = slots
            .map(|(index, cpus)| {
                Slot::new(WorkerPlan {
                    load: plan.clone(),
                    cpus,
                    index,
                    memory,
                })
            })
            .collect();
        let mut load = Self {
            phase,
            plan,
            slots,
            asked_at: None,
            kill_at: None,
            is_cut: false,
        };
        for slot in &mut load.slots {
            slot.spawn(reserve, tell);
        }
        load
    }

    pub(super) fn phase(&self) -> u32 {
        self.phase
    }

    pub(super) fn owns(&self, pid: i32) -> bool {
        self.slots
            .iter()
            .filter_map(|slot| slot.process.as_ref())
            .any(|process| process.pid == pid)
    }

    /// Returns the descriptors on which reports arrive. Leaves out pipes that have ended: they are
    /// always readable, so a wait on them would never block.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.slots
            .iter()
            .filter_map(|slot| slot.process.as_ref())
            .map(|process| &process.reports)
            .filter(|r| !r.ended())
            .map(AsFd::as_fd)
    }

    /// Asks the load to stop, with the time limit `within` if that is shorter than the load's own.
    pub(super) fn finish(&mut self, within: Option<Nanos>) {
        if self.kill_at.is_some() {
            return;
        }
        self.is_cut = within.is_some_and(|within| within < self.plan.finish_limit);
        let limit = within
            .unwrap_or(self.plan.finish_limit)
            .min(self.plan.finish_limit);
        let now = Nanos(clock::monotonic());
        (self.asked_at, self.kill_at) = (Some(now), Some(now.saturating_add(limit)));
        for slot in &mut self.slots {
            match &mut slot.process {
                Some(process) => process.stop = None,
                None => {
                    slot.restart_at = None;
                    slot.end.get_or_insert(LoadEnd::Finished);
                }
            }
        }
    }

    /// Reads reports of the workers.
    pub(super) fn listen(&mut self, tell: EventSink<'_>) {
        for slot in &mut self.slots {
            slot.listen(&self.plan.label, self.phase, tell);
        }
    }

    /// Handles the end of a worker's process.
    pub(super) fn reaped(&mut self, pid: i32, status: ExitStatus, tell: EventSink<'_>) {
        let asked_at = self.asked_at;
        if let Some(slot) = self.slots.iter_mut().find(|slot| {
            slot.process
                .as_ref()
                .is_some_and(|process| process.pid == pid)
        }) {
            slot.listen(&self.plan.label, self.phase, tell);
            slot.reaped(status, asked_at, self.phase, tell);
        }
    }

    /// Restarts the workers whose pause is over. Kills all workers if the time to stop is over.
    pub(super) fn keep_time(&mut self, now: i64, reserve: &mut Reserve, tell: EventSink<'_>) {
        let overdue = self.kill_at.is_some_and(|due| now >= due.get());
        for slot in &mut self.slots {
            if slot.restart_at.is_some_and(|due| now >= due.get()) {
                slot.spawn(reserve, tell);
            }
            if overdue {
                slot.kill(self.is_cut, tell);
            }
        }
    }

    /// Returns the next moment at which [`RunningLoad::keep_time`] has something to do.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let is_working = |process: &WorkerProcess| !(process.killed || process.is_resting);
        let running = |slot: &&Slot| slot.process.as_ref().is_some_and(is_working);
        let kill = self
            .kill_at
            .filter(|_| self.slots.iter().any(|slot| running(&slot)));
        self.slots
            .iter()
            .filter_map(|slot| slot.restart_at)
            .chain(kill)
            .min()
    }

    /// Returns the process numbers of the workers that have stopped working and only sleep.
    pub(super) fn resting(&self) -> impl Iterator<Item = i32> + '_ {
        self.slots
            .iter()
            .filter_map(|slot| slot.process.as_ref())
            .filter(|process| process.is_resting)
            .map(|process| process.pid)
    }

    /// Returns whether all workers have ended or only sleep. If so, reports the end of the load.
    pub(super) fn tell_if_ended(&self, tell: EventSink<'_>) -> bool {
        if self.slots.iter().any(|slot| slot.end.is_none()) {
            return false;
        }
        let ends = || self.slots.iter().filter_map(|slot| slot.end.clone());
        // The load's outcome is the worst outcome of its workers.
        let how = ends()
            .find(|end| matches!(end, LoadEnd::Died { .. }))
            .or_else(|| ends().find(|end| *end == LoadEnd::Killed))
            .or_else(|| ends().find(|end| *end == LoadEnd::Absent))
            .unwrap_or(LoadEnd::Finished);
        if how == LoadEnd::Killed || matches!(how, LoadEnd::Died { .. }) {
            self.undo(tell);
        }
        if let Share::Group(group) = &self.plan.share {
            // The removal fails for the group of a sleeping worker. This group is removed later,
            // with all other changes of loads.
            for index in 0..self.plan.worker_count() {
                let _ = std::fs::remove_dir(sharing::of_worker(group, index));
            }
        }
        tell(LoadEvent::Ended {
            load: self.plan.label.clone(),
            phase: self.phase,
            at: Nanos(clock::monotonic()),
            how,
        });
        true
    }
}

impl RunningLoad {
    /// Undoes the changes of a load that was killed or died. Other loads undo their changes
    /// themselves when they end. The next phase must not see the changes of any load.
    fn undo(&self, tell: EventSink<'_>) {
        // The `cpu` controller stays enabled, because groups of other loads use it until the phase
        // ends.
        let own: Vec<Undo> = self
            .plan
            .undo
            .iter()
            .filter(|undo| !sharing::is_of_all(undo))
            .cloned()
            .collect();
        for (_, result) in run_all(&own) {
            if let Err(error) = result {
                tell(LoadEvent::Problem {
                    load: Some(self.plan.label.clone()),
                    text: error.to_string(),
                });
            }
        }
    }
}

impl Slot {
    fn new(plan: WorkerPlan) -> Self {
        Self {
            plan,
            process: None,
            before: Work::default(),
            current: Work::default(),
            restarts: 0,
            restart_at: None,
            end: None,
            absent: false,
        }
    }

    fn cpu(&self) -> Option<CpuId> {
        self.plan
            .cpus
            .iter()
            .next()
            .filter(|_| self.plan.cpus.len() == 1)
    }

    fn problem(&self, text: String, tell: EventSink<'_>) {
        tell(LoadEvent::Problem {
            load: Some(self.plan.load.label.clone()),
            text,
        });
    }

    fn spawn(&mut self, reserve: &mut Reserve, tell: EventSink<'_>) {
        self.restart_at = None;
        match reserve.worker(&self.plan) {
            Ok(process) => self.process = Some(process),
            Err(error) => self.died(format!("cannot be started: {error}"), tell),
        }
    }

    fn listen(&mut self, label: &str, phase: u32, tell: EventSink<'_>) {
        let Some(process) = &mut self.process else {
            return;
        };
        for line in process.reports.take() {
            match serde_json::from_str(&line) {
                Ok(WorkerReport::Working(at)) => {
                    let cpu = self.cpu();
                    tell(LoadEvent::Working {
                        load: label.to_owned(),
                        phase,
                        cpu,
                        at,
                    });
                }
                Ok(WorkerReport::Work(work)) => {
                    self.current = work;
                    self.tell_work(label, phase, tell);
                }
                Ok(WorkerReport::Resting(at)) => {
                    if let Some(process) = &mut self.process {
                        process.is_resting = true;
                    }
                    self.end = Some(LoadEnd::Finished);
                    self.tell_stopped(at, None, phase, tell);
                }
                Ok(WorkerReport::Absent(absent)) => {
                    // Each worker of the load lacks the same requirement, so one report is enough.
                    self.absent = true;
                    if self.plan.index == 0 {
                        let (missing, remedy) = (absent.missing, absent.remedy);
                        tell(LoadEvent::Absent {
                            load: label.to_owned(),
                            phase,
                            missing,
                            remedy,
                        });
                    }
                }
                Ok(WorkerReport::Problem(text)) => self.problem(text, tell),
                Err(_) => self.problem(
                    format!("sent `{line}`, which is not a report and is ignored"),
                    tell,
                ),
            }
            if self.process.is_none() {
                return;
            }
        }
    }

    fn tell_work(&self, label: &str, phase: u32, tell: EventSink<'_>) {
        let Work {
            operations,
            bytes,
            errors,
            cpu_time,
            kernel_time,
        } = self.before + self.current;
        let (load, at) = (label.to_owned(), Nanos(clock::monotonic()));
        tell(LoadEvent::Work {
            load,
            phase,
            cpu: self.cpu(),
            operations,
            bytes,
            errors,
            cpu_time,
            kernel_time,
            at,
        });
    }

    /// Reports that the worker's work ended at `at`.
    fn tell_stopped(&mut self, at: Nanos, died: Option<String>, phase: u32, tell: EventSink<'_>) {
        tell(LoadEvent::Stopped {
            load: self.plan.load.label.clone(),
            phase,
            cpu: self.cpu(),
            at,
            died,
        });
        self.before = self.before + std::mem::take(&mut self.current);
    }

    fn reaped(
        &mut self,
        status: ExitStatus,
        asked_at: Option<Nanos>,
        phase: u32,
        tell: EventSink<'_>,
    ) {
        let Some(process) = self.process.take().filter(|process| !process.is_resting) else {
            return;
        };
        let finishing = asked_at.is_some();
        let died = (!finishing && !self.absent).then(|| status.to_string());
        // The time that the process took to exit after the request does not count as work.
        let at = asked_at.unwrap_or_else(|| Nanos(clock::monotonic()));
        self.tell_stopped(at, died, phase, tell);
        if process.killed {
            self.end = Some(LoadEnd::Killed);
        } else if self.absent {
            self.end = Some(LoadEnd::Absent);
        } else if finishing && status.success() {
            self.end = Some(LoadEnd::Finished);
        } else if finishing {
            self.problem(
                format!("a worker exited with {status} when asked to stop"),
                tell,
            );
            self.end = Some(LoadEnd::Died {
                status: status.to_string(),
            });
        } else {
            self.died(status.to_string(), tell);
        }
    }

    /// Schedules a restart of a worker that could not be started, or that ended without being asked
    /// to stop; gives up after too many restarts.
    fn died(&mut self, status: String, tell: EventSink<'_>) {
        let on = self
            .cpu()
            .map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
        if self.restarts == RESTARTS_MAX {
            self.problem(
                format!(
                    "the worker{on} died again ({status}) and is not restarted: the load is not \
                     running there"
                ),
                tell,
            );
            self.end = Some(LoadEnd::Died { status });
            return;
        }
        let delay = RESTART_DELAY * (1 << self.restarts);
        self.restarts += 1;
        self.restart_at = Some(Nanos(clock::monotonic()).saturating_add(delay));
        self.problem(
            format!(
                "the worker{on} died ({status}) and will be restarted in {delay} (restart {} of \
                 {RESTARTS_MAX})",
                self.restarts
            ),
            tell,
        );
    }

    fn kill(&mut self, is_cut: bool, tell: EventSink<'_>) {
        let label = self.plan.load.label.clone();
        let Some(process) = &mut self.process else {
            return;
        };
        if process.killed || process.is_resting {
            return;
        }
        process.killed = true;
        // A worker with `Share::Session` leads no process group until it has made its session, so
        // the process itself is killed, too.
        let _ = process::kill_group(process.pid, process::KILL);
        let _ = process::kill(process.pid, process::KILL);
        if is_cut {
            return;
        }
        let limit = self.plan.load.finish_limit;
        tell(LoadEvent::Problem {
            load: Some(label),
            text: format!("did not stop within {limit} of the request, and was killed"),
        });
    }
}
