//! Determines when the loads of a phase worked. Samples from this time belong to the phase. All
//! other samples belong to no phase, but count for the whole run.
//!
//! Each worker reports its start, and the init process of the loads reports the worker's end
//! (`load_work` in `run.json`). For a phase with several loads, only the time during which all of
//! them worked counts. Tables, charts, comparisons and exports all use `RunRecord::under_load`.

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use crate::record::{LoadWork, PhaseRecord, RunRecord};

impl RunRecord {
    /// Returns the start and end of the time in which all loads of the phase at `index` worked on
    /// `cpu`. Returns the whole phase if it has no load, or if an older version of tardy made the
    /// run and did not record the times. If there was no such time, the end equals the start.
    ///
    /// Only workers that are bound to the CPU, or that use several CPUs, are considered. If there
    /// are none, the loads ran on other CPUs, and all workers are considered.
    #[must_use]
    pub fn under_load(&self, index: usize, cpu: Option<CpuId>) -> (Nanos, Nanos) {
        let phase = &self.phases[index];
        let whole = (phase.begin_ns, phase.end_ns.unwrap_or(Nanos::MAX));
        let is_known = self.load_work.iter().any(|work| work.begin_ns.is_some());
        if phase.loads.is_empty() || !is_known {
            return whole;
        }
        let of_phase: Vec<&LoadWork> = self
            .load_work
            .iter()
            .filter(|work| work.phase == index)
            .collect();
        let is_concerned =
            |work: &&LoadWork| cpu.is_none() || work.cpu.is_none() || work.cpu == cpu;
        let concerned: Vec<&LoadWork> = of_phase.iter().copied().filter(is_concerned).collect();
        let counted = if concerned.is_empty() {
            &of_phase
        } else {
            &concerned
        };
        let Some(together) = counted
            .iter()
            .map(|work| worked(work, phase))
            .reduce(overlap)
        else {
            return (whole.0, whole.0);
        };
        let (begin, end) = overlap(whole, together);
        (begin, end.max(begin))
    }
}

fn worked(work: &LoadWork, phase: &PhaseRecord) -> (Nanos, Nanos) {
    match work.begin_ns {
        Some(begin) => (begin, work.end_ns.unwrap_or(Nanos::MAX)),
        None => (phase.begin_ns, Nanos::MAX),
    }
}

fn overlap(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> (Nanos, Nanos) {
    (one.0.max(other.0), one.1.min(other.1))
}
