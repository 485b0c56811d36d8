//! An explained run as text: the causes of its late samples, the parts of their latency, and the
//! worst samples as time lines.

use std::fmt::Write as _;

use tardy_results::explain::executed::ExecutedCode;
use tardy_results::explain::run::{RunExplanation, SampleStory};
use tardy_results::explain::stacks::StackRow;
use tardy_results::explain::{LoopRow, words};
use tardy_run::tracing::{Agreement, SecondOpinion, TracingRecord};

use super::explain_text::{
    bar, components, holders, largest_cause, late_by, ordinary, ranked, rules, share, time,
};

#[must_use]
pub fn text(explanation: &RunExplanation) -> String {
    let mut out = String::new();
    head(&mut out, explanation);
    for warning in warnings(explanation) {
        let _ = writeln!(out, "! {warning}");
    }
    if let Some(lateness) = explanation.lateness {
        holders(
            &mut out,
            &explanation.holders,
            lateness.sum_ns,
            explanation.unexplained_ns,
        );
        components(&mut out, &explanation.components, lateness.sum_ns);
        stacks(&mut out, &explanation.stacks, lateness.sum_ns);
    }
    ordinary(&mut out, explanation.ordinary.as_ref(), "sample");
    for (index, story) in explanation.worst.iter().enumerate() {
        out.push('\n');
        out.push_str(&late_sample(&format!("Worst {}", index + 1), story));
    }
    if let Some(opinion) = explanation
        .tracing
        .as_ref()
        .and_then(|tracing| tracing.second_opinion.as_ref())
    {
        second_opinion(&mut out, opinion);
    }
    for looped in &explanation.loops {
        let _ = writeln!(out, "\n{}", rules_head(looped));
        rules(&mut out, &looped.rules);
        if let Some(line) = monitors(looped) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// Writes the answer first, then the number of samples on which it is based.
fn head(out: &mut String, explanation: &RunExplanation) {
    let counts = &explanation.samples;
    let late = match explanation.lateness {
        Some(late) => format!(": {}", late_by(late)),
        None if explanation.written_and_missing().1 > 0 => ": latency unknown".to_owned(),
        None => String::new(),
    };
    let ranked = ranked(counts.ranked, "sample", explanation.threshold);
    let _ = writeln!(out, "{ranked}{late}");
    if let Some(cause) = largest_cause(&explanation.holders, explanation.lateness) {
        let _ = writeln!(out, "{cause}");
    }
    let sums = format!(
        "in {} of {} samples, the parts between the due time and the clock read add up to the \
         latency",
        counts.checked - counts.not_adding_up,
        counts.checked
    );
    match &explanation.tracing {
        Some(tracing) => {
            let mut probes: Vec<&str> = tracing
                .series
                .iter()
                .map(|series| series.probe.as_str())
                .collect();
            probes.dedup();
            let _ = writeln!(
                out,
                "A trace recorded during the run explains {} samples of {}: {sums}",
                counts.explained,
                probes.join(" and "),
            );
        }
        None => {
            let _ = writeln!(
                out,
                "The plugin trace of every instruction explains the {} worst samples of the \
                 phases: {sums}",
                counts.explained
            );
        }
    }
}

pub(super) fn warnings(explanation: &RunExplanation) -> Vec<String> {
    let counts = &explanation.samples;
    let mut warnings = Vec::new();
    if counts.not_adding_up > 0 {
        warnings.push(format!(
            "the parts of {} samples do not add up to the latency: these explanations cannot be \
             trusted; please report this",
            counts.not_adding_up
        ));
    }
    if counts.damaged_bytes > 0 {
        warnings.push(format!(
            "{} bytes of explanations are damaged and left out",
            counts.damaged_bytes
        ));
    }
    let (written, missing) = explanation.written_and_missing();
    if missing > 0 {
        warnings.push(format!(
            "{missing} of {written} explanations are missing: the files trace/*.delays are cut \
             off or damaged"
        ));
    }
    if counts.given_way > 0 {
        warnings.push(format!(
            "to stay within --disk, newer explanations replaced those of {} samples; the \
             explanations of the worst samples are kept",
            counts.given_way
        ));
    }
    if let Some(outside) = &explanation.outside {
        if outside.left_out > 0 {
            warnings.push(format!(
                "{} of the worst samples were dropped, because memory was full",
                outside.left_out
            ));
        }
        if outside.of_nobody > 0 {
            warnings.push(format!(
                "{} samples are left out, because their threads belong to no probe of this run",
                outside.of_nobody
            ));
        }
    }
    if counts.left_out > 0 {
        warnings.push(format!(
            "{} samples have no explanation, because tardy could not keep up with the trace",
            counts.left_out
        ));
    }
    warnings.extend(explanation.tracing.iter().flat_map(warnings_of_trace));
    warnings
}

/// Formats the number of gaps in the trace where events were lost.
pub(super) fn places(count: u64) -> String {
    match count {
        1 => "1 place".to_owned(),
        _ => format!("{count} places"),
    }
}

fn warnings_of_trace(tracing: &TracingRecord) -> Vec<String> {
    let mut warnings = Vec::new();
    if tracing.losses > 0 {
        warnings.push(format!(
            "at least {} events were lost at {} in the trace; the holders of the CPU are unknown \
             there; use --cpus to leave a CPU to the tool",
            tracing.lost_events,
            places(tracing.losses)
        ));
    }
    if tracing.calibration.out_of_idle == 0 && tracing.calibration.into_idle > 0 {
        warnings.push(
            "this kernel does not trace switches from the idle task to a thread, so one part \
             covers the time from the last event before the switch to the clock read"
                .to_owned(),
        );
    }
    if tracing.level == TracingRecord::STACKS {
        warnings.push(
            "recording a kernel stack takes up to tens of microseconds: do not compare these \
             latencies with those of other runs"
                .to_owned(),
        );
    }
    if tracing.level == TracingRecord::TIMERLAT {
        warnings.push(
            "timerlat ran too, and its thread takes the CPU every millisecond: do not compare \
             these latencies with those of other runs"
                .to_owned(),
        );
    }
    if let Some(error) = &tracing.no_second_opinion {
        warnings.push(format!(
            "there is no second opinion by timerlat, because the kernel lacks this tracer ({error})"
        ));
    }
    if let Some(error) = &tracing.no_stacks {
        warnings.push(format!(
            "there are no stacks, because this kernel's events do not support stack triggers \
             ({error})"
        ));
    }
    if tracing.are_functions_hidden {
        warnings.push(
            "the kernel hides the addresses of its functions, so functions have no names here \
             (sysctl kernel.kptr_restrict)"
                .to_owned(),
        );
    }
    warnings
}

/// Maximum number of rows in the table of stacks.
const STACKS_SHOWN: usize = 8;
/// Maximum number of functions that are shown of a stack, starting with the innermost.
const FUNCTIONS_SHOWN: usize = 6;

fn stacks(out: &mut String, rows: &[StackRow], all: u64) {
    if rows.is_empty() {
        return;
    }
    out.push_str("\nKernel functions during the delay (innermost first)\n");
    for row in rows.iter().take(STACKS_SHOWN) {
        let (who, end) = (
            tardy_results::explain::stacks::who(row),
            if row.is_end { ", CPU given up in" } else { "" },
        );
        let _ = writeln!(
            out,
            "  {:>6}  max {:>9}  {who}{end}: {}",
            share(row.sum_ns, all),
            time(row.max_ns),
            way(&row.functions)
        );
    }
    if rows.len() > STACKS_SHOWN {
        let _ = writeln!(
            out,
            "  and {} more: --json has them all, --folded FILE writes them for flame graphs",
            rows.len() - STACKS_SHOWN
        );
    }
}

/// Joins the names of functions, innermost first.
fn way(functions: &[String]) -> String {
    let shown: Vec<&str> = functions
        .iter()
        .take(FUNCTIONS_SHOWN)
        .map(String::as_str)
        .collect();
    let more = if functions.len() > FUNCTIONS_SHOWN {
        " < ..."
    } else {
        ""
    };
    format!("{}{more}", shown.join(" < "))
}

fn second_opinion(out: &mut String, opinion: &SecondOpinion) {
    let _ = writeln!(out, "\n{}", second_opinion_head(opinion));
    for (what, said) in second_opinions(opinion) {
        let _ = writeln!(out, "  {what:<24} {said}");
    }
}

pub(super) fn second_opinion_head(opinion: &SecondOpinion) -> String {
    format!(
        "Second opinion: timerlat measured {} wake-ups of its threads",
        opinion.wake_ups
    )
}

/// Returns how well the trace agrees with timerlat on two parts of a latency: the part until the
/// timer's function runs, and the part until the thread runs.
pub(super) fn second_opinions(opinion: &SecondOpinion) -> [(&'static str, String); 2] {
    [
        ("to its timer's function", opinion.interrupt),
        ("to its thread", opinion.thread),
    ]
    .map(|(what, agreement)| {
        let Agreement {
            compared,
            agreeing,
            difference_min_ns,
            difference_max_ns,
            theirs_max_ns,
        } = agreement;
        let largest = time(theirs_max_ns);
        let said = format!(
            "{agreeing} of {compared} agree within 1 us or 2 % (timerlat's latency minus tardy's: \
             {difference_min_ns} to {difference_max_ns} ns; timerlat's largest {largest})"
        );
        (what, said)
    })
}

/// Returns the heading above the rules that a loop broke.
pub(super) fn rules_head(looped: &LoopRow) -> String {
    format!("Rules of a real-time loop broken by {}", loop_name(looped))
}

/// Returns what the kernel's own monitors reported about a loop, if any was enabled.
pub(super) fn monitors(looped: &LoopRow) -> Option<String> {
    let reports = looped
        .monitors
        .iter()
        .map(|reports| format!("{} {}", reports.monitor, reports.count));
    let reports = reports.collect::<Vec<_>>().join(", ");
    (!reports.is_empty())
        .then(|| format!("Second opinion: violations reported by the kernel's monitors: {reports}"))
}

/// Names a loop by its thread and the thread's priority.
pub(super) fn loop_name(looped: &LoopRow) -> String {
    let id = looped.id.map_or_else(String::new, |id| format!("/{id}"));
    let priority = words::priority(looped.priority);
    format!("{}{id} ({priority})", looped.thread)
}

/// Describes a late sample: a time line of who had the CPU, then sections and functions.
#[must_use]
pub fn late_sample(name: &str, story: &SampleStory) -> String {
    let mut out = String::new();
    let phase = story
        .phase
        .as_ref()
        .map_or_else(String::new, |phase| format!(" in {phase}"));
    let woken = story.waker.as_ref().map_or_else(
        || ", awake".to_owned(),
        |waker| format!(", woken by {waker}"),
    );
    let since = story.since_start_ns.get() as f64 / 1e9;
    let _ = writeln!(
        out,
        "{name}: {} {} late on CPU {}, due {since:.6} s after the start{phase}{woken}",
        story.probe,
        time(story.latency_ns),
        story.cpu
    );
    let mut component = None;
    let mut told: &[String] = &[];
    for piece in &story.pieces {
        if component.replace(piece.component) != Some(piece.component) {
            let _ = writeln!(
                out,
                "  {:>10}  {}",
                time(piece.start_ns),
                words::component(piece.component)
            );
        }
        let cpu = if piece.cpu == story.cpu {
            String::new()
        } else {
            format!(" on CPU {}", piece.cpu)
        };
        let who = words::holder(&piece.holder);
        let _ = writeln!(
            out,
            "  {:>10}  |{}| {:>8}  {who}{cpu}",
            "",
            bar(piece, story.latency_ns),
            time(piece.length_ns)
        );
        for (head, functions) in [("in", &piece.stack), ("CPU given up in", &piece.ended)] {
            if !functions.is_empty() && functions != told {
                let _ = writeln!(out, "  {:>57} {}", head, way(functions));
                told = functions;
            }
        }
    }
    let _ = writeln!(
        out,
        "  {:>10}  the thread reads the clock",
        time(story.latency_ns)
    );
    if let Some(executed) = &story.executed {
        sections(&mut out, executed);
        functions(&mut out, executed, story.latency_ns);
    }
    out
}

/// Maximum numbers of sections and functions that are shown for a sample.
const SECTIONS_SHOWN: usize = 4;
const EXECUTED_SHOWN: usize = 10;

fn sections(out: &mut String, executed: &ExecutedCode) {
    if executed.sections.is_empty() {
        return;
    }
    out.push_str("  Overlapping sections\n");
    for section in executed.sections.iter().take(SECTIONS_SHOWN) {
        let begin = section.begin_ns.get();
        let side = if begin < 0 { "before" } else { "after" };
        let _ = writeln!(
            out,
            "  {:>10}  {} of {}: started {} {side} the due time; from {} to {}",
            time(section.length_ns.get().unsigned_abs()),
            section.kind.title(),
            section.task,
            time(begin.unsigned_abs()),
            section.begins_in,
            section.ends_in
        );
    }
}

fn functions(out: &mut String, executed: &ExecutedCode, latency: u64) {
    let _ = writeln!(
        out,
        "  {:>10}  {:>10}  {:>7}  function",
        "own time", "with calls", "calls"
    );
    for row in executed.functions.iter().take(EXECUTED_SHOWN) {
        let (own, all) = (time(row.exclusive_ns), time(row.inclusive_ns));
        let _ = writeln!(
            out,
            "  {own:>10}  {all:>10}  {:>7}  {} ({})",
            row.calls,
            row.function,
            share(row.exclusive_ns, latency)
        );
    }
    if executed.functions.len() > EXECUTED_SHOWN {
        let _ = writeln!(
            out,
            "  {:>33}  and {} more: --json has them",
            "",
            executed.functions.len() - EXECUTED_SHOWN
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tardy_core::units::Nanos;
    use tardy_results::explain::run::SampleCounts;
    use tardy_results::explain::{Threshold, ThresholdSource};

    use super::*;

    #[test]
    fn explanations_that_a_file_no_longer_has_are_told() {
        let series = json!({"file": "cyclic.cpu1.series", "probe": "cyclic", "cpu": 1, "samples": 3999, "explained": 3999, "with_unknown": 0,
            "left_out": 0, "bytes": 60_000});
        let calibration = json!({"sleeps": 1, "wake_ups": 1, "timed": 1, "switches": 1, "into_idle": 1, "out_of_idle": 1});
        let tracing = json!({"level": 1, "instance": "tardy", "events": [], "absent": [], "calibration": calibration, "series": [series]});
        let mut explanation = RunExplanation {
            threshold: Threshold {
                above_ns: Nanos::ZERO,
                from: ThresholdSource::Asked,
            },
            ordinary: None,
            tracing: Some(serde_json::from_value(tracing).unwrap()),
            outside: None,
            samples: SampleCounts {
                explained: 1851,
                ..SampleCounts::default()
            },
            lateness: None,
            components: Vec::new(),
            holders: Vec::new(),
            unexplained_ns: 0,
            cannot_tell_ns: 0,
            worst: Vec::new(),
            stacks: Vec::new(),
            loops: Vec::new(),
        };
        let cut_off = text(&explanation);
        assert!(
            cut_off.contains("! 2148 of 3999 explanations are missing: "),
            "{cut_off}"
        );
        explanation.samples.explained = 3999;
        assert!(!text(&explanation).contains("missing"), "all are there");
    }
}
