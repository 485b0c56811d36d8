//! The cells of a comparison's tables, the same in every format.

use crate::compare::model::{Maxima, Method, Misses, Outcome, Row, Settings, Table};

/// The head of a table of quantiles.
pub(super) fn head(settings: &Settings) -> Vec<String> {
    let interval = format!("{} interval", settings.confidence);
    ["us", "base", "new", "difference", &interval, "margin", "p", "verdict"].map(str::to_owned).to_vec()
}

/// All rows of a table.
pub(super) fn rows(table: &Table) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = table.rows.iter().map(quantile).collect();
    rows.extend(table.maxima.as_ref().map(maxima));
    rows.extend(table.misses.as_ref().map(misses));
    rows
}

fn quantile(row: &Row) -> Vec<String> {
    let interval = match (row.interval_ns, row.data_needed) {
        (Some(interval), _) => format!("{:+.1} to {:+.1}", interval.lower / 1e3, interval.upper / 1e3),
        (None, Some(factor)) => format!("needs {} times the data", factor_text(factor)),
        (None, None) => "none".to_owned(),
    };
    let verdict = match (row.verdict, row.data_needed) {
        (Some(Outcome::Inconclusive), Some(factor)) if factor < 1e4 => {
            format!("inconclusive (about {} times the data)", factor_text(factor))
        }
        (Some(outcome), _) => outcome.word().to_owned(),
        (None, _) => "-".to_owned(),
    };
    vec![
        percent(row.quantile),
        micros(row.base_ns),
        micros(row.candidate_ns),
        format!("{:+.1}", row.difference_ns / 1e3),
        interval,
        format!("{:.2}", row.margin_ns / 1e3),
        row.probability.map_or_else(|| "-".to_owned(), probability),
        verdict,
    ]
}

/// Maxima have no interval: they are shown, at equal length, and decide nothing.
fn maxima(maxima: &Maxima) -> Vec<String> {
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    let (base, candidate) = (middle(&maxima.base_ns), middle(&maxima.candidate_ns));
    let chance = maxima.all_above_by_chance.map_or_else(|| "-".to_owned(), probability);
    let label = format!("largest of {}", maxima.samples);
    vec![
        label,
        micros(base),
        micros(candidate),
        format!("{:+.1}", (candidate - base) / 1e3),
        "none".into(),
        String::new(),
        chance,
        "-".into(),
    ]
}

fn misses(misses: &Misses) -> Vec<String> {
    let share = |(events, of): (u64, u64)| format!("{events}/{of}");
    let ratio = misses.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("x {ratio:.2}"));
    let upper = misses.interval.1.map_or_else(|| "no limit".to_owned(), |upper| format!("x {upper:.2}"));
    let interval = if misses.verdict.is_some() { format!("x {:.2} to {upper}", misses.interval.0) } else { "no miss".to_owned() };
    let verdict = misses.verdict.map_or("-", Outcome::word);
    vec![
        "deadline missed".to_owned(),
        share(misses.base),
        share(misses.candidate),
        ratio,
        interval,
        String::new(),
        probability(misses.probability),
        verdict.to_owned(),
    ]
}

/// What a table is about, and where its intervals come from.
pub(super) fn title(table: &Table, settings: &Settings) -> String {
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let method = match table.method {
        Method::Runs => "one number a run; median of the runs, shift between them".to_owned(),
        Method::Blocks { blocks, length_ns, .. } => format!(
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
    let (base, new) = (&table.base, &table.candidate);
    format!("{}: {} and {} samples in {} and {}; {method}", table.key, base.samples, new.samples, runs(base.runs), runs(new.runs))
}

pub(super) fn percent(quantile: f64) -> String {
    format!("{} %", (quantile * 1e9).round() / 1e7)
}

pub(super) fn micros(nanos: f64) -> String {
    format!("{:.1}", nanos / 1e3)
}

pub(super) fn probability(probability: f64) -> String {
    if probability < 0.001 { "<0.001".to_owned() } else { format!("{probability:.3}") }
}

fn factor_text(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// A verdict in capitals, coloured for terminals.
pub(super) fn shouted(outcome: Outcome, is_colored: bool) -> String {
    let word = outcome.word().to_uppercase();
    let color = match outcome {
        Outcome::Better | Outcome::Equivalent => "32",
        Outcome::Inconclusive => "33",
        Outcome::Worse => "31",
    };
    if is_colored { format!("\x1b[1;{color}m{word}\x1b[0m") } else { word }
}
