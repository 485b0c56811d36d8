//! Derives the verdict of a comparison from its tables, and explains it in words.
//!
//! The first line of a comparison states how many of its tables are better and how many are worse.
//! If some tables are better and others are worse, the verdict is mixed, because otherwise one kind
//! would hide the other.

use tardy_core::units::three_digits;

use super::model::{
    BetweenRuns, Decider, DecidingNumber, Method, Misses, Outcome, RUNS_MIN, Row, SpreadSource,
    Table,
};

/// Returns the verdict over all tables, with the reason. Tables with a verdict outweigh
/// inconclusive ones.
#[must_use]
pub fn of_tables(tables: &[Table]) -> (Outcome, String) {
    let outcome =
        Outcome::of_all(tables.iter().map(|table| table.verdict)).unwrap_or(Outcome::Inconclusive);
    (outcome, reason(outcome, tables))
}

/// Returns whether the comparison of the whole runs is inconclusive. A table for a single load has
/// few samples, so its tail is almost always inconclusive. Such a table counts only if there is no
/// table for the whole run.
#[must_use]
pub fn is_open(tables: &[Table]) -> bool {
    let has_whole = tables.iter().any(|table| table.key.load.is_none());
    tables
        .iter()
        .filter(|table| table.key.load.is_none() || !has_whole)
        .any(|table| table.verdict == Outcome::Inconclusive)
}

/// Returns the numbers that decide the verdict on a table. For a mixed table, returns a number that
/// is better and one that is worse. For an inconclusive table, returns the number that is most
/// likely to exceed the margin.
pub(super) fn deciders(table: &Table) -> Vec<Decider> {
    let wanted: &[Outcome] = match table.verdict {
        Outcome::Better => &[Outcome::Better],
        Outcome::Worse => &[Outcome::Worse],
        Outcome::Mixed => &[Outcome::Better, Outcome::Worse],
        Outcome::Equivalent => &[],
        Outcome::Inconclusive => {
            let open = most_open(std::slice::from_ref(table))
                .map(|(_, row)| DecidingNumber::Quantile(row.quantile))
                .or_else(|| open_misses(table).map(|_| DecidingNumber::Misses));
            let decider = |number| Decider {
                number,
                verdict: Outcome::Inconclusive,
            };
            return open.into_iter().map(decider).collect();
        }
    };
    wanted
        .iter()
        .filter_map(|&verdict| decider(table, verdict))
        .collect()
}

/// Returns the number that best supports `verdict`. If the misses have this verdict, they are
/// returned, because the user asked for them. Otherwise, a number that the overview shows is
/// preferred, and then the largest change.
fn decider(table: &Table, verdict: Outcome) -> Option<Decider> {
    let decides = |number| Some(Decider { number, verdict });
    if table
        .misses
        .is_some_and(|misses| misses.verdict == Some(verdict))
    {
        return decides(DecidingNumber::Misses);
    }
    let of_max = table
        .maxima
        .as_ref()
        .is_some_and(|maxima| maxima.verdict == Some(verdict))
        .then_some((
            DecidingNumber::Maximum,
            table.overview.max.base_ns,
            table.overview.max.candidate_ns,
        ));
    let size =
        |(_, from, to): &(DecidingNumber, f64, f64)| (to.max(1.0) / from.max(1.0)).ln().abs();
    let is_shown = |number: &DecidingNumber| {
        matches!(
            number,
            DecidingNumber::Maximum | DecidingNumber::Quantile(0.5 | 0.999)
        )
    };
    table
        .rows
        .iter()
        .filter(|row| row.verdict == Some(verdict))
        .map(|row| {
            (
                DecidingNumber::Quantile(row.quantile),
                row.base_ns,
                row.candidate_ns,
            )
        })
        .chain(of_max)
        .max_by(|one, other| {
            is_shown(&one.0)
                .cmp(&is_shown(&other.0))
                .then(size(one).total_cmp(&size(other)))
        })
        .and_then(|(number, ..)| decides(number))
}

/// Returns a text that gives the reason for the verdict: the number of tables that are better,
/// worse, or both, and the largest change of each kind.
fn reason(outcome: Outcome, tables: &[Table]) -> String {
    match outcome {
        Outcome::Equivalent => return equivalent(tables),
        Outcome::Inconclusive => return inconclusive(tables),
        Outcome::Better | Outcome::Worse | Outcome::Mixed => {}
    }
    let parts = [
        (Outcome::Better, "better"),
        (Outcome::Mixed, "better and worse"),
        (Outcome::Worse, "worse"),
    ];
    let mut is_first = true;
    let mut said: Vec<String> = Vec::new();
    for (verdict, words) in parts {
        let of: Vec<&Table> = tables
            .iter()
            .filter(|table| table.verdict == verdict)
            .collect();
        let Some(most) = of
            .iter()
            .max_by(|one, other| change(one).total_cmp(&change(other)))
        else {
            continue;
        };
        let count = match (tables.len(), is_first) {
            (1, _) => String::new(),
            (all, true) => format!("{words} in {} of {all} rows ", of.len()),
            (_, false) => format!("{words} in {} ", of.len()),
        };
        let numbers: Vec<String> = most
            .decided_by
            .iter()
            .map(|decider| number(most, decider.number))
            .collect();
        let numbers = numbers.join(", ");
        said.push(if tables.len() == 1 {
            format!("{}: {numbers}", most.key)
        } else {
            format!("{count}({}: {numbers})", label(most, tables))
        });
        is_first = false;
    }
    let open = tables
        .iter()
        .filter(|table| table.verdict == Outcome::Inconclusive)
        .count();
    if open > 0 {
        said.push(format!("undecided in {open}"));
    }
    if outcome == Outcome::Better && is_open(tables) {
        // The command then has the exit code of an inconclusive comparison.
        said.push("so inconclusive as a whole".to_owned());
    }
    said.join(", ")
}

/// Returns the largest change among the numbers that decide a table, as the logarithm of a ratio.
fn change(table: &Table) -> f64 {
    let of = |decider: &Decider| {
        let (from, to) = values(table, decider.number);
        (to.max(1.0) / from.max(1.0)).ln().abs()
    };
    table.decided_by.iter().map(of).fold(0.0, f64::max)
}

/// Returns the values of a deciding number in the baseline and in the candidate.
fn values(table: &Table, number: DecidingNumber) -> (f64, f64) {
    match number {
        DecidingNumber::Maximum => (table.overview.max.base_ns, table.overview.max.candidate_ns),
        DecidingNumber::Misses => table.misses.map_or((0.0, 0.0), |misses| {
            (misses.base.0 as f64, misses.candidate.0 as f64)
        }),
        DecidingNumber::Quantile(quantile) => table
            .rows
            .iter()
            .find(|row| row.quantile == quantile)
            .map_or((0.0, 0.0), |row| (row.base_ns, row.candidate_ns)),
    }
}

/// Returns the name under which a table is listed: its load, or its whole key if `tables` have
/// several probes or quantities.
#[must_use]
pub fn label(table: &Table, tables: &[Table]) -> String {
    let kind = |table: &Table| (table.key.probe.clone(), table.key.quantity.clone());
    match &table.key.load {
        _ if tables.iter().any(|other| kind(other) != kind(table)) => table.key.to_string(),
        Some(load) => load.clone(),
        None => "whole run".to_owned(),
    }
}

/// Smallest ratio that is printed as a factor. Smaller changes are printed as a difference.
const FACTOR_FROM: f64 = 3.0;

/// Describes in words a number that decides a verdict.
fn number(table: &Table, number: DecidingNumber) -> String {
    let (from, to) = values(table, number);
    let name = match number {
        DecidingNumber::Misses => {
            return table.misses.map_or_else(String::new, |misses| {
                let ((from, of), (to, in_all)) = (misses.base, misses.candidate);
                format!(
                    "{to} of {in_all} due times missed the deadline, {from} of {of} in the baseline"
                )
            });
        }
        DecidingNumber::Maximum => "maximum".to_owned(),
        DecidingNumber::Quantile(quantile) => quantile_name(quantile),
    };
    let factor = |ratio: f64| {
        if ratio < 10.0 {
            format!("{ratio:.1}")
        } else {
            format!("{ratio:.0}")
        }
    };
    if from > 0.0 && to >= from * FACTOR_FROM {
        return format!("{name} {} times longer", factor(to / from));
    }
    if to > 0.0 && from >= to * FACTOR_FROM {
        return format!("{name} {} times shorter", factor(from / to));
    }
    let sign = if to < from { "" } else { "+" };
    format!("{name} {sign}{}", three_digits((to - from).round()))
}

fn quantile_name(quantile: f64) -> String {
    if quantile == 0.5 {
        "median".to_owned()
    } else {
        format!("{} % quantile", (quantile * 1e9).round() / 1e7)
    }
}

fn equivalent(tables: &[Table]) -> String {
    if tables.iter().all(|table| table.method == Method::Same) {
        return "both sides have the same samples".to_owned();
    }
    // Finds the highest quantile that all tables have.
    let highest = |table: &Table| table.rows.iter().map(|row| row.quantile).reduce(f64::max);
    let up_to = tables.iter().filter_map(highest).reduce(f64::min);
    let up_to = up_to.map_or_else(String::new, |quantile| {
        format!(" up to {} %", (quantile * 1e9).round() / 1e7)
    });
    format!("all compared quantiles{up_to} are equal within the margin")
}

/// Returns the undecided quantile with the largest difference relative to its margin, and its
/// table.
fn most_open(tables: &[Table]) -> Option<(&Table, &Row)> {
    let size = |row: &Row| row.difference_ns.abs() / row.margin_ns.max(1.0);
    tables
        .iter()
        .flat_map(|table| table.rows.iter().map(move |row| (table, row)))
        .filter(|(_, row)| row.verdict == Some(Outcome::Inconclusive))
        .max_by(|a, b| {
            let is_shown = |row: &Row| matches!(row.quantile, 0.5 | 0.999);
            let by_size = size(a.1).total_cmp(&size(b.1));
            by_size.then(is_shown(a.1).cmp(&is_shown(b.1)))
        })
}

/// Returns the misses of a table, if they are inconclusive.
fn open_misses(table: &Table) -> Option<Misses> {
    table
        .misses
        .filter(|misses| misses.verdict == Some(Outcome::Inconclusive))
}

fn inconclusive(tables: &[Table]) -> String {
    let Some((table, row)) = most_open(tables) else {
        let undecided = tables
            .iter()
            .find_map(|table| Some(format!("{}: {}", table.key, table.undecided.as_ref()?)));
        let misses = || {
            let table = tables.iter().find(|table| open_misses(table).is_some())?;
            Some(format!(
                "{}: {}, which may or may not exceed the margin",
                table.key,
                number(table, DecidingNumber::Misses)
            ))
        };
        return undecided.or_else(misses).unwrap_or_else(|| {
            "each quantile is too uncertain on one side or both: measure longer".to_owned()
        });
    };
    let sign = if row.difference_ns < 0.0 { "" } else { "+" };
    format!(
        "{} of {}: {sign}{} may or may not exceed the margin{}",
        quantile_name(row.quantile),
        table.key,
        three_digits(row.difference_ns.round()),
        advice(table, row)
    )
}

/// Returns a text that advises the user how to get a verdict on an inconclusive row; empty if there
/// is no advice.
fn advice(table: &Table, row: &Row) -> String {
    if let Some(factor) = row.data_needed {
        return format!(": measure about {factor:.1} times as long");
    }
    let is_open_by_runs = |between: &BetweenRuns| {
        between.source != SpreadSource::Runs && !row.between_runs_ns.is_none()
    };
    match table.between_runs.filter(is_open_by_runs) {
        Some(_) if table.base.runs.min(table.candidate.runs) < RUNS_MIN => {
            format!(": {RUNS_MIN} runs per side would show more")
        }
        _ => String::new(),
    }
}
