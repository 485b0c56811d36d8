//! The cells of a comparison's tables, which are the same in all formats.

use tardy_core::units::three_digits;
use tardy_results::compare::model::{
    DecidingNumber, Maxima, Method, Misses, NotCompared, Outcome, Overview, Pair, Row, Settings,
    SpreadSource, Table,
};
use tardy_results::compare::verdict::label;

/// Returns the head of a table of quantiles.
pub(super) fn head(table: &Table, settings: &Settings) -> Vec<String> {
    let interval = format!("{} interval", settings.confidence);
    let mut head = [
        "quantile",
        "base",
        "new",
        "difference",
        &interval,
        "margin",
        "p",
        "verdict",
    ]
    .map(str::to_owned)
    .to_vec();
    if !has_probability(table) {
        head.remove(PROBABILITY);
    }
    head
}

/// Index of the column with probabilities, which exists only if runs were repeated.
const PROBABILITY: usize = 6;

fn has_probability(table: &Table) -> bool {
    let of_maxima = table
        .maxima
        .as_ref()
        .is_some_and(|maxima| maxima.all_above_by_chance.is_some());
    of_maxima || table.rows.iter().any(|row| row.probability.is_some())
}

/// Returns all rows of a table of quantiles.
pub(super) fn rows(table: &Table) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = table.rows.iter().map(quantile).collect();
    rows.extend(table.maxima.as_ref().map(maxima));
    rows.extend(table.misses.as_ref().map(misses));
    if !has_probability(table) {
        rows.iter_mut()
            .for_each(|row| drop(row.remove(PROBABILITY)));
    }
    rows
}

fn quantile(row: &Row) -> Vec<String> {
    let interval = row.interval_ns.map_or_else(
        || "none".to_owned(),
        |interval| format!("{} to {}", signed(interval.lower), signed(interval.upper)),
    );
    let verdict = match (row.verdict, row.data_needed) {
        (Some(Outcome::Inconclusive), Some(factor)) => format!(
            "inconclusive (needs {} times the data)",
            factor_text(factor)
        ),
        (Some(outcome), _) => outcome.word().to_owned(),
        (None, _) => "-".to_owned(),
    };
    vec![
        percent(row.quantile),
        time(row.base_ns),
        time(row.candidate_ns),
        signed(row.difference_ns),
        interval,
        time(row.margin_ns),
        row.probability.map_or_else(|| "-".to_owned(), probability),
        verdict,
    ]
}

/// Returns the row of the maxima. The compared maxima are those of equal numbers of samples. Maxima
/// have no interval, so only a test gives a verdict on them.
fn maxima(maxima: &Maxima) -> Vec<String> {
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    let (base, candidate) = (middle(&maxima.base_ns), middle(&maxima.candidate_ns));
    let chance = maxima
        .all_above_by_chance
        .map_or_else(|| "-".to_owned(), probability);
    let label = format!("largest of {}", maxima.samples);
    vec![
        label,
        time(base),
        time(candidate),
        signed(candidate - base),
        "none".into(),
        String::new(),
        chance,
        maxima.verdict.map_or("-", Outcome::word).to_owned(),
    ]
}

fn misses(misses: &Misses) -> Vec<String> {
    let share = |(events, of): (u64, u64)| format!("{events}/{of}");
    let ratio = misses
        .ratio
        .map_or_else(|| "-".to_owned(), |ratio| format!("x {ratio:.2}"));
    let upper = misses
        .interval
        .1
        .map_or_else(|| "no limit".to_owned(), |upper| format!("x {upper:.2}"));
    let interval = if misses.verdict.is_some() {
        format!("x {:.2} to {upper}", misses.interval.0)
    } else {
        "no miss".to_owned()
    };
    let verdict = misses.verdict.map_or("-", Outcome::word);
    vec![
        "deadline missed".to_owned(),
        share(misses.base),
        share(misses.candidate),
        ratio,
        interval,
        String::new(),
        "-".to_owned(),
        verdict.to_owned(),
    ]
}

/// Returns the title of a table; it names the compared runs and the method that gave the intervals.
pub(super) fn title(table: &Table, settings: &Settings) -> String {
    let (base, new) = (&table.base, &table.candidate);
    let runs = |count: usize| {
        if count == 1 {
            "1 run".to_owned()
        } else {
            format!("{count} runs")
        }
    };
    let method = match table.method {
        Method::Runs => "one value per run; the table shows the medians of the runs, and the \
                         shift between the sides"
            .to_owned(),
        Method::Same => "both sides have the same samples".to_owned(),
        Method::Exact => {
            "virtual time, one replica per side: exact for these command lines".to_owned()
        }
        Method::Replicas => "virtual time, one value per replica".to_owned(),
        Method::Blocks {
            blocks, length_ns, ..
        } => format!(
            "{} and {} blocks of {:.1} s and {:.1} s, {} resamples, seed {}",
            blocks.0,
            blocks.1,
            length_ns.0.as_secs_f64(),
            length_ns.1.as_secs_f64(),
            settings.resamples,
            settings.seed
        ),
        Method::OrderStatistics => "bounds by order statistics".to_owned(),
    };
    let between = table.between_runs.map_or_else(String::new, |between| {
        let unit = if table.method == Method::Replicas {
            "replicas"
        } else {
            "runs"
        };
        let source = match between.source {
            SpreadSource::Stated => "stated",
            SpreadSource::Documented => "assumed",
            SpreadSource::Runs => "measured",
        };
        format!(
            ", standard deviation of {:.1} % between {unit} ({source})",
            between.share * 100.0
        )
    });
    format!(
        "{}: {} and {} samples in {} and {}; {method}{between}",
        table.key,
        base.samples,
        new.samples,
        runs(base.runs),
        runs(new.runs)
    )
}

/// Returns which rows of a table have no verdict, and why.
pub(super) fn open_ends(table: &Table) -> Vec<String> {
    let mut lines: Vec<String> = table
        .undecided
        .iter()
        .map(|why| format!("not decided: {why}"))
        .collect();
    if !table.not_compared.is_empty() {
        let one = |not: &NotCompared| {
            let needed = not.data_needed.map_or_else(String::new, |factor| {
                format!(" (needs {} times the data)", factor_text(factor))
            });
            format!("{}{needed}", percent(not.quantile))
        };
        let quantiles = table
            .not_compared
            .iter()
            .map(one)
            .collect::<Vec<_>>()
            .join(", ");
        lines.push(format!(
            "not compared, because a side has too few independent samples beyond the quantile: \
             {quantiles}"
        ));
    }
    lines
}

/// Returns the head of the overview, the first table of a comparison.
pub(in crate::report) fn overview_head() -> Vec<String> {
    ["base -> new", "median", "99.9 %", "max", "verdict"]
        .map(str::to_owned)
        .to_vec()
}

/// Returns a row of the overview for each table, in the same order. With `with_changes`, changes
/// are shown next to the numbers.
pub(in crate::report) fn overview(tables: &[Table], with_changes: bool) -> Vec<Vec<String>> {
    let row = |table: &Table| {
        let overview = table.overview;
        let cell = |of: Pair, number: DecidingNumber| {
            let text = pair(of, with_changes);
            if decides(table, number) {
                text + DECIDES
            } else if of.is_decided {
                text
            } else {
                format!("{UNDECIDED}{text}")
            }
        };
        vec![
            label(table, tables),
            cell(overview.median, DecidingNumber::Quantile(0.5)),
            cell(overview.high, DecidingNumber::Quantile(0.999)),
            cell(overview.max, DecidingNumber::Maximum),
            verdict_cell(table),
        ]
    };
    tables.iter().map(row).collect()
}

/// Returns the columns of the overview from the most to the least important: the verdict, then the
/// numbers that decide it, then the others. If the screen is narrow, the last columns are dropped.
pub(super) fn importance(tables: &[Table]) -> Vec<&'static str> {
    let mut columns = [
        ("99.9 %", DecidingNumber::Quantile(0.999)),
        ("max", DecidingNumber::Maximum),
        ("median", DecidingNumber::Quantile(0.5)),
    ];
    let decides = |number: DecidingNumber| {
        let mut deciders = tables.iter().flat_map(|table| &table.decided_by);
        deciders.any(|decider| decider.number == number)
    };
    columns.sort_by_key(|&(_, number)| !decides(number));
    let names = columns.into_iter().map(|(name, _)| name);
    std::iter::once("verdict").chain(names).collect()
}

/// Marks a number that decides the verdict.
const DECIDES: &str = "*";
/// Marks a number that was not compared or is undecided.
const UNDECIDED: &str = "~";

fn decides(table: &Table, number: DecidingNumber) -> bool {
    let mut deciders = table.decided_by.iter();
    deciders.any(|decider| decider.number == number)
}

/// Returns the verdict, together with those numbers that decide it but have no column.
fn verdict_cell(table: &Table) -> String {
    let other = |number: DecidingNumber| match number {
        DecidingNumber::Maximum | DecidingNumber::Quantile(0.5 | 0.999) => None,
        DecidingNumber::Misses => table
            .misses
            .map(|misses| format!("misses {} -> {}", misses.base.0, misses.candidate.0)),
        DecidingNumber::Quantile(quantile) => {
            let row = table.rows.iter().find(|row| row.quantile == quantile)?;
            let change = both(row.base_ns, row.candidate_ns);
            Some(format!("{} {change}", percent(quantile)))
        }
    };
    let others: Vec<String> = table
        .decided_by
        .iter()
        .filter_map(|decider| Some(format!("{}{DECIDES}", other(decider.number)?)))
        .collect();
    let word = table.verdict.word();
    if others.is_empty() {
        word.to_owned()
    } else {
        format!("{word}: {}", others.join(", "))
    }
}

/// Returns the meanings of the marks in the overview, one per line.
pub(in crate::report) fn notes(tables: &[Table]) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if tables.iter().any(|table| !table.decided_by.is_empty()) {
        notes.push("* decides the verdict of its row");
    }
    let is_undecided = |table: &Table| {
        let Overview { median, high, max } = table.overview;
        let numbers = [
            (median, DecidingNumber::Quantile(0.5)),
            (high, DecidingNumber::Quantile(0.999)),
            (max, DecidingNumber::Maximum),
        ];
        let mut numbers = numbers.into_iter();
        numbers.any(|(of, number)| !of.is_decided && !decides(table, number))
    };
    if tables.iter().any(is_undecided) {
        notes.push("~ not compared, or undecided");
    }
    notes
}

fn pair(pair: Pair, with_change: bool) -> String {
    let (base, candidate) = (pair.base_ns, pair.candidate_ns);
    if with_change {
        format!("{} {}", both(base, candidate), change(base, candidate))
    } else {
        both(base, candidate)
    }
}

/// Formats two values. If both values have the same unit, the unit is written once.
fn both(base: f64, candidate: f64) -> String {
    let (base, candidate) = (time(base), time(candidate));
    let base = match (base.split_once(' '), candidate.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => number.to_owned(),
        _ => base,
    };
    format!("{base} -> {candidate}")
}

/// Formats the change as a percentage, or as a factor if the ratio is at least [`FACTOR_FROM`].
fn change(base: f64, candidate: f64) -> String {
    let ratio = candidate / base;
    match ratio {
        _ if base <= 0.0 || candidate <= 0.0 => format!("({})", signed(candidate - base)),
        ratio if ratio >= FACTOR_FROM => format!("(x {})", factor_text(ratio)),
        ratio if ratio <= 1.0 / FACTOR_FROM => format!("(/ {})", factor_text(1.0 / ratio)),
        ratio => format!("({:+.0} %)", (ratio - 1.0) * 100.0),
    }
}

/// Smallest ratio that is printed as a factor instead of a percentage.
const FACTOR_FROM: f64 = 3.0;

pub(super) fn percent(quantile: f64) -> String {
    format!("{} %", (quantile * 1e9).round() / 1e7)
}

pub(super) fn time(nanos: f64) -> String {
    three_digits(nanos.round())
}

fn signed(nanos: f64) -> String {
    format!("{}{}", if nanos < 0.0 { "" } else { "+" }, time(nanos))
}

pub(super) fn probability(probability: f64) -> String {
    if probability < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{probability:.3}")
    }
}

fn factor_text(factor: f64) -> String {
    if factor < 10.0 {
        format!("{factor:.1}")
    } else {
        format!("{factor:.0}")
    }
}

/// Returns the verdict in capital letters.
pub(super) fn shouted(outcome: Outcome) -> String {
    outcome.word().to_uppercase()
}
