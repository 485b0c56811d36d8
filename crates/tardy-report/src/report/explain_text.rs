//! An explained trace as text: the causes of late wake-ups, the parts of their latency, the worst
//! wake-ups as time lines, and the rules for loops.

use std::fmt::Write as _;

use tardy_results::explain::remedies::remedies;
use tardy_results::explain::words::{self, priority};
use tardy_results::explain::{
    ComponentRow, Explanation, HolderRow, Lateness, Ordinary, RuleRow, Story, StoryPiece,
    Threshold, ThresholdSource,
};
use tardy_trace::explain::DueFrom;

use super::explain_run_text::places;
use super::table::Table;

/// Maximum number of holders in the table. The other holders are added up in one row.
const HOLDERS_SHOWN: usize = 8;
/// Width of the bar beside a time line.
const BAR: usize = 32;

#[must_use]
pub fn text(explanation: &Explanation, is_evidence: bool) -> String {
    let mut out = String::new();
    head(&mut out, explanation);
    for warning in warnings(explanation, is_evidence) {
        let _ = writeln!(out, "! {warning}");
    }
    if explanation.lateness.is_some() {
        let all = explanation.lateness.map_or(0, |late| late.sum_ns);
        holders(
            &mut out,
            &explanation.holders,
            all,
            explanation.unexplained_ns,
        );
        components(&mut out, &explanation.components, all);
    }
    ordinary(&mut out, explanation.ordinary.as_ref(), "wake-up");
    for (index, story) in explanation.worst.iter().enumerate() {
        worst(&mut out, index + 1, story);
    }
    out.push_str("\nRules of a real-time loop\n");
    rules(&mut out, &explanation.rules);
    out
}

pub(super) fn time(ns: u64) -> String {
    super::advise::words::time(ns as f64)
}

/// Formats a period, which may be a fraction of a ns.
fn time_of(ns: f64) -> String {
    super::advise::words::time(ns)
}

fn head(out: &mut String, explanation: &Explanation) {
    let (trace, thread, counts) = (
        &explanation.trace,
        &explanation.thread,
        &explanation.wake_ups,
    );
    let kernel = trace
        .kernel
        .as_ref()
        .map_or_else(String::new, |kernel| format!(", Linux {kernel}"));
    let pids: Vec<String> = thread
        .pids
        .iter()
        .take(4)
        .map(ToString::to_string)
        .collect();
    let more = if thread.pids.len() > 4 { ", ..." } else { "" };
    let _ = writeln!(
        out,
        "{} ({}; thread {}{more}): {} wake-ups in {} on {} CPUs{kernel}",
        thread.name,
        priority(thread.priority),
        pids.join(", "),
        counts.all,
        time(trace.length_ns),
        trace.cpus,
    );
    let due = match explanation.thread.period_ns {
        Some(period_ns) => format!(
            "{} wake-ups are due on a grid with a period of {}",
            counts.periodic,
            time_of(period_ns)
        ),
        None => format!("{} wake-ups are due when their timer is due", counts.timed),
    };
    let what = ranked(counts.ranked, "wake-up", explanation.threshold);
    let late = explanation
        .lateness
        .map_or_else(String::new, |late| format!(": {}", late_by(late)));
    let _ = writeln!(
        out,
        "{what}{late} ({due}, the others when the waker wakes the thread)"
    );
    if let Some(cause) = largest_cause(&explanation.holders, explanation.lateness) {
        let _ = writeln!(out, "{cause}");
    }
}

/// Describes how many samples or wake-ups are ranked, and how these were chosen.
pub(super) fn ranked(count: u64, what: &str, threshold: Threshold) -> String {
    let above = time(threshold.above_ns.get().unsigned_abs());
    let several = if count == 1 { "" } else { "s" };
    match threshold.from {
        ThresholdSource::Asked if count == 0 => format!("No {what} was later than {above}"),
        ThresholdSource::Asked => format!("{count} {what}{several} later than {above}"),
        ThresholdSource::Deadline => {
            format!("{count} {what}{several} later than the deadline of {above}")
        }
        ThresholdSource::Worst if count == 0 => format!("No {what} was late"),
        ThresholdSource::Worst => format!("The {count} worst {what}s, later than {above}"),
        ThresholdSource::WorstInTime => {
            format!("The {count} worst {what}s, later than {above}; all are within the deadline")
        }
        ThresholdSource::Kept => format!("The {count} {what}s that were kept"),
    }
}

/// Formats the median, the 99th percentile and the largest latency.
pub(super) fn late_by(late: Lateness) -> String {
    format!(
        "median {}, 99 % {}, worst {}",
        time(late.median_ns),
        time(late.p99_ns),
        time(late.max_ns)
    )
}

/// Returns a sentence about the largest cause of the ranked latency.
pub(super) fn largest_cause(rows: &[HolderRow], lateness: Option<Lateness>) -> Option<String> {
    let (most, all) = (rows.first()?, lateness?.sum_ns);
    Some(format!(
        "Largest cause: {}, in {} of these: it took {} of the total latency of {}, and at most {} \
         of a single latency",
        words::holder(&most.holder),
        most.wake_ups,
        time(most.sum_ns),
        time(all),
        time(most.max_ns)
    ))
}

/// Writes a comparison with the samples or wake-ups below the threshold.
pub(super) fn ordinary(out: &mut String, ordinary: Option<&Ordinary>, what: &str) {
    let Some(ordinary) = ordinary else {
        return;
    };
    let _ = writeln!(
        out,
        "\nThe other {} {what}s, for comparison: {}",
        ordinary.count,
        late_by(ordinary.lateness)
    );
    component_table(out, &ordinary.components, ordinary.lateness.sum_ns);
}

/// Returns the warnings about a trace. If `is_evidence`, the trace contains only the pages around
/// the worst samples. Such a trace has gaps although no events were lost.
fn warnings(explanation: &Explanation, is_evidence: bool) -> Vec<String> {
    let (trace, counts) = (&explanation.trace, &explanation.wake_ups);
    let mut warnings = Vec::new();
    if is_evidence {
        warnings.push(
            "the run kept the trace only around its worst samples, so the figures cover only these \
             samples, and wake-ups that span a gap have no latency; `tardy explain RUN` covers all \
             samples"
                .to_owned(),
        );
    } else if trace.losses > 0 {
        let counted = if trace.lost_events > 0 {
            format!("{} or more events", trace.lost_events)
        } else {
            "events".to_owned()
        };
        let remedy = "record with a larger buffer (trace-cmd record -b), or fewer events";
        warnings.push(format!(
            "{counted} were lost at {} in the trace; wake-ups that were under way there have no \
             latency; {remedy}",
            places(trace.losses)
        ));
    }
    warnings.extend(
        trace
            .damage
            .iter()
            .map(|damage| format!("the file is damaged: {damage}")),
    );
    if counts.lower_bounds > 0 {
        let why = if trace.switches_out_of_idle == 0 && trace.switches_into_idle > 0 {
            " (this kernel does not trace switches from the idle task)"
        } else {
            ""
        };
        warnings.push(format!(
            "the trace has no switch to the thread for {} of {} wake-ups{why}: their latency ends \
             at the CPU's last event before the thread's first event, and is a lower bound",
            counts.lower_bounds, counts.all
        ));
    }
    if let Some(left_out) = explanation.left_out_of_perfetto {
        warnings.push(format!(
            "the trace for Perfetto lacks {} events of CPUs numbered 1024 or higher, which \
             Perfetto rejects, and {} wake-ups that overlap too many others",
            left_out.events, left_out.wake_ups
        ));
    }
    if explanation.thread.period_ns.is_some() {
        warnings.push(
            "due times lie on a grid that was fitted to the wake-ups, so a delay common to all \
             wake-ups does not show; record timer:hrtimer_start and timer:hrtimer_expire_entry, \
             and omit --period"
                .to_owned(),
        );
    }
    if !trace.is_monotonic && counts.timed > 0 {
        warnings.push(
            "the trace's clock is not the monotonic clock: latencies are about 1 us too small; \
             record with trace-cmd record -C mono"
                .to_owned(),
        );
    }
    if !trace.has_waking && counts.all > counts.timed {
        warnings.push(
            "the trace has sched_wakeup and no sched_waking: the latency of wake-ups by other \
             threads is about 1 us too small; record sched:sched_waking"
                .to_owned(),
        );
    }
    if !trace.missing.is_empty() {
        warnings.push(format!(
            "the trace has no {}: record these events to name the holders of the CPU",
            trace.missing.join(", no ")
        ));
    }
    warnings
}

/// Writes the holders of the CPU. `all` is the sum of the explained latencies.
pub(super) fn holders(out: &mut String, rows: &[HolderRow], all: u64, unexplained_ns: u64) {
    let _ = writeln!(out, "\nCauses of latency, {} in all", time(all));
    let mut table =
        Table::new(["    share", "sum", "wake-ups", "max", "holder of the CPU"]).words([4]);
    let (shown, others) = rows.split_at(rows.len().min(HOLDERS_SHOWN));
    for row in shown {
        table.row([
            percent(row.sum_ns, all),
            time(row.sum_ns),
            row.wake_ups.to_string(),
            time(row.max_ns),
            holder_of(row),
        ]);
    }
    if !others.is_empty() {
        let sum = others.iter().map(|row| row.sum_ns).sum();
        let most = others.iter().map(|row| row.max_ns).max().unwrap_or(0);
        table.row([
            percent(sum, all),
            time(sum),
            String::new(),
            time(most),
            format!("{} others", others.len()),
        ]);
    }
    table.row([
        percent(unexplained_ns, all),
        time(unexplained_ns),
        String::new(),
        String::new(),
        "unexplained".to_owned(),
    ]);
    out.push_str(&table.text());
    for (function, remedy) in remedies(rows) {
        let _ = writeln!(out, "  {function}: {remedy}");
    }
}

fn percent(part: u64, all: u64) -> String {
    // A table left-aligns its first column, so the numbers in this column are padded here.
    format!("  {:>7}", share(part, all))
}

/// Formats a share of the total latency.
pub(super) fn share(part: u64, all: u64) -> String {
    format!(
        "{:.1} %",
        if all == 0 {
            0.0
        } else {
            100.0 * part as f64 / all as f64
        }
    )
}

fn holder_of(row: &HolderRow) -> String {
    words::holder(&row.holder)
}

/// Writes how much of the latency each component caused.
pub(super) fn components(out: &mut String, rows: &[ComponentRow], all: u64) {
    out.push_str("\nParts of the latency\n");
    component_table(out, rows, all);
}

fn component_table(out: &mut String, rows: &[ComponentRow], all: u64) {
    let mut table = Table::new(["    share", "median", "max", "part"]).words([3]);
    for row in rows {
        let part = words::component(row.component);
        table.row([
            percent(row.sum_ns, all),
            time(row.median_ns),
            time(row.max_ns),
            part.to_owned(),
        ]);
    }
    out.push_str(&table.text());
}

fn worst(out: &mut String, place: usize, story: &Story) {
    let (seconds, rest) = (
        story.due_ns / 1_000_000_000,
        story.due_ns % 1_000_000_000 / 1_000,
    );
    let _ = writeln!(
        out,
        "\nWorst {place}: {} late on CPU {}, at {seconds}.{rest:06} s, woken by {}",
        time(story.lateness_ns),
        story.cpu,
        story.waker
    );
    let mut marks = story.marks.iter().peekable();
    let mut mark = |out: &mut String, until: u64| {
        while let Some(mark) = marks.next_if(|mark| mark.at_ns <= until) {
            let what = match (mark.what, story.due_from) {
                ("due", DueFrom::Timer) => "due, according to the timer",
                ("due", DueFrom::Period) => "due, according to the period",
                (what, _) => what,
            };
            let _ = writeln!(out, "  {:>10}  {what}", time(mark.at_ns));
        }
    };
    for piece in &story.pieces {
        mark(out, piece.start_ns);
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
            bar(piece, story.lateness_ns),
            time(piece.length_ns)
        );
    }
    mark(out, u64::MAX);
    if let Some(first_sign) = story.first_sign_ns {
        let _ = writeln!(
            out,
            "  {:>10}  first event of the thread, which was already running",
            time(first_sign)
        );
    }
}

/// Returns where a piece of the latency lies in a bar. Every piece gets at least one mark, however
/// short it is.
pub(super) fn bar(piece: &StoryPiece, whole: u64) -> String {
    let column = |ns: u64| (ns as f64 / whole.max(1) as f64 * BAR as f64) as usize;
    let start = column(piece.start_ns).min(BAR - 1);
    let end = column(piece.start_ns + piece.length_ns).clamp(start + 1, BAR);
    format!(
        "{}{}{}",
        " ".repeat(start),
        "#".repeat(end - start),
        " ".repeat(BAR - end)
    )
}

pub(super) fn rules(out: &mut String, rules: &[RuleRow]) {
    for rule in broken(rules) {
        let _ = writeln!(out, "  {}\n    remedy: {}", broken_head(rule), rule.remedy);
    }
    for line in not_broken(rules) {
        let _ = writeln!(out, "  {line}");
    }
}

/// Returns the rules that the loop broke.
pub(super) fn broken(rules: &[RuleRow]) -> impl Iterator<Item = &RuleRow> {
    rules
        .iter()
        .filter(|rule| rule.count.is_some_and(|count| count > 0))
}

pub(super) fn broken_head(rule: &RuleRow) -> String {
    format!(
        "{}: {} ({})",
        rule.what,
        rule.count.unwrap_or(0),
        rule.detail
    )
}

/// Returns one line with all rules that the loop followed, and one line for each rule that could
/// not be checked.
pub(super) fn not_broken(rules: &[RuleRow]) -> Vec<String> {
    let kept: Vec<&str> = rules
        .iter()
        .filter(|rule| rule.count == Some(0))
        .map(|rule| rule.what)
        .collect();
    let kept = (!kept.is_empty()).then(|| format!("not seen: {}", kept.join("; ")));
    let unchecked = rules.iter().filter(|rule| rule.count.is_none());
    kept.into_iter()
        .chain(unchecked.map(|rule| format!("not checked: {}: {}", rule.what, rule.remedy)))
        .collect()
}
