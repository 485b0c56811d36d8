//! The ladder of deadlines as text: a table with three lines, and the shortest deadline that was
//! met.

use tardy_core::units::at_most_three_digits;
use tardy_core::verdict::{Stress, significant, together};
use tardy_results::summary::model::{Ladder, Rung};

use super::table::Table;

/// Returns the ladder as a table, which names `probe` if `is_named`.
#[must_use]
pub fn table(ladder: &Ladder, probe: &str, is_named: bool) -> Table {
    let title = if is_named {
        format!("deadline of {probe}")
    } else {
        "deadline".to_owned()
    };
    let mut table = Table::new(
        std::iter::once(title).chain(ladder.rungs.iter().map(|rung| rung.deadline_ns.exact())),
    );
    table.row(
        std::iter::once("misses".to_owned()).chain(ladder.rungs.iter().map(Rung::misses_in_words)),
    );
    // If the length of an imported run is unknown, its misses per hour are unknown, too.
    if ladder
        .rungs
        .iter()
        .any(|rung| rung.misses_an_hour_at_most.is_some())
    {
        table.row(
            std::iter::once("an hour, upper bound (95 %)".to_owned())
                .chain(ladder.rungs.iter().map(an_hour)),
        );
    }
    table
}

/// Returns a sentence with the shortest deadline that was met and, if it is known, a sentence with
/// the upper bound of the misses of this deadline. If every deadline was missed, returns a sentence
/// that states this. Returns no sentence if the samples do not decide which deadline was met.
#[must_use]
pub fn smallest(ladder: &Ladder) -> Vec<String> {
    if ladder.every_deadline_missed {
        return vec![
            "No deadline held: the work of skipped periods was never done, and so missed every \
             deadline."
                .to_owned(),
        ];
    }
    let Some(rung) = &ladder.smallest else {
        return Vec::new();
    };
    let held = format!(
        "Shortest deadline that held: {}.",
        at_most_three_digits(rung.deadline_ns.get() as f64)
    );
    // Samples under several loads are a mixture and not one population.
    let over = if ladder.stress == Stress::Mixture {
        ", over this mixture of loads"
    } else {
        ""
    };
    let bound = rung.misses_an_hour_at_most.map(|bound| {
        format!(
            "A longer run misses this deadline fewer than {} times an hour{} (upper bound at 95 \
             %{over}).",
            significant(bound),
            together(ladder.processors)
        )
    });
    std::iter::once(held).chain(bound).collect()
}

fn an_hour(rung: &Rung) -> String {
    rung.misses_an_hour_at_most
        .map_or_else(|| "-".to_owned(), significant)
}
