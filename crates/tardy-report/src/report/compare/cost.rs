//! A comparison of costs as text, Markdown and JUnit.

use std::fmt::Write as _;

use tardy_results::compare::cost::{CostCandidate, CostComparison, CostRow};
use tardy_results::cost::shown::DisplayUnit;

use super::cells::shouted;
use super::junit::outcome;
use super::markdown::{escape, table as markdown_table};
use crate::report::junit::{Case, Suite, document};
use crate::report::table::Table;

/// Maximum number of facts that the text contains. The JSON output has all facts.
const FACTS_SHOWN: usize = 10;

/// Returns the comparison as text.
#[must_use]
pub fn text(comparison: &CostComparison) -> String {
    let mut out = String::new();
    for candidate in &comparison.candidates {
        let verdict = shouted(candidate.verdict);
        let (new, base) = (&candidate.side.name, &comparison.base.name);
        let _ = writeln!(
            out,
            "{new} against {base}: {verdict} (margin {})",
            comparison.margin
        );
        for warning in &candidate.warnings {
            let _ = writeln!(out, "! {warning}");
        }
        for changed in candidate.changed.iter().take(FACTS_SHOWN) {
            let _ = writeln!(out, "changed {changed}");
        }
        if candidate.changed.len() > FACTS_SHOWN {
            let _ = writeln!(
                out,
                "{} more facts changed: see --format json",
                candidate.changed.len() - FACTS_SHOWN
            );
        }
        let mut table = Table::new(head(comparison));
        rows(comparison, candidate)
            .into_iter()
            .for_each(|row| table.row(row));
        out.push_str(&table.text());
    }
    out.push_str(
        "costs more: the percentage by which new exceeds base (mckenney2009 calls this the \
         throughput advantage of base)\n",
    );
    out
}

/// Returns the comparison as Markdown.
#[must_use]
pub fn markdown(comparison: &CostComparison) -> String {
    let mut out = String::new();
    for candidate in &comparison.candidates {
        let (new, base) = (escape(&candidate.side.name), escape(&comparison.base.name));
        let _ = writeln!(
            out,
            "## {new} against {base}: {}\n",
            candidate.verdict.word()
        );
        for warning in &candidate.warnings {
            let _ = writeln!(out, "- :warning: {}", escape(warning));
        }
        let _ = writeln!(
            out,
            "\n{}",
            markdown_table(&head(comparison), &rows(comparison, candidate))
        );
    }
    out
}

/// Returns the comparison as JUnit XML, with a suite for each candidate and a case for each metric.
#[must_use]
pub fn junit(comparison: &CostComparison) -> String {
    let head = head(comparison);
    let case = |(row, cells): (&CostRow, Vec<String>)| {
        let words: Vec<String> = head
            .iter()
            .zip(&cells)
            .skip(1)
            .map(|(head, cell)| format!("{head} {cell}"))
            .collect();
        let words = words.join(", ");
        Case {
            name: row.metric.clone(),
            outcome: outcome(row.verdict, &words),
            output: words,
        }
    };
    let suite = |candidate: &CostCandidate| Suite {
        name: candidate.side.name.clone(),
        cases: candidate
            .rows
            .iter()
            .zip(rows(comparison, candidate))
            .map(case)
            .collect(),
    };
    document(
        "tardy compare",
        &comparison.candidates.iter().map(suite).collect::<Vec<_>>(),
    )
}

fn head(comparison: &CostComparison) -> Vec<String> {
    let metric = if comparison.is_of_programs {
        "average of"
    } else {
        "metric"
    };
    [
        metric,
        "unit",
        "base",
        "new",
        "costs more",
        &format!("{} interval", comparison.confidence),
        "verdict",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn rows(comparison: &CostComparison, candidate: &CostCandidate) -> Vec<Vec<String>> {
    candidate
        .rows
        .iter()
        .map(|row| cells(comparison, row))
        .collect()
}

fn cells(comparison: &CostComparison, row: &CostRow) -> Vec<String> {
    let shown = DisplayUnit::of(comparison.unit, row.bytes, comparison.is_of_programs);
    let interval = row.interval_percent.map_or_else(
        || "too few".to_owned(),
        |interval| format!("{:+.1} to {:+.1} %", interval.lower, interval.upper),
    );
    let mut cells = vec![row.metric.clone(), shown.unit.to_owned()];
    cells.extend([row.base, row.candidate].map(|value| shown.text(value)));
    cells.extend([
        format!("{:+.1} %", row.advantage_percent),
        interval,
        row.verdict.word().to_owned(),
    ]);
    cells
}
