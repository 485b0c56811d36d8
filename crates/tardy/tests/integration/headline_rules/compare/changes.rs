//! Parses the cells of a comparison's table, which contain the verdict of a row and the changes in
//! the row.

use super::super::numbers::{Duration, half_of_last_digit};
use super::super::tables::Row;

/// A change in a cell: `342 -> 15.3 us*`, `872 us -> 1.18 ms (+35 %)`.
pub(super) struct Change<'a> {
    pub(super) column: String,
    pub(super) cell: &'a str,
    pub(super) base: Duration,
    pub(super) new: Duration,
    /// The text in parentheses.
    relative: &'a str,
}

impl<'a> Change<'a> {
    fn parse(column: &str, cell: &'a str) -> Option<Self> {
        let (base, rest) = cell.trim_end_matches('*').split_once(" -> ")?;
        let (new, relative) = rest.split_once(" (").unwrap_or((rest, ""));
        let unit = new.rsplit(' ').next()?;
        Some(Self {
            column: column.to_owned(),
            cell,
            base: Duration::parse(base).or_else(|| Duration::parse(&format!("{base} {unit}")))?,
            new: Duration::parse(new)?,
            relative: relative.trim_end_matches(')'),
        })
    }

    /// Returns whether the change decides the verdict of its row.
    pub(super) fn decides(&self) -> bool {
        self.cell.ends_with('*')
    }

    /// Returns whether the change is marked as not compared or undecided.
    pub(super) fn is_undecided(&self) -> bool {
        self.base.is_unbounded
    }

    pub(super) fn difference_ns(&self) -> f64 {
        self.new.ns - self.base.ns
    }

    pub(super) fn rounding_ns(&self) -> f64 {
        self.base.rounding_with(self.new)
    }

    pub(super) fn ratio(&self) -> f64 {
        self.new.ns / self.base.ns
    }

    /// The largest relative error that the rounding of both values can explain.
    pub(super) fn relative_rounding(&self) -> f64 {
        self.base.rounding_ns / self.base.ns + self.new.rounding_ns / self.new.ns
    }

    /// Returns whether `+35 %`, `x 3.4` or `/ 3.4` follows from the values.
    pub(super) fn is_relative_right(&self) -> bool {
        let (ratio, text) = (self.ratio(), self.relative);
        let (value, size, printed) = if let Some(percent) = text.strip_suffix(" %") {
            (100.0 * (ratio - 1.0), 100.0 * ratio, percent)
        } else if let Some(factor) = text.strip_prefix("x ") {
            (ratio, ratio, factor)
        } else if let Some(factor) = text.strip_prefix("/ ") {
            (1.0 / ratio, 1.0 / ratio, factor)
        } else {
            return true;
        };
        let most = size * self.relative_rounding() + half_of_last_digit(printed) * 1.02;
        printed
            .parse::<f64>()
            .is_ok_and(|printed| (value - printed).abs() <= most)
    }
}

/// Returns the verdict of a row; for `better: 99 % 101 us -> 73.8 us*`, this is `better`.
pub(super) fn verdict(row: &Row) -> &str {
    let cell = row.text("verdict").unwrap_or("");
    cell.split_once(": ").map_or(cell, |(verdict, _)| verdict)
}

/// Returns the changes of a row, including the change in the verdict's cell.
pub(super) fn changes(row: &Row) -> Vec<Change<'_>> {
    let mut found = Vec::new();
    for (column, cell) in &row.cells {
        if column != "verdict" {
            found.extend(Change::parse(column, cell));
        } else if let Some((_, rest)) = cell.split_once(": ") {
            let (column, cell) = column_at_start(rest);
            found.extend(Change::parse(&column, cell));
        }
    }
    found
}

/// Splits a text into the column that it starts with, such as `99 % quantile`, `median` or
/// `maximum`, and the rest.
pub(super) fn column_at_start(text: &str) -> (String, &str) {
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    match words[..] {
        [share, "%", rest] => {
            let rest = rest.strip_prefix("quantile ").unwrap_or(rest);
            let column = if share == "50" {
                "median".to_owned()
            } else {
                format!("{share} %")
            };
            (column, rest)
        }
        _ => {
            let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
            let column = if word == "maximum" { "max" } else { word };
            (column.to_owned(), rest)
        }
    }
}
