//! Whether a deadline was met, said with no more certainty than the samples give.

pub mod longer;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::statistics::confidence::Confidence;
use crate::statistics::proportion::{proportion_lower, proportion_upper};
use crate::units::{Nanos, ParseNanosError};

/// The latencies that are in time: from `earliest` to `latest`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Earlier wake-ups are misses; `None` where early is no fault.
    #[serde(rename = "earliest_ns")]
    pub earliest: Option<Nanos>,
    /// Later wake-ups are misses.
    #[serde(rename = "latest_ns")]
    pub latest: Nanos,
}

impl Window {
    /// At most `deadline` late.
    #[must_use]
    pub fn deadline(deadline: Nanos) -> Self {
        Self { earliest: None, latest: deadline }
    }

    /// Whether a wake-up this late is a miss.
    #[inline]
    #[must_use]
    pub fn misses(&self, latency: Nanos) -> bool {
        latency > self.latest || self.earliest.is_some_and(|earliest| latency < earliest)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.earliest {
            None => write!(formatter, "the deadline of {}", self.latest),
            Some(earliest) => write!(formatter, "the window from {earliest} to {}", self.latest),
        }
    }
}

/// Why a text is no window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseWindowError {
    /// No `..` between two durations.
    #[error("`{0}` is not a window: write two durations with .. between them, as in -111us..+111us")]
    Malformed(String),
    /// One of the durations is none.
    #[error(transparent)]
    Duration(#[from] ParseNanosError),
    /// The second duration is before the first.
    #[error("the window `{0}` is empty: its end lies before its beginning")]
    Empty(String),
}

impl FromStr for Window {
    type Err = ParseWindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (earliest, latest) = text.split_once("..").ok_or_else(|| ParseWindowError::Malformed(text.to_owned()))?;
        let (earliest, latest): (Nanos, Nanos) = (earliest.parse()?, latest.parse()?);
        if earliest > latest {
            return Err(ParseWindowError::Empty(text.to_owned()));
        }
        Ok(Self { earliest: Some(earliest), latest })
    }
}

/// What the samples say about the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No miss where none is allowed, or surely no more than are allowed.
    Passed,
    /// A miss where none is allowed, or surely more than are allowed.
    Failed,
    /// The samples do not decide.
    Inconclusive,
}

/// What a verdict is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Samples that missed, and due times that were skipped.
    pub misses: u64,
    /// How many of them were skipped: they passed unused, because the wake-up before them came more than a period late or its work took so long.
    #[serde(default)]
    pub skipped: u64,
    /// Due times in all.
    pub samples: u64,
    /// How strongly misses cluster, 0 to 1; `None` where there are too few to tell, and independence is assumed.
    pub extremal_index: Option<f64>,
    /// Length of what was measured.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
    /// Reasons why nothing can be concluded from these samples, whatever they say.
    pub degraded: Vec<String>,
    /// Reasons why there may be misses that were not seen.
    pub incomplete: Vec<String>,
}

/// A statement about a run and a deadline, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What it comes to.
    pub outcome: Outcome,
    /// The same in words.
    pub sentence: String,
    /// The deadline.
    pub window: Window,
    /// The share of misses that is allowed; none where absent.
    pub misses_allowed: Option<f64>,
    /// Bounds of the share of misses, one-sided each, with the confidence below.
    pub share_lower: f64,
    /// See `share_lower`.
    pub share_upper: f64,
    /// Confidence of each bound.
    pub confidence: f64,
    /// What it was made from.
    pub evidence: Evidence,
}

/// Judges `evidence` against `window`; `misses_allowed` is the share of samples that may miss, none where absent.
#[must_use]
pub fn judge(window: Window, misses_allowed: Option<f64>, evidence: Evidence) -> Verdict {
    let confidence = Confidence::NINETY_FIVE;
    let index = evidence.extremal_index.unwrap_or(1.0);
    let (misses, samples) = (evidence.misses as f64 * index, evidence.samples as f64 * index);
    let share_lower = proportion_lower(misses, samples, confidence);
    let share_upper = proportion_upper(misses, samples, confidence);
    let decided = match misses_allowed {
        _ if evidence.samples == 0 => Outcome::Inconclusive,
        None if evidence.misses > 0 => Outcome::Failed,
        None => Outcome::Passed,
        Some(allowed) if share_lower > allowed => Outcome::Failed,
        Some(allowed) if share_upper <= allowed => Outcome::Passed,
        Some(_) => Outcome::Inconclusive,
    };
    // A miss that was seen stays seen, whatever else was lost; but what a degraded set-up shows says nothing about the system.
    let outcome = match decided {
        _ if !evidence.degraded.is_empty() => Outcome::Inconclusive,
        Outcome::Passed if !evidence.incomplete.is_empty() => Outcome::Inconclusive,
        decided => decided,
    };
    let sentence = sentence(outcome, decided, window, misses_allowed, (share_lower, share_upper), &evidence);
    Verdict { outcome, sentence, window, misses_allowed, share_lower, share_upper, confidence: confidence.get(), evidence }
}

fn sentence(
    outcome: Outcome,
    decided: Outcome,
    window: Window,
    misses_allowed: Option<f64>,
    (lower, upper): (f64, f64),
    evidence: &Evidence,
) -> String {
    let (misses, samples) = (evidence.misses, evidence.samples);
    let skipped = match evidence.skipped.min(misses) {
        0 => String::new(),
        1 if misses == 1 => " (skipped)".to_owned(),
        all if all == misses => " (skipped, all of them)".to_owned(),
        some => format!(" ({some} of them skipped)"),
    };
    let independent = if evidence.extremal_index.is_none() && samples > 0 { ", assuming independent samples" } else { "" };
    let observed = match (misses, misses_allowed) {
        _ if samples == 0 => "no sample was taken that says something about a deadline".to_owned(),
        (0, _) => {
            let hours = evidence.measured.as_secs_f64() / 3600.0;
            // Of some imports the length is not known.
            let bound = if hours > 0.0 {
                format!("fewer than {} an hour", significant(upper * samples as f64 / hours))
            } else {
                format!("fewer than {} in a million", significant(upper * 1e6))
            };
            format!("no miss in {samples} samples: {bound} at 95 %{independent}, under these loads")
        }
        (_, None) => format!("{misses} of {samples} due times missed {window}{skipped}"),
        (_, Some(_)) => format!(
            "{misses} of {samples} due times missed {window}{skipped}: between {lower:.3e} and {upper:.3e} of them at 95 % each{independent}"
        ),
    };
    let allowed = match (misses_allowed, decided) {
        (Some(allowed), Outcome::Failed) => format!("; more than the {allowed:e} allowed"),
        (Some(allowed), Outcome::Passed) => format!("; at most the {allowed:e} allowed"),
        (Some(allowed), Outcome::Inconclusive) if samples > 0 => {
            format!("; that does not decide about the {allowed:e} allowed: measure longer")
        }
        _ => String::new(),
    };
    let reasons: Vec<&str> = evidence.degraded.iter().chain(&evidence.incomplete).map(String::as_str).collect();
    let because = if outcome != decided { format!(" (inconclusive because {})", reasons.join("; ")) } else { String::new() };
    format!("{observed}{allowed}{because}")
}

/// Two significant digits, rounded up: a bound must not become smaller by being printed.
fn significant(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return value.to_string();
    }
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step - 1e-9).ceil() * step;
    if step >= 1.0 { format!("{rounded:.0}") } else { format!("{rounded:.*}", (-step.log10()).round() as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(misses: u64, samples: u64) -> Evidence {
        Evidence {
            misses,
            skipped: 0,
            samples,
            extremal_index: Some(1.0),
            measured: Nanos::from_secs(3600),
            degraded: Vec::new(),
            incomplete: Vec::new(),
        }
    }

    const WINDOW: Window = Window { earliest: None, latest: Nanos(200_000) };

    #[test]
    fn without_an_allowance_any_miss_fails() {
        assert_eq!(judge(WINDOW, None, evidence(1, 3_600_000)).outcome, Outcome::Failed);
    }

    #[test]
    fn no_miss_is_never_called_meeting_the_deadline() {
        let verdict = judge(WINDOW, None, evidence(0, 3_600_000));
        assert_eq!(verdict.outcome, Outcome::Passed);
        assert_eq!(verdict.sentence, "no miss in 3600000 samples: fewer than 3.0 an hour at 95 %, under these loads");
    }

    #[test]
    fn an_allowance_is_decided_by_bounds_and_not_by_the_share_seen() {
        // 0 of 1e6 bounds the share at 2.9957e-6 (statistics.md 1.2, rule of three).
        assert_eq!(judge(WINDOW, Some(3e-6), evidence(0, 1_000_000)).outcome, Outcome::Passed);
        assert_eq!(judge(WINDOW, Some(2.9e-6), evidence(0, 1_000_000)).outcome, Outcome::Inconclusive);
        assert_eq!(judge(WINDOW, Some(1e-6), evidence(3, 1_000_000)).outcome, Outcome::Inconclusive);
        assert_eq!(judge(WINDOW, Some(1e-6), evidence(30, 1_000_000)).outcome, Outcome::Failed);
    }

    #[test]
    fn clustered_misses_weigh_less() {
        let clustered = Evidence { extremal_index: Some(0.1), ..evidence(0, 1_000_000) };
        assert_eq!(judge(WINDOW, Some(3e-6), clustered).outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_degraded_set_up_decides_nothing_and_lost_samples_cannot_undo_a_miss() {
        let degraded = Evidence { degraded: vec!["no real-time policy".into()], ..evidence(5, 100) };
        assert_eq!(judge(WINDOW, None, degraded).outcome, Outcome::Inconclusive);
        let lost = |misses| Evidence { incomplete: vec!["4 samples lost".into()], ..evidence(misses, 100) };
        assert_eq!(judge(WINDOW, None, lost(0)).outcome, Outcome::Inconclusive);
        assert_eq!(judge(WINDOW, None, lost(1)).outcome, Outcome::Failed);
        assert!(judge(WINDOW, None, lost(0)).sentence.contains("4 samples lost"));
    }

    #[test]
    fn no_sample_decides_nothing() {
        assert_eq!(judge(WINDOW, None, evidence(0, 0)).outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_window_is_missed_on_both_sides() {
        let window: Window = "-111us..+111us".parse().unwrap();
        assert!(window.misses(Nanos(-111_001)) && window.misses(Nanos(111_001)));
        assert!(!window.misses(Nanos(-111_000)) && !window.misses(Nanos(111_000)));
        assert!("111us".parse::<Window>().is_err() && "1us..-1us".parse::<Window>().is_err() && "1..2".parse::<Window>().is_err());
    }

    #[test]
    fn printed_bounds_are_rounded_up() {
        assert_eq!(significant(2.9957), "3.0");
        assert_eq!(significant(2.91), "3.0");
        assert_eq!(significant(0.0123), "0.013");
        assert_eq!(significant(10_784.6), "11000");
    }
}
