//! When the loads of a phase were at work: the samples of that time are the phase's, and those
//! before and after it belong to no phase.
//!
//! Samples belong to a load while it worked. Each worker reports its start and the init its end
//! (`load_work` in `run.json`); all other samples count in the whole run and in no phase. With
//! several loads it is the time when all worked. Tables, charts, comparisons and exports all ask
//! `RunRecord::under_load`.

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use crate::record::{LoadWork, PhaseRecord, RunRecord};

impl RunRecord {
    /// From when to when all loads of the phase at `index` worked where `cpu` is concerned; the
    /// whole phase where it has none, or where an older tool did not write it down. Where not all
    /// of them worked at any time the end is the start.
    ///
    /// A CPU is concerned by the workers that are bound to it and by those that use several. Where
    /// there is none, loads ran beside it: then by all.
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
