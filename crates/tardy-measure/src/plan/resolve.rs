//! Resolves a request to a plan.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_core::cpu::CpuList;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::cgroup;
use tardy_machine::clock::clock_kind;
use tardy_machine::groups;
use tardy_machine::host::Host;
use tardy_machine::irq_affinity::{self, IrqPlan};
use tardy_machine::processors::Processors;
use tardy_machine::root::Root;
use tardy_machine::unsupported::Unsupported;
use tardy_probes::probe::{Placement, ProbeInfo, Refusal};
use tardy_run::keep::KeptSamples;
use tardy_run::plan::{
    Change, Plan, PolicyName, ProbePlan, ThreadEntry, ThreadPlan, UNTIL_STOPPED_PART,
};
use tardy_run::request::{CpuDmaLatency, LoadCpus, MeasuredCpus, Request};
use tardy_run::system_clock::{SystemClock, ThreadClocks};
use tardy_run::threshold::ThresholdAction;
use tardy_run::tracing::ExplainLevel;
use tardy_samples::rotation::DiskDivision;
use tardy_sys::{clock, disk, sched, scoped};

use super::error::PlanError;
use super::{other_runs, phases, wake_up_cost};
use crate::scenario::{Order, Scenario};
use crate::setup::cpu_latency::CpuLatencyRequest;
use crate::setup::resume_latency;

/// Space for the records and reserves of one run, in bytes.
const BYTES_A_RUN: u64 = 2 << 20;
/// Space for the reserves of one series, in bytes.
const BYTES_A_SERIES: u64 = 1 << 20;
const BYTES_A_SAMPLE: f64 = 3.0;
/// Real-time priority that a probe may have only if the watchdog has a separate CPU.
const PRIORITY_OF_WATCHDOG: u32 = 99;

/// Resolves `request`, which selects `scenario`, for this machine and a run in `out`.
///
/// # Errors
/// Returns a [`PlanError`] if the run cannot be planned; in this case nothing was changed or
/// written.
pub fn resolve(
    request: &Request,
    scenario: &Scenario,
    out: &Path,
    root: &Root,
) -> Result<Plan, PlanError> {
    let probes = probes_of(scenario)?;
    let processors = Processors::read(root).map_err(PlanError::NoProcessors)?;
    let measured = measured_cpus(request, &of_probes(request, &processors, root)?)?;
    check_cpus(&probes, &measured)?;
    let left = processors.beside(&measured);
    let seed = request
        .seed
        .unwrap_or_else(|| (clock::realtime() ^ clock::monotonic().rotate_left(32)).unsigned_abs());
    check_periods(&probes, scenario.length())?;
    // A probe must not share the watchdog's priority, because the watchdog could not stop it.
    if probes
        .iter()
        .any(|(_, plan)| plan.priority == Some(PRIORITY_OF_WATCHDOG))
        && (!request.force || left.is_empty())
    {
        return Err(PlanError::PriorityNeedsForce);
    }
    let threads = threads_of(request, scenario.only_cycles(), &probes, &measured, seed);
    // The length of an endless run is unknown. The run may start if there is enough space for
    // `UNTIL_STOPPED_PART`.
    let stored_length = if request.until_stopped {
        UNTIL_STOPPED_PART
    } else {
        scenario.length()
    };
    let bytes = |keep| bytes_needed(keep, &probes, &threads, stored_length);
    let bounded = request
        .disk
        .map(|disk| check_disk(disk.0, request, &probes, &threads))
        .transpose()?;
    let bytes_estimated = bounded.unwrap_or(u64::MAX).min(bytes(request.keep));
    check_folders(request, out, bytes_estimated, bytes(KeptSamples::Histogram))?;
    let load_cpus = load_cpus(request, &measured, &of_loads(request, &processors)?)?;
    let (phases, mut warnings) = phases::resolve(request, scenario, out, &load_cpus, seed)?;
    let wake_up_cost = check_wake_up_cost(request, &probes, &measured, !left.is_empty())?;
    let (mut changes, staying) = changes_of(request, &measured, &processors.housekeeping(), root);
    if let Some(limit_us) = request.resume_latency {
        changes.extend(
            resume_latency::changes(root, &measured, limit_us)
                .map_err(|error| PlanError::NoResumeLatency { error })?,
        );
    }
    warnings.extend(staying);
    warnings.extend(isolation(request, &measured, &left, &processors));
    // Guests in the lab need no warning, because the lab's tables already explain that the tool's
    // own work runs on a guest's only CPU.
    if left.is_empty() && clock_kind(root) != ClockKind::Virtual {
        warnings.push(Warning::NoCpuLeft {
            cpus: measured.clone(),
        });
    }
    warnings.extend(sharing(&probes));
    warnings.extend(other_runs::warnings(&measured, root));
    warnings.extend(without_tai(&probes));
    if let Some(missing) = probes.iter().find_map(|(_, plan)| without_rights(plan)) {
        warnings.push(missing.map_err(PlanError::NoThread)?);
    }
    let mut plan = Plan {
        scenario: scenario.name.clone(),
        origin: Some(scenario.origin),
        scenario_file: scenario.file.clone(),
        is_shuffled: scenario.order == Order::Shuffled,
        warm_up: scenario.warm_up,
        probes: probes.iter().map(|(_, plan)| plan.clone()).collect(),
        threads,
        housekeeping_cpus: if left.is_empty() {
            measured.clone()
        } else {
            left
        },
        measured_cpus: measured,
        phases,
        cycles: scenario.only_cycles(),
        until_stopped: request.until_stopped,
        window: request.requirement().window,
        misses_allowed: request.misses,
        skipped_allowed: request.skipped,
        keep: request.keep,
        disk: request.disk.map(|disk| disk.0),
        spool: request.spool.clone(),
        cpu_dma_latency_us: match request.cpu_dma_latency {
            _ if request.resume_latency.is_some() => None,
            CpuDmaLatency::Leave => None,
            CpuDmaLatency::Micros(micros) => Some(micros),
        },
        resume_latency_us: request.resume_latency,
        probe_cgroup: request.probe_cgroup.clone(),
        load_cgroup: request.load_cgroup.clone(),
        seed,
        aligned: request.aligned,
        stop_above: request.threshold(),
        on_threshold: request.on_threshold.clone(),
        tracing_off: request.tracing_off,
        // The action `trace` needs the events of the kernel's trace.
        explain: if request.on_threshold.contains(&ThresholdAction::Trace) {
            request.explain.max(ExplainLevel::Events)
        } else {
            request.explain
        },
        keep_trace: request.keep_trace,
        changes,
        wake_up_cost,
        bytes_estimated,
        asked: Request::default(),
        labels: request
            .labels
            .iter()
            .map(|label| (label.name.clone(), label.text.clone()))
            .collect(),
        defaults: Vec::new(),
        warnings,
    };
    plan.asked = request.not_in(&plan);
    Ok(plan)
}

/// Returns the CPUs that the measuring threads' control group allows.
fn of_probes(request: &Request, own: &Processors, root: &Root) -> Result<Processors, PlanError> {
    let Some(folder) = &request.probe_cgroup else {
        return Ok(own.clone());
    };
    let of_group = groups::within(folder, || Processors::read(root));
    of_group
        .map_err(|error| PlanError::ProbeGroup {
            folder: folder.clone(),
            error,
        })?
        .map_err(PlanError::NoProcessors)
}

/// Returns the CPUs that the loads' control group allows.
fn of_loads(request: &Request, own: &Processors) -> Result<Processors, PlanError> {
    let Some(folder) = &request.load_cgroup else {
        return Ok(own.clone());
    };
    if !folder.join("cgroup.procs").is_file() {
        return Err(PlanError::LoadGroup(folder.clone()));
    }
    let usable = groups::cpuset(folder).unwrap_or_else(|| own.usable.clone());
    Ok(Processors {
        isolated: own.isolated.and(&usable),
        nohz_full: own.nohz_full.and(&usable),
        usable,
        own: own.own.clone(),
    })
}

type Probe = (&'static ProbeInfo, ProbePlan);

fn probes_of(scenario: &Scenario) -> Result<Vec<Probe>, PlanError> {
    let mut probes: Vec<Probe> = Vec::new();
    let host = Host::of_this_machine();
    for asked in &scenario.probes {
        let (info, mut plan) = asked.plan();
        if info.is_single && probes.iter().any(|(other, _)| other.name == info.name) {
            return Err(PlanError::ProbeTwice {
                name: info.name.to_owned(),
            });
        }
        name_apart(&mut plan, &probes)?;
        info.check_clocks(plan.clocks)
            .map_err(|reason| PlanError::ProbeRefused {
                probe: asked.spec.to_string(),
                reason,
            })?;
        (info.resolve)(&plan, &host).map_err(|refusal| match refusal {
            Refusal::Absent(Unsupported { missing, remedy }) => PlanError::ProbeAbsent {
                probe: asked.spec.to_string(),
                missing,
                remedy,
            },
            Refusal::Request(reason) => PlanError::ProbeRefused {
                probe: asked.spec.to_string(),
                reason,
            },
        })?;
        probes.push((info, plan));
    }
    Ok(probes)
}

/// Ensures that the name of a probe is unique. If the user gave the name, refuses it if another
/// probe has the same name or if it is a kind of probe. If the user gave no name, the probe's kind
/// is its name. If another probe already has this name, adds a number to it.
fn name_apart(plan: &mut ProbePlan, before: &[Probe]) -> Result<(), PlanError> {
    let is_taken = |name: &str| before.iter().any(|(_, other)| other.name == name);
    if plan.kind.is_some()
        && (is_taken(&plan.name) || tardy_probes::probe::find(&plan.name).is_some())
    {
        return Err(PlanError::SameName {
            name: plan.name.clone(),
        });
    }
    if is_taken(&plan.name) {
        let kind = plan.name.clone();
        // There are fewer probes than numbers, so the search always finds a free name.
        plan.name = (2..)
            .map(|number| format!("{kind}-{number}"))
            .find(|name| !is_taken(name))
            .unwrap_or_default();
        plan.kind = Some(kind);
    }
    Ok(())
}

/// Tries to set the probe's scheduling policy on a separate thread. Returns a warning if the kernel
/// refuses it.
fn without_rights(probe: &ProbePlan) -> Option<std::io::Result<Warning>> {
    let priority = probe.priority?;
    let (policy, name) = match probe.policy {
        PolicyName::Fifo => (sched::Policy::Fifo { priority }, "SCHED_FIFO"),
        PolicyName::Rr => (sched::Policy::RoundRobin { priority }, "SCHED_RR"),
        PolicyName::Other => return None,
    };
    match scoped::apart(|| sched::set_policy(0, policy)) {
        Err(error) => Some(Err(error)),
        Ok(tried) => {
            let error = cgroup::why_no_real_time(&Root::system(), &tried.err()?);
            Some(Ok(Warning::NoRealTimePolicy {
                policy: format!("{name} {priority}"),
                error,
            }))
        }
    }
}

/// Returns a warning if probes on the same CPU have the same policy and priority, because such
/// probes wait for each other when they are due together.
fn sharing(probes: &[Probe]) -> Option<Warning> {
    let of_one = probes.iter().map(|(_, plan)| {
        let meet = |other: &ProbePlan| match (&other.cpus, &plan.cpus) {
            (Some(one), Some(another)) => !one.and(another).is_empty(),
            _ => true,
        };
        let is_like = |(_, other): &&Probe| {
            (other.policy, other.priority) == (plan.policy, plan.priority) && meet(other)
        };
        probes
            .iter()
            .filter(is_like)
            .map(|(_, plan)| plan.name.clone())
            .collect::<Vec<_>>()
    });
    of_one
        .max_by_key(Vec::len)
        .filter(|names| names.len() > 1)
        .map(|probes| Warning::ProbesShareCpus { probes })
}

/// Returns a warning about due times on CLOCK_TAI if the kernel's TAI offset is not set.
fn without_tai(probes: &[Probe]) -> Option<Warning> {
    let asks = |(_, plan): &Probe| {
        plan.clocks.timer == SystemClock::Tai || plan.clocks.align == Some(SystemClock::Tai)
    };
    (probes.iter().any(asks) && clock::tai_offset() == 0).then(|| Warning::Problem {
        text: "CLOCK_TAI shows UTC here, because the kernel's TAI offset (37 s since 2017) is not \
               set. Due times are aligned to UTC, which is the same as TAI only for periods that \
               divide a second. Set the offset with chrony (leapsectz), ntpd, or ptp4l with phc2sys"
            .to_owned(),
    })
}

/// For each probe that the user limits to some CPUs, checks that its CPUs can be chosen, and that
/// these CPUs are measured.
fn check_cpus(probes: &[Probe], measured: &CpuList) -> Result<(), PlanError> {
    for (info, plan) in probes {
        let Some(cpus) = &plan.cpus else { continue };
        if !matches!(info.placement, Placement::EachCpu | Placement::FirstCpu) {
            return Err(PlanError::NotBoundToCpus {
                probe: plan.name.clone(),
            });
        }
        let others = cpus.minus(measured);
        if !others.is_empty() {
            return Err(PlanError::NotMeasured {
                probe: plan.name.clone(),
                cpus: others,
            });
        }
    }
    Ok(())
}

fn check_periods(probes: &[Probe], length: Nanos) -> Result<(), PlanError> {
    for (_, probe) in probes.iter().filter(|(info, _)| info.has_period()) {
        let (period, dither) = (probe.period, probe.dither);
        if period > length {
            return Err(PlanError::PeriodTooLong { period, length });
        }
        if dither.saturating_add(dither) > period {
            return Err(PlanError::DitherTooWide { dither, period });
        }
        if let Some(offset) = probe.offset.filter(|offset| *offset >= period) {
            return Err(PlanError::OffsetTooLong {
                probe: probe.name.clone(),
                offset,
                period,
            });
        }
    }
    Ok(())
}

fn load_cpus(
    request: &Request,
    measured: &CpuList,
    processors: &Processors,
) -> Result<CpuList, PlanError> {
    let usable = &processors.usable;
    let cpus = match &request.load_cpus {
        None => processors.housekeeping(),
        Some(LoadCpus::Measured) => measured.clone(),
        Some(LoadCpus::Other) => usable.minus(measured),
        Some(LoadCpus::All) => usable.clone(),
        Some(LoadCpus::List(list)) => list.clone(),
    };
    match cpus.minus(usable).iter().next() {
        Some(missing) => Err(PlanError::UnknownLoadCpu {
            missing,
            usable: usable.clone(),
        }),
        None if cpus.is_empty() => Err(PlanError::NoLoadCpu),
        None => Ok(cpus),
    }
}

fn measured_cpus(request: &Request, processors: &Processors) -> Result<CpuList, PlanError> {
    let usable = &processors.usable;
    let asked = match &request.cpus {
        None => return Ok(processors.by_default()),
        Some(MeasuredCpus::All) => return Ok(usable.clone()),
        Some(MeasuredCpus::Housekeeping) => return Ok(processors.housekeeping()),
        Some(MeasuredCpus::Isolated) => Some(processors.set_apart())
            .filter(|cpus| !cpus.is_empty())
            .ok_or(PlanError::NoIsolatedCpu)?,
        Some(MeasuredCpus::List(list)) => list.clone(),
    };
    if asked.is_empty() {
        return Err(PlanError::NoCpu {
            usable: usable.clone(),
        });
    }
    match asked.minus(usable).iter().next() {
        Some(missing) => Err(PlanError::UnknownCpu {
            asked,
            missing,
            usable: usable.clone(),
        }),
        None => Ok(asked),
    }
}

/// Returns a note about isolated CPUs if they matter to the run.
fn isolation(
    request: &Request,
    measured: &CpuList,
    tool: &CpuList,
    processors: &Processors,
) -> Option<Warning> {
    let isolated = processors.set_apart();
    let is_told =
        !isolated.is_empty() && (request.cpus.is_none() || !measured.and(&isolated).is_empty());
    is_told.then(|| Warning::IsolatedCpus {
        isolated,
        measured: measured.clone(),
        others: tool.clone(),
    })
}

/// Returns the instances of all probes. Their start times are random unless the request sets them,
/// so that the instances do not run in step with each other or with the tick.
fn threads_of(
    request: &Request,
    cycles: Option<u64>,
    probes: &[Probe],
    measured: &CpuList,
    seed: u64,
) -> Vec<ThreadEntry> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let copies = |count: u64| {
        (0..u32::try_from(count).unwrap_or(u32::MAX))
            .map(|copy| (None, Some(copy)))
            .collect::<Vec<_>>()
    };
    let places_of = |(info, probe): &Probe| match info.placement {
        Placement::EachCpu => probe
            .cpus
            .as_ref()
            .unwrap_or(measured)
            .iter()
            .map(|cpu| (Some(cpu), None))
            .collect(),
        Placement::FirstCpu => probe
            .cpus
            .as_ref()
            .unwrap_or(measured)
            .iter()
            .take(1)
            .map(|cpu| (Some(cpu), None))
            .collect(),
        Placement::Copies => copies(probe.parameters.number("copies")),
        Placement::Unbound => vec![(None, None)],
        Placement::CopyACpu => copies(measured.len() as u64),
    };
    let places: Vec<_> = probes
        .iter()
        .flat_map(|probe| {
            places_of(probe)
                .into_iter()
                .map(move |place| (probe, place))
        })
        .collect();
    let count = places.len() as i64;
    places
        .into_iter()
        .enumerate()
        .map(|(index, ((info, probe), (cpu, copy)))| {
            let slot = (probe.period.get() / count).max(1);
            let drawn = (slot * index as i64 + random.random_range(0..slot)) % probe.period.get();
            let coincide = request.aligned || probe.clocks.align.is_some();
            let start = probe
                .offset
                .unwrap_or(if coincide { Nanos::ZERO } else { Nanos(drawn) });
            let schedule = info.schedule(probe.period, start, probe.dither);
            let clocks = ThreadClocks::planned(probe.clocks);
            let plan = ThreadPlan {
                cpu,
                copy,
                schedule,
                seed: random.random(),
                cycles,
                stop_above: request.stops_above(),
                clocks,
            };
            ThreadEntry {
                probe: probe.name.clone(),
                plan,
            }
        })
        .collect()
}

fn bytes_needed(
    keep: KeptSamples,
    probes: &[Probe],
    threads: &[ThreadEntry],
    length: Nanos,
) -> u64 {
    let samples_of = |thread: &ThreadEntry| {
        let of_probe = probes.iter().find(|(_, plan)| plan.name == thread.probe);
        of_probe.map_or(0.0, |(info, probe)| {
            info.series.len() as f64 * length.get() as f64 / probe.period.get() as f64
        })
    };
    let samples: f64 = threads.iter().map(samples_of).sum();
    let stored = match keep {
        KeptSamples::All => samples * BYTES_A_SAMPLE,
        KeptSamples::Tail(_) => samples * BYTES_A_SAMPLE / 100.0,
        KeptSamples::Histogram => 0.0,
    };
    BYTES_A_RUN + BYTES_A_SERIES * threads.len() as u64 + stored as u64
}

/// Returns the disk budget of `--disk`, if the run fits into it.
fn check_disk(
    disk: u64,
    request: &Request,
    probes: &[Probe],
    threads: &[ThreadEntry],
) -> Result<u64, PlanError> {
    if request.on_threshold.contains(&ThresholdAction::Trace) {
        return Err(PlanError::DiskWithTrace);
    }
    let of = |thread: &ThreadEntry| {
        probes
            .iter()
            .find(|(_, plan)| plan.name == thread.probe)
            .map_or(1, |(info, _)| info.series.len())
    };
    let series = threads.iter().map(of).sum();
    let mut of_samples = disk;
    if request.explain != ExplainLevel::Off {
        // Explanations get a share of the budget, and samples get the rest. The rest is enough for
        // the samples if the budget is at least the minimum for explained runs. After this check,
        // the check of the rest below therefore cannot fail.
        let least = Plan::disk_least_explained(series);
        if disk < least {
            return Err(PlanError::DiskTooSmall { disk, least });
        }
        of_samples -= Plan::share_of_explanations(disk);
    }
    match DiskDivision::of(of_samples, series) {
        Ok(_) => Ok(disk),
        Err(least) => Err(PlanError::DiskTooSmall { disk, least }),
    }
}

fn check_folders(
    request: &Request,
    out: &Path,
    needed: u64,
    needed_least: u64,
) -> Result<(), PlanError> {
    match std::fs::symlink_metadata(out) {
        Ok(_) if request.resume => {}
        Ok(_) => return Err(PlanError::OutExists(out.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(PlanError::OutUnwritable {
                path: out.to_owned(),
                error,
            });
        }
    }
    if let Some(spool) = request.spool.as_ref().filter(|spool| !spool.is_dir()) {
        return Err(PlanError::NoSpool(spool.clone()));
    }
    for folder in std::iter::once(nearest_existing(out)).chain(request.spool.clone()) {
        let Ok(room) = disk::room(&folder) else {
            continue;
        };
        let left = room.reserve();
        if room.free < needed.saturating_add(left) {
            let helps = room.free >= needed_least.saturating_add(left);
            return Err(PlanError::NoRoom {
                needed,
                left,
                free: room.free,
                least: helps.then_some(needed_least),
                folder,
            });
        }
    }
    Ok(())
}

fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors()
        .find(|ancestor| ancestor.is_dir())
        .map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn check_wake_up_cost(
    request: &Request,
    probes: &[Probe],
    measured: &CpuList,
    is_cpu_left: bool,
) -> Result<Option<Nanos>, PlanError> {
    let Some((_, shortest)) = probes
        .iter()
        .filter(|(info, _)| info.has_period())
        .min_by_key(|(_, probe)| probe.period)
    else {
        return Ok(None);
    };
    let (period, Some(cpu)) = (shortest.period, measured.iter().next()) else {
        return Ok(None);
    };
    if period >= wake_up_cost::PERIOD_UNCALIBRATED_MIN {
        return Ok(None);
    }
    let cost = wake_up_cost::wake_up_cost(cpu, shortest.policy.policy(shortest.priority))
        .unwrap_or_default();
    if period >= cost * wake_up_cost::COSTS_A_PERIOD_MIN {
        return Ok(Some(cost));
    }
    match (request.force, is_cpu_left) {
        (false, _) => Err(PlanError::PeriodTooShort { period, cost }),
        (true, false) => Err(PlanError::ForceNeedsCpu { period }),
        (true, true) => Ok(Some(cost)),
    }
}

fn changes_of(
    request: &Request,
    measured: &CpuList,
    housekeeping: &CpuList,
    root: &Root,
) -> (Vec<Change>, Vec<Warning>) {
    let mut changes = Vec::new();
    let mut warnings = Vec::new();
    if let (CpuDmaLatency::Micros(value_us), None) =
        (request.cpu_dma_latency, request.resume_latency)
    {
        match CpuLatencyRequest::is_allowed(root) {
            Ok(()) => changes.push(Change::CpuDmaLatency { value_us }),
            Err(error) => warnings.push(Warning::CpuLatencyNotSet {
                error: error.to_string(),
            }),
        }
    }
    if request.move_irqs {
        let plan = IrqPlan::new(&irq_affinity::read(root), measured, housekeeping);
        changes.extend(plan.moves.into_iter().map(|to| Change::Interrupt { to }));
        if !plan.staying.is_empty() {
            let interrupts: Vec<String> = plan
                .staying
                .iter()
                .map(|staying| staying.irq.to_string())
                .collect();
            let error = plan.staying[0].reason.to_string();
            warnings.push(Warning::InterruptsNotMoved {
                interrupts: interrupts.join(", "),
                error,
            });
        }
    }
    (changes, warnings)
}
