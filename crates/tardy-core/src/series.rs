//! Describes a series: the samples of one probe thread, and the descriptor at the head of its file.
//!
//! A series describes itself with keys that older readers skip, and a probe's second series has its
//! own name. Summaries, comparisons and the lab needed no second way of grouping.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuId;
use crate::units::Nanos;

/// When the next sample of a series is due; the chunk format stores only deviations from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// Due times are `start + k * period`. A late wake-up skips due times; they are counted as
    /// skipped.
    Grid {
        /// Time between two due times.
        #[serde(rename = "period_ns")]
        period: Nanos,
        /// The first due time, on the series' clock.
        #[serde(rename = "start_ns")]
        start: Nanos,
        /// Each due time is moved by a random time from 0 up to this; 0 for none.
        #[serde(rename = "dither_ns", default)]
        dither: Nanos,
    },
    /// Each sample is due a fixed time after the probe requested it: there is no schedule, so due
    /// times cannot be skipped.
    Event {
        /// Time requested in each cycle.
        #[serde(rename = "request_ns")]
        request: Nanos,
    },
}

impl Schedule {
    /// Returns the time between two due times, or the requested time.
    #[must_use]
    pub fn period(&self) -> Nanos {
        match *self {
            Self::Grid { period, .. } => period,
            Self::Event { request } => request,
        }
    }

    /// Returns whether due times form a grid, so that some can be skipped.
    #[must_use]
    pub fn is_grid(&self) -> bool {
        matches!(self, Self::Grid { .. })
    }

    /// Returns the number of the grid's due times at or before the sample due at `due`; `None` for
    /// events.
    ///
    /// A dithered due time lies less than one period after its grid point, so rounding down finds
    /// the point.
    #[must_use]
    pub fn expected_at(&self, due: Nanos) -> Option<u64> {
        match *self {
            Self::Grid { period, start, .. } => {
                u64::try_from((due - start).get().div_euclid(period.get()) + 1).ok()
            }
            Self::Event { .. } => None,
        }
    }
}

/// The clock of a run's times; two clocks are never compared silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    /// The machine's own monotonic clock.
    #[default]
    Hardware,
    /// Instruction-counted time of an emulated machine.
    Virtual,
}

/// The head of a series file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Probe that took the samples.
    pub probe: String,
    /// CPU that the probe was bound to; `None` when it was not bound.
    pub cpu: Option<CpuId>,
    /// Name of the measured quantity: `latency`, `interval error` if no due time is known, or
    /// `time of an operation`.
    pub quantity: String,
    /// Unit of every latency in the file: `ns`; in series of kind `cost` also `ps` or
    /// `instructions/1000`. Due times are always in ns.
    pub unit: String,
    /// Clock of every time in the file.
    pub clock: ClockKind,
    /// When samples are due.
    pub schedule: Schedule,
    /// The meaning of the values.
    #[serde(default, skip_serializing_if = "Meaning::is_plain_lateness")]
    pub meaning: Meaning,
    /// What the due times are.
    #[serde(default, skip_serializing_if = "Reference::is_planned")]
    pub reference: Reference,
    /// Whether the values are irrelevant to a deadline, so that the verdict ignores them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outside_verdict: bool,
    /// Whether the values time work, not a clock read alone: see [`Descriptor::is_work`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stands_for_work: bool,
    /// Whether the timed answers came from outside this machine; `None` for quantities that are
    /// always local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// Number of the copy of the probe's thread that took the samples, if several copies run
    /// without a fixed CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
}

/// The meaning of a series' values. Readers that do not know this field treat the values as
/// latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Meaning {
    /// How much later than due an event happened. A value below zero is early, or within the error
    /// of the probe's clock.
    Lateness {
        /// Values down to minus this are within the error of the clock that the probe reads.
        #[serde(rename = "clock_error_ns")]
        clock_error: Nanos,
    },
    /// Time between two events, less the ideal time: the difference of two latenesses, so that a
    /// constant one is invisible and each late event makes an early one.
    IntervalError {
        /// Whether the events come from a device whose own clock makes its period differ from the
        /// nominal one.
        #[serde(default)]
        has_own_clock: bool,
    },
    /// Time of the sound less time of the picture, when a frame is shown: below zero the picture is
    /// ahead, and that is no wake-up before its time.
    Skew,
    /// Length of a gap that started at the due time. Nothing was due.
    Gap {
        /// Shorter ones are not gaps of this series.
        #[serde(rename = "least_ns")]
        least: Nanos,
    },
}

/// What the due times of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// Times that were set beforehand, as for a timer.
    #[default]
    Planned,
    /// The entry of the interrupt that woke the thread.
    Interrupt,
    /// The entry of the softirq that woke the thread.
    Softirq,
    /// The moment at which another thread woke the thread (`sched_waking`).
    Waking,
    /// The call of the function at which the time begins.
    Call,
}

impl Reference {
    /// Whether due times were set beforehand.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        *self == Self::Planned
    }
}

impl Default for Meaning {
    fn default() -> Self {
        Self::Lateness {
            clock_error: Nanos::ZERO,
        }
    }
}

impl Meaning {
    /// Returns whether this equals the default meaning, which files omit.
    #[must_use]
    pub fn is_plain_lateness(&self) -> bool {
        *self == Self::default()
    }

    /// Values below this are wake-ups before their time.
    #[must_use]
    pub fn early_below(&self) -> Nanos {
        match *self {
            Self::Lateness { clock_error } => Nanos(-clock_error.get()),
            Self::IntervalError { .. } | Self::Skew | Self::Gap { .. } => Nanos(i64::MIN),
        }
    }
}

impl Descriptor {
    /// A series of latencies in ns, as most are.
    #[must_use]
    pub fn latency(probe: &str, cpu: Option<CpuId>, clock: ClockKind, schedule: Schedule) -> Self {
        Self {
            probe: probe.to_owned(),
            cpu,
            quantity: "latency".to_owned(),
            unit: "ns".to_owned(),
            clock,
            schedule,
            meaning: Meaning::default(),
            reference: Reference::default(),
            is_outside_verdict: false,
            stands_for_work: false,
            copy: None,
            external: None,
        }
    }

    /// Returns whether the samples time work: skipped work was never done, so it misses any
    /// deadline. Otherwise the series only shows how late a task would have started, and a skipped
    /// due time has the latency that the wake-up implies.
    #[must_use]
    pub fn is_work(&self) -> bool {
        // Folders that predate the key imply it by the quantity that they measured.
        self.stands_for_work || self.quantity == "completion" || self.meaning == Meaning::Skew
    }

    /// Returns the file's name in the run folder: `PROBE.cpuN.series`, or `PROBE.copyN.series` if
    /// copies run side by side.
    #[must_use]
    pub fn file_name(&self) -> String {
        let cpu = self
            .cpu
            .map_or_else(String::new, |cpu| format!(".cpu{cpu}"));
        let copy = self
            .copy
            .map_or_else(String::new, |copy| format!(".copy{copy}"));
        format!("{}{cpu}{copy}.series", self.probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_counted_from_the_grid_alone() {
        let grid = Schedule::Grid {
            period: Nanos(1000),
            start: Nanos(5000),
            dither: Nanos(400),
        };
        assert_eq!(grid.expected_at(Nanos(5000)), Some(1));
        assert_eq!(grid.expected_at(Nanos(5399)), Some(1));
        assert_eq!(grid.expected_at(Nanos(8000)), Some(4));
        assert_eq!(
            Schedule::Event {
                request: Nanos(1000)
            }
            .expected_at(Nanos(8000)),
            None
        );
    }

    #[test]
    fn a_descriptor_without_a_meaning_is_of_latenesses_that_are_judged() {
        let plain = r#"{"probe":"cyclic","cpu":1,"quantity":"latency","unit":"ns","clock":"hardware","schedule":{"kind":"event","request_ns":9}}"#;
        let descriptor: Descriptor = serde_json::from_str(plain).unwrap();
        assert_eq!(
            (
                descriptor.meaning,
                descriptor.is_outside_verdict,
                descriptor.copy
            ),
            (Meaning::default(), false, None)
        );
        assert_eq!(
            serde_json::to_string(&descriptor).unwrap(),
            plain,
            "a plain descriptor keeps its text"
        );
        assert_eq!(descriptor.file_name(), "cyclic.cpu1.series");
        let parts = Descriptor {
            cpu: None,
            copy: Some(3),
            meaning: Meaning::IntervalError {
                has_own_clock: true,
            },
            is_outside_verdict: true,
            ..descriptor
        };
        let text = serde_json::to_string(&parts).unwrap();
        assert_eq!(serde_json::from_str::<Descriptor>(&text).unwrap(), parts);
        assert_eq!(parts.file_name(), "cyclic.copy3.series");
    }
}
