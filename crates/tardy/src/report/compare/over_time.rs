//! Runs over time as text, Markdown and JUnit.

use std::fmt::Write as _;

use super::cells::{micros, percent, probability, shouted};
use super::markdown;
use crate::compare::over_time::{OverTime, Track};
use crate::report::date::date_and_time;
use crate::report::junit::{Case, Suite, document};
use crate::report::table::Table;

const FACTS_SHOWN: usize = 6;

/// As text; `is_colored` for terminals.
#[must_use]
pub fn text(found: &OverTime, is_colored: bool) -> String {
    let mut out =
        format!("{} runs: {}: {} (margin {})\n", found.runs.len(), shouted(found.verdict, is_colored), found.reason, found.settings.margin);
    for line in steps(found) {
        let _ = writeln!(out, "{line}");
    }
    for change in &found.changes {
        for fact in change.changed.iter().take(FACTS_SHOWN) {
            let _ = writeln!(out, "changed with run {}: {fact}", change.run + 1);
        }
        match change.changed.len() {
            0 => {
                let _ = writeln!(out, "changed with run {}: nothing that the runs know of", change.run + 1);
            }
            count if count > FACTS_SHOWN => {
                let _ = writeln!(out, "changed with run {}: {} more: see --format json", change.run + 1, count - FACTS_SHOWN);
            }
            _ => {}
        }
    }
    let mut table = Table::new(head(found));
    rows(found).into_iter().for_each(|row| table.row(row));
    out.push_str(&table.text());
    out
}

/// As Markdown.
#[must_use]
pub fn markdown(found: &OverTime) -> String {
    let mut out = format!(
        "## {} runs: {}\n\n**{}** (margin {})\n\n",
        found.runs.len(),
        found.verdict.word(),
        markdown::escape(&found.reason),
        found.settings.margin
    );
    steps(found).iter().for_each(|line| {
        let _ = writeln!(out, "- {}", markdown::escape(line));
    });
    for change in &found.changes {
        for fact in &change.changed {
            let _ = writeln!(out, "- changed with run {}: {}", change.run + 1, markdown::escape(&fact.to_string()));
        }
    }
    out.push('\n');
    out.push_str(&markdown::table(&head(found), &rows(found)));
    out
}

/// As JUnit: the latest change is what fails.
#[must_use]
pub fn junit(found: &OverTime) -> String {
    let case = Case {
        name: "latest change".to_owned(),
        outcome: super::junit::outcome(found.verdict, &found.reason),
        output: steps(found).join("\n"),
    };
    document("tardy compare --over-time", &[Suite { name: "over time".to_owned(), cases: vec![case] }])
}

fn name(track: &Track) -> String {
    format!("{} {}", track.key, percent(track.quantile))
}

fn steps(found: &OverTime) -> Vec<String> {
    let words = |track: &Track| -> Vec<String> {
        let words = |step: &crate::compare::over_time::Step| {
            let (before, after) = (micros(step.before_ns), micros(step.after_ns));
            format!("{}: {before} us -> {after} us with run {} (p {})", name(track), step.run + 1, probability(step.probability))
        };
        track.steps.iter().map(words).collect()
    };
    found.tracks.iter().flat_map(words).collect()
}

fn head(found: &OverTime) -> Vec<String> {
    let fixed = ["run", "started (UTC)", "folder", "machine"].map(str::to_owned);
    let mut head = fixed.to_vec();
    for track in &found.tracks {
        head.push(format!("{} us", name(track)));
        if track.quantile > 0.5 || found.tracks.iter().filter(|other| other.key == track.key).count() == 1 {
            head.push(format!("largest of {}", track.maxima_of));
        }
    }
    head
}

/// A value after a change is marked.
fn rows(found: &OverTime) -> Vec<Vec<String>> {
    let row = |(index, run): (usize, &crate::compare::model::RunFacts)| {
        let mut cells = vec![(index + 1).to_string(), date_and_time(run.started_realtime_ns), run.folder.clone(), run.machine.clone()];
        for track in &found.tracks {
            let mark = if track.steps.iter().any(|step| step.run == index) { "* " } else { "" };
            cells.push(format!("{mark}{}", track.values_ns.get(index).map_or_else(String::new, |&value| micros(value))));
            if track.quantile > 0.5 || found.tracks.iter().filter(|other| other.key == track.key).count() == 1 {
                cells.push(track.maxima_ns.get(index).map_or_else(String::new, |&value| micros(value)));
            }
        }
        cells
    };
    found.runs.iter().enumerate().map(row).collect()
}
