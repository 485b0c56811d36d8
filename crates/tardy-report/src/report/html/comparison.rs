//! The comparison of a report's runs: each other run is compared with the first run.

use maud::{Markup, html};
use tardy_results::compare::model::{Comparison, Outcome};

use super::figure;
use super::unit::sentence;
use crate::report::compare::cells;
use tardy_chart::model::Table;

/// Returns the section. `names` are the names that the report gives the runs, in the order of the
/// comparison. `lead` is the chart that shows all runs.
pub(super) fn section(
    comparison: &Result<Comparison, String>,
    names: &[&str],
    lead: Option<&Markup>,
) -> Markup {
    let base = names.first().copied().unwrap_or_default();
    html! {
        section {
            h2 id="comparison" { "Comparison" }
            @match comparison {
                Err(why) => p class="note" { "Not compared: " (why) },
                Ok(comparison) => @for (candidate, name) in comparison.candidates.iter().zip(names.iter().skip(1)) {
                    div class={ "verdict " (class(candidate.verdict)) } {
                        b { (name) " against " (base) ": " (candidate.verdict.word().to_uppercase()) }
                        p { (sentence(&candidate.reason)) " (margin " (comparison.settings.margin) ")" }
                    }
                }
            }
            @if let Some(lead) = lead { div class="lead" { (lead) } }
            @if let Ok(comparison) = comparison {
                @let shared = shared_warnings(comparison);
                @for warning in &shared { p class="note" { (sentence(warning)) } }
                @for (candidate, name) in comparison.candidates.iter().zip(names.iter().skip(1)) {
                    @if comparison.candidates.len() == 1 { (table(candidate)) }
                    @else { details { summary { (name) " against " (base) ", by load" } (table(candidate)) } }
                    @for warning in candidate.warnings.iter().filter(|warning| !shared.contains(warning)) { p class="note" { (sentence(warning)) } }
                }
            }
        }
    }
}

/// Returns the warnings that apply to all candidates; the page shows them only once.
fn shared_warnings(comparison: &Comparison) -> Vec<&String> {
    let of_all = |warning: &&String| {
        comparison
            .candidates
            .iter()
            .all(|other| other.warnings.contains(warning))
    };
    comparison
        .candidates
        .first()
        .into_iter()
        .flat_map(|first| &first.warnings)
        .filter(of_all)
        .collect()
}

fn class(verdict: Outcome) -> &'static str {
    match verdict {
        Outcome::Worse => "failed",
        Outcome::Mixed | Outcome::Inconclusive => "inconclusive",
        Outcome::Better | Outcome::Equivalent => "passed",
    }
}

fn table(candidate: &tardy_results::compare::model::CandidateComparison) -> Markup {
    let rows = cells::overview(&candidate.tables, true);
    let table = Table {
        head: cells::overview_head()
            .into_iter()
            .map(|cell| cell.replace("->", "→"))
            .collect(),
        rows: rows
            .into_iter()
            .map(|row| row.iter().map(|cell| cell.replace("->", "→")).collect())
            .collect(),
    };
    html! {
        (figure::table(&table, ""))
        @for note in cells::notes(&candidate.tables) { p class="note" { (note) } }
    }
}
