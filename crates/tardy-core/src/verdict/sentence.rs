//! Writes the sentence that states a verdict: the observation, the bound that follows from it and,
//! if the verdict is inconclusive, the reason.

use super::{Evidence, Outcome, Stress, Verdict};

/// Returns the sentence that states `verdict`. `by_misses` is the outcome if only misses count, and
/// `by_skipped` the outcome if only skipped periods count. `decided` is the outcome that the
/// samples alone give, without regard to a degraded set-up or lost samples.
pub(super) fn sentence(
    verdict: &Verdict,
    (by_misses, by_skipped): (Outcome, Outcome),
    decided: Outcome,
) -> String {
    let evidence = &verdict.evidence;
    if evidence.due_times == 0 {
        return format!(
            "there is no sample that can be judged against a deadline{}",
            because(verdict, decided)
        );
    }
    let mut parts = [
        verdict.window.map(|_| misses(verdict, by_misses)),
        skipped(verdict, by_skipped),
    ];
    // If the run failed only because of skipped periods, the sentence starts with them.
    if verdict.fails_by_skipped_periods_alone() {
        parts.reverse();
    }
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{}{}", parts.join("; "), because(verdict, decided))
}

fn misses(verdict: &Verdict, by_misses: Outcome) -> String {
    let evidence = &verdict.evidence;
    let (misses, due_times) = (evidence.misses, evidence.due_times);
    let window = verdict
        .window
        .map_or_else(String::new, |window| window.to_string());
    let independent = if evidence.extremal_index.is_none() {
        ", assuming independent samples"
    } else {
        ""
    };
    let all = match evidence.misses_undecided {
        0 => misses.to_string(),
        undecided => format!("{misses} to {}", misses.saturating_add(undecided)),
    };
    let observed = match (misses, verdict.misses_allowed) {
        (0, _) if evidence.misses_undecided > 0 => {
            format!(
                "0 known misses in {due_times} due times; {} of these due times cannot be judged",
                evidence.misses_undecided
            )
        }
        (0, _) => {
            // Some imports do not state how long the measurement lasted, so no rate per hour is
            // known.
            let bound = match verdict.misses_an_hour_at_most() {
                _ if !verdict.is_bounded() => {
                    "too few samples are independent of each other to bound the rate".to_owned()
                }
                Some(an_hour) => format!(
                    "fewer than {} an hour{}",
                    significant(an_hour),
                    together(evidence.processors)
                ),
                None => format!(
                    "fewer than {} in a million",
                    significant(verdict.share_upper * 1e6)
                ),
            };
            let level = if verdict.is_bounded() {
                format!(" at 95 %{independent}")
            } else {
                String::new()
            };
            format!(
                "0 misses in {due_times} due times: {bound}{level}{}",
                stress(evidence)
            )
        }
        (_, None) => format!(
            "{all} of {due_times} due times missed {window}{}",
            of_them_skipped(evidence)
        ),
        (_, Some(_)) => format!(
            "{all} of {due_times} due times missed {window}{}: the true share is between {:.3e} \
             and {:.3e} (each bound at 95 %{independent})",
            of_them_skipped(evidence),
            verdict.share_lower,
            verdict.share_upper
        ),
    };
    let allowed = match (verdict.misses_allowed, by_misses) {
        (Some(allowed), Outcome::Failed) => format!("; more than the {allowed:e} allowed"),
        (Some(allowed), Outcome::Passed) => format!("; not more than the {allowed:e} allowed"),
        (Some(allowed), Outcome::Inconclusive) => {
            format!("; this may or may not exceed the {allowed:e} allowed: measure longer")
        }
        (None, _) => String::new(),
    };
    observed + &allowed
}

/// Returns the words that follow a rate per hour if the rate covers several CPUs; empty for a
/// single CPU.
#[must_use]
pub fn together(processors: usize) -> String {
    if processors > 1 {
        format!(" on {processors} CPUs together")
    } else {
        String::new()
    }
}

fn of_them_skipped(evidence: &Evidence) -> String {
    match evidence.misses_skipped.min(evidence.misses) {
        0 => String::new(),
        1 if evidence.misses == 1 => " (skipped)".to_owned(),
        all if all == evidence.misses => " (all of them skipped)".to_owned(),
        some => format!(" ({some} of them skipped)"),
    }
}

fn stress(evidence: &Evidence) -> &'static str {
    match evidence.stress {
        Stress::None => "",
        Stress::Same => ", under these loads",
        Stress::Mixture => ", over this mixture of loads",
    }
}

/// Returns the part of the sentence about skipped periods; `None` if the user set no limit and the
/// first part of the sentence already counts every skipped period.
fn skipped(verdict: &Verdict, by_skipped: Outcome) -> Option<String> {
    let evidence = &verdict.evidence;
    let periods = |count: u64| {
        if count == 1 {
            "1 period was skipped".to_owned()
        } else {
            format!("{count} periods were skipped")
        }
    };
    let Some(limited) = evidence.skipped_limited else {
        // Skipped due times that are misses, or may be misses, are counted in the first part of the
        // sentence.
        let others = evidence
            .skipped
            .saturating_sub(evidence.misses_skipped)
            .saturating_sub(evidence.misses_undecided);
        return match verdict.skipped_allowed {
            Some(_) => Some("the number of skipped periods is unknown".to_owned()),
            None => match others {
                0 => None,
                1 => Some(
                    "1 skipped due time would have met the deadline (--skipped limits such periods)"
                        .to_owned(),
                ),
                _ => Some(format!(
                    "{others} skipped due times would have met the deadline (--skipped limits such \
                     periods)"
                )),
            },
        };
    };
    Some(match (verdict.skipped_allowed, verdict.misses_allowed) {
        (None, _) if limited == 0 => return None,
        (Some(0), _) if limited == 0 => "0 periods were skipped".to_owned(),
        (Some(0), _) => format!("{}, but --skipped 0 allows none", periods(limited)),
        (Some(allowed), _) if limited > allowed => {
            format!("{}, more than the {allowed} allowed", periods(limited))
        }
        (Some(allowed), _) => format!("{}, not more than the {allowed} allowed", periods(limited)),
        (None, Some(allowed)) => match by_skipped {
            Outcome::Failed => format!(
                "{}, more than the {allowed:e} allowed (95 % confidence)",
                periods(limited)
            ),
            Outcome::Passed => format!(
                "{}, not more than the {allowed:e} allowed (95 % confidence)",
                periods(limited)
            ),
            Outcome::Inconclusive => format!(
                "{}, which may or may not exceed the {allowed:e} allowed",
                periods(limited)
            ),
        },
        (None, None) => format!(
            "{}, but none may be skipped if the deadline is at most the period (--skipped N \
             allows N)",
            periods(limited)
        ),
    })
}

fn because(verdict: &Verdict, decided: Outcome) -> String {
    let evidence = &verdict.evidence;
    let reasons: Vec<&str> = evidence
        .degraded
        .iter()
        .chain(&evidence.incomplete)
        .map(String::as_str)
        .collect();
    if verdict.outcome != Outcome::Inconclusive || reasons.is_empty() {
        return String::new();
    }
    // More samples alone would not decide the verdict.
    let also = if decided == Outcome::Inconclusive {
        "also "
    } else {
        ""
    };
    format!(" (inconclusive {also}because {})", reasons.join("; "))
}

/// Formats a bound with two significant digits, rounded up, so that the printed bound is never
/// below the computed one.
#[must_use]
pub fn significant(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return value.to_string();
    }
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step - 1e-9).ceil() * step;
    if step >= 1.0 {
        format!("{rounded:.0}")
    } else {
        format!("{rounded:.*}", (-step.log10()).round() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_bounds_are_rounded_up() {
        assert_eq!(significant(2.9957), "3.0");
        assert_eq!(significant(2.91), "3.0");
        assert_eq!(significant(0.0123), "0.013");
        assert_eq!(significant(10_784.6), "11000");
    }
}
