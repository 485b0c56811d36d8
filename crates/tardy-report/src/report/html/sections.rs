//! Shows the sections of watched guests' kernels, and the theory about these sections.

use maud::{Markup, html};
use tardy_chart::build::section_latency;
use tardy_chart::data::RunData;
use tardy_chart::model::Table;
use tardy_outside::kind::Kind;

use super::figure::{self, Figures};
use crate::report::sections_theory_text::parts;

/// Returns the section; empty if no run was watched.
pub(super) fn section(runs: &[RunData], figures: &mut Figures) -> Markup {
    html! {
        @if runs.iter().any(|run| !run.watched.is_empty()) {
            section {
                h2 id="sections" { "Sections of the kernel, from the plugin trace" }
                @for run in runs.iter().filter(|run| !run.watched.is_empty()) {
                    @if runs.len() > 1 { p class="run-name" { (run.name) } }
                    (figure::table(&longest(run), "words"))
                    @if let Some(chart) = section_latency::chart(&run.watched) { (figures.add(chart)) }
                    @for part in parts(&run.watched) {
                        @if !part.note.is_empty() { p class="note" { (part.note) } }
                        (figure::table(&of_text(part.table.parts()), "words"))
                    }
                }
            }
        }
    }
}

fn longest(run: &RunData) -> Table {
    let head = std::iter::once("load".to_owned())
        .chain(Kind::ALL.map(|kind| format!("longest {}", kind.title())));
    let row = |group: &tardy_outside::census::Group| {
        let kinds = group.kinds.iter().map(|kind| {
            if kind.count == 0 {
                "-".to_owned()
            } else {
                kind.longest_ns.to_string()
            }
        });
        std::iter::once(group.load.clone()).chain(kinds).collect()
    };
    Table {
        head: head.collect(),
        rows: run.watched.iter().map(row).collect(),
    }
}

pub(super) fn of_text((head, rows): (&[String], &[Vec<String>])) -> Table {
    Table {
        head: head.to_vec(),
        rows: rows.to_vec(),
    }
}
