//! Which part of the kernel's trace a run recorded, and how many samples it explains.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_samples::loop_rules::LoopRules;

/// How much the kernel's trace records to explain samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExplainLevel {
    /// No tracing.
    #[default]
    Off,
    /// Events of stock kernels.
    Events,
    /// Events, and the functions that were running at the moment when a probe was due and when it
    /// got the CPU.
    Stacks,
    /// Events, and the kernel's tracer timerlat as a second opinion.
    Timerlat,
}

impl ExplainLevel {
    /// All levels.
    pub const ALL: [Self; 4] = [Self::Off, Self::Events, Self::Stacks, Self::Timerlat];

    /// Returns the level's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Events => "events",
            Self::Stacks => "stacks",
            Self::Timerlat => "timerlat",
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
    /// Number of the level: 1 for events of stock kernels, 2 for events and kernel stacks, 3 for
    /// events and the tracer timerlat.
    pub level: u32,
    /// The instance of tracefs, which is removed after the run.
    pub instance: String,
    /// Recorded events, as SYSTEM:EVENT.
    pub events: Vec<String>,
    /// Events that explanations use but this kernel lacks.
    pub absent: Vec<String>,
    /// Result of a test before the run, for which threads of the tool slept and woke up.
    pub calibration: Calibration,
    /// Number of events read.
    #[serde(default)]
    pub events_read: u64,
    /// Number of pages read.
    #[serde(default)]
    pub pages_read: u64,
    /// Number of gaps in the trace.
    #[serde(default)]
    pub losses: u64,
    /// Number of lost events, as far as the kernel counted them.
    #[serde(default)]
    pub lost_events: u64,
    /// CPU time spent to read, decode and match the trace.
    #[serde(default)]
    pub cpu_time_ns: Nanos,
    /// Whether the kernel hides the addresses of its functions, so that their names are unknown.
    #[serde(default)]
    pub are_functions_hidden: bool,
    /// Number of stacks that were read, at level 2.
    #[serde(default)]
    pub stacks_read: u64,
    /// Why there are no stacks although they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_stacks: Option<String>,
    /// Comparison of the tracer timerlat with events for the wake-ups of timerlat's thread, at
    /// level 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_opinion: Option<SecondOpinion>,
    /// Why there is no second opinion although it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_second_opinion: Option<String>,
    /// The series whose samples are explained.
    #[serde(default)]
    pub series: Vec<ExplainedSeries>,
    /// For each loop of a program, how often the loop broke the rules for a correct periodic loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopRules>,
}

impl TracingRecord {
    /// The level at which kernel stacks are recorded. Recording a stack takes up to tens of
    /// microseconds on the measured CPU, so the latencies are not those of the untraced machine.
    pub const STACKS: u32 = 2;
    /// The level at which the tracer timerlat runs. The tracer's thread takes the CPU every
    /// millisecond.
    pub const TIMERLAT: u32 = 3;

    /// Returns whether the run's numbers must not be compared with those of other runs.
    #[must_use]
    pub fn is_beyond_comparison(&self) -> bool {
        self.level >= Self::STACKS
    }
}

/// Result of a test before the run: how many wake-ups of the tool's own threads the kernel's trace
/// contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Number of sleeps made.
    pub sleeps: u64,
    /// Number of these sleeps whose wake-up is in the trace.
    pub wake_ups: u64,
    /// Number of these wake-ups whose due time is in the trace.
    pub timed: u64,
    /// Number of these wake-ups whose switch to the thread is in the trace.
    pub switches: u64,
    /// Number of switches from other threads to the idle task during the test.
    pub into_idle: u64,
    /// Number of switches from the idle task; 0 if the kernel does not trace them.
    pub out_of_idle: u64,
}

/// Comparison of timerlat's records with events for the same wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SecondOpinion {
    /// Number of wake-ups compared.
    pub wake_ups: u64,
    /// How timerlat and the events agree on the time from the due time to the timer's function.
    pub interrupt: Agreement,
    /// How timerlat and the events agree on the time from the due time to the thread's clock read.
    pub thread: Agreement,
}

/// How far two figures for the same wake-ups agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreement {
    /// Number of wake-ups compared.
    pub compared: u64,
    /// Number of wake-ups that agree within [`Agreement::WITHIN_NS`] or 2 %.
    pub agreeing: u64,
    /// Smallest difference between timerlat's figure and tardy's (timerlat - tardy).
    pub difference_min_ns: i64,
    /// Largest difference between timerlat's figure and tardy's (timerlat - tardy).
    pub difference_max_ns: i64,
    /// The largest of timerlat's figures.
    pub theirs_max_ns: u64,
}

impl Agreement {
    /// Two figures agree if they differ by at most this number of ns.
    pub const WITHIN_NS: u64 = 1_000;
    /// Two figures also agree if they differ by at most timerlat's figure divided by this number.
    pub const WITHIN_PART: u64 = 50;
}

/// How many samples of a series are explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSeries {
    /// File of the series.
    pub file: String,
    /// Probe that took the samples.
    pub probe: String,
    /// CPU that the probe was bound to.
    pub cpu: Option<CpuId>,
    /// Number of samples that need an explanation, because their latency is above 0.
    pub samples: u64,
    /// Number of explained samples. Each explanation adds up to the sample's latency.
    pub explained: u64,
    /// Number of samples that are explained only partly, because events were lost or late.
    pub with_unknown: u64,
    /// Number of samples that were not explained because the explainer was late.
    pub left_out: u64,
    /// Number of explanations that were dropped to make room for newer ones, in a run with
    /// `--disk`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_way: u64,
    /// Bytes written to the files of explanations.
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
