//! Contradictions between the headline of `tardy show` and `tardy compare`, the tables below it,
//! and the exit code.
//!
//! The rules come from the printed text alone: from sample outputs, and from what the documentation
//! says the words mean. Nothing here was derived from the code that makes these texts, so that an
//! error there is not repeated here.

mod compare;
mod numbers;
mod show;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod texts;

use std::fmt;

use tables::{COMPARISON, paragraphs, tables};

/// The contradictions that were found.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Reports a contradiction if its condition holds.
    fn add_if(&mut self, is_contradiction: bool, what: fmt::Arguments) {
        if is_contradiction {
            self.0.push(what.to_string());
        }
    }
}

/// Returns every contradiction in what `tardy show` or `tardy compare` printed: the two places,
/// with their values.
pub(crate) fn contradictions(text: &str, exit_code: i32) -> Vec<String> {
    let mut found = Findings::default();
    let (paragraphs, tables) = (paragraphs(text), tables(text));
    let title = paragraphs.first().map_or("", String::as_str);
    let is_comparison =
        tables.iter().any(|table| table.name == COMPARISON) || title.contains(" against ");
    if is_comparison {
        compare::check(&paragraphs, &tables, exit_code, &mut found);
    } else {
        show::check(text, &paragraphs, &tables, exit_code, &mut found);
    }
    found.0
}
