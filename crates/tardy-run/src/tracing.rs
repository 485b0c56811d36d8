//! What a run recorded of the kernel's trace, and how far that explains its samples.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

/// How much is recorded to explain samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Explain {
    /// Nothing.
    #[default]
    Off,
    /// Events of stock kernels.
    Events,
    /// These, and the functions that were under way when a probe was due and when it got the CPU.
    Stacks,
}

impl Explain {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Off, Self::Events, Self::Stacks];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Events => "events",
            Self::Stacks => "stacks",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// The recording of the kernel's trace in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracingRecord {
    /// 1 events of stock kernels, 2 stacks of the kernel too.
    pub level: u32,
    /// The instance of tracefs, which is gone when the run is over.
    pub instance: String,
    /// Events that were recorded, as SYSTEM:EVENT.
    pub events: Vec<String>,
    /// Events that explanations use and that this kernel does not have.
    pub absent: Vec<String>,
    /// What wake-ups of the tool's own showed before the run.
    pub calibration: Calibration,
    /// Events that were read.
    #[serde(default)]
    pub events_read: u64,
    /// Pages that were read.
    #[serde(default)]
    pub pages_read: u64,
    /// Places where events were lost.
    #[serde(default)]
    pub losses: u64,
    /// Events that were lost there, as far as the kernel counted them.
    #[serde(default)]
    pub lost_events: u64,
    /// CPU time of reading, decoding and matching.
    #[serde(default)]
    pub cpu_time_ns: Nanos,
    /// Whether the kernel hides the addresses of its functions, so that they have no names.
    #[serde(default)]
    pub are_functions_hidden: bool,
    /// Stacks that were read, at level 2.
    #[serde(default)]
    pub stacks_read: u64,
    /// Why there are none, though they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_stacks: Option<String>,
    /// The series whose samples are explained.
    #[serde(default)]
    pub series: Vec<ExplainedSeries>,
}

impl TracingRecord {
    /// The level at which stacks are recorded: each costs the measured CPU up to tens of microseconds, so the latencies are those of another machine.
    pub const STACKS: u32 = 2;

    /// Whether the run's numbers must not be compared.
    #[must_use]
    pub fn is_beyond_comparison(&self) -> bool {
        self.level >= Self::STACKS
    }
}

/// What wake-ups of the tool's own, before the run, showed of the kernel's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Sleeps that were made.
    pub sleeps: u64,
    /// Of these the wake-ups that were found.
    pub wake_ups: u64,
    /// Of these with the timer's due time.
    pub timed: u64,
    /// Of these with the switch to the thread.
    pub switches: u64,
    /// Switches from a thread to the idle one that were seen in the same time.
    pub into_idle: u64,
    /// Switches from the idle one: 0 where the kernel does not trace them.
    pub out_of_idle: u64,
}

/// How far one series is explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSeries {
    /// The series' file.
    pub file: String,
    /// Its probe.
    pub probe: String,
    /// The CPU that the probe was bound to.
    pub cpu: Option<CpuId>,
    /// Samples that were to be explained: those that were late, by whatever little.
    pub samples: u64,
    /// Of these the ones that have an explanation; each adds up to its latency.
    pub explained: u64,
    /// Of these the ones of which a part is unknown, because events were lost or came too late.
    pub with_unknown: u64,
    /// Samples that did not reach the explainer, because it was behind.
    pub left_out: u64,
    /// Bytes of their file.
    pub bytes: u64,
}
