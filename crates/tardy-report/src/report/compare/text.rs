//! A comparison as text: the verdict, a sentence, caveats, one table of all loads that fits a
//! screen, and the facts that changed. The full text also has each table of quantiles with its
//! intervals.

use tardy_results::compare::facts::FactDifference;
use tardy_results::compare::model::{CandidateComparison, Comparison};
use tardy_run::shell::quoted;

use super::cells;
use crate::report::screen::{Screen, push_wrapped};
use crate::report::table::Table;

/// Number of lines of a usual terminal.
const SCREEN_LINES: usize = 24;
/// Number of facts that are shown in any case, even if there are many loads.
const FACTS_LEAST: usize = 3;

/// Returns the comparison as text for `screen`. With `is_full`, the text has every table and fact.
/// `folder` is the folder that contains both sides, if there is such a folder.
#[must_use]
pub fn text(
    comparison: &Comparison,
    folder: Option<&str>,
    screen: Screen,
    is_full: bool,
) -> String {
    let mut out = String::new();
    for candidate in &comparison.candidates {
        if !out.is_empty() {
            out.push('\n');
        }
        let lines = if is_full {
            usize::MAX
        } else {
            screen.lines.unwrap_or(SCREEN_LINES).max(SCREEN_LINES) - 1
        };
        let mut page = Page {
            columns: screen.columns,
            lines,
            out: String::new(),
        };
        page.against_base(comparison, candidate);
        if is_full {
            page.details(comparison, candidate);
        }
        page.changed(&candidate.changed);
        if !is_full {
            let both = || {
                format!(
                    "{} {}",
                    quoted(&comparison.base.name),
                    quoted(&candidate.side.name)
                )
            };
            page.sentence(&format!(
                "next: tardy compare {} --full",
                folder.map_or_else(both, quoted)
            ));
        }
        out.push_str(&page.out);
    }
    out
}

struct Page {
    columns: usize,
    lines: usize,
    out: String,
}

impl Page {
    fn sentence(&mut self, text: &str) {
        push_wrapped(&mut self.out, text, self.columns, (0, 2));
    }

    fn left(&self) -> usize {
        self.lines.saturating_sub(self.out.lines().count())
    }

    fn against_base(&mut self, comparison: &Comparison, candidate: &CandidateComparison) {
        let (new, base) = (&candidate.side.name, &comparison.base.name);
        let verdict = cells::shouted(candidate.verdict);
        self.sentence(&format!(
            "{new} against {base}: {verdict}: {} (margin {})",
            candidate.reason, comparison.settings.margin
        ));
        for warning in &candidate.warnings {
            self.sentence(&format!("! {warning}"));
        }
        let rows = cells::overview(&candidate.tables, true);
        let notes = cells::notes(&candidate.tables);
        // The table's head, the facts and the line about the next step also take lines of the
        // screen.
        let room = self.left().saturating_sub(notes.len() + FACTS_LEAST + 2);
        let shown = if rows.len() <= room {
            rows.len()
        } else {
            room.saturating_sub(1).max(1)
        };
        let table = |with_changes: bool| {
            let mut table = Table::new(cells::overview_head());
            cells::overview(&candidate.tables, with_changes)
                .into_iter()
                .take(shown)
                .for_each(|row| table.row(row));
            if shown < rows.len() {
                table.row([format!("{} more", rows.len() - shown)]);
            }
            table
        };
        let with_changes = table(true).text();
        let fits = with_changes
            .lines()
            .all(|line| line.chars().count() <= self.columns);
        self.out.push_str(&if fits {
            with_changes
        } else {
            table(false).chosen(self.columns, &cells::importance(&candidate.tables))
        });
        for note in notes {
            self.sentence(note);
        }
    }

    /// Writes a table of quantiles for each probe and load.
    fn details(&mut self, comparison: &Comparison, candidate: &CandidateComparison) {
        for compared in &candidate.tables {
            self.out.push('\n');
            self.sentence(&cells::title(compared, &comparison.settings));
            for line in cells::open_ends(compared) {
                self.sentence(&line);
            }
            let mut table = Table::new(cells::head(compared, &comparison.settings));
            cells::rows(compared)
                .into_iter()
                .for_each(|row| table.row(row));
            self.out.push_str(&table.in_blocks(self.columns));
        }
    }

    /// Writes other differences between the sides. Facts that only one side knows are listed
    /// separately.
    fn changed(&mut self, facts: &[FactDifference]) {
        let (known, of_one_side): (Vec<_>, Vec<_>) = facts
            .iter()
            .partition(|fact| fact.base.is_some() && fact.candidate.is_some());
        if facts.is_empty() {
            self.sentence("unchanged: all recorded facts (machine, kernel and plan)");
        }
        let last = usize::from(!of_one_side.is_empty()) + 1;
        for (place, fact) in known.iter().enumerate() {
            let before = self.out.len();
            self.sentence(&format!("changed: {fact}"));
            let more = usize::from(place + 1 < known.len());
            if place >= FACTS_LEAST && self.left() < last + more {
                self.out.truncate(before);
                self.sentence(&format!("changed: {} more facts", known.len() - place));
                break;
            }
        }
        if !of_one_side.is_empty() {
            self.sentence(&format!(
                "{} facts are known for one side only: see --format json",
                of_one_side.len()
            ));
        }
    }
}
