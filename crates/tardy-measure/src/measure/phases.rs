//! The run's timeline: its current phase and the next step. The timeline reads no clock and starts
//! no processes, so that tests can run it with any times.
//!
//! A phase ends on time even if its loads ignore the request to stop, so that the run takes as long
//! as `--for` requests. The last tenth of a phase, or its last 500 ms if these are shorter, is for
//! stopping its loads. They are asked to stop when this time starts, and killed when half of it has
//! passed. The changes that loads made are undone before the next phase. The loads of the last
//! phase work until the end of the run.
//!
//! Loads that still exist 5 s after their phase's end are abandoned, but only after their guardian
//! had a chance to answer. So no load is abandoned merely because the host paused this virtual
//! machine for a while. A load that only it can stop (`load::shortest_stop`) gets its own limit
//! instead of these two, and the next phase then starts late.
//!
//! A load's recorded working time ends when the load sees the request to stop. The load's worker
//! then undoes its changes and sleeps until the probes are disarmed. On a kernel without
//! preemption, its exit would otherwise occupy a CPU for hundreds of us. For the same reason,
//! measuring threads wait for one another before they release resources.

use tardy_core::units::Nanos;
use tardy_loads::load;
use tardy_run::plan::PhasePlan;
use tardy_run::record::PhaseRecord;

/// The last 1 / `ENDING_PART` of a phase, in which its loads stop and the system settles.
const ENDING_PART: i64 = 10;
/// Maximum length of this last part.
const ENDING_MAX: Nanos = Nanos::from_millis(500);
/// How long loads may continue to exist after their phase has ended and they were asked to stop.
/// The kernel removes killed processes in a fraction of this time.
pub const STUCK: Nanos = Nanos::from_secs(5);

/// The next step of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Start the loads of this phase.
    Begin(usize),
    /// Stop the loads of this phase.
    End {
        phase: usize,
        /// Time after which the remaining processes are killed.
        within: Nanos,
    },
    /// The loads of this phase should be gone, but they still exist, because the guardian does not
    /// answer.
    GiveUp(usize),
    /// All phases ended at this time. The loads of the last phase still work.
    Done(Nanos),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Running,
    Ending,
    Ended,
}

/// Returns how long before the end of a phase its loads are asked to stop. `length` is the length
/// of the phase.
fn ending(length: Nanos) -> Nanos {
    Nanos(length.get() / ENDING_PART).min(ENDING_MAX)
}

/// Decides when each phase starts and ends. Each phase ends as planned even if its loads fail. If
/// the guardian does not confirm that the loads are gone, the phase ends at most [`STUCK`] later.
/// The next phase starts when this phase has ended.
///
/// Loads are stopped before the end of their phase, so that they are gone when the next phase
/// starts. The loads of the last phase work until it ends.
#[derive(Debug)]
pub struct Timeline {
    plans: Vec<PhasePlan>,
    records: Vec<PhaseRecord>,
    current: usize,
    stage: Stage,
    planned: Nanos,
    /// Start of the first phase, if it had started before the run was resumed.
    began: Option<Nanos>,
    /// When the loads of the current phase were asked to stop. This time can be after the end of
    /// the phase, if the machine was stopped or the tool got no CPU.
    asked: Nanos,
    /// When the cycles of the current phase were completed, for a phase whose length is given in
    /// cycles.
    made: Option<Nanos>,
}

impl Timeline {
    /// Makes the timeline of phases. The first phase starts at `start`.
    #[must_use]
    pub fn new(plans: Vec<PhasePlan>, start: Nanos) -> Self {
        Self {
            plans,
            records: Vec::new(),
            current: 0,
            stage: Stage::Before,
            planned: start,
            began: None,
            asked: start,
            made: None,
        }
    }

    /// Continues the first phase of a run that is resumed. `began` is the start of that phase;
    /// `None` if it had not started.
    #[must_use]
    pub fn going_on_since(self, began: Option<Nanos>) -> Self {
        Self { began, ..self }
    }

    /// Returns the next step at `now`. Must be called repeatedly until it returns `None` or
    /// [`Step::Done`].
    pub fn step(&mut self, now: Nanos) -> Option<Step> {
        let Some(plan) = self.plans.get(self.current) else {
            return Some(Step::Done(self.end_of_last().min(now)));
        };
        match self.stage {
            Stage::Before if now >= self.planned || self.current > 0 => {
                let end = self.planned + plan.length;
                let loads = plan.loads.iter().map(|load| load.label.clone()).collect();
                let began = self.began.take();
                let planned_ns = (began.unwrap_or(self.planned), end);
                self.records.push(PhaseRecord {
                    name: plan.name.clone(),
                    loads,
                    begin_ns: began.unwrap_or(now),
                    end_ns: None,
                    planned_ns,
                    cpu_busy_ns: Default::default(),
                });
                self.stage = Stage::Running;
                Some(Step::Begin(self.current))
            }
            Stage::Running
                if self.has_ending() && now >= self.end_of_current() - ending(plan.length) =>
            {
                self.stage = Stage::Ending;
                self.asked = now;
                // The kernel needs the other half of the time to remove killed processes.
                Some(Step::End {
                    phase: self.current,
                    within: Nanos(ending(plan.length).get() / 2),
                })
            }
            Stage::Ending if now >= self.stuck() => {
                self.stage = Stage::Ended;
                Some(Step::GiveUp(self.current))
            }
            Stage::Running | Stage::Ended if now >= self.end_of_current() => {
                self.finish_phase(now);
                self.step(now)
            }
            _ => None,
        }
    }

    /// Records that the loads of the current phase are all gone.
    pub fn loads_ended(&mut self) {
        if self.stage == Stage::Ending {
            self.stage = Stage::Ended;
        }
    }

    /// Records that the cycles of the current phase are complete at `now`. A phase that is counted
    /// in cycles then ends.
    pub fn cycles_made(&mut self, now: Nanos) {
        self.made.get_or_insert(now);
    }

    /// Returns the time at which [`Self::step`] will next have something to do.
    #[must_use]
    pub fn next(&self) -> Nanos {
        let length = self
            .plans
            .get(self.current)
            .map_or(Nanos::ZERO, |plan| plan.length);
        match self.stage {
            Stage::Before => self.planned,
            Stage::Running if self.has_ending() => self.end_of_current() - ending(length),
            Stage::Running | Stage::Ended => self.end_of_current(),
            Stage::Ending => self.stuck(),
        }
    }

    /// Returns the time at which the last phase ends; `None` unless that phase is running.
    #[must_use]
    pub fn end(&self) -> Option<Nanos> {
        (self.current + 1 == self.plans.len() && self.stage != Stage::Before)
            .then(|| self.end_of_current())
    }

    /// Returns whether the loads of the current phase must be gone when it ends.
    fn has_ending(&self) -> bool {
        self.current + 1 < self.plans.len()
            && self
                .plans
                .get(self.current)
                .is_some_and(|plan| !plan.loads.is_empty())
    }

    /// Returns the planned end of the current phase. If a phase started late, because the previous
    /// loads were slow to stop, it still gets half of its length. The end of a phase that is
    /// counted in cycles is [`Nanos::MAX`] until its cycles are complete.
    fn end_of_current(&self) -> Nanos {
        let length = self
            .plans
            .get(self.current)
            .map_or(Nanos::ZERO, |plan| plan.length);
        if self.counts_cycles() {
            let ending = if self.has_ending() {
                ending(length)
            } else {
                Nanos::ZERO
            };
            return self.made.map_or(Nanos::MAX, |made| made + ending);
        }
        let begin = self
            .records
            .last()
            .map_or(self.planned, |record| record.begin_ns);
        (self.planned + length).max(begin + Nanos(length.get() / 2))
    }

    /// Returns the time at which the tool abandons loads that it asked to stop but that still
    /// exist.
    fn stuck(&self) -> Nanos {
        let loads = self.plans.get(self.current).map(|plan| &plan.loads[..]);
        let limit = STUCK.max(loads.map_or(Nanos::ZERO, load::shortest_stop));
        self.end_of_current().max(self.asked) + limit
    }

    fn end_of_last(&self) -> Nanos {
        self.records
            .last()
            .map_or(self.planned, |record| record.end_ns.unwrap_or(Nanos::MAX))
    }

    fn counts_cycles(&self) -> bool {
        self.plans
            .get(self.current)
            .is_some_and(|plan| plan.cycles.is_some())
    }

    fn finish_phase(&mut self, now: Nanos) {
        let is_last = self.current + 1 == self.plans.len();
        // The measuring threads end exactly when the last phase ends, so this time is recorded
        // instead of `now`.
        let end = if is_last { self.end_of_current() } else { now };
        if let Some(record) = self.records.last_mut() {
            record.end_ns = Some(end);
        }
        // A phase that is counted in cycles has no planned end, so the next phase is not late,
        // whenever it starts.
        self.planned = if self.counts_cycles() {
            now
        } else {
            self.planned + self.plans[self.current].length
        };
        self.made = None;
        self.current += 1;
        self.stage = Stage::Before;
    }

    /// Records the activity of the CPUs in the phase that ended last. Only the first call for a
    /// phase has an effect.
    pub fn note_busy(&mut self, busy: std::collections::BTreeMap<tardy_core::cpu::CpuId, Nanos>) {
        if let Some(record) = self
            .records
            .iter_mut()
            .rev()
            .find(|record| record.end_ns.is_some())
            .filter(|record| record.cpu_busy_ns.is_empty())
        {
            record.cpu_busy_ns = busy;
        }
    }

    /// Ends the run at `now`, in its current phase.
    pub fn cut(&mut self, now: Nanos) {
        if let Some(record) = self
            .records
            .last_mut()
            .filter(|record| record.end_ns.is_none())
        {
            record.end_ns = Some(now);
        }
        self.current = self.plans.len();
    }

    /// Records that the user stopped an endless run at `now`. The current phase is then recorded as
    /// if it had ended as planned.
    pub fn end_as_asked(&mut self, now: Nanos) {
        self.cut(now);
        if let Some(record) = self.records.last_mut() {
            record.planned_ns.1 = record.end_ns.unwrap_or(now);
        }
    }

    /// Returns the name of the current phase.
    #[must_use]
    pub fn name(&self) -> &str {
        self.plans
            .get(self.current)
            .map_or("ending", |plan| &plan.name)
    }

    /// Returns the records of the phases so far.
    #[must_use]
    pub fn records(&self) -> &[PhaseRecord] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_run::plan::LoadPlan;

    fn load_plan(name: &str) -> LoadPlan {
        LoadPlan {
            device_writes: None,
            note: None,
            label: name.into(),
            name: name.into(),
            parameters: Default::default(),
            cpus: Default::default(),
            each_cpu: true,
            budget: Default::default(),
            finish_limit: Nanos::ZERO,
            scratch: None,
            undo: Vec::new(),
            share: Default::default(),
            beside: 0,
        }
    }

    fn timeline() -> Timeline {
        let phase = |name: &str, loads: &[&str]| PhasePlan {
            name: name.into(),
            length: Nanos::from_secs(10),
            cycles: None,
            loads: loads.iter().map(|load| load_plan(load)).collect(),
        };
        Timeline::new(
            vec![
                phase("idle", &[]),
                phase("io", &["io"]),
                phase("fork", &["fork"]),
            ],
            Nanos::from_secs(100),
        )
    }

    const fn millis(count: i64) -> Nanos {
        Nanos::from_millis(count)
    }

    fn spans(timeline: &Timeline) -> Vec<(Nanos, Nanos)> {
        timeline
            .records()
            .iter()
            .map(|record| (record.begin_ns, record.end_ns.unwrap()))
            .collect()
    }

    #[test]
    fn phases_end_when_they_were_to_and_their_loads_before_that() {
        let mut timeline = timeline();
        assert_eq!(timeline.step(millis(99_000)), None);
        assert_eq!(timeline.step(millis(100_000)), Some(Step::Begin(0)));
        assert_eq!(
            (timeline.step(millis(109_000)), timeline.next()),
            (None, millis(110_000))
        );
        assert_eq!(
            timeline.step(millis(110_001)),
            Some(Step::Begin(1)),
            "an idle phase has nothing to wait for"
        );
        assert_eq!(
            (timeline.step(millis(119_000)), timeline.next()),
            (None, millis(119_500))
        );
        assert_eq!(
            timeline.step(millis(119_500)),
            Some(Step::End {
                phase: 1,
                within: millis(250)
            })
        );
        timeline.loads_ended();
        assert_eq!(
            (timeline.step(millis(119_600)), timeline.next()),
            (None, millis(120_000)),
            "in the rest of the phase the system calms down"
        );
        assert_eq!(timeline.step(millis(120_001)), Some(Step::Begin(2)));
        assert_eq!(
            (timeline.step(millis(129_900)), timeline.next()),
            (None, millis(130_000)),
            "the last phase has no successor"
        );
        assert_eq!(
            timeline.step(millis(130_002)),
            Some(Step::Done(millis(130_000)))
        );
        assert_eq!(
            spans(&timeline),
            [
                (millis(100_000), millis(110_001)),
                (millis(110_001), millis(120_001)),
                (millis(120_001), millis(130_000))
            ]
        );
        assert_eq!(
            timeline.records()[2].planned_ns,
            (Nanos::from_secs(120), Nanos::from_secs(130))
        );
    }

    #[test]
    fn loads_that_are_slow_to_go_take_from_the_next_phase_and_not_from_the_runs_end() {
        let mut timeline = timeline();
        for (now, step) in [
            (100_000, Step::Begin(0)),
            (110_000, Step::Begin(1)),
            (
                119_500,
                Step::End {
                    phase: 1,
                    within: millis(250),
                },
            ),
        ] {
            assert_eq!(timeline.step(millis(now)), Some(step));
        }
        assert_eq!(
            (timeline.step(millis(121_000)), timeline.next()),
            (None, millis(125_000))
        );
        timeline.loads_ended();
        assert_eq!(timeline.step(millis(121_001)), Some(Step::Begin(2)));
        assert_eq!(timeline.next(), millis(130_000));
    }

    #[test]
    fn loads_that_nobody_ends_are_given_up_and_the_run_goes_on() {
        let mut timeline = timeline();
        for (now, step) in [
            (100_000, Step::Begin(0)),
            (110_000, Step::Begin(1)),
            (
                119_500,
                Step::End {
                    phase: 1,
                    within: millis(250),
                },
            ),
        ] {
            assert_eq!(timeline.step(millis(now)), Some(step));
        }
        assert_eq!(timeline.step(millis(125_000)), Some(Step::GiveUp(1)));
        assert_eq!(timeline.step(millis(125_000)), Some(Step::Begin(2)));
    }

    #[test]
    fn loads_that_are_asked_late_are_not_given_up_at_once() {
        let mut timeline = timeline();
        for (now, step) in [
            (100_000, Step::Begin(0)),
            (110_000, Step::Begin(1)),
            (
                125_000,
                Step::End {
                    phase: 1,
                    within: millis(250),
                },
            ),
        ] {
            assert_eq!(timeline.step(millis(now)), Some(step));
        }
        assert_eq!(
            (timeline.step(millis(125_001)), timeline.next()),
            (None, millis(130_000))
        );
        assert_eq!(timeline.step(millis(130_000)), Some(Step::GiveUp(1)));
    }

    #[test]
    fn a_phase_that_begins_late_has_at_least_half_of_its_length() {
        let mut timeline = timeline();
        for now in [100_000, 110_000, 119_500] {
            timeline.step(millis(now));
        }
        timeline.loads_ended();
        assert_eq!(timeline.step(millis(127_000)), Some(Step::Begin(2)));
        assert_eq!(timeline.next(), millis(132_000));
    }

    #[test]
    fn a_phase_that_is_counted_in_cycles_ends_when_they_are_made() {
        let seconds = |seconds: i64| Nanos::from_secs(seconds);
        let mut timeline = timeline();
        timeline
            .plans
            .iter_mut()
            .for_each(|plan| plan.cycles = Some(10_000));
        assert_eq!(timeline.step(seconds(100)), Some(Step::Begin(0)));
        assert_eq!(
            (timeline.step(seconds(200)), timeline.next()),
            (None, Nanos::MAX)
        );
        timeline.cycles_made(seconds(201));
        assert_eq!(timeline.next(), seconds(201));
        assert_eq!(timeline.step(seconds(201)), Some(Step::Begin(1)));
        assert_eq!(
            timeline.records()[1].planned_ns,
            (seconds(201), seconds(211))
        );
        assert_eq!(timeline.step(seconds(300)), None);
        timeline.cycles_made(seconds(300));
        assert_eq!(
            timeline.step(seconds(300)),
            Some(Step::End {
                phase: 1,
                within: millis(250)
            }),
            "its loads worked for all of its cycles"
        );
        timeline.loads_ended();
        assert_eq!(timeline.next(), millis(300_500));
        assert_eq!(timeline.step(millis(300_500)), Some(Step::Begin(2)));
        assert_eq!(
            (timeline.step(seconds(400)), timeline.end()),
            (None, Some(Nanos::MAX))
        );
        timeline.cycles_made(seconds(400));
        assert_eq!(timeline.step(seconds(400)), Some(Step::Done(seconds(400))));
    }

    #[test]
    fn a_cut_run_has_an_end_for_its_last_phase() {
        let mut timeline = timeline();
        timeline.step(Nanos::from_secs(100));
        timeline.cut(Nanos::from_secs(103));
        assert_eq!(timeline.records()[0].end_ns, Some(Nanos::from_secs(103)));
        assert_eq!(
            timeline.step(Nanos::from_secs(103)),
            Some(Step::Done(Nanos::from_secs(103)))
        );
    }
}
