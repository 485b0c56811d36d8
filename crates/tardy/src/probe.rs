//! Probes: the ways to cause a wake-up and time it. One file each; a new probe is one new file and one line in [`PROBES`].

pub mod control;
pub mod cyclic;
pub mod nanosleep;
pub mod schedule;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;

use crate::probe::control::Control;
use crate::record::ring::Producer;

/// What a probe says of itself.
#[derive(Debug)]
pub struct ProbeInfo {
    /// As on the command line and in file names.
    pub name: &'static str,
    /// What is timed, in one sentence.
    pub times: &'static str,
    /// Name of the quantity in tables: `latency`, or `interval error` where no due time is known.
    pub quantity: &'static str,
    /// In which context the timer behind it expires: on stock kernels, and on PREEMPT_RT.
    pub context: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether due times form a grid, so that some can be missed.
    pub has_schedule: bool,
    /// Runs the measuring loop until the control says stop, and closes the ring. Called once in each thread; the loop inside is concrete.
    pub measure: fn(&ThreadPlan, Producer, &Control) -> std::io::Result<()>,
}

/// Every probe that there is.
pub const PROBES: &[&ProbeInfo] = &[&cyclic::INFO, &nanosleep::INFO];

/// The probe of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProbeInfo> {
    PROBES.iter().copied().find(|probe| probe.name == name)
}

/// All that one measuring thread needs to know, in times of the run's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlan {
    /// Processor that the thread is bound to.
    pub cpu: Option<CpuId>,
    /// When samples are due.
    pub schedule: Schedule,
    /// Seed of the due times' dither.
    pub seed: u64,
    /// Cycles after which a probe without a schedule ends; until it is stopped if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cycles: Option<u64>,
    /// Latency from which on all probes stop; none if absent.
    #[serde(rename = "stop_above_ns", skip_serializing_if = "Option::is_none", default)]
    pub stop_above: Option<Nanos>,
}
