//! What a run recorded of the kernel's trace, and how many samples it explains.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_trace::event::Thread;
use tardy_trace::explain::Rules;
use tardy_trace::text::Text;

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

/// Counts of actions that a real-time loop must avoid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopRules {
    /// Name of its thread.
    pub thread: String,
    /// The kernel's priority of it: -1 deadline, 0 to 98 real-time (99 minus the priority), 100 to
    /// 139 others.
    pub priority: i32,
    /// The kinds of events in the trace; a count without its event is 0 and means nothing.
    pub recorded: RecordedKinds,
    /// Pages that the program touched and that were not there.
    pub page_faults_user: u64,
    /// Page faults in the kernel on the program's behalf.
    pub page_faults_kernel: u64,
    /// Page faults before the first wake-up by a timer, which are in none of the other counts.
    pub page_faults_at_start: u64,
    /// Sleeps for a length of time instead of until a time.
    pub sleeps_relative: u64,
    /// Sleeps on a clock that can be set.
    pub sleeps_on_wall_clock: u64,
    /// Waits at a futex that knows no priority inheritance.
    pub futex_waits_plain: u64,
    /// Wake-ups by threads of lower priority, the most frequent waker first.
    pub woken_by_lower: Vec<LowerWaker>,
    /// Wake-ups from a softirq.
    pub woken_from_softirq: u64,
    /// Waits for locks of the kernel.
    pub lock_waits: u64,
    /// Sum of all waits.
    pub lock_waits_sum_ns: u64,
    /// The longest of them.
    pub lock_waits_max_ns: u64,
}

/// Kinds of events that rules for loops are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordedKinds {
    /// Page faults.
    pub page_faults: bool,
    /// Timers that are set.
    pub timers: bool,
    /// Wakings.
    pub wakings: bool,
    /// Waits for locks of the kernel.
    pub contention: bool,
    /// Calls of futex(2).
    pub futex: bool,
}

/// A thread of lower priority that woke a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerWaker {
    /// As the kernel stores it.
    pub name: String,
    /// The kernel's.
    pub priority: i32,
    /// How often.
    pub count: u64,
}

impl LoopRules {
    /// Makes the record from the counts of a thread.
    #[must_use]
    pub fn of(thread: Thread, rules: &Rules, recorded: RecordedKinds) -> Self {
        let waker = |(&(name, priority), &count): (&(Text, i32), &u64)| LowerWaker {
            name: name.to_string(),
            priority,
            count,
        };
        let mut woken_by_lower: Vec<LowerWaker> = rules.woken_by_lower.iter().map(waker).collect();
        woken_by_lower.sort_by_key(|waker| std::cmp::Reverse(waker.count));
        Self {
            thread: thread.name.to_string(),
            priority: thread.priority,
            recorded,
            page_faults_user: rules.page_faults_user,
            page_faults_kernel: rules.page_faults_kernel,
            page_faults_at_start: rules.page_faults_at_start,
            sleeps_relative: rules.sleeps_relative,
            sleeps_on_wall_clock: rules.sleeps_on_wall_clock,
            futex_waits_plain: rules.futex_waits_plain,
            woken_by_lower,
            woken_from_softirq: rules.woken_from_softirq,
            lock_waits: rules.lock_waits.count,
            lock_waits_sum_ns: rules.lock_waits.sum_ns,
            lock_waits_max_ns: rules.lock_waits.max_ns,
        }
    }
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
