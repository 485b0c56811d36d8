//! Advice as text: the conclusion, the verdict on each kernel with its conditions, the path through
//! the rules, and the model.

use std::fmt::Write as _;

use tardy_advise::advice::{Advice, Comparison};
use tardy_advise::flow::{self, Choice};
use tardy_advise::help::{Help, Improvements};
use tardy_advise::judgement::{Basis, Conditions, Judgement, Margin};
use tardy_core::cpu::CpuList;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::verdict::{Outcome, Verdict};
use tardy_machine::checks::{Finding, Importance, State};

use super::words::{crossing, time};
use crate::report::doctor_text::counts;
use crate::report::table::Table;

const WARNINGS_SHOWN: usize = 4;
const HELPS_SHOWN: usize = 4;

/// Returns the advice as text, with tables at most `columns` wide.
#[must_use]
pub fn text(advice: &Advice, columns: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", head(advice.outcome), advice.conclusion);
    let _ = writeln!(out, "{}", advice.decision.text);
    if advice.kernels.len() > 1 {
        out.push_str(&ranking(advice).in_blocks(columns));
    }
    for judgement in &advice.kernels {
        kernel(&mut out, judgement, advice);
    }
    // A verdict that follows from measurements overrides the rules.
    if advice
        .kernels
        .iter()
        .all(|kernel| kernel.largest_ns.is_none())
    {
        rules(&mut out, &advice.path);
    }
    for comparison in &advice.comparisons {
        model(&mut out, comparison);
    }
    // Guests in virtual time do not depend on the settings of this machine.
    if advice.kernels.is_empty() || !advice.kernels.iter().all(is_virtual) {
        help(&mut out, &advice.helps);
    }
    out
}

fn head(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "ADVICE",
        Some(Outcome::Passed) => "PASSED",
        Some(Outcome::Failed) => "FAILED",
        Some(Outcome::Inconclusive) => "INCONCLUSIVE",
    }
}

/// Returns a table of the kernels: verdict, largest latency, margin, misses and throughput.
fn ranking(advice: &Advice) -> Table {
    let deadline = advice
        .task
        .deadline_ns
        .map_or_else(|| "deadline".to_owned(), Nanos::exact);
    let mut table = Table::new([
        "kernel".to_owned(),
        deadline,
        "largest".to_owned(),
        "margin".to_owned(),
        "misses an hour, 95 %".to_owned(),
        "throughput".to_owned(),
    ]);
    for judgement in &advice.kernels {
        let outcome = match judgement.verdict.as_ref().map(|verdict| verdict.outcome) {
            Some(Outcome::Passed) => "met",
            Some(Outcome::Failed) => "missed",
            Some(Outcome::Inconclusive) => "undecided",
            None if is_virtual(judgement) => "virtual time",
            None => "-",
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let an_hour = judgement.verdict.as_ref().and_then(|verdict| {
            let at_most = verdict.misses_an_hour_at_most()?;
            Some(format!("< {}", count(at_most)))
        });
        let throughput = judgement.slowdown.as_ref().map(|slowdown| {
            let share = 1.0 / (1.0 + slowdown.estimate.value) - 1.0;
            format!("{:+.1} %", share * 100.0)
        });
        table.row([
            judgement.kernel.clone(),
            outcome.to_owned(),
            or_dash(judgement.largest_ns.map(|largest| largest.to_string())),
            or_dash(
                judgement
                    .margin
                    .as_ref()
                    .map(|margin| margin.to_deadline_ns.to_string()),
            ),
            or_dash(an_hour),
            or_dash(throughput),
        ]);
    }
    table.words([1])
}

fn is_virtual(judgement: &Judgement) -> bool {
    judgement
        .conditions
        .as_ref()
        .is_some_and(|conditions| conditions.clock == ClockKind::Virtual)
}

fn kernel(out: &mut String, judgement: &Judgement, advice: &Advice) {
    let (head, sentence) = match (&judgement.verdict, &judgement.no_verdict_because) {
        (Some(verdict), _) => (
            head(Some(verdict.outcome)),
            sentence(verdict, judgement.judged.as_ref(), advice.task.deadline_ns),
        ),
        (None, Some(why)) => ("no verdict", why.clone()),
        (None, None) => ("no verdict", "a measurement is missing".to_owned()),
    };
    let _ = writeln!(out, "{}: {head}: {sentence}", judgement.kernel);
    if let Some(judged) = &judgement.judged {
        let _ = writeln!(out, "  judged: {}", basis(judged, advice));
    }
    if let (Some(margin), Some(deadline)) = (&judgement.margin, advice.task.deadline_ns) {
        let _ = writeln!(
            out,
            "  margin: {}",
            margin_text(margin, deadline, judgement)
        );
    }
    if let Some(verdict) = judgement
        .verdict
        .as_ref()
        .filter(|verdict| verdict.outcome == Outcome::Inconclusive)
    {
        let _ = writeln!(
            out,
            "  cannot say: {}",
            what_would_decide(judgement, verdict)
        );
    }
    if let Some(misses) = judgement.misses_a_year_at_most {
        let _ = writeln!(
            out,
            "  at most {} misses per year (95 % confidence), if the conditions stay the same all \
             year",
            count(misses)
        );
    }
    if let Some(conditions) = &judgement.conditions {
        let _ = writeln!(out, "  conditions: {}", conditions_text(conditions));
    }
    for warning in judgement.warnings.iter().take(WARNINGS_SHOWN) {
        let _ = writeln!(out, "  {}", warning.line());
    }
    if judgement.warnings.len() > WARNINGS_SHOWN {
        let _ = writeln!(
            out,
            "  ! and {} more warnings: see --json",
            judgement.warnings.len() - WARNINGS_SHOWN
        );
    }
}

/// Returns the sentence that states a verdict. If the model adds work, the start latency is judged
/// against the deadline minus the length of the work. The sentence then states both numbers.
fn sentence(verdict: &Verdict, judged: Option<&Basis>, deadline: Option<Nanos>) -> String {
    let (Some(Basis::Model { work_ns, .. }), Some(deadline), Some(window)) =
        (judged, deadline, verdict.window)
    else {
        return verdict.sentence.clone();
    };
    let window = window.to_string();
    verdict.sentence.replacen(
        &window,
        &format!(
            "{window} ({} minus {} of work)",
            deadline.exact(),
            work_ns.exact()
        ),
        1,
    )
}

fn basis(judged: &Basis, advice: &Advice) -> String {
    match judged {
        Basis::Completion {
            probe,
            length_ns,
            added_ns,
        } => {
            let of = length_ns.map_or_else(String::new, |length| format!(" of {}", length.exact()));
            let model = match added_ns.get() {
                0 => String::new(),
                added if added > 0 => format!(
                    "; a model added {}, which was not measured",
                    time(added as f64)
                ),
                less => format!(
                    "; a model subtracted {}, which was not measured",
                    time(-less as f64)
                ),
            };
            format!("completions of work{of}, as measured by {probe}{model}")
        }
        Basis::Model {
            probe,
            work_ns,
            slowdown,
        } => {
            let stretched = match (slowdown, advice.task.work_ns) {
                (None, _) => {
                    " (without slowdown, which needs cost runs of both kernels)".to_owned()
                }
                (Some(share), Some(work)) if *work_ns != work => {
                    format!(" ({} slowed down by {:.1} %)", work.exact(), share * 100.0)
                }
                (Some(_), _) => String::new(),
            };
            format!(
                "a model: the start latency measured by {probe}, plus {} of work that was not \
                 measured{stretched}",
                time(work_ns.get() as f64)
            )
        }
        Basis::Start { probe } => format!(
            "the start latency alone, as measured by {probe}: the length of the work is not known \
             (--work)"
        ),
    }
}

fn margin_text(margin: &Margin, deadline: Nanos, judgement: &Judgement) -> String {
    let done = if matches!(judgement.judged, Some(Basis::Start { .. })) {
        "started"
    } else {
        "was done"
    };
    let place = |left: Nanos| {
        let (distance, word) = if left < Nanos::ZERO {
            (-left, "after")
        } else {
            (left, "before")
        };
        format!(
            "{} {word} the deadline of {}",
            time(distance.get() as f64),
            deadline.exact()
        )
    };
    let mut text = format!(
        "in the worst sample, the work {done} {} after its due time, {}",
        time(margin.worst_ns.get() as f64),
        place(margin.to_deadline_ns)
    );
    if margin.share >= 0.0 {
        let _ = write!(text, " ({:.0} % of the deadline)", margin.share * 100.0);
    }
    if let Some(bounded) = margin.bounded {
        let share = (bounded.probability * 1e9).round() / 1e7;
        let _ = write!(
            text,
            "; at 95 % confidence, {share} % of samples are within {}, {}",
            time(bounded.upper_ns.get() as f64),
            place(bounded.to_deadline_ns)
        );
    }
    text
}

fn what_would_decide(judgement: &Judgement, verdict: &Verdict) -> String {
    let evidence = &verdict.evidence;
    match judgement.measure_longer_ns {
        Some(longer) => format!(
            "run for {} more: if misses stay as rare as they were, this is enough to decide",
            duration(longer)
        ),
        None if evidence.due_times == 0 => "there are no samples; run again".to_owned(),
        None if !evidence.degraded.is_empty() || !evidence.incomplete.is_empty() => {
            "a longer run would not decide; resolve the warnings and run again".to_owned()
        }
        None => "a longer run would not decide: the observed share of misses is close to the \
                 allowed share"
            .to_owned(),
    }
}

/// Formats a duration, rounded up, because a shorter measurement would not decide the verdict.
fn duration(span: Nanos) -> String {
    let seconds = span.as_secs_f64();
    let tenths = |value: f64| (value * 10.0 - 1e-9).ceil() / 10.0;
    let whole = |value: f64| (value - 1e-9).ceil();
    let (minutes, hours) = (seconds / 60.0, seconds / 3600.0);
    if minutes < 1.0 {
        format!("{:.0} s", whole(seconds).max(1.0))
    } else if hours < 0.1 {
        format!("{:.1} minutes", tenths(minutes))
    } else if hours < 100.0 {
        format!("{:.1} hours", tenths(hours))
    } else {
        format!(
            "{:.0} hours ({:.0} days)",
            whole(hours),
            whole(hours / 24.0)
        )
    }
}

/// Formats a bound with two digits, rounded up, because a printed bound must not be smaller than
/// the computed one.
fn count(value: f64) -> String {
    if value < 1e-9 {
        return "1e-9".to_owned();
    }
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / step - 1e-9).ceil() * step;
    if (0.1..1e6).contains(&rounded) {
        format!("{}", (rounded * 100.0).round() / 100.0)
    } else {
        format!("{rounded:.1e}")
    }
}

fn conditions_text(conditions: &Conditions) -> String {
    let under = if conditions.is_idle {
        "no load, so latency under load is unknown".to_owned()
    } else {
        conditions.phases.join(", ")
    };
    let scheduling = conditions
        .scheduling
        .as_ref()
        .map_or_else(String::new, |scheduling| format!(" at {scheduling}"));
    let awake = if conditions.is_kept_awake {
        ", C-states limited through /dev/cpu_dma_latency (your program must do the same)"
    } else {
        ""
    };
    let clock = match conditions.clock {
        ClockKind::Virtual => "virtual time",
        _ => "hardware clock",
    };
    let cpus = conditions
        .cpus
        .parse::<CpuList>()
        .map_or_else(|_| format!("CPUs {}", conditions.cpus), |cpus| cpus.named());
    format!(
        "{} on {cpus}{scheduling}, {clock}, under {under}{awake}; from {}",
        conditions.measured_ns,
        conditions.runs.join(", ")
    )
}

fn rules(out: &mut String, path: &flow::Path) {
    out.push_str("rules of mckenney2009, section 5, applied without a measurement:\n");
    for step in &path.steps {
        let answer = if step.is_yes { "yes" } else { "no" };
        let basis = match step.basis {
            flow::Basis::Measured => "measured",
            flow::Basis::Stated => "stated",
            flow::Basis::Assumed => "assumed",
        };
        let _ = writeln!(
            out,
            "  {} {answer}, {basis}: {}",
            step.question, step.reason
        );
    }
    let choice = match path.choice {
        Choice::RealTime => {
            "a real-time kernel, which the paper calls \"real time\"; measure to confirm"
        }
        Choice::RealFast => {
            "an ordinary kernel, which starts work later but completes more of it; the paper calls \
             it \"real fast\""
        }
    };
    let source = path.steps.last().map_or("", |step| step.source);
    let _ = writeln!(out, "  so: {choice} ({source})");
}

fn model(out: &mut String, comparison: &Comparison) {
    let curves = &comparison.curves;
    let is_virtual = comparison.clock == ClockKind::Virtual;
    let virtual_time = if is_virtual {
        " in VIRTUAL TIME, which compares lengths of code paths and supports no verdict"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "model of total delay{virtual_time}: largest latency {} on {}, {} on {}",
        time(curves.latency_fast_ns.value),
        comparison.fast,
        time(curves.latency_real_time_ns.value),
        comparison.real_time
    );
    match &comparison.slowdown {
        Some(slowdown) => {
            let _ = writeln!(
                out,
                "  {}; slowdown measured from the {}",
                crossing(curves.crossing, slowdown.estimate.value),
                slowdown.measured_by
            );
        }
        None => out.push_str(
            "  to measure the slowdown of work, make cost runs of both kernels (tardy cost --out \
             ..., on each), and give --kind; --json has the curves without slowdown\n",
        ),
    }
}

fn help(out: &mut String, helps: &Improvements) {
    let faults: Vec<Importance> = helps
        .improvable
        .iter()
        .map(|help| help.finding.importance)
        .collect();
    let _ = writeln!(
        out,
        "most useful changes on {} ({}):",
        helps.machine,
        counts(&faults, helps.good, helps.unknown.len())
    );
    for help in helps.improvable.iter().take(HELPS_SHOWN) {
        let Finding {
            check, state, why, ..
        } = &help.finding;
        let State::Improvable {
            current,
            expected,
            remedy,
            needs_restart,
        } = state
        else {
            continue;
        };
        let seen = help
            .seen_in_run
            .as_ref()
            .map_or_else(String::new, |seen| format!(" (seen: {seen})"));
        let restart = if *needs_restart { ", then restart" } else { "" };
        let _ = writeln!(
            out,
            "  {check}: {current}; should be {expected}: {why}{seen}"
        );
        let _ = writeln!(out, "    {remedy}{restart}");
    }
    if helps.improvable.is_empty() {
        out.push_str("  the checks suggest no change\n");
    }
    let left = helps.improvable.iter().skip(HELPS_SHOWN);
    let matters =
        |help: &&Help| help.finding.importance < Importance::Low || help.seen_in_run.is_some();
    let rest: Vec<&str> = left
        .clone()
        .filter(matters)
        .map(|help| help.finding.check)
        .collect();
    if !rest.is_empty() {
        let _ = writeln!(
            out,
            "  also: {} (--json shows their remedies)",
            rest.join(", ")
        );
    }
    let low = left.count() - rest.len();
    if low > 0 {
        let _ = writeln!(out, "  and {low} of low importance");
    }
    let left_out = helps.left_out.map_or_else(String::new, |check| {
        format!(
            "; the counts above leave out {check}, because this work does not need that setting"
        )
    });
    let _ = writeln!(
        out,
        "  tardy doctor checks the same settings, and watches counters too{left_out}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rounded_up_and_spans_have_a_unit_that_suits_them() {
        assert_eq!(
            [94_501.0, 2.001, 3.2e9, 0.5].map(count),
            ["95000", "2.1", "3.2e9", "0.5"]
        );
        let spans = [
            Nanos::from_secs(60),
            Nanos::from_secs(9_000),
            Nanos::from_secs(3_600_000),
        ]
        .map(duration);
        assert_eq!(spans, ["1.0 minutes", "2.5 hours", "1000 hours (42 days)"]);
    }

    #[test]
    fn a_span_is_never_shown_shorter_than_it_is() {
        let texts =
            [144_100, 9_010_000, 3_603_000_000].map(|millis| duration(Nanos::from_millis(millis)));
        assert_eq!(texts, ["2.5 minutes", "2.6 hours", "1001 hours (42 days)"]);
    }

    #[test]
    fn a_little_longer_is_told_in_seconds() {
        let texts = [20, 1_500, 59_000, 180_000].map(|millis| duration(Nanos::from_millis(millis)));
        assert_eq!(texts, ["1 s", "2 s", "59 s", "3.0 minutes"]);
    }
}
