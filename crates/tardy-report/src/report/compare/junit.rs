//! A comparison as JUnit XML, with a suite for each candidate and table, and a case for each row. A
//! row that got worse is a failure. An inconclusive row counts as skipped, with the reason.

use tardy_results::compare::model::{CandidateComparison, Comparison, Outcome, Settings, Table};

use super::cells;
use crate::report::junit::{Case, Outcome as CaseOutcome, Suite, document};

#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let suites: Vec<Suite> = comparison
        .candidates
        .iter()
        .flat_map(|candidate| {
            std::iter::once(whole(candidate)).chain(
                candidate
                    .tables
                    .iter()
                    .map(|table| suite(candidate, table, &comparison.settings)),
            )
        })
        .collect();
    document("tardy compare", &suites)
}

/// Returns the verdict on a candidate, which determines the exit code.
fn whole(candidate: &CandidateComparison) -> Suite {
    let case = Case {
        name: "verdict".to_owned(),
        outcome: outcome(candidate.verdict, &candidate.reason),
        output: candidate.warnings.join("\n"),
    };
    Suite {
        name: candidate.side.name.clone(),
        cases: vec![case],
    }
}

fn suite(candidate: &CandidateComparison, table: &Table, settings: &Settings) -> Suite {
    let head = cells::head(table, settings);
    let verdicts = table
        .rows
        .iter()
        .map(|row| row.verdict)
        .chain(table.maxima.iter().map(|maxima| maxima.verdict));
    let verdicts = verdicts.chain(table.misses.iter().map(|misses| misses.verdict));
    let case = |(cells, verdict): (Vec<String>, Option<Outcome>)| {
        let words: Vec<String> = head
            .iter()
            .zip(&cells)
            .skip(1)
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(head, cell)| format!("{head} {cell}"))
            .collect();
        let words = words.join(", ");
        let outcome = verdict.map_or_else(
            || CaseOutcome::Skipped("no verdict".to_owned()),
            |verdict| outcome(verdict, &words),
        );
        Case {
            name: cells[0].clone(),
            outcome,
            output: words,
        }
    };
    let cases = cells::rows(table)
        .into_iter()
        .zip(verdicts)
        .map(case)
        .collect();
    Suite {
        name: format!("{}: {}", candidate.side.name, table.key),
        cases,
    }
}

pub(super) fn outcome(verdict: Outcome, words: &str) -> CaseOutcome {
    match verdict {
        Outcome::Better | Outcome::Equivalent => CaseOutcome::Passed,
        Outcome::Worse | Outcome::Mixed => CaseOutcome::Failed(words.to_owned()),
        Outcome::Inconclusive => CaseOutcome::Skipped(words.to_owned()),
    }
}
