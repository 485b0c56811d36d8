//! The plan of a run. It is stored in the run's folder, and has the same form whether the run is on
//! this machine, in a guest, or on a board over SSH.
//!
//! Each probe has a `kind`, such as `cyclic`, and a `name`, which is also the name of its series.
//! Probes of one kind can run side by side, because they have different names. A name contains no
//! dots, because a dot separates a probe's name from its parts.

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

/// Name of the probe of a responder; the series and the scenario of the run have the same name.
pub const RESPOND: &str = "respond";
/// Planned length of the last phase of an endless run: 100 years. No run lasts that long, and
/// adding other times to this length does not overflow.
pub const UNTIL_STOPPED_LENGTH: Nanos = Nanos::from_secs(100 * 365 * 86_400);
/// For an endless run, tardy estimates how much will be written in this time, both to the run's
/// folder and by the loads.
pub const UNTIL_STOPPED_PART: Nanos = Nanos::from_secs(3600);
/// Name of the scenario that is defined by flags.
pub const FLAGS: &str = "flags";

/// Where a scenario comes from. This also determines which options request the scenario again.
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

/// The plan of a run. The plan can be serialised, because it must also reach guests and boards over
/// SSH.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the scenario.
    pub scenario: String,
    /// Where the scenario comes from; absent in plans of older tools: see [`Plan::origin`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Path of the scenario's file, as given; absent for built-in scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_file: Option<PathBuf>,
    /// Whether phases come in random order, so that loads can be ranked.
    pub is_shuffled: bool,
    /// How long probes run before the first phase.
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// The probes.
    pub probes: Vec<ProbePlan>,
    /// The measuring threads. Start times of grids are offsets from the start of the run.
    pub threads: Vec<ThreadEntry>,
    /// CPUs to measure.
    pub measured_cpus: CpuList,
    /// CPUs for the tool's own threads. If all CPUs are measured, the tool's threads also run on
    /// measured CPUs.
    #[serde(rename = "tool_cpus")]
    pub housekeeping_cpus: CpuList,
    /// The phases in their order.
    pub phases: Vec<PhasePlan>,
    /// Number of cycles after which each thread ends by itself. Only set if the run has a single
    /// phase, which is counted in cycles and has no load.
    pub cycles: Option<u64>,
    /// Whether the run lasts until the user stops it. The length of the last phase is then
    /// meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_stopped: bool,
    /// Allowed latencies of the run.
    pub window: Option<Window>,
    /// Share of samples whose latencies may lie outside the window.
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
    /// Folder in memory to which the run is written while it is measured.
    pub spool: Option<PathBuf>,
    /// Maximum C-state exit latency in us to request from power management; absent if none is
    /// requested.
    pub cpu_dma_latency_us: Option<i32>,
    /// Maximum C-state exit latency in us to request for the measured CPUs only, instead of
    /// `cpu_dma_latency_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_latency_us: Option<u32>,
    /// Control group of the measuring threads; absent for the tool's own group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_cgroup: Option<PathBuf>,
    /// Control group of the loads; absent for the tool's own group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_cgroup: Option<PathBuf>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Whether the due times of all CPUs coincide.
    pub aligned: bool,
    /// Latency above which the run stops.
    #[serde(rename = "stop_above_ns")]
    pub stop_above: Option<Nanos>,
    /// Whether the kernel's tracing is also switched off when a latency stops the run.
    pub tracing_off: bool,
    /// What to do at a latency above the threshold. If the list is empty, the run only stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_threshold: Vec<ThresholdAction>,
    /// How much the kernel's trace records to explain samples.
    #[serde(default, skip_serializing_if = "ExplainLevel::is_off")]
    pub explain: ExplainLevel,
    /// Whether the whole trace is stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_trace: bool,
    /// Settings of the machine that are changed for the run, with their old values.
    pub changes: Vec<Change>,
    /// CPU time of one wake-up on this machine; absent if it was not measured, because the period
    /// is long enough for any machine.
    #[serde(rename = "wake_up_cost_ns")]
    pub wake_up_cost: Option<Nanos>,
    /// Approximate maximum number of bytes that the run's folder will take. For an endless run, the
    /// number is in bytes per hour.
    pub bytes_estimated: u64,
    /// The user's labels of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Options as the user gave them, for options whose values are in no other field.
    #[serde(default, skip_serializing_if = "Request::is_empty")]
    pub asked: Request,
    /// Defaults that were read from files of the machine or the user, with a sentence for each
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<String>,
    /// Warnings about the run that are known before the start.
    pub warnings: Vec<Warning>,
}

impl Plan {
    /// Returns one line per device with the number of bytes that the loads write to it, so that the
    /// user can decide to spare the device.
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
                    format!("per hour: {line}")
                } else {
                    line
                }
            })
            .collect()
    }

    /// Returns where the scenario comes from. The plan of an older tool has only the scenario's
    /// name. If the plan also has the path of a file, the file is used, because a user's file may
    /// have the name of a built-in scenario.
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

    /// Returns the plan of a run that has no probes, because it measures costs or contains another
    /// tool's results.
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
    /// Name of the probe, which is also the name of its series. If several probes of a kind run
    /// side by side, the name differs from the kind.
    pub name: String,
    /// Kind of the probe, if it differs from the name; see [`ProbePlan::kind`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Time between two wake-ups, or the requested sleep time.
    #[serde(rename = "period_ns")]
    pub period: Nanos,
    /// Maximum random shift of a due time.
    #[serde(rename = "dither_ns")]
    pub dither: Nanos,
    /// The first due time, relative to the start of the run; absent if the user did not give it.
    #[serde(rename = "offset_ns", default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Nanos>,
    /// The CPUs on which the probe runs, if the user limited it to some of the measured CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Clocks of the probe's timer and of its due times.
    #[serde(flatten)]
    pub clocks: ProbeClocks,
    /// Scheduling policy.
    pub policy: PolicyName,
    /// Real-time priority; absent for the policy `other`.
    pub priority: Option<u32>,
    /// What the probe waits for.
    #[serde(default)]
    pub waits_for: WaitsFor,
    /// The probe's own parameters, by name.
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
        // For imported samples, the period may be unknown.
        if self.waits_for != WaitsFor::Nothing && self.period > Nanos::ZERO {
            write!(formatter, " every {}", self.period.exact())?;
        }
        if let Some(cpus) = &self.cpus {
            write!(formatter, " on {}", cpus.named())?;
        }
        Ok(())
    }
}

/// What a probe waits for, as far as this affects the probe's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// The probe's own timer. Latencies are measured from the timer's expiry.
    #[default]
    Timer,
    /// Another thread, program, machine or device; or a timer with known intervals but unknown due
    /// times.
    Event,
    /// Nothing: the probe looks for gaps continuously, and has no period.
    Nothing,
}

/// One instance of a probe: a measuring thread, or a group of threads that measure together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEntry {
    /// Name of the probe.
    pub probe: String,
    /// The plan of the instance's threads.
    #[serde(flatten)]
    pub plan: ThreadPlan,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhasePlan {
    /// Name of the phase in tables.
    pub name: String,
    /// Length of the phase. If the phase is counted in cycles, this length is an estimate.
    #[serde(rename = "length_ns")]
    pub length: Nanos,
    /// If the phase is counted in cycles: it lasts until each measuring thread has completed this
    /// number of cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Loads of the phase.
    pub loads: Vec<LoadPlan>,
}

/// A setting that is changed for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Holds /dev/cpu_dma_latency open with this value. The kernel withdraws the value when the
    /// tool ends, no matter how it ends.
    CpuDmaLatency {
        /// The value in us.
        value_us: i32,
    },
    /// Sets the maximum C-state exit latency of one CPU (`pm_qos_resume_latency_us`). Restored at
    /// the end, or by `tardy restore`.
    ResumeLatency {
        /// The CPU's file below /sys.
        path: PathBuf,
        /// The old content.
        old: String,
        /// The new content.
        new: String,
    },
    /// Moves an interrupt to other CPUs. Restored at the end, or by `tardy restore`.
    Interrupt {
        /// The old and the new CPUs.
        #[serde(flatten)]
        to: IrqMove,
    },
}

impl Plan {
    /// Returns how much of the disk budget is reserved for explanations: a quarter, if the run
    /// explains samples.
    #[must_use]
    pub fn disk_of_explanations(&self) -> Option<u64> {
        self.disk
            .filter(|_| self.explain != ExplainLevel::Off)
            .map(Self::share_of_explanations)
    }

    /// Returns how many bytes of a disk budget of `disk` bytes are reserved for explanations.
    #[must_use]
    pub fn share_of_explanations(disk: u64) -> u64 {
        disk / 4
    }

    /// Returns the minimum disk budget, in bytes, that a run of this many series needs if its
    /// samples are explained.
    #[must_use]
    pub fn disk_least_explained(series: usize) -> u64 {
        (series as u64).max(16) << 20
    }

    /// Returns how much of the disk budget is not reserved for explanations.
    #[must_use]
    pub fn disk_of_samples(&self) -> Option<u64> {
        let explanations = self.disk_of_explanations().unwrap_or(0);
        self.disk.map(|bytes| bytes - explanations)
    }

    /// Returns the length of the warm-up and all phases together.
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

    /// Returns the probe with this name.
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

/// The plan of one instance of a probe, with everything that its threads need. The times are
/// offsets from the run's start; [`ThreadPlan::at`] converts them to times on the run's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlan {
    /// CPU to measure; absent for copies whose threads move among the measured CPUs.
    pub cpu: Option<CpuId>,
    /// Number of the copy, for probes whose copies have no fixed CPU.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copy: Option<u32>,
    /// Schedule of the first series: when its samples are due.
    pub schedule: Schedule,
    /// Seed of the random shifts (dither) of the due times.
    pub seed: u64,
    /// Number of cycles after which the probe ends; if absent, the probe runs until it is stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cycles: Option<u64>,
    /// Latency above which all probes stop; absent if no latency stops them.
    #[serde(
        rename = "stop_above_ns",
        skip_serializing_if = "Option::is_none",
        default
    )]
    pub stop_above: Option<Nanos>,
    /// The clocks of the instance's timer and grid, if one of them is not the run's clock.
    #[serde(skip_serializing_if = "ThreadClocks::are_plain", default)]
    pub clocks: ThreadClocks,
}

impl ThreadPlan {
    /// Returns the plan with its times on the clock of a run that starts at `start`.
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

/// A resolved load, which is stored in the run and sent to the guardian (the supervisor of the
/// loads).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// Name of the load in events and reports: the text of the request, with a number if the same
    /// load was requested twice.
    pub label: String,
    /// The load's name.
    pub name: String,
    /// All parameters that have a value.
    pub parameters: Values,
    /// The CPUs that the load may use.
    pub cpus: CpuList,
    /// Whether each CPU has its own worker. Otherwise one worker uses all CPUs.
    pub each_cpu: bool,
    /// Limits on the resources of all workers of the load together.
    pub budget: Budget,
    /// How long the load may take to stop after it was asked to. After this time the load is
    /// killed, and the run reports that.
    pub finish_limit: Nanos,
    /// Path of the load's scratch files, if these files need names.
    pub scratch: Option<PathBuf>,
    /// The changes that the load makes to the machine. The changes are journaled before the start.
    /// The guardian undoes the changes.
    pub undo: Vec<Undo>,
    /// How much the load writes to a device; `None` if it writes to no device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes: Option<DeviceWrites>,
    /// How the load on this machine differs from the load's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How the load gets its share of the CPU time among the loads of its phase.
    #[serde(default, skip_serializing_if = "Share::is_of_tasks")]
    pub share: Share,
    /// Number of other loads in the same phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beside: u32,
}

/// How a load gets its share of the CPU time among other loads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Each task of the load gets the same share of the CPU time as any other task. This is used if
    /// the load is alone in its phase, or if the kernel cannot group tasks.
    #[default]
    Tasks,
    /// Each worker of the load has its own session, and the kernel's autogroup gives the session as
    /// a whole one share.
    Session,
    /// Each worker of the load has its own control group, and each group gets one share. The path
    /// of a group is this path, a dash, and the worker's number.
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
    /// Returns the writes to a device if the load runs for `length`, in the form that
    /// [`device_writes::lines`] accepts. Returns `None` if the load writes to no device.
    #[must_use]
    pub fn writes_for(&self, length: Nanos) -> Option<(&str, &DeviceWrites, Nanos)> {
        self.device_writes
            .as_ref()
            .map(|writes| (self.label.as_str(), writes, length))
    }

    /// Returns the number of the load's workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        if self.each_cpu { self.cpus.len() } else { 1 }
    }
}

/// Limits on the resources of all workers of a load together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of scratch files.
    pub disk: u64,
    /// Number of simultaneous processes and threads.
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
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Rr, Self::Other];

    /// Returns the policy's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Rr => "rr",
            Self::Other => "other",
        }
    }

    /// Returns the kernel's policy. `Fifo` and `Rr` need a priority; if there is none, the policy
    /// of an ordinary task is returned.
    #[must_use]
    pub fn policy(self, priority: Option<u32>) -> sched::Policy {
        match (self, priority) {
            (Self::Fifo, Some(priority)) => sched::Policy::Fifo { priority },
            (Self::Rr, Some(priority)) => sched::Policy::RoundRobin { priority },
            _ => sched::Policy::Other { nice: 0 },
        }
    }
}
