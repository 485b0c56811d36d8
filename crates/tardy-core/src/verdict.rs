//! Decides whether a deadline was met, and claims no more certainty than the samples support.
//!
//! A deadline is judged by latency. The period of a sampling probe defines how often it samples,
//! not how often work is due. A skipped due time therefore gets a latency: the part of the delay
//! that was still left at that time. If every skipped due time were a miss, the verdict would
//! depend on the chosen period instead of the system.
//!
//! If the samples measure the time of work, a skipped due time is always a miss, because its work
//! was never done. `stands_for_work` in the series' descriptor marks such work; in older folders,
//! `quantity` marks it.
//!
//! A recorded miss counts even if other samples were lost: the run fails (exit code 1). If the
//! set-up of a run was degraded, its verdict is inconclusive (exit code 4), because the run does
//! not represent the system under test.
//!
//! The share of misses is judged separately over all series of a probe, over each series, and under
//! each load. If one series exceeds the allowed share with certainty, the run fails. If one series
//! alone is inconclusive, the verdict over all series decides.
//!
//! Each probe and each load has its own verdict and rate, because five idle seconds and four
//! seconds under load are not one population. The verdict of the run is the verdict on its worst
//! probe. A rate over several loads is reported as a mixture. The words "under these loads" appear
//! only if the same loads ran all the time.

pub mod longer;
pub mod requirement;
mod sentence;
pub mod skipped;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_statistics::clustering::Clustering;
use tardy_statistics::confidence::Confidence;

use crate::units::{Nanos, ParseNanosError};

use requirement::Requirement;
pub use sentence::{significant, together};

/// The window of latencies that meet the requirement: from `earliest` to `latest`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Wake-ups with a latency below this are misses; `None` if a wake-up cannot be too early.
    #[serde(rename = "earliest_ns")]
    pub earliest: Option<Nanos>,
    /// Wake-ups with a latency above this are misses.
    #[serde(rename = "latest_ns")]
    pub latest: Nanos,
}

impl Window {
    /// Makes the window of all latencies up to `deadline`.
    #[must_use]
    pub fn deadline(deadline: Nanos) -> Self {
        Self {
            earliest: None,
            latest: deadline,
        }
    }

    /// Returns whether a wake-up with this latency is a miss.
    #[inline]
    #[must_use]
    pub fn misses(&self, latency: Nanos) -> bool {
        latency > self.latest || self.earliest.is_some_and(|earliest| latency < earliest)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.earliest {
            None => write!(formatter, "the deadline of {}", self.latest.exact()),
            Some(earliest) => write!(
                formatter,
                "the window from {} to {}",
                earliest.exact(),
                self.latest.exact()
            ),
        }
    }
}

/// The reason why a text is not a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseWindowError {
    /// The text has no `..` between two durations.
    #[error(
        "`{0}` is not a window: write two durations with .. between them, as in -111us..+111us"
    )]
    Malformed(String),
    /// One of the durations is invalid.
    #[error(transparent)]
    Duration(#[from] ParseNanosError),
    /// The second duration is before the first.
    #[error("the window `{0}` is empty: its end lies before its start")]
    Empty(String),
}

impl FromStr for Window {
    type Err = ParseWindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (earliest, latest) = text
            .split_once("..")
            .ok_or_else(|| ParseWindowError::Malformed(text.to_owned()))?;
        let (earliest, latest): (Nanos, Nanos) = (earliest.parse()?, latest.parse()?);
        if earliest > latest {
            return Err(ParseWindowError::Empty(text.to_owned()));
        }
        Ok(Self {
            earliest: Some(earliest),
            latest,
        })
    }
}

/// Whether the deadline was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// If no miss is allowed, no miss occurred. Otherwise the samples prove that the share of
    /// misses is at most the allowed one.
    Passed,
    /// If no miss is allowed, a miss occurred. Otherwise the samples prove that the share of misses
    /// exceeds the allowed one.
    Failed,
    /// The samples prove neither.
    Inconclusive,
}

/// The loads that ran while the samples were taken. A rate of misses applies to these loads only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stress {
    /// No loads ran, or it is unknown which loads ran.
    #[default]
    None,
    /// The same loads ran all the time.
    Same,
    /// Different loads ran one after another. The samples are several populations, and a rate over
    /// all of them describes this mixture.
    Mixture,
}

/// What a verdict is based on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Due times that missed the window: wake-ups whose latency lies outside it, and skipped due
    /// times whose latency exceeds it.
    pub misses: u64,
    /// Number of skipped due times among the misses.
    #[serde(default)]
    pub misses_skipped: u64,
    /// Number of due times that may have missed the window because their exact latency is unknown;
    /// not included in `misses`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub misses_undecided: u64,
    /// Number of skipped due times, whether or not they are misses.
    #[serde(default)]
    pub skipped: u64,
    /// Number of skipped due times to which the requirement's limit applies; absent if there is no
    /// such limit.
    #[serde(default)]
    pub skipped_limited: Option<u64>,
    /// Number of due times; those whose samples were lost are not counted.
    pub due_times: u64,
    /// Extremal index of the misses, from 0 to 1; `None` if there are too few misses to estimate
    /// it. The misses are then assumed to be independent.
    pub extremal_index: Option<f64>,
    /// How misses cluster in time and across CPUs; absent in older files, where the extremal index
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clustering: Option<Clustering>,
    /// Number of CPUs whose due times are counted together; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_at_most_one")]
    pub processors: usize,
    /// Duration of the measurement.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
    /// The loads that ran while the samples were taken.
    #[serde(default)]
    pub stress: Stress,
    /// Reasons why no conclusion can be drawn from these samples.
    pub degraded: Vec<String>,
    /// Reasons why there may be misses that were not recorded.
    pub incomplete: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_at_most_one(processors: &usize) -> bool {
    *processors <= 1
}

impl Evidence {
    /// Returns how misses cluster; if this is unknown, they count as independent.
    #[must_use]
    pub fn clustering(&self) -> Clustering {
        self.clustering
            .or(self.extremal_index.map(Clustering::of_extremal_index))
            .unwrap_or_default()
    }
}

/// The verdict on whether a run meets its requirement, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The conclusion.
    pub outcome: Outcome,
    /// The verdict as a sentence.
    pub sentence: String,
    /// The deadline; absent if only skipped periods are limited.
    pub window: Option<Window>,
    /// The allowed share of misses; `None` allows no miss.
    pub misses_allowed: Option<f64>,
    /// How many skipped periods are allowed. If absent, any number is allowed when the deadline is
    /// longer than the period. When it is not, `misses_allowed` also limits the share of skipped
    /// periods.
    #[serde(default)]
    pub skipped_allowed: Option<u64>,
    /// Lower bound of the share of misses; one-sided, at `confidence`.
    pub share_lower: f64,
    /// Upper bound of the share of misses; one-sided, at `confidence`.
    pub share_upper: f64,
    /// Confidence of each bound.
    pub confidence: f64,
    /// What the verdict is based on.
    pub evidence: Evidence,
}

impl Verdict {
    /// Returns an upper bound of the misses per hour on all CPUs together, at `confidence`; `None`
    /// if the length of the measurement is unknown, or if the samples give no bound.
    #[must_use]
    pub fn misses_an_hour_at_most(&self) -> Option<f64> {
        let hours = self.evidence.measured.as_secs_f64() / 3600.0;
        (hours > 0.0 && self.evidence.due_times > 0 && self.is_bounded())
            .then(|| self.share_upper * self.evidence.due_times as f64 / hours)
    }

    /// Returns whether the run failed for only one reason: it skipped more periods than allowed.
    #[must_use]
    pub fn fails_by_skipped_periods_alone(&self) -> bool {
        let misses_pass = self.evidence.misses == 0
            || self
                .misses_allowed
                .is_some_and(|allowed| self.share_upper <= allowed);
        self.outcome == Outcome::Failed && misses_pass
    }

    /// Returns whether the samples allow a bound on the share of misses.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.share_upper < 1.0 || self.evidence.misses >= self.evidence.due_times
    }
}

impl Outcome {
    /// Returns the worse of two outcomes. Failed is the worst, then inconclusive, then passed.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed, _) | (_, Self::Failed) => Self::Failed,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            _ => Self::Passed,
        }
    }
}

/// Judges `evidence` against `requirement`.
#[must_use]
pub fn judge(requirement: &Requirement, evidence: Evidence) -> Verdict {
    let confidence = Confidence::NINETY_FIVE;
    let share_lower = share(evidence.misses, &evidence, confidence).0;
    let share_upper = share(
        evidence.misses.saturating_add(evidence.misses_undecided),
        &evidence,
        confidence,
    )
    .1;
    let by_misses = match requirement.misses_allowed {
        None if evidence.misses > 0 => Outcome::Failed,
        None if evidence.misses_undecided > 0 => Outcome::Inconclusive,
        None => Outcome::Passed,
        Some(allowed) => by_share(allowed, (share_lower, share_upper)),
    };
    let by_skipped = match (
        evidence.skipped_limited,
        requirement.skipped_allowed,
        requirement.misses_allowed,
    ) {
        (None, _, _) => Outcome::Passed,
        (Some(skipped), Some(allowed), _) => {
            if skipped > allowed {
                Outcome::Failed
            } else {
                Outcome::Passed
            }
        }
        (Some(skipped), None, Some(allowed)) => {
            by_share(allowed, share(skipped, &evidence, confidence))
        }
        (Some(skipped), None, None) => {
            if skipped > 0 {
                Outcome::Failed
            } else {
                Outcome::Passed
            }
        }
    };
    let decided = if evidence.due_times == 0 {
        Outcome::Inconclusive
    } else {
        by_misses.worse(by_skipped)
    };
    // A recorded miss stays a miss, even if other samples were lost. If the set-up was degraded,
    // the samples prove nothing about the system.
    let outcome = match decided {
        _ if !evidence.degraded.is_empty() => Outcome::Inconclusive,
        Outcome::Passed if !evidence.incomplete.is_empty() => Outcome::Inconclusive,
        decided => decided,
    };
    let mut verdict = Verdict {
        outcome,
        sentence: String::new(),
        window: requirement.window,
        misses_allowed: requirement.misses_allowed,
        skipped_allowed: requirement.skipped_allowed,
        share_lower,
        share_upper,
        confidence: confidence.get(),
        evidence,
    };
    verdict.sentence = sentence::sentence(&verdict, (by_misses, by_skipped), decided);
    verdict
}

/// Returns bounds of the share that `events` have among the due times.
fn share(events: u64, evidence: &Evidence, confidence: Confidence) -> (f64, f64) {
    let (clustering, events, due_times) = (
        evidence.clustering(),
        events as f64,
        evidence.due_times as f64,
    );
    (
        clustering.share_lower(events, due_times, confidence),
        clustering.share_upper(events, due_times, confidence),
    )
}

fn by_share(allowed: f64, (lower, upper): (f64, f64)) -> Outcome {
    match () {
        () if lower > allowed => Outcome::Failed,
        () if upper <= allowed => Outcome::Passed,
        () => Outcome::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(misses: u64, due_times: u64) -> Evidence {
        Evidence {
            misses,
            due_times,
            extremal_index: Some(1.0),
            measured: Nanos::from_secs(3600),
            ..Evidence::default()
        }
    }

    const DEADLINE: Nanos = Nanos(200_000);

    fn judged(misses_allowed: Option<f64>, evidence: Evidence) -> Verdict {
        judge(
            &Requirement {
                misses_allowed,
                ..Requirement::deadline(DEADLINE)
            },
            evidence,
        )
    }

    #[test]
    fn without_an_allowance_any_miss_fails() {
        assert_eq!(
            judged(None, evidence(1, 3_600_000)).outcome,
            Outcome::Failed
        );
    }

    #[test]
    fn no_miss_is_never_called_meeting_the_deadline() {
        let verdict = judged(None, evidence(0, 3_600_000));
        assert_eq!(verdict.outcome, Outcome::Passed);
        assert_eq!(
            verdict.sentence,
            "0 misses in 3600000 due times: fewer than 3.0 an hour at 95 %"
        );
    }

    #[test]
    fn an_allowance_is_decided_by_bounds_and_not_by_the_share_seen() {
        // With 0 misses in 1e6 samples, the upper bound of the share is 2.9957e-6 (rule of three).
        assert_eq!(
            judged(Some(3e-6), evidence(0, 1_000_000)).outcome,
            Outcome::Passed
        );
        assert_eq!(
            judged(Some(2.9e-6), evidence(0, 1_000_000)).outcome,
            Outcome::Inconclusive
        );
        assert_eq!(
            judged(Some(1e-6), evidence(3, 1_000_000)).outcome,
            Outcome::Inconclusive
        );
        assert_eq!(
            judged(Some(1e-6), evidence(30, 1_000_000)).outcome,
            Outcome::Failed
        );
    }

    #[test]
    fn clustered_misses_weigh_less() {
        let clustered = Evidence {
            extremal_index: Some(0.1),
            ..evidence(0, 1_000_000)
        };
        assert_eq!(judged(Some(3e-6), clustered).outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_degraded_set_up_decides_nothing_and_lost_samples_cannot_undo_a_miss() {
        let degraded = Evidence {
            degraded: vec!["no real-time policy".into()],
            ..evidence(5, 100)
        };
        assert_eq!(judged(None, degraded).outcome, Outcome::Inconclusive);
        let lost = |misses| Evidence {
            incomplete: vec!["4 samples lost".into()],
            ..evidence(misses, 100)
        };
        assert_eq!(judged(None, lost(0)).outcome, Outcome::Inconclusive);
        assert_eq!(judged(None, lost(1)).outcome, Outcome::Failed);
        assert!(judged(None, lost(0)).sentence.contains("4 samples lost"));
    }

    #[test]
    fn due_times_that_may_have_missed_make_a_count_the_least_one() {
        let of = |misses, misses_undecided| Evidence {
            misses_undecided,
            ..evidence(misses, 1_000_000)
        };
        assert_eq!(judged(None, of(1, 299)).outcome, Outcome::Failed);
        assert!(
            judged(None, of(1, 299)).sentence.starts_with("1 to "),
            "{}",
            judged(None, of(1, 299)).sentence
        );
        assert_eq!(judged(None, of(0, 1)).outcome, Outcome::Inconclusive);
        assert!(judged(None, of(0, 1)).sentence.starts_with(
            "0 known misses in 1000000 due times; 1 of these due times cannot be judged"
        ));
        // The lower bound counts only the known misses, and the upper bound counts all possible
        // misses.
        assert_eq!(judged(Some(1e-3), of(1, 299)).outcome, Outcome::Passed);
        assert_eq!(
            judged(Some(1e-4), of(1, 299)).outcome,
            Outcome::Inconclusive
        );
        assert_eq!(judged(Some(1e-7), of(30, 299)).outcome, Outcome::Failed);
    }

    #[test]
    fn no_sample_decides_nothing() {
        assert_eq!(judged(None, evidence(0, 0)).outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_window_is_missed_on_both_sides() {
        let window: Window = "-111us..+111us".parse().unwrap();
        assert!(window.misses(Nanos(-111_001)) && window.misses(Nanos(111_001)));
        assert!(!window.misses(Nanos(-111_000)) && !window.misses(Nanos(111_000)));
        assert!(
            "111us".parse::<Window>().is_err()
                && "1us..-1us".parse::<Window>().is_err()
                && "1..2".parse::<Window>().is_err()
        );
    }

    #[test]
    fn a_rate_is_said_to_hold_under_loads_only_where_there_were_loads() {
        let under = |stress| {
            judged(
                None,
                Evidence {
                    stress,
                    ..evidence(0, 3_600_000)
                },
            )
            .sentence
        };
        assert!(under(Stress::Same).ends_with("at 95 %, under these loads"));
        assert!(under(Stress::Mixture).ends_with("at 95 %, over this mixture of loads"));
        assert!(under(Stress::None).ends_with("at 95 %"));
    }

    #[test]
    fn skipped_periods_have_a_limit_of_their_own() {
        let skipped = |limited, allowed| {
            let requirement = Requirement {
                skipped_allowed: allowed,
                ..Requirement::deadline(DEADLINE)
            };
            judge(
                &requirement,
                Evidence {
                    skipped: 7,
                    skipped_limited: limited,
                    ..evidence(0, 100_000)
                },
            )
        };
        assert_eq!(skipped(None, None).outcome, Outcome::Passed);
        assert!(skipped(None, None).sentence.ends_with(
            "; 7 skipped due times would have met the deadline (--skipped limits such periods)"
        ));
        assert_eq!(skipped(Some(7), None).outcome, Outcome::Failed);
        assert!(skipped(Some(7), None).sentence.contains(
            "7 periods were skipped, but none may be skipped if the deadline is at most the period"
        ));
        assert_eq!(skipped(Some(7), Some(7)).outcome, Outcome::Passed);
        assert_eq!(skipped(Some(7), Some(6)).outcome, Outcome::Failed);
        assert!(
            skipped(Some(7), Some(6))
                .sentence
                .starts_with("7 periods were skipped, more than the 6 allowed; ")
        );
    }

    #[test]
    fn a_share_that_may_miss_is_the_share_that_may_be_skipped_unless_a_number_is_given() {
        let of = |skipped| Evidence {
            skipped,
            skipped_limited: Some(skipped),
            ..evidence(0, 1_000_000)
        };
        assert_eq!(judged(Some(1e-4), of(20)).outcome, Outcome::Passed);
        assert_eq!(judged(Some(1e-4), of(100)).outcome, Outcome::Inconclusive);
        assert_eq!(judged(Some(1e-4), of(200)).outcome, Outcome::Failed);
        let none = Requirement {
            misses_allowed: Some(1e-4),
            skipped_allowed: Some(0),
            ..Requirement::deadline(DEADLINE)
        };
        assert_eq!(judge(&none, of(1)).outcome, Outcome::Failed);
    }

    #[test]
    fn skipped_periods_alone_can_be_limited() {
        let alone = Requirement {
            skipped_allowed: Some(2),
            ..Requirement::default()
        };
        let verdict = judge(
            &alone,
            Evidence {
                skipped_limited: Some(3),
                skipped: 3,
                ..evidence(0, 1_000)
            },
        );
        assert_eq!(
            (verdict.outcome, verdict.sentence.as_str()),
            (
                Outcome::Failed,
                "3 periods were skipped, more than the 2 allowed"
            )
        );
    }
}
