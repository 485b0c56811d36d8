//! The progress of a run: its phases, its loads, its marks.

use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::record::{RunRecord, State};

/// The state of a run at one moment. All times except `start` are relative to the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProgress {
    pub run: String,
    /// Start of the run, on the clock of the samples.
    pub start: Nanos,
    pub state: State,
    /// Time since the start; negative before the start.
    pub elapsed: Nanos,
    /// How long the run is planned to last. If phases are counted in cycles, this is an estimate.
    /// Absent for an endless run.
    pub planned: Option<Nanos>,
    pub phases_planned: usize,
    /// Phases that have started.
    pub phases: Vec<PhaseProgress>,
    /// Loads of the phase that started last.
    pub loads: Vec<LoadProgress>,
    pub marks: Vec<Nanos>,
    /// Limits for the latency.
    pub window: Option<Window>,
    /// Whether the process that measured the run has died before it recorded the run's end.
    pub is_cut_off: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseProgress {
    pub name: String,
    pub begin: Nanos,
    /// When the phase ends. While the phase lasts, this is when it is planned to end; absent if a
    /// number of cycles or the user ends it.
    pub end: Option<Nanos>,
}

/// How much work one load of a phase has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadProgress {
    pub name: String,
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    /// How long the load has worked; absent until it starts to work.
    pub worked: Option<Nanos>,
}

impl RunProgress {
    /// Returns how far the run in the folder `run` is, according to its record, at time `now` on
    /// the run's clock.
    #[must_use]
    pub fn of(record: &RunRecord, run: String, now: Nanos) -> Self {
        let start = record.started.monotonic_ns;
        let phase = |(place, phase): (usize, &tardy_run::record::PhaseRecord)| {
            let is_counted = record
                .plan
                .phases
                .get(place)
                .is_some_and(|plan| plan.cycles.is_some());
            let is_open = record.plan.until_stopped && place + 1 == record.plan.phases.len();
            let end = phase
                .end_ns
                .or((!is_counted && !is_open).then_some(phase.planned_ns.1));
            PhaseProgress {
                name: phase.name.clone(),
                begin: phase.begin_ns - start,
                end: end.map(|end| end - start),
            }
        };
        Self {
            run,
            start,
            state: record.state,
            elapsed: record.ended_ns.unwrap_or(now) - start,
            planned: record.plan.planned_length(),
            phases_planned: record.plan.phases.len(),
            phases: record.phases.iter().enumerate().map(phase).collect(),
            loads: loads(record, now),
            marks: record.marks_ns.iter().map(|&at| at - start).collect(),
            window: record.plan.window,
            is_cut_off: false,
        }
    }
}

/// Returns the loads of the last phase. If a load has several parts, adds up their work. Leaves out
/// loads whose work is not in the record, for example in the folder of another process's run.
fn loads(record: &RunRecord, now: Nanos) -> Vec<LoadProgress> {
    let Some(phase) = record.phases.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut loads: Vec<LoadProgress> = Vec::new();
    for name in &record.phases[phase].loads {
        let mut load = LoadProgress {
            name: name.clone(),
            operations: 0,
            bytes: 0,
            errors: 0,
            worked: None,
        };
        let mut parts = record
            .load_work
            .iter()
            .filter(|work| work.phase == phase && work.load == *name)
            .peekable();
        if parts.peek().is_none() {
            continue;
        }
        for work in parts {
            load.operations += work.operations;
            load.bytes += work.bytes;
            load.errors += work.errors;
            let worked = work
                .begin_ns
                .map(|begin| work.end_ns.unwrap_or(now) - begin - work.away_ns);
            load.worked = load.worked.max(worked);
        }
        loads.push(load);
    }
    loads
}
