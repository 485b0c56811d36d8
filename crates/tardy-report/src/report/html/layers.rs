//! The statistics of each run in three layers, each with its own heading: observations, bounds,
//! models.

use maud::{Markup, html};

use super::figure;
use crate::report::statistics_text::{Section, sections, without_rule_of_thumb};
use tardy_chart::data::RunData;
use tardy_chart::model::Table;

pub(super) fn section(runs: &[RunData]) -> Markup {
    html! {
        section {
            h2 id="statistics" { "Statistics: observed, bounded, modelled" }
            div class="columns" { @for run in runs { div {
                @if runs.len() > 1 { p class="run-name" { (run.name) } }
                @if let Some(statistics) = &run.statistics {
                    @let layers = html! { @for section in sections(statistics) { (layer(&section)) } };
                    // If there are several probes, the statistics are folded, because they would
                    // make the page long.
                    @if run.probes.len() > 1 { details class="more" { summary { "Statistics of every probe and CPU" } (layers) } } @else { (layers) }
                    @if statistics.groups.is_empty() { p class="quiet" { "No sample, and no histogram." } }
                    @if let Some(words) = without_rule_of_thumb(statistics) { p class="note" { (words) } }
                }
            } } }
        }
    }
}

fn layer(section: &Section) -> Markup {
    let lines = html! { @for line in &section.lines { p class="note" { (line.trim()) } } };
    html! {
        @if let Some(table) = &section.table {
            h3 { (section.head) }
            @let (head, rows) = table.parts();
            (figure::table(&Table { head: head.to_vec(), rows: rows.to_vec() }, ""))
            (lines)
        } @else if section.is_without_model {
            div class="no-model" { p { (section.head) } (lines) }
        } @else {
            p { (section.head) }
            (lines)
        }
    }
}
