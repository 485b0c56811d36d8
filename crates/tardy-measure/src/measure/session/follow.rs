//! Follows a run in progress: phases, loads, signals, the live view.

use std::os::fd::AsFd;

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_loads::load;
use tardy_machine::cpu_time::CpuTimes;
use tardy_machine::root::Root;
use tardy_probes::probe::{self, Cycles};
use tardy_run::plan::{LoadPlan, ProbePlan};
use tardy_run::record::State;
use tardy_sys::signal::{self, wait_readable};
use tardy_sys::{clock, watched};

use super::arming::ActiveRun;
use super::loads::Loads;
use super::{SessionError, system};
use crate::measure::cycles::CycleCount;
use crate::measure::live::{Live, ProgressDisplay};
use crate::measure::phases::{STUCK, Step, Timeline};
use crate::measure::service::{ServiceManager, ServiceNotifier};
use crate::measure::state_log::StateLog;
use crate::measure::threshold::Threshold;

/// Maximum time between two checks whether threads have ended early.
const LOOK: Nanos = Nanos::from_millis(250);

/// Maximum time between two such checks when threads may end at any moment.
const LOOK_AT_END: Nanos = Nanos::from_millis(10);

/// How long the loads of the last phase may take to stop before they are killed.
const LAST_LIMIT: Nanos = Nanos::from_secs(1);

/// Extra time for the guardian's answer, because the whole machine may have been stopped meanwhile.
const LAST_CHANCE: Nanos = Nanos::from_millis(500);

/// Reason why loads are missing: their guardian is stopped, frozen, or without a CPU.
const NO_ANSWER: &str = "the load supervisor did not answer and was killed: it was stopped, or \
                         got no CPU time";

/// A run whose threads are stopping.
pub(super) struct StoppedRun {
    pub(super) armed: ActiveRun,
    pub(super) state: State,
    /// The actions of `--on-threshold`, which the last samples may still trigger.
    pub(super) threshold: Option<Threshold>,
}

struct Follower {
    armed: ActiveRun,
    timeline: Timeline,
    /// The count of cycles in the current phase, if the phase is counted in cycles.
    cycles: Option<CycleCount>,
    live: Live,
    state: State,
    loads: Loads,
    is_stopping: bool,
    cpu_times: Option<CpuTimes>,
    state_log: Option<StateLog>,
    threshold: Option<Threshold>,
    /// The notifier of the service manager that started the tool.
    service: Option<ServiceNotifier>,
    /// Number of overruns of a SCHED_DEADLINE runtime that the kernel reported.
    overruns: u64,
}

pub(super) fn follow(
    mut armed: ActiveRun,
    shown: ProgressDisplay,
    root: &Root,
) -> Result<StoppedRun, SessionError> {
    let state_log = StateLog::create(
        Nanos(clock::monotonic()),
        &armed.folder,
        &armed.record.plan,
        armed.division.map(|division| division.state_bytes),
        root,
        armed.keeper.keeper(),
    );
    let live = Live::new(
        shown,
        armed.screen.take(),
        armed.start,
        armed.record.plan.planned_length(),
    );
    let plan = &armed.record.plan;
    let threshold = Threshold::of(plan, armed.folder.path().to_owned());
    let mut follower = Follower {
        timeline: Timeline::new(plan.phases.clone(), armed.start + plan.warm_up).going_on_since(
            armed
                .earlier
                .as_ref()
                .and_then(|earlier| earlier.phases.first())
                .map(|phase| phase.begin_ns),
        ),
        live,
        cycles: None,
        armed,
        state: State::Finished,
        loads: Loads::default(),
        is_stopping: false,
        cpu_times: None,
        state_log,
        threshold,
        service: None,
        overruns: 0,
    };
    follower.prepare_first_phase(root);
    follower.service = service(&follower.armed)?;
    follower.leave_metrics();
    while !follower.are_threads_done() {
        follower.wait()?;
        follower.take_signals(Nanos(clock::monotonic()))?;
        follower.take_events(Nanos(clock::monotonic()));
        // Events are processed before the steps below, because the next phase can start only when
        // an event has reported that the previous phase's loads have ended.
        let now = Nanos(clock::monotonic());
        follower.count_cycles(now);
        follower.step(now, root)?;
        if let Some(log) = &mut follower.state_log {
            log.update(now);
        }
        follower.look_at_threshold();
        if follower.armed.keeper.keeper().is_folder_gone() {
            follower.stop(State::Interrupted);
        }
        follower.leave_metrics();
        follower.service.iter().for_each(ServiceNotifier::turn);
        let Follower {
            armed,
            timeline,
            live,
            ..
        } = &mut follower;
        armed.scheduling.update(now, &armed.threads);
        armed.clocks.update(now, &armed.threads);
        live.update(
            now,
            &armed.record,
            timeline.name(),
            armed.folder.path(),
            || armed.recorder.progress(),
        );
        follower.take_marks();
    }
    follower.end_service();
    follower.take_marks();
    follower.live.finish();
    follower.look_at_threshold();
    let end = Nanos(clock::monotonic());
    if let Some(log) = &mut follower.state_log {
        log.finish(end);
    }
    if follower.armed.record.plan.until_stopped {
        follower.timeline.end_as_asked(end);
    } else {
        follower.timeline.cut(end);
    }
    follower.note_busy(root);
    follower.armed.record.phases = follower.timeline.records().to_vec();
    follower.end_loads()?;
    follower.take_signals(Nanos(clock::monotonic()))?;
    if let Some(kind) = follower
        .throttled()
        .filter(|_| follower.overruns > 0)
        .map(|probe| probe.kind().to_owned())
    {
        let text = format!(
            "{kind} used up its runtime at least {} times and was throttled until its next period",
            follower.overruns
        );
        follower
            .armed
            .record
            .warnings
            .push(Warning::Problem { text });
    }
    let shortfall = follower.loads.shortfall(&follower.armed.record);
    follower.armed.record.warnings.extend(shortfall);
    Ok(StoppedRun {
        armed: follower.armed,
        state: follower.state,
        threshold: follower.threshold,
    })
}

/// If a service manager started the tool, tells it that the run has started to measure.
fn service(armed: &ActiveRun) -> Result<Option<ServiceNotifier>, SessionError> {
    let Some(manager) = ServiceManager::of_this_process() else {
        return Ok(None);
    };
    let (cpus, progress) = (
        &armed.record.plan.housekeeping_cpus,
        armed.recorder.shared_progress(),
    );
    let started = ServiceNotifier::start(manager, cpus, armed.folder.path(), progress);
    started.map(Some).map_err(system(
        "cannot start the thread that notifies the service manager",
    ))
}

impl Follower {
    fn are_threads_done(&self) -> bool {
        self.armed
            .threads
            .iter()
            .all(crate::measure::threads::MeasuringThread::is_finished)
    }

    /// Returns whether the run has only one phase, which ends when each thread has completed its
    /// number of cycles, and whether this phase has started. Threads without a schedule take longer
    /// than that number of periods.
    fn ends_with_threads(&self) -> bool {
        let plan = &self.armed.record.plan;
        // Players and other programs' loops do not count cycles. If the run has one of these, the
        // phase lasts for the given number of periods instead.
        let counts = |probe: &ProbePlan| {
            probe::find(probe.kind()).is_some_and(|info| info.cycles == Cycles::Own)
        };
        plan.cycles.is_some()
            && plan.probes.iter().all(counts)
            && !self.timeline.records().is_empty()
    }

    /// Acts on latencies above the threshold: on the latency that stopped the run, if there is one,
    /// otherwise on those that the recorder has seen.
    fn look_at_threshold(&mut self) {
        let Some(threshold) = &mut self.threshold else {
            return;
        };
        if let Some(stopped) = self.armed.control.stopped_by() {
            threshold.look(stopped.cpu, stopped.sample.latency, stopped.sample.due);
        } else if threshold.goes_on() {
            for series in self.armed.recorder.progress() {
                if let Some(worst) = series.worst {
                    threshold.look(series.cpu, worst.latency, worst.due);
                }
            }
        }
    }

    fn wait(&self) -> Result<(), SessionError> {
        let now = Nanos(clock::monotonic());
        let step = match &self.cycles {
            _ if self.ends_with_threads() => self.timeline.next().max(now + LOOK_AT_END),
            Some(cycles) => cycles.next().max(now + LOOK_AT_END),
            None => self.timeline.next(),
        };
        let next = step.min(self.live.next()).min(now + LOOK);
        let timeout = ((next - now).get().max(0) / 1_000_000 + 1).min(1000) as i32;
        let mut fds = vec![self.armed.signals.as_fd()];
        if let Some(guardian) = self
            .armed
            .guardian
            .as_ref()
            .filter(|guardian| !guardian.is_gone())
        {
            fds.push(guardian.as_fd());
        }
        wait_readable(&fds, timeout)
            .map(drop)
            .map_err(system("cannot wait for signals"))
    }

    fn take_signals(&mut self, now: Nanos) -> Result<(), SessionError> {
        while let Some(signal) = self
            .armed
            .signals
            .take()
            .map_err(system("cannot read signals"))?
        {
            match signal {
                // The write that caused the signal also returns an error, and its caller handles
                // the error.
                signal::FILE_LIMIT | signal::PIPE => {}
                // Both signals make the run print its status. SIGUSR2 is accepted because
                // cyclictest accepts it, too: there it requests a snapshot for a monitor.
                signal::USER_1 | signal::USER_2 => {
                    self.live
                        .tell_status(now, &self.armed.record, &self.armed.recorder.progress())
                }
                // The kernel sends SIGXCPU also to a SCHED_DEADLINE thread that has used up its
                // runtime. In a run with such a thread, only the watchdog stops a probe that never
                // sleeps.
                signal::CPU_LIMIT if self.throttled().is_some() => self.overruns += 1,
                signal::CPU_LIMIT => self.stop(State::EndedByWatchdog),
                // An endless run is complete when the user stops it.
                _ if self.armed.record.plan.until_stopped => self.stop(State::Finished),
                _ => {
                    if !self.is_stopping {
                        let planned = self.armed.record.plan.length();
                        self.armed.record.warnings.push(Warning::Interrupted {
                            after: (now - self.armed.start).max(Nanos::ZERO),
                            planned,
                        });
                    }
                    self.stop(State::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Returns a probe that the kernel throttles; `None` if there is none.
    fn throttled(&self) -> Option<&ProbePlan> {
        self.armed
            .record
            .plan
            .probes
            .iter()
            .find(|probe| probe::find(probe.kind()).is_some_and(|info| info.is_throttled))
    }

    fn stop(&mut self, state: State) {
        if !self.is_stopping {
            self.is_stopping = true;
            self.state = state;
            self.armed.control.stop();
            self.end_service();
        }
    }

    /// Tells the service manager that the run ends. Further calls do nothing.
    fn end_service(&mut self) {
        if let Some(service) = self.service.take() {
            service.finish();
        }
    }

    fn take_events(&mut self, now: Nanos) {
        let Some(guardian) = &mut self.armed.guardian else {
            return;
        };
        let events = guardian.drain();
        let is_gone = guardian.is_gone();
        for event in events {
            self.loads.take(event, &mut self.armed.record);
        }
        if is_gone && !self.loads.is_lost() {
            self.lose_loads(Some(now), "the load supervisor died");
        }
        if self.loads.are_gone() {
            self.timeline.loads_ended();
        }
    }

    /// Continues the run without loads, because their guardian is dead or does not answer.
    fn lose_loads(&mut self, gone_at: Option<Nanos>, cause: &str) {
        if let Some(guardian) = &mut self.armed.guardian {
            guardian.kill();
        }
        let phase = self.timeline.records().len().saturating_sub(1);
        self.loads
            .lose(phase, gone_at, cause, &mut self.armed.record);
    }

    /// Ends the loads that worked until the end of the run, and collects their last reports.
    fn end_loads(&mut self) -> Result<(), SessionError> {
        let phase = self.timeline.records().len().saturating_sub(1);
        if !self.loads.are_gone() {
            self.finish(phase, LAST_LIMIT);
        }
        self.wait_for_loads(STUCK.max(self.shortest_stop(phase)))?;
        self.give_up_loads()
    }

    /// Waits until the loads are gone, or until `limit` has passed.
    fn wait_for_loads(&mut self, limit: Nanos) -> Result<(), SessionError> {
        let deadline = Nanos(clock::monotonic()) + limit;
        while !self.loads.are_gone() {
            let now = Nanos(clock::monotonic());
            if now >= deadline {
                break;
            }
            let timeout = ((deadline - now).get() / 1_000_000 + 1) as i32;
            let fds: Vec<_> = self.armed.guardian.iter().map(AsFd::as_fd).collect();
            wait_readable(&fds, timeout).map_err(system("cannot wait for the loads to end"))?;
            self.take_events(now);
        }
        Ok(())
    }

    /// Continues without loads that should have ended, because the guardian did not confirm that
    /// they did.
    fn give_up_loads(&mut self) -> Result<(), SessionError> {
        self.wait_for_loads(LAST_CHANCE)?;
        if !self.loads.are_gone() {
            self.lose_loads(None, NO_ANSWER);
        }
        Ok(())
    }

    fn shortest_stop(&self, phase: usize) -> Nanos {
        let plan = self.armed.record.plan.phases.get(phase);
        plan.map_or(Nanos::ZERO, |plan| load::shortest_stop(&plan.loads))
    }

    /// Asks the loads of a phase to stop. After the time `within`, the guardian kills those that
    /// still exist.
    fn finish(&mut self, phase: usize, within: Nanos) {
        let within = within.max(self.shortest_stop(phase));
        self.loads.ask(phase, Nanos(clock::monotonic()));
        if self.loads.is_lost() {
            return;
        }
        if let Some(guardian) = &mut self.armed.guardian
            && guardian.finish(phase as u32, Some(within)).is_err()
        {
            self.lose_loads(None, NO_ANSWER);
        }
    }

    fn step(&mut self, now: Nanos, root: &Root) -> Result<(), SessionError> {
        if self.is_stopping || self.ends_with_threads() {
            return Ok(());
        }
        while let Some(step) = self.timeline.step(now) {
            match step {
                Step::Done(end) => {
                    // A thread that ends at a fixed time has already reached that time. The other
                    // threads must be stopped first, so that they do not measure the tool's final
                    // work.
                    self.armed.control.stop_at(end);
                    self.note_busy(root);
                    return Ok(());
                }
                Step::Begin(phase) => {
                    watched::say::<{ watched::PHASE }>();
                    self.note_busy(root);
                    self.begin(phase);
                    // If the end is fixed, the number of due times is the length divided by the
                    // period, no matter when the clock is read.
                    if let Some(end) = self
                        .timeline
                        .end()
                        .filter(|_| self.armed.record.plan.cycles.is_none())
                    {
                        self.armed.control.stop_at(end);
                    }
                }
                Step::End { phase, within } => {
                    // The record is not written now, because a write would disturb the measurement.
                    // The load's recorded working time lasts until the workers see the request to
                    // stop.
                    self.finish(phase, within);
                    continue;
                }
                Step::GiveUp(_) => self.give_up_loads()?,
            }
            self.armed.record.phases = self.timeline.records().to_vec();
            self.keep_record();
        }
        Ok(())
    }

    /// Publishes the run's progress for clients of metrics.
    fn leave_metrics(&self) {
        if let Some(metrics) = &self.armed.metrics {
            metrics
                .desk()
                .leave_run(&self.armed.record, Nanos(clock::monotonic()));
        }
    }

    /// Stores the times that the user marked on the screen.
    fn take_marks(&mut self) {
        let marks = self.live.marks();
        if !marks.is_empty() {
            self.armed.record.marks_ns.extend(marks);
            self.keep_record();
        }
    }

    /// Requests that the current record be written later.
    fn keep_record(&self) {
        // On a full disk the older record stays. Space is reserved for the final record.
        let (path, content) = self.armed.folder.encoded(&self.armed.record);
        self.armed.keeper.keeper().replace(&path, content);
    }

    /// Stores the start of the run in its record in advance, and also the start of the first phase
    /// if this phase starts at once and has no loads. The tool therefore has no work in the first
    /// periods. Otherwise, this work would delay samples on a machine with one CPU and a kernel
    /// that does not preempt system calls.
    fn prepare_first_phase(&mut self, root: &Root) {
        let plan = &self.armed.record.plan;
        if plan.warm_up == Nanos::ZERO
            && plan
                .phases
                .first()
                .is_some_and(|phase| phase.loads.is_empty())
        {
            if let Some(Step::Begin(phase)) = self.timeline.step(self.armed.start) {
                watched::say::<{ watched::PHASE }>();
                let plan = &self.armed.record.plan.phases[phase];
                self.cycles = plan
                    .cycles
                    .map(|cycles| CycleCount::new(cycles, plan.length));
            }
            self.note_busy(root);
            self.armed.record.phases = self.timeline.records().to_vec();
        }
        // On a full disk the older record stays. Space is reserved for the final record.
        let _ = self.armed.folder.publish(&self.armed.record);
    }

    /// If the length of the current phase is given in cycles, ends the phase when these cycles are
    /// complete.
    fn count_cycles(&mut self, now: Nanos) {
        let Some(cycles) = &mut self.cycles else {
            return;
        };
        // The first phase can be published before the run starts; its cycles are counted from the
        // start.
        if now < self.armed.start {
            return;
        }
        let (armed, phase) = (&self.armed, self.timeline.records().len().saturating_sub(1));
        // The phase is considered to be under load when the workers of all its loads work, or when
        // all loads have ended. Loads that have ended do not start again, so it would be useless to
        // wait for them.
        let parts: usize = armed.record.plan.phases.get(phase).map_or(0, |phase| {
            phase.loads.iter().map(LoadPlan::worker_count).sum()
        });
        let at_work = armed
            .record
            .load_work
            .iter()
            .filter(|work| work.phase == phase && work.begin_ns.is_some())
            .count();
        let is_under_load = self.loads.are_gone() || at_work >= parts;
        let counted = || {
            let progress = armed.recorder.progress();
            armed
                .counted
                .iter()
                .filter_map(|&series| progress.get(series))
                .map(|series| series.counts.expected)
                .collect()
        };
        if cycles.are_made(now, is_under_load, counted) {
            self.cycles = None;
            self.timeline.cycles_made(now);
        }
    }

    /// Records the activity of the CPUs since the previous call, for the phase that ended last.
    fn note_busy(&mut self, root: &Root) {
        let Ok(now) = CpuTimes::read(root) else {
            return;
        };
        if let Some(before) = &self.cpu_times {
            self.timeline.note_busy(
                now.since(before)
                    .cpus
                    .iter()
                    .map(|(&cpu, time)| (cpu, time.busy()))
                    .collect(),
            );
        }
        self.cpu_times = Some(now);
    }

    fn begin(&mut self, phase: usize) {
        let plan = &self.armed.record.plan.phases[phase];
        self.cycles = plan
            .cycles
            .map(|cycles| CycleCount::new(cycles, plan.length));
        let loads = &plan.loads;
        if loads.is_empty() || self.loads.is_lost() {
            return;
        }
        self.loads.begin(loads);
        if let Some(guardian) = &mut self.armed.guardian
            && guardian.begin(phase as u32, loads).is_err()
        {
            self.lose_loads(None, NO_ANSWER);
        }
    }
}
