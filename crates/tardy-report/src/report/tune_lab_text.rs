//! The result of a search for settings in the lab, as text with a row per setting and a column per
//! load.

use std::path::Path;

use tardy_core::units::{Nanos, three_digits};
use tardy_tune::lab_answer::{Answer, OfLoad, Row};
use tardy_tune::search::Outcome;

use super::table::Table;

pub fn text(answer: &Answer, best: &Path, columns: usize) -> String {
    let goal = if answer.goal == "max" {
        "largest latency".to_owned()
    } else {
        format!("{} %", answer.goal)
    };
    let mut out = format!(
        "{}{}, virtual time, {} replicas of {}\n\n",
        answer.base,
        answer
            .release
            .as_ref()
            .map_or(String::new(), |release| format!(" ({release})")),
        answer.replicas,
        answer.length_ns
    );
    let mut table = Table::new(std::iter::once(goal).chain(answer.loads.iter().cloned()));
    table.row(
        std::iter::once("as it is".to_owned()).chain(
            answer
                .as_it_is_ns
                .iter()
                .map(|runs| median(runs).map_or("-".to_owned(), |value| value.to_string())),
        ),
    );
    let mut order: Vec<&Row> = answer.settings.iter().collect();
    order.sort_by_key(|row| (!row.lowers(), !row.raises()));
    for row in order.iter().copied().chain(&answer.together) {
        table.row(std::iter::once(row.name.clone()).chain(row.loads.iter().map(cell)));
    }
    out.push_str(&table.in_blocks(columns));
    out.push_str("medians of the replicas; < lowered, > raised, = no effect seen\n\n");
    for row in &order {
        for (place, load) in row.loads.iter().enumerate() {
            if let (Some(words), Some(base)) = (
                effect(load),
                answer.as_it_is_ns.get(place).and_then(|runs| median(runs)),
            ) {
                out.push_str(&format!(
                    "{} under {}: {}\n",
                    row.name,
                    load.load,
                    words(base)
                ));
            }
        }
    }
    let nothing: Vec<&str> = order
        .iter()
        .filter(|row| !row.lowers() && !row.raises())
        .map(|row| row.name.as_str())
        .collect();
    if !nothing.is_empty() {
        out.push_str(&format!(
            "effect too small to see: {}; result.json has the bounds\n",
            nothing.join(", ")
        ));
    }
    for row in &order {
        for load in row.loads.iter().filter(|load| !load.failures.is_empty()) {
            out.push_str(&format!(
                "! {} under {}: {} runs gave no number: {}\n",
                row.name,
                load.load,
                load.failures.len(),
                load.failures[0]
            ));
        }
    }
    for (kernel, why) in &answer.absent {
        out.push_str(&format!("! {kernel} is left out: {why}\n"));
    }
    out.push_str(&format!(
        "\nAll statements hold jointly at 95 % confidence. {}\n",
        answer.meaning
    ));
    if answer
        .settings
        .iter()
        .any(|row| row.lowers() && !row.words.is_empty())
    {
        out.push_str(&format!(
            "The parameters that lower the metric are in {}: tardy doctor --against checks them\n",
            best.display()
        ));
    }
    out
}

fn median(runs: &[Nanos]) -> Option<Nanos> {
    let mut runs = runs.to_vec();
    runs.sort_unstable();
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

fn cell(load: &OfLoad) -> String {
    let sign = match load.outcome {
        Some(Outcome::Lowers) => "<",
        Some(Outcome::Raises) => ">",
        Some(Outcome::NothingSeen) => "=",
        None => return "-".to_owned(),
    };
    median(&load.goal_ns).map_or("-".to_owned(), |value| format!("{value} {sign}"))
}

/// Returns a function that describes the effect of a setting, or `None` if no effect was seen. The
/// function's argument is the metric's value without the setting.
fn effect(load: &OfLoad) -> Option<impl Fn(Nanos) -> String> {
    let verb = match load.outcome? {
        Outcome::Lowers => "lowers",
        Outcome::Raises => "raises",
        Outcome::NothingSeen => return None,
    };
    let mut factors = load.factor_interval?;
    factors.sort_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs()));
    Some(move |base: Nanos| {
        let by = |factor: f64| three_digits((base.get() as f64 * (factor - 1.0).abs()).round());
        let percent = |factor: f64| ((factor - 1.0).abs() * 100.0).round();
        format!(
            "{verb} the metric by {} to {} ({} to {} %)",
            by(factors[0]),
            by(factors[1]),
            percent(factors[0]),
            percent(factors[1])
        )
    })
}
