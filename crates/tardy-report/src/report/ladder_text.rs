//! The ladder of deadlines as text: three lines of a table, and the deadline that held.

use tardy_core::units::Nanos;
use tardy_core::verdict::{Stress, significant, together};
use tardy_results::summary::model::{Ladder, Rung};

use super::table::Table;

/// The ladder of `probe`, named where there are several.
#[must_use]
pub fn text(ladder: &Ladder, probe: &str, is_named: bool) -> String {
    let title = if is_named { format!("deadline of {probe}") } else { "deadline".to_owned() };
    let mut table = Table::new(std::iter::once(title).chain(ladder.rungs.iter().map(|rung| rung.deadline_ns.exact())));
    table.row(std::iter::once("misses".to_owned()).chain(ladder.rungs.iter().map(|rung| rung.misses.to_string())));
    // Of some imports the length is not known.
    if ladder.rungs.iter().any(|rung| rung.misses_an_hour_at_most.is_some()) {
        table.row(std::iter::once("an hour, upper bound (95 %)".to_owned()).chain(ladder.rungs.iter().map(an_hour)));
    }
    format!("{}  {}\n", table.text(), smallest(ladder))
}

/// The shortest deadline that held, and the worst load, in a sentence.
#[must_use]
pub fn smallest(ladder: &Ladder) -> String {
    let worst =
        ladder.worst_load.as_ref().map_or_else(String::new, |load| format!("; worst load: {}, {}", load.name, three_digits(load.max_ns)));
    let Some(rung) = &ladder.smallest else {
        return format!("every deadline was missed: work was skipped, and never done{worst}");
    };
    // Samples of several loads are no one population.
    let over = if ladder.stress == Stress::Mixture { " over this mixture of loads" } else { "" };
    let an_hour = rung.misses_an_hour_at_most.map_or_else(String::new, |bound| {
        format!(", fewer than {} an hour{} at 95 %{over}", significant(bound), together(ladder.processors))
    });
    format!("shortest deadline without a miss: {}{an_hour}{worst}", three_digits(rung.deadline_ns))
}

fn an_hour(rung: &Rung) -> String {
    rung.misses_an_hour_at_most.map_or_else(|| "-".to_owned(), significant)
}

/// Three digits and a fitting unit, rounded up: a shorter deadline would not have held.
#[must_use]
pub fn three_digits(time: Nanos) -> String {
    let (divisor, unit) = match time.get() {
        ..1_000 => return format!("{} ns", time.get()),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = time.get() as f64 / divisor;
    let decimals = match value {
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    let step = 10_f64.powi(-decimals);
    format!("{:.*} {unit}", decimals as usize, (value / step - 1e-9).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_three_digits() {
        let cases = [
            (999, "999 ns"),
            (17_990, "18.0 us"),
            (8_635_700, "8.64 ms"),
            (200_000, "200 us"),
            (10_000_000, "10.0 ms"),
            (4_000_000_001, "4.01 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(three_digits(Nanos(nanos)), text);
        }
    }
}
