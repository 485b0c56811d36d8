//! What a run recorded of the kernel's trace, and how many samples it explains.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_samples::loop_rules::LoopRules;

/// The amount of tracing that explains samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExplainLevel {
    /// Nothing.
    #[default]
    Off,
    /// Events of stock kernels.
    Events,
    /// These, and the functions that were running when a probe was due and when it got the CPU.
    Stacks,
    /// Events, and the kernel's tracer timerlat as a second opinion.
    Timerlat,
}

impl ExplainLevel {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Off, Self::Events, Self::Stacks, Self::Timerlat];

    /// Returns its name on the command line.
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
    /// 1 events of stock kernels, 2 stacks of the kernel too, 3 events and the tracer timerlat.
    pub level: u32,
    /// The instance of tracefs, which is removed after the run.
    pub instance: String,
    /// Events that were recorded, as SYSTEM:EVENT.
    pub events: Vec<String>,
    /// Events that explanations use and that this kernel does not have.
    pub absent: Vec<String>,
    /// Results of the tool's own wake-ups before the run.
    pub calibration: Calibration,
    /// Events that were read.
    #[serde(default)]
    pub events_read: u64,
    /// Pages that were read.
    #[serde(default)]
    pub pages_read: u64,
    /// Number of gaps.
    #[serde(default)]
    pub losses: u64,
    /// Number of lost events, as far as the kernel counted them.
    #[serde(default)]
    pub lost_events: u64,
    /// CPU time of reading, decoding and matching.
    #[serde(default)]
    pub cpu_time_ns: Nanos,
    /// Whether the kernel hides the addresses of its functions, so that their names are unknown.
    #[serde(default)]
    pub are_functions_hidden: bool,
    /// Stacks that were read, at level 2.
    #[serde(default)]
    pub stacks_read: u64,
    /// Why stacks are missing despite the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_stacks: Option<String>,
    /// At level 3, the comparison of the kernel's timerlat tracer with events, for wake-ups of
    /// timerlat's thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_opinion: Option<SecondOpinion>,
    /// Why it is missing despite the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_second_opinion: Option<String>,
    /// The series whose samples are explained.
    #[serde(default)]
    pub series: Vec<ExplainedSeries>,
    /// Program loops, and their deviations from a correct periodic loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopRules>,
}

impl TracingRecord {
    /// The level with stacks: each costs the measured CPU up to tens of microseconds, so the
    /// latencies are not those of the untraced machine.
    pub const STACKS: u32 = 2;
    /// The level with the timerlat tracer, whose thread takes the CPU every millisecond.
    pub const TIMERLAT: u32 = 3;

    /// Returns whether the run's numbers must not be compared.
    #[must_use]
    pub fn is_beyond_comparison(&self) -> bool {
        self.level >= Self::STACKS
    }
}

/// Findings about the kernel's trace from wake-ups of the tool's own threads before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Sleeps that were made.
    pub sleeps: u64,
    /// Number of these wake-ups in the trace.
    pub wake_ups: u64,
    /// Number of these with the timer's due time.
    pub timed: u64,
    /// Number of these with the switch to the thread.
    pub switches: u64,
    /// Switches from a thread to the idle one that were seen in the same time.
    pub into_idle: u64,
    /// Switches from the idle one: 0 if the kernel does not trace them.
    pub out_of_idle: u64,
}

/// Comparison of timerlat's records with events for the same wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SecondOpinion {
    /// Wake-ups that were compared.
    pub wake_ups: u64,
    /// Time from due to the timer's function.
    pub interrupt: Agreement,
    /// Time from due to the thread's clock read.
    pub thread: Agreement,
}

/// The agreement of two figures for the same wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreement {
    /// How many.
    pub compared: u64,
    /// Wake-ups that agree within [`Agreement::WITHIN_NS`], or 2 %.
    pub agreeing: u64,
    /// The smallest and largest of timerlat's figure minus ours.
    pub difference_min_ns: i64,
    /// See `difference_min_ns`.
    pub difference_max_ns: i64,
    /// The largest of timerlat's figures.
    pub theirs_max_ns: u64,
}

impl Agreement {
    /// Figures agree that differ by so much at most, in ns,
    pub const WITHIN_NS: u64 = 1_000;
    /// or by this part of them.
    pub const WITHIN_PART: u64 = 50;
}

/// How many samples of one series are explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSeries {
    /// The series' file.
    pub file: String,
    /// The probe that took its samples.
    pub probe: String,
    /// The CPU that the probe was bound to.
    pub cpu: Option<CpuId>,
    /// Number of samples to explain: those with any latency above 0.
    pub samples: u64,
    /// Number of them with an explanation; each adds up to its latency.
    pub explained: u64,
    /// Number of these that are explained only partly, because events were lost or late.
    pub with_unknown: u64,
    /// Number of samples that did not reach the explainer, because it was late.
    pub left_out: u64,
    /// Number of explanations dropped for newer ones in a run with `--disk`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_way: u64,
    /// Bytes written to their files.
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
