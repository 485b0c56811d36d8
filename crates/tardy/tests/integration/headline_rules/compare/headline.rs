//! Reads the headline of a comparison.

use super::super::numbers::{Duration, number_after};

/// The first word of a headline, and its exit code.
const EXIT_CODES: [(&str, i32); 5] = [
    ("BETTER", 0),
    ("WORSE", 1),
    ("MIXED", 1),
    ("EQUIVALENT", 0),
    ("INCONCLUSIVE", 4),
];
/// Words with which the headline introduces a group of rows, and the verdict of these rows.
pub(super) const GROUPS: [(&str, &str); 4] = [
    ("better and worse in ", "mixed"),
    ("better in ", "better"),
    ("worse in ", "worse"),
    ("undecided in ", "inconclusive"),
];

/// A headline such as `new against base: BETTER: ...`.
pub(super) struct Headline<'a> {
    pub(super) word: &'static str,
    pub(super) exit_code: i32,
    pub(super) new: &'a str,
    pub(super) base: &'a str,
    /// The text after the headline's first word.
    pub(super) said: &'a str,
    pub(super) margin: &'a str,
}

impl<'a> Headline<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (word, exit_code) = EXIT_CODES
            .into_iter()
            .find(|(word, _)| line.contains(&format!(": {word}")))?;
        let (sides, said) = line.split_once(&format!(": {word}"))?;
        let (new, base) = sides.split_once(" against ").unwrap_or(("", ""));
        let margin = said.rsplit_once("(margin ");
        Some(Self {
            word,
            exit_code,
            new,
            base,
            said: said.strip_prefix(": ").unwrap_or(said),
            margin: margin.map_or("", |(_, margin)| margin.trim_end_matches(')')),
        })
    }

    /// Returns the groups of rows in the headline: for each, the verdict of its rows, and the text
    /// after the introducing words.
    fn groups(&self) -> Vec<(&'static str, &'a str)> {
        let of_group = |part: &'a str| {
            let (words, verdict) = GROUPS.iter().find(|(words, _)| part.starts_with(words))?;
            Some((*verdict, &part[words.len()..]))
        };
        outer_parts(self.said)
            .into_iter()
            .filter_map(of_group)
            .collect()
    }

    /// Returns the number of rows that have the verdict according to the headline.
    pub(super) fn rows(&self, verdict: &str) -> f64 {
        self.groups()
            .into_iter()
            .filter(|(of_group, _)| *of_group == verdict)
            .filter_map(|(_, text)| number_after(text, ""))
            .sum()
    }

    /// The margin in ns for a latency of `ns`. A margin in per cent is at least 1 us.
    pub(super) fn margin_of_latency_ns(&self, ns: f64) -> f64 {
        let least = if self.margin.ends_with('%') { 1e3 } else { 0.0 };
        self.margin_ns(ns).max(least)
    }

    /// The margin in ns for a value of `ns`; 0 if the margin is unknown.
    pub(super) fn margin_ns(&self, ns: f64) -> f64 {
        let percent = self.margin.strip_suffix(" %");
        match percent.and_then(|percent| percent.parse::<f64>().ok()) {
            Some(percent) => ns * percent / 100.0,
            None => Duration::parse(self.margin).map_or(0.0, |margin| margin.ns),
        }
    }
}

/// Splits a text at commas outside of parentheses.
fn outer_parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_outer_comma = |mark: char| {
        match mark {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        mark == ',' && depth == 0
    };
    text.split(is_outer_comma).map(str::trim).collect()
}

/// A row that the headline names, and the changes that the headline states for the row.
pub(super) struct NamedRow<'a> {
    pub(super) verdict: String,
    pub(super) row: &'a str,
    /// The row's name with the probe, for tables with several probes.
    pub(super) key: &'a str,
    pub(super) changes: &'a str,
}

/// Returns the rows that the headline names.
pub(super) fn named<'a>(headline: &Headline<'a>) -> Vec<NamedRow<'a>> {
    let of_group = |(verdict, text): (&str, &'a str)| {
        let (_, inner) = text.split_once(" (")?;
        let (row, changes) = inner.split_once(": ")?;
        Some(NamedRow {
            verdict: verdict.to_owned(),
            row,
            key: row,
            changes: changes.split(')').next().unwrap_or(""),
        })
    };
    let groups: Vec<NamedRow> = headline.groups().into_iter().filter_map(of_group).collect();
    if !groups.is_empty() {
        return groups;
    }
    one_row(headline).into_iter().collect()
}

/// Reads a headline about a single row: `cyclic latency: median +24.6 us`, or `99 % quantile of
/// cyclic latency under io: +10.4 us may or may not exceed the margin`.
fn one_row<'a>(headline: &Headline<'a>) -> Option<NamedRow<'a>> {
    let (subject, rest) = headline.said.split_once(": ")?;
    let quantity = |name: &str| {
        [" latency", " interval error"]
            .into_iter()
            .any(|of| name.ends_with(of))
    };
    let row = match subject.split_once(" under ") {
        Some((of, row)) if quantity(of) => row,
        None if quantity(subject) => "whole run",
        _ => return None,
    };
    Some(NamedRow {
        verdict: headline.word.to_lowercase(),
        row,
        key: subject.split_once(" of ").map_or(subject, |(_, key)| key),
        changes: rest.split(" (").next().unwrap_or(""),
    })
}
