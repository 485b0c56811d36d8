//! The run's timeline: which phase it is in, and what happens next. No clock and no processes of its own, so that it can be tested.

use tardy_core::units::Nanos;
use tardy_run::plan::PhasePlan;
use tardy_run::record::PhaseRecord;

/// How long the system is given to calm down after a phase's last process is gone.
pub const SETTLE: Nanos = Nanos::from_millis(500);

/// What the session has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Start the loads of this phase.
    Begin(usize),
    /// Ask the loads of this phase to end by themselves.
    End(usize),
    /// All phases are over.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Running,
    Ending,
    Settling { until: Nanos },
}

/// Walks through the phases.
#[derive(Debug)]
pub struct Timeline {
    plans: Vec<PhasePlan>,
    records: Vec<PhaseRecord>,
    current: usize,
    stage: Stage,
    planned: Nanos,
}

impl Timeline {
    /// Phases that begin at `start`.
    #[must_use]
    pub fn new(plans: Vec<PhasePlan>, start: Nanos) -> Self {
        Self { plans, records: Vec::new(), current: 0, stage: Stage::Before, planned: start }
    }

    /// What is to be done at `now`; call it again until it answers `None`.
    pub fn step(&mut self, now: Nanos) -> Option<Step> {
        let Some(plan) = self.plans.get(self.current) else {
            return Some(Step::Done);
        };
        match self.stage {
            Stage::Before if now >= self.planned || self.current > 0 => {
                let end = self.planned + plan.length;
                let loads = plan.loads.iter().map(|load| load.label.clone()).collect();
                let planned_ns = (self.planned, end);
                self.records.push(PhaseRecord {
                    name: plan.name.clone(),
                    loads,
                    begin_ns: now,
                    end_ns: None,
                    planned_ns,
                    cpu_busy_ns: Default::default(),
                });
                self.stage = Stage::Running;
                Some(Step::Begin(self.current))
            }
            Stage::Running if now >= self.end_of_current() => {
                if plan.loads.is_empty() {
                    self.finish_phase(now);
                    return self.step(now);
                }
                self.stage = Stage::Ending;
                Some(Step::End(self.current))
            }
            Stage::Settling { until } if now >= until => {
                self.finish_phase(now);
                self.step(now)
            }
            _ => None,
        }
    }

    /// The loads of the current phase have all ended, at `now`.
    pub fn loads_ended(&mut self, now: Nanos) {
        if matches!(self.stage, Stage::Running | Stage::Ending) {
            self.stage = Stage::Settling { until: now + SETTLE };
        }
    }

    /// When [`Self::step`] will have something to do by itself.
    #[must_use]
    pub fn next(&self) -> Nanos {
        match self.stage {
            Stage::Before => self.planned,
            Stage::Running => self.end_of_current(),
            Stage::Ending => Nanos::MAX,
            Stage::Settling { until } => until,
        }
    }

    fn end_of_current(&self) -> Nanos {
        let begin = self.records.last().map_or(self.planned, |record| record.begin_ns);
        begin + self.plans.get(self.current).map_or(Nanos::ZERO, |plan| plan.length)
    }

    fn finish_phase(&mut self, now: Nanos) {
        if let Some(record) = self.records.last_mut() {
            record.end_ns = Some(now);
        }
        self.planned += self.plans[self.current].length;
        self.current += 1;
        self.stage = Stage::Before;
    }

    /// What the processors did in the phase that ended last; told twice, the first time counts.
    pub fn note_busy(&mut self, busy: std::collections::BTreeMap<tardy_core::cpu::CpuId, Nanos>) {
        if let Some(record) =
            self.records.iter_mut().rev().find(|record| record.end_ns.is_some()).filter(|record| record.cpu_busy_ns.is_empty())
        {
            record.cpu_busy_ns = busy;
        }
    }

    /// The run ends at `now`, wherever it is.
    pub fn cut(&mut self, now: Nanos) {
        if let Some(record) = self.records.last_mut().filter(|record| record.end_ns.is_none()) {
            record.end_ns = Some(now);
        }
        self.current = self.plans.len();
    }

    /// Name of the current phase.
    #[must_use]
    pub fn name(&self) -> &str {
        self.plans.get(self.current).map_or("ending", |plan| &plan.name)
    }

    /// Phases as they happened.
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
        }
    }

    fn timeline() -> Timeline {
        let phase = |name: &str, loads: &[&str]| PhasePlan {
            name: name.into(),
            length: Nanos::from_secs(10),
            loads: loads.iter().map(|load| load_plan(load)).collect(),
        };
        Timeline::new(vec![phase("idle", &[]), phase("io", &["io"]), phase("fork", &["fork"])], Nanos::from_secs(100))
    }

    #[test]
    fn phases_end_when_their_loads_have_and_the_system_has_settled() {
        let seconds = |seconds: f64| Nanos((seconds * 1e9) as i64);
        let mut timeline = timeline();
        assert_eq!(timeline.step(seconds(99.0)), None);
        assert_eq!(timeline.step(seconds(100.0)), Some(Step::Begin(0)));
        assert_eq!(timeline.step(seconds(109.0)), None);
        assert_eq!(timeline.step(seconds(110.0)), Some(Step::Begin(1)), "an idle phase has nothing to wait for");
        assert_eq!(timeline.step(seconds(120.0)), Some(Step::End(1)));
        assert_eq!((timeline.step(seconds(123.0)), timeline.next()), (None, Nanos::MAX));
        timeline.loads_ended(seconds(124.0));
        assert_eq!((timeline.step(seconds(124.1)), timeline.next()), (None, seconds(124.5)));
        assert_eq!(timeline.step(seconds(124.5)), Some(Step::Begin(2)));
        assert_eq!(timeline.step(seconds(134.5)), Some(Step::End(2)));
        timeline.loads_ended(seconds(135.0));
        assert_eq!(timeline.step(seconds(136.0)), Some(Step::Done));
        let ends: Vec<_> = timeline.records().iter().map(|record| (record.begin_ns, record.end_ns.unwrap())).collect();
        assert_eq!(ends, [(seconds(100.0), seconds(110.0)), (seconds(110.0), seconds(124.5)), (seconds(124.5), seconds(136.0))]);
        assert_eq!(timeline.records()[2].planned_ns, (seconds(120.0), seconds(130.0)));
    }

    #[test]
    fn a_cut_run_has_an_end_for_its_last_phase() {
        let mut timeline = timeline();
        timeline.step(Nanos::from_secs(100));
        timeline.cut(Nanos::from_secs(103));
        assert_eq!(timeline.records()[0].end_ns, Some(Nanos::from_secs(103)));
        assert_eq!(timeline.step(Nanos::from_secs(103)), Some(Step::Done));
    }
}
