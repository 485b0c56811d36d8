//! The cycles of a program that `tardy attach` followed: response times with their four parts, the
//! longest cycles, the slowest chains of wake-ups, and rules for loops.

use maud::{Markup, html};
use tardy_chart::data::RunData;
use tardy_chart::model::Table;
use tardy_core::units::Nanos;
use tardy_results::explain::cycles::{Cycle, CycleExplanation, CycleRow};

use super::unit::sentence;
use super::{explained, figure};
use crate::report::cycles_text::{
    CHAINS_MAX, HEAD, blocked_lines, cells, chain_words, ends_in, headline, left_out_words,
    story_words, stretch_words,
};

/// Maximum number of rows in the table of threads.
const ROWS_MAX: usize = 16;
/// Maximum number of loops whose rules are listed.
const LOOPS_MAX: usize = 3;

/// Returns the section; empty if none of the runs was made by `tardy attach`.
pub(super) fn section(runs: &[RunData]) -> Markup {
    let followed: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run, run.cycles.as_ref()?)))
        .collect();
    html! {
        @if !followed.is_empty() {
            section {
                h2 id="cycles" { "Cycles" }
                div class="columns" { @for (run, found) in followed { div {
                    @if runs.len() > 1 { p class="run-name" { (run.name) } }
                    (of_run(found))
                } } }
            }
        }
    }
}

fn of_run(found: &CycleExplanation) -> Markup {
    let first = found.threads.first();
    html! {
        @match found.worst.first() {
            Some(longest) => {
                @let words = headline(longest);
                p class="worst" { "The " (sentence(words.trim_start_matches("the "))) "." }
            }
            None => p class="note" { "The run has no complete cycle." },
        }
        p class="note" {
            (found.cycles) " cycles from a wake-up to the next sleep were measured; "
            (found.cut_off) " more were cut off. "
            "Response time = wake-up + running + preempted + blocked."
        }
        @if !found.threads.is_empty() { (figure::table(&threads(&found.threads), "words")) }
        @if let Some(more) = found.threads.len().checked_sub(ROWS_MAX).filter(|&more| more > 0) {
            p class="note" { (more) " more threads, with shorter cycles" }
        }
        @if let Some(row) = first {
            ul {
                @for line in blocked_lines(row) { li { (line) } }
                @if let Some(place) = &row.ends_in { li { (ends_in(place)) } }
            }
        }
        @for cycle in &found.worst { (story(cycle, found.begin_ns)) }
        @if !found.chains.is_empty() {
            h3 { "Slowest chains of wake-ups" }
            ul { @for chain in found.chains.iter().take(CHAINS_MAX) { li { (chain_words(chain)) } } }
        }
        @for looped in found.loops.iter().take(LOOPS_MAX) { (explained::rules(looped)) }
    }
}

fn threads(rows: &[CycleRow]) -> Table {
    Table {
        head: HEAD.map(str::to_owned).to_vec(),
        rows: rows
            .iter()
            .take(ROWS_MAX)
            .map(|row| cells(row).to_vec())
            .collect(),
    }
}

fn story(cycle: &Cycle, begin: Nanos) -> Markup {
    html! {
        h3 { (story_words(cycle, begin)) }
        ul { @for stretch in &cycle.stretches { li { (stretch_words(stretch)) } } }
        @if let Some(line) = left_out_words(cycle) { p class="note" { (line) } }
    }
}
