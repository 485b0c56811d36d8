//! Why a request cannot be planned; each message names the flag and the remedy.

use std::io::ErrorKind;
use std::path::PathBuf;

use tardy_core::bytes::format_bytes;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::{Nanos, at_most_three_digits};
use tardy_loads::load::request::RequestError;

use super::wake_up_cost::COSTS_A_PERIOD_MIN;

/// Why a request cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The probe's parameters contradict each other.
    #[error("--probe {probe}: {reason}")]
    ProbeRefused { probe: String, reason: String },
    /// A requested probe cannot run here.
    #[error("--probe {probe} cannot run here, because it needs {missing}: {remedy}")]
    ProbeAbsent {
        probe: String,
        missing: String,
        remedy: String,
    },
    /// A probe is requested twice, although only one probe of its kind can run at a time.
    #[error(
        "--probe {name} is given twice, but a process or machine has only one such timer or \
         device: leave one out"
    )]
    ProbeTwice { name: String },
    /// The request limits the probe to some CPUs, and some of these are not measured.
    #[error("--probe {probe}: CPUs {cpus} are not measured: add them to --cpus, or leave them out")]
    NotMeasured { probe: String, cpus: CpuList },
    /// The request limits the probe to some CPUs, but a user cannot choose the CPUs of this kind of
    /// probe.
    #[error("--probe {probe}: the probe does not run one thread per measured CPU: leave cpus= out")]
    NotBoundToCpus { probe: String },
    /// Two probes have the same name.
    #[error("--probe: two probes are called {name}: give one of them another name=")]
    SameName { name: String },
    /// With this priority, the probe could keep the watchdog from rescuing the machine.
    #[error(
        "--priority 99 is reserved for the watchdog, which could not stop such a probe: use at \
         most 98, or --force with a CPU left out of --cpus"
    )]
    PriorityNeedsForce,
    /// The offset is not shorter than the period.
    #[error("--probe {probe}: an offset of {} is not shorter than the period of {}: use a shorter \
             offset", offset.exact(), period.exact())]
    OffsetTooLong {
        probe: String,
        offset: Nanos,
        period: Nanos,
    },
    /// The load is unknown, or its parameter is invalid.
    #[error("--load: {0}")]
    BadLoad(#[from] RequestError),
    /// A requested load cannot run here.
    #[error("--load {load} cannot run here, because it needs {missing}: {remedy}")]
    LoadAbsent {
        load: String,
        missing: String,
        remedy: String,
    },
    /// The scenario file has a load that the user did not allow.
    #[error(
        "the scenario file starts the load `{load}`, which runs a command or can do harm: give \
         --allow {name} if you trust the file"
    )]
    LoadOfFile { load: String, name: &'static str },
    /// The CPU does not exist, or is not allowed.
    #[error(
        "--cpus {asked}: CPU {missing} is not online or not allowed here: choose from {usable}"
    )]
    UnknownCpu {
        asked: CpuList,
        missing: CpuId,
        usable: CpuList,
    },
    /// The machine has no isolated CPU.
    #[error(
        "--cpus isolated: there are no isolated CPUs, neither by isolcpus= or nohz_full= of the \
         kernel's command line, nor by an isolated partition that --probe-cgroup names: give a \
         list of CPUs, or leave --cpus out"
    )]
    NoIsolatedCpu,
    /// A CPU for loads does not exist, or is not allowed.
    #[error("--load-cpus: CPU {missing} is not online or not allowed here: choose from {usable}")]
    UnknownLoadCpu { missing: CpuId, usable: CpuList },
    #[error(
        "--load-cpus leaves no CPU for the loads: measure fewer CPUs with --cpus, or use \
         --load-cpus all"
    )]
    NoLoadCpu,
    /// The scenario cannot run here, not even in part.
    #[error("--scenario {scenario}: all its loads are missing: `tardy run --dry-run` shows why")]
    NoPhaseLeft { scenario: String },
    /// The list of CPUs is empty.
    #[error("--cpus names no CPU: choose from {usable}")]
    NoCpu { usable: CpuList },
    /// The dither is more than half a period.
    #[error("--dither {} is more than half of --period {}: use at most half", dither.exact(), period.exact())]
    DitherTooWide { dither: Nanos, period: Nanos },
    /// The period is too short for this machine.
    #[error(
        "--period {} is shorter than {COSTS_A_PERIOD_MIN} times the {cost} that a wake-up costs \
         on this machine: use at least {}, or --force with a CPU left out of --cpus",
        period.exact(),
        at_most_three_digits((*cost * COSTS_A_PERIOD_MIN).get() as f64).replace(' ', "")
    )]
    PeriodTooShort { period: Nanos, cost: Nanos },
    /// `--force` is given, but all CPUs are measured, so no CPU is left from which the watchdog can
    /// rescue the machine.
    #[error("--force with --period {} needs a CPU left idle, or the machine may hang: leave a CPU \
             out of --cpus", period.exact())]
    ForceNeedsCpu { period: Nanos },
    /// The period is longer than the run.
    #[error("--period {} is longer than the run of {}, which would take no sample: use a longer --for", period.exact(), length.exact())]
    PeriodTooLong { period: Nanos, length: Nanos },
    /// The file system of the run's folder has too little space.
    #[error(
        "--out: the run needs about {:.1} MB, {:.1} MB must stay free, and {} has {:.1} MB left: \
         {}",
        *needed as f64 / 1e6,
        *left as f64 / 1e6,
        folder.display(),
        *free as f64 / 1e6,
        least.map_or_else(|| "use another folder".to_owned(), |least| format!(
            "use --keep histogram (about {:.1} MB), a longer --period, or another folder",
            least as f64 / 1e6
        ))
    )]
    NoRoom {
        needed: u64,
        /// Space that must stay free on this file system, in bytes.
        left: u64,
        free: u64,
        /// Space needed if the run stores only histograms, in bytes; absent if even that does not
        /// fit.
        least: Option<u64>,
        folder: PathBuf,
    },
    /// The disk budget is smaller than the minimum for this run.
    #[error("--disk {} is too small for this run: give at least {}, or measure fewer CPUs", format_bytes(*disk), format_bytes(least.next_multiple_of(1 << 20)))]
    DiskTooSmall { disk: u64, least: u64 },
    /// The disk budget cannot bound the trace of `--on-threshold trace`.
    #[error(
        "--disk cannot limit the size of the trace that --on-threshold trace keeps: leave out one \
         of the two options"
    )]
    DiskWithTrace,
    /// The run's folder exists already.
    #[error("--out {} exists already, and a run is never overwritten: give another folder, or remove it", .0.display())]
    OutExists(PathBuf),
    /// The run's folder cannot be made.
    #[error("--out {}: {error}: give another folder", path.display())]
    OutUnwritable {
        path: PathBuf,
        error: std::io::Error,
    },
    /// The spool folder does not exist.
    #[error("--spool {} is not a folder: make it first", .0.display())]
    NoSpool(PathBuf),
    /// The group is not a control group for threads of this process.
    #[error(
        "--probe-cgroup {}: a measuring thread cannot join it ({error}): give a threaded group \
         below the tool's own (cgroup.type), or a group of cgroup v1",
        folder.display()
    )]
    ProbeGroup {
        folder: PathBuf,
        error: std::io::Error,
    },
    /// The thread that tests a policy could not be started.
    #[error("tardy cannot test the probes' scheduling policy: {0}")]
    NoThread(std::io::Error),
    /// The control group for loads does not exist.
    #[error("--load-cgroup {} is not a control group: it has no file cgroup.procs", .0.display())]
    LoadGroup(PathBuf),
    /// The kernel has no C-state limit for single CPUs.
    #[error(
        "--resume-latency: {error}: this kernel's CPUs have no pm_qos_resume_latency_us; use \
         --cpu-dma-latency"
    )]
    NoResumeLatency { error: std::io::Error },
    /// The machine does not report its CPUs.
    #[error("cannot list the CPUs ({0}): make sure that /proc is mounted")]
    NoProcessors(std::io::Error),
}

impl PlanError {
    /// Returns true if the machine does not meet a requirement, and false if the request itself is
    /// wrong.
    #[must_use]
    pub fn is_unsupported_here(&self) -> bool {
        matches!(
            self,
            Self::ProbeAbsent { .. }
                | Self::LoadAbsent { .. }
                | Self::NoPhaseLeft { .. }
                | Self::NoProcessors(_)
                | Self::NoIsolatedCpu
                | Self::ProbeGroup { .. }
                | Self::NoThread(_)
                | Self::NoResumeLatency { .. }
                | Self::NoRoom { .. }
        ) || matches!(
            self,
            // An invalid file name is a fault of the request, because no file system would accept
            // it.
            Self::OutUnwritable { error, .. } if error.kind() != ErrorKind::InvalidFilename
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_small_disk_needs_the_space_that_it_names() {
        let error = PlanError::NoRoom {
            needed: 72_000_000,
            left: 1_000_000,
            free: 19_000_000,
            least: Some(1_200_000),
            folder: PathBuf::from("disk"),
        };
        assert!(
            error
                .to_string()
                .contains(": use --keep histogram (about 1.2 MB), "),
            "{error}"
        );
    }
}
