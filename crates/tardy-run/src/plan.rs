//! The plan of a run, as a value: stored in its folder, and the same for a guest, a board over SSH
//! and this machine.
//!
//! A probe's name is the name of its series; its kind identifies the probe. Several of one kind run
//! side by side, and readers distinguish them without a new key. Names have no dots, because a dot
//! separates a probe's name from its parts.

pub mod request;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::Warning;
use tardy_machine::irq_affinity::IrqMove;
use tardy_machine::undo::Undo;

use tardy_sys::sched;

use self::request::Request;
use crate::device_writes::{self, DeviceWrites};
use crate::keep::KeptSamples;
use crate::parameter::Values;
use crate::system_clock::{ProbeClocks, ThreadClocks};
use crate::threshold::ThresholdAction;
use crate::tracing::ExplainLevel;

/// Name of a responder's probe and series, and of its run's scenario.
pub const RESPOND: &str = "respond";
/// Planned length of the last phase of an endless run, 100 years: additions of lengths and times
/// keep working, and no run reaches it.
pub const UNTIL_STOPPED_LENGTH: Nanos = Nanos::from_secs(100 * 365 * 86_400);
/// The period for which an endless run states its amounts: bytes on the disk, and bytes that loads
/// write.
pub const UNTIL_STOPPED_PART: Nanos = Nanos::from_secs(3600);
/// Name of the scenario that flags make.
pub const FLAGS: &str = "flags";

/// The source of a scenario, and how to request it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The flags of `tardy run`.
    Flags,
    /// A built-in scenario, by its name.
    BuiltIn,
    /// The file in [`Plan::scenario_file`].
    File,
    /// `tardy respond`.
    Responder,
}

/// The plan of a run. Serialisable: a guest, a board over SSH and this machine take the same plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the scenario.
    pub scenario: String,
    /// The source of the scenario; absent in plans of older tools, see [`Plan::origin`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Its file, as given; absent for built-in scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_file: Option<PathBuf>,
    /// Whether phases come in random order, so that loads can be ranked.
    pub is_shuffled: bool,
    /// How long probes run before the first phase.
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// The probes, each on every measured CPU.
    pub probes: Vec<ProbePlan>,
    /// The measuring threads; start times of grids are offsets from the start of the run.
    pub threads: Vec<ThreadEntry>,
    /// CPUs to measure.
    pub measured_cpus: CpuList,
    /// CPUs for the tool's own threads; the measured ones if no other is left.
    #[serde(rename = "tool_cpus")]
    pub housekeeping_cpus: CpuList,
    /// Phases in their order.
    pub phases: Vec<PhasePlan>,
    /// Cycles after which each thread ends by itself: if the only phase is counted in them, and has
    /// no load.
    pub cycles: Option<u64>,
    /// Whether the run lasts until the user stops it: the length of the last phase is then
    /// meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_stopped: bool,
    /// Allowed latencies.
    pub window: Option<Window>,
    /// Share of samples that may miss.
    pub misses_allowed: Option<f64>,
    /// How many periods may be skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_allowed: Option<u64>,
    /// Samples to store.
    pub keep: KeptSamples,
    /// Disk budget of the run's folder in bytes; beyond it, the oldest samples are folded into
    /// hourly histograms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Folder in memory to write to while measuring.
    pub spool: Option<PathBuf>,
    /// Wake-up latency in us to request from power management; absent to leave it.
    pub cpu_dma_latency_us: Option<i32>,
    /// Replaces it by a request for the measured CPUs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_latency_us: Option<u32>,
    /// Control group of the measuring threads; by default that of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_cgroup: Option<PathBuf>,
    /// Control group of the loads; by default that of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_cgroup: Option<PathBuf>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether due times of all CPUs coincide.
    pub aligned: bool,
    /// Latency that stops the run.
    #[serde(rename = "stop_above_ns")]
    pub stop_above: Option<Nanos>,
    /// Whether a stop also switches off the kernel's tracing.
    pub tracing_off: bool,
    /// The actions at that latency; if empty, the run only stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_threshold: Vec<ThresholdAction>,
    /// The amount of kernel tracing that explains samples.
    #[serde(default, skip_serializing_if = "ExplainLevel::is_off")]
    pub explain: ExplainLevel,
    /// Whether the whole trace is stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_trace: bool,
    /// Settings of the machine that are changed for the run, with their old values.
    pub changes: Vec<Change>,
    /// The cost of one wake-up here; absent if the period is long enough on any machine.
    #[serde(rename = "wake_up_cost_ns")]
    pub wake_up_cost: Option<Nanos>,
    /// Bytes that the run will take, at most about this; in an hour, if it has no end.
    pub bytes_estimated: u64,
    /// The user's labels of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Options as the user gave them, by name, if no other field has their values.
    #[serde(default, skip_serializing_if = "Request::is_empty")]
    pub asked: Request,
    /// Defaults that come from files of the machine or the user, a sentence a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<String>,
    /// Shortcomings that are known before the start.
    pub warnings: Vec<Warning>,
}

impl Plan {
    /// Returns one line per device with the bytes that the loads write to it, so that a user can
    /// spare the device.
    #[must_use]
    pub fn device_writes(&self) -> Vec<String> {
        let length = |phase: &PhasePlan| {
            if self.until_stopped {
                phase.length.min(UNTIL_STOPPED_PART)
            } else {
                phase.length
            }
        };
        let lines = device_writes::lines(self.phases.iter().flat_map(|phase| {
            phase
                .loads
                .iter()
                .filter_map(move |load| load.writes_for(length(phase)))
        }));
        lines
            .into_iter()
            .map(|line| {
                if self.until_stopped {
                    format!("in an hour {line}")
                } else {
                    line
                }
            })
            .collect()
    }

    /// Returns the source of the scenario. An older tool's plan has only its name, which a user's
    /// file may have too: the file has priority.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
            .unwrap_or(match (&self.scenario_file, self.scenario.as_str()) {
                (Some(_), _) => Origin::File,
                (None, FLAGS) => Origin::Flags,
                (None, RESPOND) => Origin::Responder,
                (None, _) => Origin::BuiltIn,
            })
    }

    /// Returns the requirement that the run must meet.
    #[must_use]
    pub fn requirement(&self) -> Requirement {
        Requirement {
            window: self.window,
            misses_allowed: self.misses_allowed,
            skipped_allowed: self.skipped_allowed,
        }
    }

    /// A plan of a run that probes nothing: of costs, or of another tool's results.
    #[must_use]
    pub fn without_probes(scenario: &str, measured: &CpuList, tool: &CpuList) -> Self {
        Self {
            scenario: scenario.to_owned(),
            measured_cpus: measured.clone(),
            housekeeping_cpus: tool.clone(),
            ..Self::default()
        }
    }
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// Its name, like that of its series: the probe's own, or another one if several of a kind run
    /// side by side.
    pub name: String,
    /// The probe's own name, if different; see [`ProbePlan::kind`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Time between two wake-ups, or requested time.
    #[serde(rename = "period_ns")]
    pub period: Nanos,
    /// Widest random move of a due time.
    #[serde(rename = "dither_ns")]
    pub dither: Nanos,
    /// The first due time after the start, if the user gave it; random otherwise.
    #[serde(rename = "offset_ns", default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Nanos>,
    /// Measured CPUs that it is limited to, if the user limited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Clocks of its timer and of its due times.
    #[serde(flatten)]
    pub clocks: ProbeClocks,
    /// Scheduling policy.
    pub policy: PolicyName,
    /// Real-time priority; absent for ordinary tasks.
    pub priority: Option<u32>,
    /// The event that it waits for.
    #[serde(default)]
    pub waits_for: WaitsFor,
    /// Its own parameters, by name.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub parameters: Values,
}

impl ProbePlan {
    /// Returns the kind of probe: its name in `tardy list probes`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or(&self.name)
    }
}

impl std::fmt::Display for ProbePlan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)?;
        if let Some(kind) = &self.kind {
            write!(formatter, " ({kind})")?;
        }
        for (name, value) in self.parameters.iter() {
            write!(formatter, ":{name}={value}")?;
        }
        self.clocks.fmt(formatter)?;
        // The period of an import may be unknown.
        if self.waits_for != WaitsFor::Nothing && self.period > Nanos::ZERO {
            write!(formatter, " every {}", self.period.exact())?;
        }
        if let Some(cpus) = &self.cpus {
            write!(formatter, " on {}", cpus.named())?;
        }
        Ok(())
    }
}

/// The event that a probe waits for, as far as it affects its latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// The probe's own timer, after whose expiry its latencies count.
    #[default]
    Timer,
    /// Another thread, program, machine or device; or a timer that only shows its intervals.
    Event,
    /// No event: it looks for gaps all the time, and has no period.
    Nothing,
}

/// One place of a probe: a measuring thread, or a group of threads that measure together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEntry {
    /// The probe that it belongs to.
    pub probe: String,
    /// The plan of the threads.
    #[serde(flatten)]
    pub plan: ThreadPlan,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhasePlan {
    /// Its name in tables.
    pub name: String,
    /// Its length; if it is counted in cycles, an estimate.
    #[serde(rename = "length_ns")]
    pub length: Nanos,
    /// Minimum number of cycles of each measuring thread in the phase, used instead of the length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Loads of the phase.
    pub loads: Vec<LoadPlan>,
}

/// A setting that is changed for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Holds /dev/cpu_dma_latency open with this value; the kernel withdraws it when the tool ends
    /// in any way.
    CpuDmaLatency {
        /// In us.
        value_us: i32,
    },
    /// Sets the wake-up latency that power management may add on one CPU
    /// (`pm_qos_resume_latency_us`); restored at the end, or by `tardy restore`.
    ResumeLatency {
        /// The CPU's file below /sys.
        path: PathBuf,
        /// The old content.
        old: String,
        /// The new content.
        new: String,
    },
    /// Moves an interrupt; restored at the end, or by `tardy restore`.
    Interrupt {
        /// The old and the new CPUs.
        #[serde(flatten)]
        to: IrqMove,
    },
}

impl Plan {
    /// Returns the share of `--disk` for explanations: a quarter, if there are any.
    #[must_use]
    pub fn disk_of_explanations(&self) -> Option<u64> {
        self.disk
            .filter(|_| self.explain != ExplainLevel::Off)
            .map(Self::share_of_explanations)
    }

    /// Returns the share of explanations in a `--disk` of so many bytes.
    #[must_use]
    pub fn share_of_explanations(disk: u64) -> u64 {
        disk / 4
    }

    /// Returns the minimum `--disk` with which a run of this many series can be explained, in
    /// bytes.
    #[must_use]
    pub fn disk_least_explained(series: usize) -> u64 {
        (series as u64).max(16) << 20
    }

    /// Returns the bytes of `--disk` for all but explanations.
    #[must_use]
    pub fn disk_of_samples(&self) -> Option<u64> {
        let explanations = self.disk_of_explanations().unwrap_or(0);
        self.disk.map(|bytes| bytes - explanations)
    }

    /// Length of the warm-up and all phases.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.phases
            .iter()
            .fold(self.warm_up, |sum, phase| sum.saturating_add(phase.length))
    }

    /// Returns the planned length, or `None` for an endless run.
    #[must_use]
    pub fn planned_length(&self) -> Option<Nanos> {
        (!self.until_stopped).then(|| self.length())
    }

    /// Returns the probe of that name.
    #[must_use]
    pub fn probe(&self, name: &str) -> Option<&ProbePlan> {
        self.probes.iter().find(|probe| probe.name == name)
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CpuDmaLatency { value_us } => write!(
                formatter,
                "/dev/cpu_dma_latency: {value_us} us while the run lasts"
            ),
            Self::ResumeLatency { path, old, new } => write!(
                formatter,
                "{}: {old} -> {new} while the run lasts",
                path.display()
            ),
            Self::Interrupt { to } => write!(
                formatter,
                "{}: {} -> {} while the run lasts",
                to.path.display(),
                to.old,
                to.new
            ),
        }
    }
}

/// The plan of one place of a probe: everything its threads need. Times are offsets from the run's
/// start until [`ThreadPlan::at`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlan {
    /// CPU that is measured; absent for copies that move among the measured ones.
    pub cpu: Option<CpuId>,
    /// Number of the copy, for probes whose copies have no fixed CPU.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copy: Option<u32>,
    /// When samples of the first series are due.
    pub schedule: Schedule,
    /// Seed of the due times' dither.
    pub seed: u64,
    /// Cycles after which the probe ends; until it is stopped if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cycles: Option<u64>,
    /// Latency at which all probes stop; if absent, none stops them.
    #[serde(
        rename = "stop_above_ns",
        skip_serializing_if = "Option::is_none",
        default
    )]
    pub stop_above: Option<Nanos>,
    /// The clocks of its timer and its grid, if one of them is not the run's.
    #[serde(skip_serializing_if = "ThreadClocks::are_plain", default)]
    pub clocks: ThreadClocks,
}

impl ThreadPlan {
    /// Returns the plan with its grid on the clock of a run that starts at `start`.
    #[must_use]
    pub fn at(&self, start: Nanos) -> Self {
        let first = |period, offset| match self.clocks.grid {
            Some(clock) => clock.first_multiple(start, period, offset),
            None => start + offset,
        };
        let schedule = match self.schedule {
            Schedule::Grid {
                period,
                start: offset,
                dither,
            } => Schedule::Grid {
                period,
                start: first(period, offset),
                dither,
            },
            event @ Schedule::Event { .. } => event,
        };
        Self {
            schedule,
            ..self.clone()
        }
    }
}

/// A resolved load; stored in the run and sent to the guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// Its name in events and reports: the request as written, numbered if it was given twice.
    pub label: String,
    /// The load's name.
    pub name: String,
    /// Every parameter that has a value.
    pub parameters: Values,
    /// The CPUs it runs on.
    pub cpus: CpuList,
    /// Whether each CPU has its own worker; otherwise one worker uses them all.
    pub each_cpu: bool,
    /// Its resource limits over all workers.
    pub budget: Budget,
    /// Time to stop on request; after it, the load is killed, and the run reports that.
    pub finish_limit: Nanos,
    /// Path of its named scratch files, for a load that needs names.
    pub scratch: Option<PathBuf>,
    /// The changes it makes to the machine, journaled before the start and undone by the surviving
    /// process.
    pub undo: Vec<Undo>,
    /// Its writes to a device; `None` if it writes to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes: Option<DeviceWrites>,
    /// Differences from the load's description on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How it gets its share of the CPUs among the loads of its phase.
    #[serde(default, skip_serializing_if = "Share::is_of_tasks")]
    pub share: Share,
    /// Number of other loads in its phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside: u32,
}

/// How a load gets its share of the CPUs among others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Each of its tasks has one, like any other task: it is alone, or the kernel offers no
    /// grouping.
    #[default]
    Tasks,
    /// Each of its workers has its own, as a session.
    Session,
    /// Each of its workers has one, as a control group: this path with a dash and the worker's
    /// number.
    Group(PathBuf),
}

impl Share {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_of_tasks(&self) -> bool {
        *self == Self::Tasks
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl LoadPlan {
    /// Returns its device writes in a time, if any, in the form that [`device_writes::lines`]
    /// takes.
    #[must_use]
    pub fn writes_for(&self, length: Nanos) -> Option<(&str, &DeviceWrites, Nanos)> {
        self.device_writes
            .as_ref()
            .map(|writes| (self.label.as_str(), writes, length))
    }

    /// Returns the number of its workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        if self.each_cpu { self.cpus.len() } else { 1 }
    }
}

/// Resource limits of a load over all of its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of scratch files.
    pub disk: u64,
    /// Processes and threads at a time.
    pub processes: u64,
}

/// Scheduling policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// First in, first out, at the priority given
    Fifo,
    /// Like fifo, but tasks of equal priority share the CPU in time slices
    Rr,
    /// An ordinary task
    Other,
}

impl PolicyName {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Rr, Self::Other];

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Rr => "rr",
            Self::Other => "other",
        }
    }

    /// Returns the kernel's policy: `Fifo` and `Rr` need a priority, and are an ordinary task
    /// without one.
    #[must_use]
    pub fn policy(self, priority: Option<u32>) -> sched::Policy {
        match (self, priority) {
            (Self::Fifo, Some(priority)) => sched::Policy::Fifo { priority },
            (Self::Rr, Some(priority)) => sched::Policy::RoundRobin { priority },
            _ => sched::Policy::Other { nice: 0 },
        }
    }
}
