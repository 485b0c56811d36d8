//! Estimates how much longer a measurement must last before its verdict is decided.

use tardy_statistics::confidence::Confidence;

use super::{Outcome, Verdict};
use crate::units::Nanos;

/// Upper limit of the number of samples. At one sample per microsecond, 1e16 samples take 300
/// years.
const SAMPLES_MAX: f64 = 1e16;

/// Returns the total number of samples that would decide `verdict`, if the rate and the clustering
/// of misses stay the same. Returns `None` if no share of misses is allowed, or if the verdict is
/// decided. Also returns `None` if no number of samples would decide the verdict. This happens if
/// the observed share equals the allowed share, or if the set-up or lost samples make the verdict
/// inconclusive.
#[must_use]
pub fn samples_to_decide(verdict: &Verdict) -> Option<u64> {
    let evidence = &verdict.evidence;
    let is_sound =
        evidence.degraded.is_empty() && evidence.incomplete.is_empty() && evidence.due_times > 0;
    let allowed = verdict
        .misses_allowed
        .filter(|_| verdict.outcome == Outcome::Inconclusive && is_sound)?;
    let confidence = Confidence::new(verdict.confidence).ok()?;
    let clustering = evidence.clustering();
    let share = evidence.misses as f64 / evidence.due_times as f64;
    let decides = |samples: f64| {
        let events = share * samples;
        clustering.share_upper(events, samples, confidence) <= allowed
            || clustering.share_lower(events, samples, confidence) > allowed
    };
    let mut enough = evidence.due_times as f64;
    while !decides(enough) {
        enough *= 2.0;
        if enough > SAMPLES_MAX {
            return None;
        }
    }
    // If some number of samples suffices, every larger number suffices too, because the share stays
    // the same.
    let mut too_few = enough / 2.0;
    while enough - too_few > 1.0 && (enough - too_few) / enough > 1e-6 {
        let middle = f64::midpoint(too_few, enough);
        if decides(middle) {
            enough = middle
        } else {
            too_few = middle
        }
    }
    Some(enough.ceil() as u64)
}

/// Returns how much longer the measurement must last, at the same rate of samples, to decide the
/// verdict.
#[must_use]
pub fn time_to_decide(verdict: &Verdict) -> Option<Nanos> {
    let needed = samples_to_decide(verdict)?;
    let evidence = &verdict.evidence;
    let factor = needed as f64 / evidence.due_times as f64 - 1.0;
    let longer = evidence.measured.get() as f64 * factor;
    // A time above 292 years cannot be represented.
    (longer < i64::MAX as f64).then_some(Nanos(longer.ceil() as i64))
}

#[cfg(test)]
mod tests {
    use super::super::requirement::Requirement;
    use super::super::{Evidence, judge};
    use super::*;
    use proptest::prelude::*;
    use tardy_statistics::proportion::{proportion_lower, proportion_upper};

    fn verdict(misses: u64, samples: u64, allowed: f64, index: Option<f64>) -> Verdict {
        let evidence = Evidence {
            misses,
            due_times: samples,
            extremal_index: index,
            measured: Nanos::from_secs(3600),
            ..Evidence::default()
        };
        judge(
            &Requirement {
                misses_allowed: Some(allowed),
                ..Requirement::deadline(Nanos(200_000))
            },
            evidence,
        )
    }

    #[test]
    fn without_a_miss_three_over_the_share_allowed_are_needed() {
        let found = verdict(0, 100_000, 1e-6, Some(1.0));
        // The exact form of the rule of three is ln 0.05 / ln(1 - 1e-6).
        let needed = samples_to_decide(&found).unwrap();
        assert!((needed as f64 / 2_995_730.8 - 1.0).abs() < 1e-5, "{needed}");
        let hours = time_to_decide(&found).unwrap().as_secs_f64() / 3600.0;
        assert!((hours - 28.957).abs() < 0.001, "{hours}");
        assert!(samples_to_decide(&verdict(0, 100_000, 1e-6, Some(0.1))).unwrap() > 29_000_000);
    }

    #[test]
    fn what_more_samples_cannot_decide_has_no_number() {
        assert_eq!(
            samples_to_decide(&verdict(0, 10_000_000, 1e-6, Some(1.0))),
            None,
            "it passed"
        );
        assert_eq!(
            samples_to_decide(&verdict(100, 1_000_000, 1e-4, Some(1.0))),
            None,
            "the share seen is the one allowed"
        );
        let mut lost = verdict(0, 100, 1e-6, Some(1.0));
        lost.evidence.incomplete.push("4 samples lost".into());
        assert_eq!(samples_to_decide(&lost), None);
    }

    proptest! {
        // Most generated cases are skipped, because the samples already decide their verdict.
        #![proptest_config(ProptestConfig {
            max_global_rejects: 1 << 20,
            ..ProptestConfig::default()
        })]
        #[test]
        fn so_many_samples_decide_and_clearly_fewer_do_not(misses in 0_u64..30, samples in 1_000_u64..1_000_000, times in 1.2_f64..5.0, above: bool, index in 0.05_f64..1.0) {
            let share = misses.max(1) as f64 / samples as f64;
            let allowed = if above && misses > 0 { share / times } else { share * times };
            let found = verdict(misses, samples, allowed, Some(index));
            prop_assume!(found.outcome == Outcome::Inconclusive);
            let needed = samples_to_decide(&found).unwrap();
            let at = |samples: f64| {
                let (events, trials) = (misses as f64 / found.evidence.due_times as f64 * samples * index, samples * index);
                let level = Confidence::NINETY_FIVE;
                proportion_upper(events, trials, level) <= allowed || proportion_lower(events, trials, level) > allowed
            };
            prop_assert!(at(needed as f64 * 1.00001) && !at(needed as f64 * 0.999));
        }
    }
}
