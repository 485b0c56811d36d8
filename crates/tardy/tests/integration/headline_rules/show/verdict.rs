//! Checks that the verdict's sentence is consistent and agrees with the exit code.

use super::super::Findings;
use super::super::numbers::{number_after, number_before, word_before};
use super::Page;

const EXIT_CODES: [(&str, i32); 3] = [("PASSED", 0), ("FAILED", 1), ("INCONCLUSIVE", 4)];

/// Claims of the verdict about misses or skipped periods: more than allowed, not more than allowed,
/// or undecided.
#[derive(Clone, Copy, Default)]
struct Claims {
    is_more: bool,
    is_at_most: bool,
    is_open: bool,
}

/// The values in the verdict's sentence.
#[derive(Default)]
pub(super) struct Verdict<'a> {
    /// `PASSED`, `FAILED` or `INCONCLUSIVE`; empty without a verdict.
    pub(super) word: &'static str,
    /// Exit code of the worst verdict. If there are several probes, each has a verdict.
    exit_code: i32,
    pub(super) sentence: &'a str,
    says_no_miss: bool,
    pub(super) due_times: Option<f64>,
    pub(super) misses: Option<f64>,
    /// Misses that are skipped periods.
    pub(super) skipped_misses: f64,
    /// Skipped periods that would have been in time.
    pub(super) skipped_in_time: Option<f64>,
    /// Skipped periods, if the verdict judges them separately.
    pub(super) skipped_periods: Option<f64>,
    /// Bounds of the share of misses.
    bounds: Option<(f64, f64)>,
    pub(super) allowed: Option<f64>,
    /// The allowed count or share of skipped periods.
    skipped_allowed: Option<f64>,
    of_misses: Claims,
    of_skipped_periods: Claims,
}

impl<'a> Verdict<'a> {
    pub(super) fn of(page: &Page<'a>) -> Self {
        let with_word = |&(word, code): &(&'static str, i32)| {
            let sentence = page.paragraph(&format!("{word}:"));
            (!sentence.is_empty()).then_some((word, code, sentence))
        };
        let verdicts: Vec<_> = EXIT_CODES.iter().filter_map(with_word).collect();
        let Some(&(word, _, sentence)) = verdicts.first() else {
            return Self::default();
        };
        // A failure outweighs an inconclusive verdict, and an inconclusive verdict outweighs a
        // pass.
        let exit_code = [1, 4, 0]
            .into_iter()
            .find(|worst| verdicts.iter().any(|(_, code, _)| code == worst))
            .unwrap_or(0);
        let says_no_miss = sentence.contains("0 misses in ");
        let due = word_before(sentence, " due times").unwrap_or("?");
        let counted = number_before(sentence, &format!(" of {due} due times missed"));
        let is_of_skipped =
            |clause: &&str| clause.contains(" periods were") || clause.contains(" period was");
        let of_skipped = sentence.split("; ").find(is_of_skipped).unwrap_or("");
        let of_misses = sentence.replace(of_skipped, "");
        let says = |pattern| of_misses.contains(pattern);
        Self {
            word,
            exit_code,
            sentence,
            says_no_miss,
            due_times: number_before(sentence, " due times"),
            misses: if says_no_miss { Some(0.0) } else { counted },
            skipped_misses: number_before(sentence, " of them skipped").unwrap_or(0.0),
            skipped_in_time: number_before(sentence, " skipped due times would")
                .or(number_before(sentence, " skipped due time would")),
            skipped_periods: number_before(sentence, " periods were skipped")
                .or(number_before(sentence, " period was skipped")),
            bounds: bounds(sentence),
            allowed: number_before(&of_misses, " allowed"),
            skipped_allowed: number_before(of_skipped, " allowed"),
            of_misses: Claims {
                is_more: says("; more than the"),
                is_at_most: says("; not more than the"),
                is_open: says("may or may not exceed the"),
            },
            of_skipped_periods: Claims {
                is_more: of_skipped.contains(", more than the"),
                is_at_most: of_skipped.contains(", not more than the"),
                is_open: of_skipped.contains("may or may not exceed the"),
            },
        }
    }

    /// The CPU, if the sentence is about a single CPU.
    pub(super) fn cpu_alone(&self) -> Option<&'a str> {
        let place = self.sentence.find(" alone: ")?;
        self.sentence[..place].rsplit(' ').next()
    }

    /// Returns whether the sentence begins with the count of misses instead of a name.
    pub(super) fn starts_with_its_count(&self) -> bool {
        let counted = format!("{}: {}", self.word, self.misses.unwrap_or(-1.0));
        self.says_no_miss || self.sentence.starts_with(&counted)
    }

    pub(super) fn is_passed(&self) -> bool {
        self.word == "PASSED"
    }

    fn is_failed(&self) -> bool {
        self.word == "FAILED"
    }

    /// Returns whether the skipped periods by themselves cause the verdict `FAILED`.
    pub(super) fn fails_by_skipped_periods(&self) -> bool {
        let claims = self.of_skipped_periods;
        self.skipped_periods.is_some() && !claims.is_at_most && !claims.is_open
    }
}

fn bounds(sentence: &str) -> Option<(f64, f64)> {
    let rest = &sentence[sentence.find("between ")?..];
    Some((
        number_after(rest, "between ")?,
        number_after(rest, " and ")?,
    ))
}

/// Checks the verdict against the exit code and the warnings.
pub(super) fn check_exit_code(
    page: &Page,
    verdict: &Verdict,
    exit_code: i32,
    found: &mut Findings,
) {
    let (word, code) = (verdict.word, verdict.exit_code);
    let has_verdict = !word.is_empty();
    let is_of_interruption = exit_code == 130 && code != 1 && page.title.contains("interrupted");
    found.add_if(
        has_verdict && code != exit_code && !is_of_interruption,
        format_args!("verdict {word} means exit code {code}, exit code is {exit_code}"),
    );
    let needs_a_cause = exit_code == 1 || exit_code == 4 && !page.has_warning();
    found.add_if(
        !has_verdict && needs_a_cause,
        format_args!("exit code {exit_code} is explained by neither a verdict nor a warning"),
    );
    found.add_if(
        verdict.sentence.contains("warnings below)") && !page.has_warning(),
        format_args!("verdict: inconclusive because of the warnings below, without a warning"),
    );
    let has_lost_samples =
        page.is_cut_off() || page.text.contains("were lost before they were recorded");
    found.add_if(
        verdict.is_passed() && has_lost_samples,
        format_args!("verdict PASSED against the warning of lost samples"),
    );
}

/// Checks the verdict against the misses that its sentence counts.
pub(super) fn check_count(verdict: &Verdict, found: &mut Findings) {
    let (Some(misses), Some(due)) = (verdict.misses, verdict.due_times) else {
        return;
    };
    let fails_without_cause =
        verdict.is_failed() && misses == 0.0 && !verdict.fails_by_skipped_periods();
    let is_allowed = verdict.allowed.is_some();
    let passes_against_count =
        verdict.is_passed() && (misses > 0.0 && !is_allowed || verdict.fails_by_skipped_periods());
    let is_impossible = misses > due || verdict.skipped_misses > misses;
    found.add_if(
        fails_without_cause || passes_against_count || is_impossible,
        format_args!(
            "verdict {} against its own count: {misses} of {due} missed, {} of them skipped, {:?} \
             counted",
            verdict.word, verdict.skipped_misses, verdict.skipped_periods
        ),
    );
}

/// Checks the share of misses against its bounds and against the statement about the allowed share.
pub(super) fn check_share(verdict: &Verdict, found: &mut Findings) {
    let (Some(misses), Some(due)) = (verdict.misses, verdict.due_times) else {
        return;
    };
    let share = misses / due;
    // In a run without a miss, the upper bound at 95 % corresponds to three misses (the rule of
    // three).
    let of_few_misses = if misses == 0.0 { 2.99 / due } else { share };
    let (low, high) = verdict.bounds.unwrap_or((0.0, of_few_misses));
    found.add_if(
        share < low * 0.999 || share > high * 1.001,
        format_args!("verdict: {misses} of {due} missed is not between {low} and {high}"),
    );
    let Some(allowed) = verdict.allowed else {
        return;
    };
    let (claims, has_bounds) = (verdict.of_misses, verdict.bounds.is_some());
    let is_not_more = claims.is_more && (share <= allowed || has_bounds && low <= allowed);
    let is_not_less = claims.is_at_most && high > allowed;
    let is_decided = claims.is_open && has_bounds && (low > allowed || high < allowed);
    let passes_unsaid = verdict.is_passed() && !claims.is_at_most;
    let fails_unsaid =
        verdict.is_failed() && !claims.is_more && !verdict.fails_by_skipped_periods();
    found.add_if(
        is_not_more || is_not_less || is_decided || passes_unsaid || fails_unsaid,
        format_args!(
            "verdict {}: {misses} of {due}, between {low} and {high}, against what is said of the \
             {allowed} allowed",
            verdict.word
        ),
    );
}

/// Checks the skipped periods against the statement about the allowed share.
pub(super) fn check_skipped_periods(verdict: &Verdict, found: &mut Findings) {
    let (Some(skipped), Some(due), Some(allowed)) = (
        verdict.skipped_periods,
        verdict.due_times,
        verdict.skipped_allowed,
    ) else {
        return;
    };
    let most = if allowed < 1.0 {
        allowed * due
    } else {
        allowed
    };
    let claims = verdict.of_skipped_periods;
    let is_false = claims.is_at_most && skipped > most || claims.is_more && skipped <= most;
    let passes_unsaid = verdict.is_passed() && !claims.is_at_most;
    found.add_if(
        is_false || passes_unsaid,
        format_args!(
            "verdict {}: {skipped} periods of {due} skipped, against what is said of the {allowed} \
             allowed",
            verdict.word
        ),
    );
}
