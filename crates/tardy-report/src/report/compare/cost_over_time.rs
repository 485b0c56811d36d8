//! Costs over time as text, Markdown and JUnit. Tables have a row per metric, because there are
//! more metrics than runs.

use tardy_results::compare::cost_over_time::{CostTrack, CostsOverTime};
use tardy_results::cost::reference::advantage_percent;

use super::cells::probability;
use super::changes::Changes;
use super::markdown;
use crate::report::date::date_and_time;
use crate::report::table::Table;

/// Returns the costs as text.
#[must_use]
pub fn text(found: &CostsOverTime) -> String {
    let mut out = changes(found).text();
    for (head, rows) in [(head(), rows(found)), (runs_head(), runs(found))] {
        let mut table = Table::new(head);
        rows.into_iter().for_each(|row| table.row(row));
        out.push_str(&table.text());
    }
    out
}

/// Returns the costs as Markdown.
#[must_use]
pub fn markdown(found: &CostsOverTime) -> String {
    let tables = [
        markdown::table(&head(), &rows(found)),
        markdown::table(&runs_head(), &runs(found)),
    ];
    format!("{}\n{}\n", changes(found).markdown(), tables.join("\n"))
}

/// Returns JUnit XML with one test case. The case fails if the latest change is for the worse.
#[must_use]
pub fn junit(found: &CostsOverTime) -> String {
    changes(found).junit("costs over time")
}

fn changes(found: &CostsOverTime) -> Changes<'_> {
    Changes {
        runs: found.runs.len(),
        verdict: found.verdict,
        reason: &found.reason,
        margin: found.margin,
        steps: steps(found),
        changes: &found.changes,
    }
}

fn steps(found: &CostsOverTime) -> Vec<String> {
    let words = |track: &CostTrack| -> Vec<String> {
        let shown = track.shown(found.unit);
        let word = |step: &tardy_results::compare::changes::Step| {
            let (before, after) = (shown.text(step.before_ns), shown.text(step.after_ns));
            let more = advantage_percent(step.before_ns, step.after_ns);
            let (name, unit) = (&track.metric, shown.unit);
            format!(
                "{name}: {before} -> {after} {unit} ({more:+.1} %) since run {} (p {})",
                step.run + 1,
                probability(step.probability)
            )
        };
        track.steps.iter().map(word).collect()
    };
    found.tracks.iter().flat_map(words).collect()
}

fn head() -> Vec<String> {
    [
        "metric",
        "unit",
        "oldest",
        "latest",
        "costs more",
        "best",
        "worst",
        "changed in run",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn rows(found: &CostsOverTime) -> Vec<Vec<String>> {
    let row = |track: &CostTrack| {
        let shown = track.shown(found.unit);
        let (oldest, latest) = (
            track.values.first().copied()?,
            track.values.last().copied()?,
        );
        let best = track.values.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = track.values.iter().copied().fold(0.0, f64::max);
        let changed: Vec<String> = track
            .steps
            .iter()
            .map(|step| (step.run + 1).to_string())
            .collect();
        let mut cells = vec![
            track.metric.clone(),
            shown.unit.to_owned(),
            shown.text(oldest),
            shown.text(latest),
        ];
        cells.push(format!("{:+.1} %", advantage_percent(oldest, latest)));
        cells.extend([shown.text(best), shown.text(worst)]);
        cells.push(if changed.is_empty() {
            "-".to_owned()
        } else {
            changed.join(", ")
        });
        Some(cells)
    };
    found.tracks.iter().filter_map(row).collect()
}

fn runs_head() -> Vec<String> {
    ["run", "started (UTC)", "folder", "machine"]
        .map(str::to_owned)
        .to_vec()
}

fn runs(found: &CostsOverTime) -> Vec<Vec<String>> {
    let row = |(index, run): (usize, &tardy_results::compare::cost_over_time::CostRunFacts)| {
        vec![
            (index + 1).to_string(),
            date_and_time(run.started_realtime_ns),
            run.folder.clone(),
            run.machine.clone(),
        ]
    };
    found.runs.iter().enumerate().map(row).collect()
}
