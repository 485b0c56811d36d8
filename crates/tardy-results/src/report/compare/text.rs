//! A comparison as text: the verdict, what must be known before the numbers, what else changed, then the tables.

use std::fmt::Write as _;

use super::cells;
use crate::compare::model::{CandidateComparison, Comparison};
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
    for changed in candidate.changed.iter().take(FACTS_SHOWN) {
        let _ = writeln!(out, "changed {changed}");
    }
    match candidate.changed.len() {
        0 => out.push_str("changed nothing that the runs know of: same machine, kernel and plan\n"),
        count if count > FACTS_SHOWN => {
            let _ = writeln!(out, "changed {} more: see --format json", count - FACTS_SHOWN);
        }
        _ => {}
    }
    for compared in &candidate.tables {
        let _ = writeln!(out, "{}", cells::title(compared, &comparison.settings));
        let mut table = Table::new(cells::head(&comparison.settings));
        cells::rows(compared).into_iter().for_each(|row| table.row(row));
        out.push_str(&table.text());
    }
}
