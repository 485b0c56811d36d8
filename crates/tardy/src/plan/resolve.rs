//! From the request to the plan.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_sys::{affinity, clock, disk, sched};

use super::error::PlanError;
use super::{Change, PhasePlan, Plan, ProbePlan, ThreadEntry};
use crate::cli::run::{CpuDmaLatency, PolicyName, RunArgs};
use crate::load::bounds::Bounds;
use crate::load::{self, Absent, LoadPlan, LoadRequest, Surroundings};
use crate::machine::irq_affinity::{self, IrqPlan};
use crate::machine::root::Root;
use crate::measure::calibrate;
use crate::probe::{self, ProbeInfo, ThreadPlan};
use crate::record::keep::Keep;

/// Room for the records and reserves of one run, in bytes.
const BYTES_A_RUN: u64 = 2 << 20;
/// Room for the reserves of one series, in bytes.
const BYTES_A_SERIES: u64 = 1 << 20;
const BYTES_A_SAMPLE: f64 = 3.0;
/// What is left to others on the file system, in bytes.
const BYTES_LEFT: u64 = 16 << 20;
/// The idle phase at the start: long enough to see what the machine does by itself, never more than a third of the run.
const IDLE_MAX: Nanos = Nanos::from_secs(10);

/// Loads of the second phase where none is named.
const LOADS_DEFAULT: [&str; 2] = ["io", "fork"];

/// Resolves `request` against the machine, for a run in `out`.
///
/// # Errors
/// [`PlanError`]; nothing was changed or written then.
pub fn resolve(request: &RunArgs, out: &Path, root: &Root) -> Result<Plan, PlanError> {
    let probes = probes_of(request)?;
    let allowed: CpuList = affinity::get(0).map_err(PlanError::NoProcessors)?.into_iter().map(CpuId).collect();
    let measured = measured_cpus(request, &allowed)?;
    let left = allowed.minus(&measured);
    let online = root.online_cpus().unwrap_or_else(|| allowed.clone());
    let (phases, mut warnings) = phases_of(request, &online)?;
    let length = phases.iter().fold(Nanos::ZERO, |sum, phase| sum.saturating_add(phase.length));
    if request.period > length {
        return Err(PlanError::PeriodTooLong { period: request.period, length });
    }
    let dither = request.dither.unwrap_or_default();
    if dither + dither > request.period {
        return Err(PlanError::DitherTooWide { dither, period: request.period });
    }
    let seed = request.seed.unwrap_or_else(|| (clock::realtime() ^ clock::monotonic().rotate_left(32)).unsigned_abs());
    let threads = threads_of(request, &probes, &measured, seed);
    let bytes_estimated = bytes_needed(request, threads.len(), length);
    check_folders(request, out, bytes_estimated)?;
    let wake_up_cost = check_period(request, &measured, !left.is_empty())?;
    let (changes, staying) = changes_of(request, &measured, &allowed, root);
    warnings.extend(staying);
    if left.is_empty() {
        warnings.push(Warning::NoProcessorLeft { cpus: measured.clone() });
    }
    if probes.len() > 1 {
        warnings.push(Warning::ProbesShareProcessors { probes: probes.iter().map(|probe| probe.name.to_owned()).collect() });
    }
    Ok(Plan {
        probes: probes.iter().map(|probe| ProbePlan { name: probe.name.to_owned(), period: request.period, dither }).collect(),
        threads,
        tool_cpus: if left.is_empty() { measured.clone() } else { left },
        measured_cpus: measured,
        policy: request.policy,
        priority: (request.policy != PolicyName::Other).then_some(request.priority),
        phases,
        cycles: request.cycles,
        window: request.deadline.window(),
        misses_allowed: request.deadline.misses,
        keep: request.keep,
        spool: request.spool.clone(),
        cpu_dma_latency_us: match request.cpu_dma_latency {
            CpuDmaLatency::Leave => None,
            CpuDmaLatency::Micros(micros) => Some(micros),
        },
        seed,
        aligned: request.aligned,
        stop_above: request.stop_above,
        tracing_off: request.tracing_off,
        changes,
        wake_up_cost,
        bytes_estimated,
        warnings,
    })
}

fn probes_of(request: &RunArgs) -> Result<Vec<&'static ProbeInfo>, PlanError> {
    let mut probes: Vec<&'static ProbeInfo> = Vec::new();
    for name in &request.probes {
        let probe = probe::find(name).ok_or_else(|| PlanError::UnknownProbe { name: name.clone() })?;
        if probes.iter().any(|other| other.name == probe.name) {
            return Err(PlanError::ProbeTwice { name: name.clone() });
        }
        probes.push(probe);
    }
    Ok(probes)
}

fn measured_cpus(request: &RunArgs, allowed: &CpuList) -> Result<CpuList, PlanError> {
    let Some(asked) = &request.cpus else {
        return Ok(allowed.clone());
    };
    if asked.is_empty() {
        return Err(PlanError::NoCpu { allowed: allowed.clone() });
    }
    match asked.minus(allowed).iter().next() {
        Some(missing) => Err(PlanError::UnknownCpu { asked: asked.clone(), missing, allowed: allowed.clone() }),
        None => Ok(asked.clone()),
    }
}

/// The phases, and the loads that are not there although nobody asked for them by name.
fn phases_of(request: &RunArgs, cpus: &CpuList) -> Result<(Vec<PhasePlan>, Vec<Warning>), PlanError> {
    let idle = |length| PhasePlan { name: "idle".into(), length, loads: Vec::new() };
    if let Some(cycles) = request.cycles {
        let length = request.period.get().saturating_mul(i64::try_from(cycles).unwrap_or(i64::MAX));
        return Ok((vec![idle(Nanos(length))], Vec::new()));
    }
    if request.loads == ["none"] {
        return Ok((vec![idle(request.length)], Vec::new()));
    }
    let (loads, warnings) = loads_of(request, cpus)?;
    if loads.is_empty() {
        return Ok((vec![idle(request.length)], warnings));
    }
    let idle_length = IDLE_MAX.min(Nanos(request.length.get() / 3));
    let name = loads.iter().map(|load| load.label.as_str()).collect::<Vec<_>>().join("+");
    Ok((vec![idle(idle_length), PhasePlan { name, length: request.length - idle_length, loads }], warnings))
}

fn loads_of(request: &RunArgs, cpus: &CpuList) -> Result<(Vec<LoadPlan>, Vec<Warning>), PlanError> {
    let is_default = request.loads.is_empty();
    let names: Vec<&str> = if is_default { LOADS_DEFAULT.to_vec() } else { request.loads.iter().map(String::as_str).collect() };
    let mut requests = Vec::new();
    for name in names {
        requests.extend(LoadRequest::parse(name)?);
    }
    let surroundings = Surroundings::of_this_machine();
    let (mut loads, mut warnings) = (Vec::new(), Vec::new());
    for (asked, resolved) in load::resolve_all(&requests, cpus, &surroundings, Bounds::of(&surroundings)) {
        match resolved {
            Ok(plan) => loads.push(plan),
            Err(Absent { missing, remedy }) if is_default => warnings.push(Warning::LoadAbsent { load: asked.text, missing, remedy }),
            Err(Absent { missing, remedy }) => return Err(PlanError::LoadAbsent { load: asked.text, missing, remedy }),
        }
    }
    Ok((loads, warnings))
}

/// Each probe on each processor, with start times that neither lock to each other nor to the tick.
fn threads_of(request: &RunArgs, probes: &[&ProbeInfo], measured: &CpuList, seed: u64) -> Vec<ThreadEntry> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let count = (probes.len() * measured.len()) as i64;
    let places = probes.iter().flat_map(|probe| measured.iter().map(move |cpu| (probe, cpu)));
    places
        .enumerate()
        .map(|(index, (probe, cpu))| {
            let slot = (request.period.get() / count).max(1);
            let drawn = slot * index as i64 + random.random_range(0..slot);
            let start = if request.aligned { Nanos::ZERO } else { Nanos(drawn) };
            let schedule = if probe.has_schedule {
                Schedule::Grid { period: request.period, start, dither: request.dither.unwrap_or_default() }
            } else {
                Schedule::Event { request: request.period }
            };
            let plan =
                ThreadPlan { cpu: Some(cpu), schedule, seed: random.random(), cycles: request.cycles, stop_above: request.stop_above };
            ThreadEntry { probe: probe.name.to_owned(), plan }
        })
        .collect()
}

fn bytes_needed(request: &RunArgs, threads: usize, length: Nanos) -> u64 {
    let samples = threads as f64 * (length.get() as f64 / request.period.get() as f64);
    let stored = if request.keep == Keep::All { samples * BYTES_A_SAMPLE } else { samples * BYTES_A_SAMPLE / 100.0 };
    BYTES_A_RUN + BYTES_A_SERIES * threads as u64 + stored as u64
}

fn check_folders(request: &RunArgs, out: &Path, needed: u64) -> Result<(), PlanError> {
    if out.exists() {
        return Err(PlanError::OutExists(out.to_owned()));
    }
    if let Some(spool) = request.spool.as_ref().filter(|spool| !spool.is_dir()) {
        return Err(PlanError::NoSpool(spool.clone()));
    }
    for folder in std::iter::once(nearest_existing(out)).chain(request.spool.clone()) {
        if let Ok(free) = disk::free_bytes(&folder)
            && free < needed.saturating_add(BYTES_LEFT)
        {
            return Err(PlanError::NoRoom { needed, free, folder });
        }
    }
    Ok(())
}

fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.is_dir()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// The policy that the probes ask for.
#[must_use]
pub fn policy(name: PolicyName, priority: u32) -> sched::Policy {
    match name {
        PolicyName::Fifo => sched::Policy::Fifo { priority },
        PolicyName::Rr => sched::Policy::RoundRobin { priority },
        PolicyName::Other => sched::Policy::Other { nice: 0 },
    }
}

fn check_period(request: &RunArgs, measured: &CpuList, is_cpu_left: bool) -> Result<Option<Nanos>, PlanError> {
    if request.period >= calibrate::PERIOD_UNCALIBRATED_MIN {
        return Ok(None);
    }
    let Some(cpu) = measured.iter().next() else { return Ok(None) };
    let cost = calibrate::wake_up_cost(cpu, policy(request.policy, request.priority)).unwrap_or_default();
    if request.period >= cost * calibrate::COSTS_A_PERIOD_MIN {
        return Ok(Some(cost));
    }
    match (request.force, is_cpu_left) {
        (false, _) => Err(PlanError::PeriodTooShort { period: request.period, cost }),
        (true, false) => Err(PlanError::ForceNeedsCpu { period: request.period }),
        (true, true) => Ok(Some(cost)),
    }
}

fn changes_of(request: &RunArgs, measured: &CpuList, online: &CpuList, root: &Root) -> (Vec<Change>, Vec<Warning>) {
    let mut changes = Vec::new();
    let mut warnings = Vec::new();
    if let CpuDmaLatency::Micros(value_us) = request.cpu_dma_latency {
        changes.push(Change::CpuDmaLatency { value_us });
    }
    if request.steer_irqs {
        let plan = IrqPlan::new(&irq_affinity::read(root), measured, online);
        changes.extend(plan.moves.into_iter().map(|to| Change::Interrupt { to }));
        if !plan.staying.is_empty() {
            let interrupts: Vec<String> = plan.staying.iter().map(|staying| staying.irq.to_string()).collect();
            let error = plan.staying[0].reason.to_string();
            warnings.push(Warning::InterruptsNotMoved { interrupts: interrupts.join(", "), error });
        }
    }
    (changes, warnings)
}
