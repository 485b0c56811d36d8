//! Builds of boards over time as text, Markdown and JUnit.

use std::collections::HashSet;
use std::fmt::Write as _;

use tardy_results::compare::model::Outcome;
use tardy_results::history::{History, LastingChange};

use super::cells::{percent, probability, shouted, time};
use super::{junit, markdown};
use crate::report::junit::{Case, Suite, document};
use crate::report::screen::fitted;
use crate::report::table::Table;

/// Maximum number of series, and of facts, that are shown for a change.
const SHOWN: usize = 5;

/// Returns the history as text, in lines of at most `columns`.
#[must_use]
pub fn text(found: &History, columns: usize) -> String {
    let mut out = format!(
        "{}: {}: {} (margin {})\n",
        extent(found),
        shouted(found.verdict),
        found.reason,
        found.margin
    );
    for change in &found.changes {
        let _ = writeln!(out, "{}: {}", state(change), sentence(found, change));
    }
    out = fitted(&out, columns);
    for change in found.changes.iter().filter(|change| change.is_open) {
        let mut table = Table::new(head(found, change));
        rows(found, change)
            .into_iter()
            .for_each(|row| table.row(row));
        out.push_str(&table.text());
        out.push_str(&fitted(
            &facts(found, change)
                .iter()
                .map(|fact| format!("{fact}\n"))
                .collect::<String>(),
            columns,
        ));
    }
    if let Some(change) = found.changes.iter().find(|change| change.is_open) {
        let _ = writeln!(
            out,
            "next: tardy history ... --accept {} if this is the new normal",
            found.builds[change.from].name
        );
    }
    out
}

/// Returns the history as Markdown.
#[must_use]
pub fn markdown(found: &History) -> String {
    let mut out = format!(
        "## {}: {}\n\n**{}** (margin {})\n\n",
        extent(found),
        found.verdict.word(),
        markdown::escape(&found.reason),
        found.margin
    );
    for change in &found.changes {
        let _ = writeln!(
            out,
            "- {}: {}",
            state(change),
            markdown::escape(&sentence(found, change))
        );
    }
    for change in found.changes.iter().filter(|change| change.is_open) {
        let _ = writeln!(
            out,
            "\n{}\n",
            markdown::table(&head(found, change), &rows(found, change)).trim_end()
        );
        facts(found, change).iter().for_each(|fact| {
            let _ = writeln!(out, "- {}", markdown::escape(fact));
        });
    }
    out
}

/// Returns JUnit XML with a case for each board. A case fails if a change made the board's numbers
/// worse, unless the change was accepted or reversed.
#[must_use]
pub fn junit(found: &History) -> String {
    let of_boards = |change: &'_ LastingChange| -> HashSet<&str> {
        change
            .series
            .iter()
            .map(|&place| found.series[place].board.as_str())
            .collect()
    };
    let all: Vec<(&LastingChange, HashSet<&str>)> = found
        .changes
        .iter()
        .map(|change| (change, of_boards(change)))
        .collect();
    let case = |board: &String| {
        let changes: Vec<&LastingChange> = all
            .iter()
            .filter(|(_, boards)| boards.contains(board.as_str()))
            .map(|(change, _)| *change)
            .collect();
        let output: Vec<String> = changes
            .iter()
            .map(|change| sentence(found, change))
            .collect();
        let (verdict, words) = match changes.iter().find(|change| change.is_open) {
            Some(change) => (Outcome::Worse, sentence(found, change)),
            None if found.verdict == Outcome::Inconclusive => {
                (Outcome::Inconclusive, found.reason.clone())
            }
            None => (Outcome::Equivalent, String::new()),
        };
        Case {
            name: board.clone(),
            outcome: junit::outcome(verdict, &words),
            output: output.join("\n"),
        }
    };
    document(
        "tardy history",
        &[Suite {
            name: "boards".to_owned(),
            cases: found.boards.iter().map(case).collect(),
        }],
    )
}

fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

pub(in crate::report) fn extent(found: &History) -> String {
    format!(
        "{} of {}, {}",
        count(found.builds.len(), "build"),
        count(found.boards.len(), "board"),
        count(found.series.len(), "number")
    )
}

pub(in crate::report) fn state(change: &LastingChange) -> &'static str {
    match (change.is_open, change.share > 0.0) {
        (true, _) => "worse",
        (false, true) => "was worse",
        (false, false) => "better",
    }
}

pub(in crate::report) fn sentence(found: &History, change: &LastingChange) -> String {
    let build = |place: usize| &found.builds[place].name;
    let accepted = if found.builds[change.from].is_accepted {
        ", accepted"
    } else {
        ""
    };
    format!(
        "{} by {:+.1} % since build {}, found in build {} (p {}){accepted}",
        change.what,
        change.share * 100.0,
        build(change.from),
        build(change.found),
        probability(change.probability)
    )
}

fn head(found: &History, change: &LastingChange) -> Vec<String> {
    [
        "number".to_owned(),
        format!("before {}", found.builds[change.from].name),
        "since".to_owned(),
        "difference".to_owned(),
    ]
    .to_vec()
}

/// Returns the numbers that increased most, as rows of a table.
fn rows(found: &History, change: &LastingChange) -> Vec<Vec<String>> {
    let level = |values: &[Option<f64>]| {
        let known: Vec<f64> = values
            .iter()
            .flatten()
            .map(|value| value.max(1.0).ln())
            .collect();
        (!known.is_empty()).then(|| (known.iter().sum::<f64>() / known.len() as f64).exp())
    };
    let levels = |&place: &usize| {
        let series = &found.series[place];
        Some((
            series,
            level(&series.values_ns[..change.from])?,
            level(&series.values_ns[change.from..])?,
        ))
    };
    let mut levels: Vec<_> = change.series.iter().filter_map(levels).collect();
    levels.sort_by(|a, b| (b.2 / b.1).total_cmp(&(a.2 / a.1)));
    let left = levels.len().saturating_sub(SHOWN);
    let row = |(series, before, after): &(&tardy_results::history::Series, f64, f64)| {
        let name = format!(
            "{} of {} on {}",
            percent(series.quantile),
            series.key,
            series.board
        );
        vec![
            name,
            time(*before),
            time(*after),
            format!("{:+.1} %", (after / before - 1.0) * 100.0),
        ]
    };
    let mut rows: Vec<Vec<String>> = levels.iter().take(SHOWN).map(row).collect();
    if left > 0 {
        rows.push(vec![format!("{left} more")]);
    }
    rows
}

/// Returns the facts that changed in the same build.
pub(in crate::report) fn facts(found: &History, change: &LastingChange) -> Vec<String> {
    let build = &found.builds[change.from].name;
    let mut facts: Vec<String> = change
        .changed
        .iter()
        .take(SHOWN)
        .map(|fact| format!("changed in build {build}: {fact}"))
        .collect();
    match change.changed.len() {
        0 => facts.push(format!("unchanged in build {build}: all recorded facts")),
        count if count > SHOWN => facts.push(format!(
            "{} more facts changed in build {build}: see --format json",
            count - SHOWN
        )),
        _ => {}
    }
    facts
}
