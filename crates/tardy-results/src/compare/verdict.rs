//! What the tables of a comparison come to, and in words why.

use tardy_core::units::three_digits;

use super::model::{BetweenRuns, Outcome, RUNS_MIN, Row, SpreadSource, Table};

/// The verdict of all tables with its reason.
///
/// A load by itself can only make the whole worse: with fewer samples its tail is open nearly
/// always.
#[must_use]
pub fn of_tables(tables: &[Table]) -> (Outcome, String) {
    let decides = |table: &&Table| {
        table.key.load.is_none()
            || table.verdict == Outcome::Worse
            || tables.iter().all(|table| table.key.load.is_some())
    };
    let outcome = Outcome::of_all(tables.iter().filter(decides).map(|table| table.verdict))
        .unwrap_or(Outcome::Inconclusive);
    (outcome, reason(outcome, tables))
}

/// The row that says most for `outcome`, in words.
fn reason(outcome: Outcome, tables: &[Table]) -> String {
    let by_misses = tables.iter().find(|table| {
        table
            .misses
            .is_some_and(|misses| misses.verdict == Some(outcome))
    });
    if let Some((table, misses)) = by_misses.and_then(|table| Some((table, table.misses?))) {
        let ((from, of), (to, in_all)) = (misses.base, misses.candidate);
        return format!(
            "{}: {to} of {in_all} due times missed the deadline, {from} of {of} in the baseline",
            table.key
        );
    }
    let rows = tables
        .iter()
        .flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let of_outcome = rows.filter(|(_, row)| row.verdict == Some(outcome));
    let size = |row: &Row| row.difference_ns.abs() / row.margin_ns.max(1.0);
    let Some((table, row)) = of_outcome.max_by(|a, b| size(a.1).total_cmp(&size(b.1))) else {
        let undecided = tables
            .iter()
            .find_map(|table| Some(format!("{}: {}", table.key, table.undecided.as_ref()?)));
        return undecided.unwrap_or_else(|| {
            "no quantile is known well enough on both sides: measure longer".to_owned()
        });
    };
    let quantile = format!(
        "{} % quantile of {}",
        (row.quantile * 1e9).round() / 1e7,
        table.key
    );
    let sign = if row.difference_ns < 0.0 { "" } else { "+" };
    let difference = format!("{sign}{}", three_digits(row.difference_ns.round()));
    match outcome {
        Outcome::Equivalent => match table.not_compared.first() {
            Some(first) => format!(
                "no quantile below {} % differs by more than the margin",
                (first.quantile * 1e9).round() / 1e7
            ),
            None => "no quantile differs by more than the margin".to_owned(),
        },
        Outcome::Worse | Outcome::Better => format!("{quantile}: {difference}"),
        Outcome::Inconclusive => format!(
            "{quantile}: {difference} may or may not pass the margin{}",
            advice(table, row)
        ),
    }
}

/// What would decide an open row.
fn advice(table: &Table, row: &Row) -> String {
    if let Some(factor) = row.data_needed {
        return format!(": measure about {factor:.1} times as long");
    }
    let is_open_by_runs = |between: &BetweenRuns| {
        between.source != SpreadSource::Runs && !row.between_runs_ns.is_none()
    };
    match table.between_runs.filter(is_open_by_runs) {
        Some(_) if table.base.runs.min(table.candidate.runs) < RUNS_MIN => {
            format!(": {RUNS_MIN} runs a side would tell more")
        }
        _ => String::new(),
    }
}
