//! Records the work of a run's loads as the guardian reports it: when each worker worked, and how
//! much of the run had no load.

use std::collections::BTreeMap;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_run::plan::LoadPlan;
use tardy_run::record::{LoadWork, RunRecord};

use tardy_loads::guardian::{LoadEnd, LoadEvent};

/// A phase is not considered to be under load if one of its loads was missing for at least 1 /
/// `UNLOADED_PART` of the phase's time.
const UNLOADED_PART: i64 = 10;

/// Identifies a worker of a load: its phase, its load, and its CPU if the load has a worker for
/// each CPU.
type Part = (usize, String, Option<CpuId>);

/// The loads of a run in progress.
#[derive(Debug, Default)]
pub(super) struct Loads {
    /// Number of loads of the current phase that still exist.
    left: usize,
    /// When each worker last sent a report.
    signs: BTreeMap<Part, Nanos>,
    /// When the loads of each phase were asked to stop.
    asked: BTreeMap<usize, Nanos>,
    /// Loads that died: their phases, and how they died.
    deaths: BTreeMap<(usize, String), String>,
    /// The first phase in which loads are missing, and why they are missing.
    lost: Option<(usize, String)>,
}

impl Loads {
    /// Records that the loads of a phase are being started.
    pub(super) fn begin(&mut self, loads: &[LoadPlan]) {
        self.left = loads.len();
    }

    /// Records that the loads of `phase` are asked to stop. Only the first call for a phase counts.
    pub(super) fn ask(&mut self, phase: usize, now: Nanos) {
        self.asked.entry(phase).or_insert(now);
    }

    /// Returns whether no load is running.
    pub(super) fn are_gone(&self) -> bool {
        self.left == 0
    }

    /// Returns whether the guardian is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Records an event of the loads.
    pub(super) fn take(&mut self, event: LoadEvent, record: &mut RunRecord) {
        match event {
            LoadEvent::Started { .. } => {}
            LoadEvent::Working {
                load,
                phase,
                cpu,
                at,
            } => {
                let work = part(record, phase, &load, cpu);
                match work.end_ns.take() {
                    Some(gone) => work.away_ns += at - gone,
                    None => work.begin_ns = Some(at),
                }
                self.signs.insert((work.phase, load, cpu), at);
            }
            LoadEvent::Work {
                load,
                phase,
                cpu,
                operations,
                bytes,
                errors,
                cpu_time,
                kernel_time,
                at,
            } => {
                let work = part(record, phase, &load, cpu);
                *work = LoadWork {
                    operations,
                    bytes,
                    errors,
                    cpu_time_ns: cpu_time,
                    kernel_time_ns: Some(kernel_time),
                    ..work.clone()
                };
                self.signs.insert((work.phase, load, cpu), at);
            }
            LoadEvent::Stopped {
                load,
                phase,
                cpu,
                at,
                died,
            } => {
                let phase = phase as usize;
                // If a worker died before it worked, it has no working time.
                if let Some(work) = record
                    .load_work
                    .iter_mut()
                    .find(|work| is_part(work, phase, &load, cpu) && work.begin_ns.is_some())
                {
                    work.end_ns = Some(at);
                }
                if let Some(how) = died {
                    self.deaths.insert((phase, load), how);
                }
            }
            LoadEvent::Ended {
                load, phase, how, ..
            } => {
                self.left = self.left.saturating_sub(1);
                match how {
                    LoadEnd::Finished | LoadEnd::Killed => {}
                    // This load could not run here, so its working time is removed. The phase
                    // continues with its other loads.
                    LoadEnd::Absent => record
                        .load_work
                        .retain(|work| work.phase != phase as usize || work.load != load),
                    LoadEnd::Died { status } => {
                        self.deaths
                            .insert((phase as usize, load.clone()), status.clone());
                        record.warnings.push(Warning::LoadProblem {
                            load,
                            problem: format!("died ({status})"),
                        });
                    }
                }
            }
            LoadEvent::Absent {
                load,
                missing,
                remedy,
                ..
            } => record.warnings.push(Warning::LoadAbsent {
                load,
                missing,
                remedy,
            }),
            LoadEvent::Problem { load, text } => {
                let load = load.unwrap_or_else(|| "supervisor".to_owned());
                record.warnings.push(Warning::LoadProblem {
                    load,
                    problem: text,
                });
            }
        }
    }

    /// Records that loads are missing from `phase` on. `gone_at` is when they went missing, if
    /// known. If it is unknown, each worker's working time ends at its last report.
    pub(super) fn lose(
        &mut self,
        phase: usize,
        gone_at: Option<Nanos>,
        cause: &str,
        record: &mut RunRecord,
    ) {
        self.left = 0;
        self.lost.get_or_insert((phase, cause.to_owned()));
        for work in record
            .load_work
            .iter_mut()
            .filter(|work| work.begin_ns.is_some() && work.end_ns.is_none())
        {
            work.end_ns = gone_at
                .or_else(|| {
                    self.signs
                        .get(&(work.phase, work.load.clone(), work.cpu))
                        .copied()
                })
                .or(work.begin_ns);
        }
    }

    /// Returns a warning that states how much of the planned time under load was lost because loads
    /// died or failed.
    pub(super) fn shortfall(&self, record: &RunRecord) -> Option<Warning> {
        let (mut unloaded, mut planned, mut is_worth_telling) = (Nanos::ZERO, Nanos::ZERO, false);
        let mut causes: Vec<String> = self.lost.iter().map(|(_, cause)| cause.clone()).collect();
        for (index, (phase, plan)) in record
            .phases
            .iter()
            .zip(&record.plan.phases)
            .enumerate()
            .filter(|(_, (_, plan))| !plan.loads.is_empty())
        {
            let end = phase.end_ns.unwrap_or(phase.begin_ns);
            let asked = self.asked.get(&index).map_or(end, |&asked| asked.min(end));
            let length = asked - phase.begin_ns;
            planned += length;
            let mut of_phase = Nanos::ZERO;
            for load in &plan.loads {
                let death = self.deaths.get(&(index, load.label.clone()));
                let failed = only_failed(record, index, &load.label);
                let was_there = self.lost.as_ref().is_none_or(|&(from, _)| index < from);
                if death.is_none() && !failed && was_there {
                    continue;
                }
                causes.extend(death.map(|how| format!("{} died ({how})", load.label)));
                if failed {
                    causes.push(format!("{} failed every time", load.label));
                }
                let parts: Vec<Option<CpuId>> = if load.each_cpu {
                    load.cpus.iter().map(Some).collect()
                } else {
                    vec![None]
                };
                let without = |cpu: Option<CpuId>| {
                    let work = record
                        .load_work
                        .iter()
                        .find(|work| is_part(work, index, &load.label, cpu));
                    match work.filter(|work| work.begin_ns.is_some()) {
                        Some(_) if failed => length,
                        Some(work) => {
                            (asked - work.end_ns.unwrap_or(asked)).max(Nanos::ZERO) + work.away_ns
                        }
                        None => length,
                    }
                };
                of_phase = of_phase.max(
                    parts
                        .into_iter()
                        .map(without)
                        .max()
                        .unwrap_or_default()
                        .min(length),
                );
            }
            is_worth_telling |= of_phase > Nanos::ZERO && of_phase * UNLOADED_PART >= length;
            unloaded += of_phase;
        }
        causes.dedup();
        is_worth_telling.then_some(Warning::NotUnderLoad {
            unloaded,
            planned,
            causes,
        })
    }
}

/// Returns whether all operations of the load in the phase failed. Only then is the load considered
/// to have failed, because a worker that is slow to start also has a few failures.
fn only_failed(record: &RunRecord, phase: usize, load: &str) -> bool {
    let mut work = record
        .load_work
        .iter()
        .filter(|work| work.phase == phase && work.load == load)
        .peekable();
    work.peek().is_some()
        && work.all(|work| work.errors > 0 && work.operations == 0 && work.bytes == 0)
}

fn is_part(work: &LoadWork, phase: usize, load: &str, cpu: Option<CpuId>) -> bool {
    work.phase == phase && work.load == load && work.cpu == cpu
}

fn part<'a>(
    record: &'a mut RunRecord,
    phase: u32,
    load: &str,
    cpu: Option<CpuId>,
) -> &'a mut LoadWork {
    let phase = phase as usize;
    let known = record
        .load_work
        .iter()
        .position(|work| is_part(work, phase, load, cpu));
    let index = known.unwrap_or_else(|| {
        record.load_work.push(LoadWork::new(phase, load, cpu));
        record.load_work.len() - 1
    });
    &mut record.load_work[index]
}
