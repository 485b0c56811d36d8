//! Finds contradictions between the headline of `tardy show` or `tardy compare`, the tables below
//! the headline, and the exit code.
//!
//! The rules are derived only from printed text: sample outputs and the documentation of their
//! words. The rules are independent of the code that prints the text, so they do not share its
//! errors.

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

/// The contradictions found so far.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Records a contradiction if `is_contradiction` is true.
    fn add_if(&mut self, is_contradiction: bool, what: fmt::Arguments) {
        if is_contradiction {
            self.0.push(what.to_string());
        }
    }
}

/// Returns every contradiction in the output of `tardy show` or `tardy compare`, each with the two
/// places and their values.
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
