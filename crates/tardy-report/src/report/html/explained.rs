//! Shows the causes of late samples in explained runs: holders, totals, times, the worst samples as
//! drawn time lines, timerlat's second measurement, and the rules for loops.

use std::collections::BTreeSet;

use maud::{Markup, html};
use tardy_results::explain::remedies::remedies;
use tardy_results::explain::run::{RunExplanation, SampleStory};
use tardy_results::explain::{ComponentRow, LoopRow, StoryPiece, words};
use tardy_trace::explain::Cause;

use super::unit::sentence;
use super::{figure, flames};
use crate::report::explain_run_text;
use crate::report::explain_text::{self, broken, broken_head, not_broken, share};
use tardy_chart::data::RunData;
use tardy_chart::model::Table;

/// Maximum number of rows in the table of holders.
const HOLDERS_SHOWN: usize = 15;
/// Width and height of a time line, in units of its SVG.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 22.0;
/// Minimum width of a piece of a time line.
const WIDTH_MIN: f64 = 1.5;

/// Formats a time for the page.
fn time(ns: u64) -> String {
    explain_text::time(ns)
}

/// Returns the section; empty if no run was explained.
pub(super) fn section(runs: &[RunData]) -> Markup {
    let explained: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run, run.explanation.as_ref()?)))
        .collect();
    html! {
        @if !explained.is_empty() {
            section {
                h2 id="explained" { "Causes of late samples" }
                div class="columns" { @for (run, explanation) in explained { div {
                    @if runs.len() > 1 { p class="run-name" { (run.name) } }
                    (of_run(explanation))
                } } }
            }
        }
    }
}

fn of_run(explanation: &RunExplanation) -> Markup {
    let counts = explanation.samples;
    let all = explanation.lateness.map_or(0, |lateness| lateness.sum_ns);
    html! {
        p class="note" {
            @if explanation.outside.is_some() {
                "The " (counts.explained) " worst samples of the phases were explained by the plugin trace of every instruction. "
            } @else {
                (counts.explained) " samples were explained from the kernel's trace of the run; \
                                    their latencies include the cost of tracing. "
            }
            "In " (counts.checked - counts.not_adding_up) " of " (counts.checked) " samples, the parts add up to the latency. "
            (explain_text::ranked(counts.ranked, "sample", explanation.threshold)) ". "
            @if let Some(cause) = explain_text::largest_cause(&explanation.holders, explanation.lateness) { (cause) ". " }
            (time(explanation.unexplained_ns)) " of " (time(all)) " of latency is unexplained."
        }
        @for warning in explain_run_text::warnings(explanation) { p class="note" { (sentence(&warning)) } }
        (figure::table(&holders(explanation, all), "words"))
        @for (function, remedy) in remedies(&explanation.holders) { p class="note" { (function) ": " (remedy) } }
        (figure::table(&components(&explanation.components, all), "words"))
        @if let Some(ordinary) = &explanation.ordinary {
            p class="note" { "The other " (ordinary.count) " samples, for comparison: " (explain_text::late_by(ordinary.lateness)) }
            (figure::table(&components(&ordinary.components, ordinary.lateness.sum_ns), "words"))
        }
        (flames::graph(&explanation.stacks, explanation.outside.is_some()))
        (legend(&explanation.worst))
        @for (index, story) in explanation.worst.iter().enumerate() { (worst(index + 1, story)) }
        @if let Some(opinion) = explanation.tracing.as_ref().and_then(|tracing| tracing.second_opinion.as_ref()) {
            h3 { (explain_run_text::second_opinion_head(opinion)) }
            ul { @for (what, said) in explain_run_text::second_opinions(opinion) { li { (what) ": " (said) } } }
        }
        @for looped in &explanation.loops { (rules(looped)) }
    }
}

pub(super) fn rules(looped: &LoopRow) -> Markup {
    html! {
        h3 { (explain_run_text::rules_head(looped)) }
        ul {
            @for rule in broken(&looped.rules) {
                li { b { (broken_head(rule)) } br; "remedy: " (sentence(rule.remedy)) }
            }
        }
        @for line in not_broken(&looped.rules) { p class="note" { (line) } }
        @if let Some(line) = explain_run_text::monitors(looped) { p { (line) } }
    }
}

fn holders(explanation: &RunExplanation, all: u64) -> Table {
    let head = ["holder of the CPU", "share", "in all", "samples", "max"]
        .map(str::to_owned)
        .to_vec();
    let row = |row: &tardy_results::explain::HolderRow| {
        vec![
            words::holder(&row.holder),
            share(row.sum_ns, all),
            time(row.sum_ns),
            row.wake_ups.to_string(),
            time(row.max_ns),
        ]
    };
    let mut rows: Vec<_> = explanation
        .holders
        .iter()
        .take(HOLDERS_SHOWN)
        .map(row)
        .collect();
    let others = &explanation.holders[HOLDERS_SHOWN.min(explanation.holders.len())..];
    if !others.is_empty() {
        let sum = others.iter().map(|row| row.sum_ns).sum();
        let most = others.iter().map(|row| row.max_ns).max().unwrap_or(0);
        rows.push(vec![
            format!("{} others", others.len()),
            share(sum, all),
            time(sum),
            String::new(),
            time(most),
        ]);
    }
    Table { head, rows }
}

fn components(rows: &[ComponentRow], all: u64) -> Table {
    let head = ["part of the latency", "share", "median", "max", "samples"]
        .map(str::to_owned)
        .to_vec();
    let row = |row: &ComponentRow| {
        let part = words::component(row.component).to_owned();
        vec![
            part,
            share(row.sum_ns, all),
            time(row.median_ns),
            time(row.max_ns),
            row.wake_ups.to_string(),
        ]
    };
    Table {
        head,
        rows: rows.iter().map(row).collect(),
    }
}

fn worst(place: usize, story: &SampleStory) -> Markup {
    let phase = story
        .phase
        .as_ref()
        .map_or_else(String::new, |phase| format!(" in {phase}"));
    let since = format!("{:.3} s", story.since_start_ns.get() as f64 / 1e9);
    let whole = story.latency_ns.max(1) as f64;
    let left = |piece: &StoryPiece| piece.start_ns as f64 / whole * WIDTH;
    let width = |piece: &StoryPiece| (piece.length_ns as f64 / whole * WIDTH).max(WIDTH_MIN);
    let head = [
        "from due",
        "for",
        "part of the latency",
        "holder of the CPU",
    ]
    .map(str::to_owned)
    .to_vec();
    let row = |piece: &StoryPiece| {
        let part = words::component(piece.component).to_owned();
        vec![
            time(piece.start_ns),
            time(piece.length_ns),
            part,
            words::holder(&piece.holder),
        ]
    };
    html! {
        div class="late" {
            h3 { "Worst " (place) ": " (story.probe) ", " (time(story.latency_ns)) " on CPU " (story.cpu) ", " (since) " after the start" (phase) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" width="100%" height="22" role="img"
                aria-label=(format!("From due to the clock read, {}", time(story.latency_ns))) {
                @for piece in &story.pieces {
                    rect x=(format!("{:.2}", left(piece))) y="0" width=(format!("{:.2}", width(piece))) height=(HEIGHT) style=(format!("fill:{}", KINDS[kind(piece.holder.cause)].1)) {
                        title { (words::holder(&piece.holder)) ": " (time(piece.length_ns)) }
                    }
                }
            }
            details {
                summary { (story.pieces.len()) " pieces" }
                (figure::table(&Table { head, rows: story.pieces.iter().map(row).collect() }, "facts"))
            }
        }
    }
}

/// The kinds of CPU holders: the description of each kind, and the colour of its holders in the
/// time lines.
const KINDS: [(&str, &str); 6] = [
    ("interrupts and softirqs", "var(--series-0)"),
    ("other threads", "var(--series-1)"),
    (
        "interrupts off, preemption off, or kernel code that is not preempted",
        "var(--alarm)",
    ),
    ("idle, timers, hardware, host", "var(--series-4)"),
    ("the switch, and the thread itself", "var(--series-2)"),
    ("unknown", "var(--muted)"),
];

/// Returns the index of a cause's kind in [`KINDS`].
fn kind(cause: Cause) -> usize {
    match cause {
        Cause::Nmi | Cause::Interrupt | Cause::Softirq => 0,
        Cause::HigherPriority
        | Cause::EqualPriority
        | Cause::Turns
        | Cause::FairServer
        | Cause::ExtendedSlice
        | Cause::LockOwner
        | Cause::BeforeSoftirq
        | Cause::Waker => 1,
        Cause::InterruptsOff | Cause::PreemptionOff | Cause::KernelCode => 2,
        Cause::LeavingIdle | Cause::LateInterrupt | Cause::Slack | Cause::LaterTimer => 3,
        Cause::Switch
        | Cause::Itself
        | Cause::OwnCode
        | Cause::Blocked
        | Cause::PageFault
        | Cause::KernelLock => 4,
        Cause::Lost | Cause::Unknown => 5,
    }
}

/// Returns the legend of the colours that occur in the time lines.
fn legend(stories: &[SampleStory]) -> Markup {
    let kinds: BTreeSet<usize> = stories
        .iter()
        .flat_map(|story| &story.pieces)
        .map(|piece| kind(piece.holder.cause))
        .collect();
    html! {
        @if !kinds.is_empty() {
            p class="legend" {
                @for (words, colour) in kinds.into_iter().map(|kind| KINDS[kind]) {
                    span { span class="swatch" style=(format!("--c:{colour}")) {} " " (words) }
                }
            }
        }
    }
}
