//! Changes over time as text, for latencies and costs: the verdict, the steps, and the facts that
//! changed at the same time.

use std::fmt::Write as _;

use tardy_results::compare::changes::Change;
use tardy_results::compare::margin::Margin;
use tardy_results::compare::model::Outcome;

use super::cells::shouted;
use super::{junit, markdown};
use crate::report::junit::{Case, Suite, document};

const FACTS_SHOWN: usize = 6;

/// What a comparison over time found.
pub(super) struct Changes<'a> {
    /// Number of compared runs.
    pub(super) runs: usize,
    pub(super) verdict: Outcome,
    pub(super) reason: &'a str,
    pub(super) margin: Margin,
    /// The steps at which numbers changed, one line each.
    pub(super) steps: Vec<String>,
    pub(super) changes: &'a [Change],
}

impl Changes<'_> {
    fn count(&self) -> String {
        let noun = if self.runs == 1 { "run" } else { "runs" };
        format!("{} {noun}", self.runs)
    }

    /// Returns the text above the tables.
    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "{}: {}: {} (margin {})\n",
            self.count(),
            shouted(self.verdict),
            self.reason,
            self.margin
        );
        for line in &self.steps {
            let _ = writeln!(out, "{line}");
        }
        for change in self.changes {
            for fact in change.changed.iter().take(FACTS_SHOWN) {
                let _ = writeln!(out, "changed in run {}: {fact}", change.run + 1);
            }
            match change.changed.len() {
                0 => {
                    let _ = writeln!(
                        out,
                        "unchanged in run {}: all recorded facts",
                        change.run + 1
                    );
                }
                count if count > FACTS_SHOWN => {
                    let _ = writeln!(
                        out,
                        "{} more facts changed in run {}: see --format json",
                        count - FACTS_SHOWN,
                        change.run + 1
                    );
                }
                _ => {}
            }
        }
        out
    }

    /// Returns the Markdown text above the tables.
    pub(super) fn markdown(&self) -> String {
        let mut out = format!(
            "## {}: {}\n\n**{}** (margin {})\n\n",
            self.count(),
            self.verdict.word(),
            markdown::escape(self.reason),
            self.margin
        );
        for line in &self.steps {
            let _ = writeln!(out, "- {}", markdown::escape(line));
        }
        for change in self.changes {
            for fact in &change.changed {
                let _ = writeln!(
                    out,
                    "- changed in run {}: {}",
                    change.run + 1,
                    markdown::escape(&fact.to_string())
                );
            }
        }
        out
    }

    /// Returns JUnit XML with a suite named `suite`. The suite's case fails if the latest change is
    /// for the worse.
    pub(super) fn junit(&self, suite: &str) -> String {
        let outcome = junit::outcome(self.verdict, self.reason);
        let case = Case {
            name: "latest change".to_owned(),
            outcome,
            output: self.steps.join("\n"),
        };
        document(
            "tardy compare --over-time",
            &[Suite {
                name: suite.to_owned(),
                cases: vec![case],
            }],
        )
    }
}
