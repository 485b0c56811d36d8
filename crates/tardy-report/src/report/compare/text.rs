//! A comparison as text: the verdict, what must be known before the numbers, one table of all loads, a table for each, and what else changed.

use std::fmt::Write as _;

use tardy_results::compare::facts::FactDifference;
use tardy_results::compare::model::{CandidateComparison, Comparison};

use super::cells;
use crate::report::table::Table;

/// Facts shown; all of them are in the JSON.
const FACTS_SHOWN: usize = 10;

/// The text; `is_colored` for terminals.
#[must_use]
pub fn text(comparison: &Comparison, is_colored: bool) -> String {
    let mut out = String::new();
    for candidate in &comparison.candidates {
        if !out.is_empty() {
            out.push('\n');
        }
        against_base(&mut out, comparison, candidate, is_colored);
    }
    out
}

fn against_base(out: &mut String, comparison: &Comparison, candidate: &CandidateComparison, is_colored: bool) {
    let verdict = cells::shouted(candidate.verdict, is_colored);
    let _ = writeln!(
        out,
        "{} against {}: {verdict}: {} (margin {})",
        candidate.side.name, comparison.base.name, candidate.reason, comparison.settings.margin
    );
    for warning in &candidate.warnings {
        let _ = writeln!(out, "! {warning}");
    }
    let mut overview = Table::new(cells::overview_head());
    cells::overview(&candidate.tables).into_iter().for_each(|row| overview.row(row));
    out.push_str(&overview.text());
    if cells::has_unbounded(&candidate.tables) {
        out.push_str("~ a side has too few samples to bound it\n");
    }
    for compared in &candidate.tables {
        let _ = writeln!(out, "\n{}", cells::title(compared, &comparison.settings));
        for line in cells::open_ends(compared) {
            let _ = writeln!(out, "{line}");
        }
        let mut table = Table::new(cells::head(compared, &comparison.settings));
        cells::rows(compared).into_iter().for_each(|row| table.row(row));
        out.push_str(&table.text());
    }
    changed(out, &candidate.changed);
}

/// What else is not the same, as far as both sides know it.
fn changed(out: &mut String, facts: &[FactDifference]) {
    let (known, of_one_side): (Vec<_>, Vec<_>) = facts.iter().partition(|fact| fact.base.is_some() && fact.candidate.is_some());
    if facts.is_empty() {
        out.push_str("changed nothing that the runs know of: same machine, kernel and plan\n");
    }
    for fact in known.iter().take(FACTS_SHOWN) {
        let _ = writeln!(out, "changed {fact}");
    }
    if known.len() > FACTS_SHOWN {
        let _ = writeln!(out, "changed {} more: see --format json", known.len() - FACTS_SHOWN);
    }
    if !of_one_side.is_empty() {
        let _ = writeln!(out, "known of one side only: {} facts, see --format json", of_one_side.len());
    }
}
