//! A series, the samples of one probe thread, and the descriptor at the head of its file.
//!
//! The descriptor has keys for all properties of a series; older readers ignore keys that they do
//! not know. If a probe records a second series, the second series has its own probe name, so
//! summaries, comparisons and the lab need no special case for it.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuId;
use crate::units::Nanos;

/// When the samples of a series are due. The chunk format stores only deviations from the schedule.
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
        /// Each due time is shifted by a random time between 0 and this time; 0 if due times are
        /// not dithered.
        #[serde(rename = "dither_ns", default)]
        dither: Nanos,
    },
    /// Each sample is due a fixed time after the probe requests it. There is no grid, so due times
    /// cannot be skipped.
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

    /// Returns the number of the grid's due times up to and including `due`, the due time of a
    /// sample; `None` for events.
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

/// The clock on which all times of a run are based. Times of different clocks are never compared
/// without a warning to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    /// The monotonic clock of a real machine.
    #[default]
    Hardware,
    /// The clock of an emulated machine; it counts instructions.
    Virtual,
}

/// The descriptor of a series, at the head of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Name of the probe that took the samples.
    pub probe: String,
    /// CPU to which the probe's thread was bound; `None` if it was not bound.
    pub cpu: Option<CpuId>,
    /// Name of the measured quantity, such as `latency`, `interval error` (if no due time is known)
    /// or `time of an operation`.
    pub quantity: String,
    /// Unit of every value in the file: `ns`; in series of kind `cost` also `ps` or
    /// `instructions/1000`. Due times are always in ns.
    pub unit: String,
    /// Clock of every time in the file.
    pub clock: ClockKind,
    /// When samples are due.
    pub schedule: Schedule,
    /// What the values mean.
    #[serde(default, skip_serializing_if = "Meaning::is_plain_lateness")]
    pub meaning: Meaning,
    /// What the due times mean.
    #[serde(default, skip_serializing_if = "Reference::is_planned")]
    pub reference: Reference,
    /// Whether verdicts ignore the series, because a deadline does not apply to its values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outside_verdict: bool,
    /// Whether each sample measures the time of work that follows the wake-up; see
    /// [`Descriptor::is_work`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stands_for_work: bool,
    /// Whether the answers whose times were measured came from another machine or device; `None`
    /// for quantities that are always measured locally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// Identifies the probe's thread that took the samples, if several threads run without a fixed
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
}

/// The meaning of a series' values. Readers that do not know this field treat the values as
/// latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Meaning {
    /// Time from the due time to an event. A value below zero means that the event was early, or
    /// that the value is within the error of the probe's clock.
    Lateness {
        /// Values from 0 down to the negative of this time are within the error of the clock that
        /// the probe reads.
        #[serde(rename = "clock_error_ns")]
        clock_error: Nanos,
    },
    /// Time between two events, minus the ideal time between them: the difference of their
    /// latencies. If the latency is constant, the values do not show it; a late event makes its own
    /// value large and the next value small.
    IntervalError {
        /// Whether the events come from a device with a separate clock, so that their period
        /// differs from the nominal one.
        #[serde(default)]
        has_own_clock: bool,
    },
    /// Time of the sound minus time of the picture, when a frame is shown. A value below zero means
    /// that the picture is ahead; it does not mean an early wake-up.
    Skew,
    /// Length of a gap, for example in the sound. The start of the gap counts as the due time,
    /// although no event was due then.
    Gap {
        /// Minimum length of a gap; the series contains no shorter ones.
        #[serde(rename = "least_ns")]
        least: Nanos,
    },
}

/// The event that defines the due times of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// Due times were set in advance, as for a timer.
    #[default]
    Planned,
    /// The start of the interrupt that woke the thread.
    Interrupt,
    /// The start of the softirq that woke the thread.
    Softirq,
    /// The moment at which another thread woke the measured thread (`sched_waking`).
    Waking,
    /// The call of the function whose duration is measured.
    Call,
}

impl Reference {
    /// Returns whether the due times were set in advance.
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
    /// Returns whether this is the default meaning, which is not written to files.
    #[must_use]
    pub fn is_plain_lateness(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the latency below which wake-ups count as early.
    #[must_use]
    pub fn early_below(&self) -> Nanos {
        match *self {
            Self::Lateness { clock_error } => Nanos(-clock_error.get()),
            Self::IntervalError { .. } | Self::Skew | Self::Gap { .. } => Nanos(i64::MIN),
        }
    }
}

impl Descriptor {
    /// Creates the descriptor of a series of latencies in ns, the most common kind.
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

    /// Returns whether the samples measure the time of work, not only of wake-ups. Skipped work was
    /// never done, so it misses any deadline. In other series, the latency of a skipped due time is
    /// derived from the late wake-up.
    #[must_use]
    pub fn is_work(&self) -> bool {
        // Older folders lack the key; in these, the quantity shows whether the samples measure
        // work.
        self.stands_for_work || self.quantity == "completion" || self.meaning == Meaning::Skew
    }

    /// Returns the file's name in the run folder: `PROBE.cpuN.series`, or `PROBE.copyN.series` for
    /// several unbound threads.
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
