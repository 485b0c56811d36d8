//! Splits a printed text into tables and paragraphs.

use super::numbers::Duration;

/// First heading of each table that the rules read.
pub(super) const LATENCY: &str = "latency";
pub(super) const LOAD: &str = "load";
pub(super) const COMPARISON: &str = "base -> new";
pub(super) const DEADLINE: &str = "deadline";
const NAMES: [&str; 4] = [LATENCY, LOAD, COMPARISON, DEADLINE];

pub(super) struct Row {
    pub(super) label: String,
    /// Heading and text of each cell.
    pub(super) cells: Vec<(String, String)>,
}

impl Row {
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        self.cells
            .iter()
            .find(|(heading, _)| heading == column)
            .map(|(_, text)| text.as_str())
    }

    pub(super) fn duration(&self, column: &str) -> Option<Duration> {
        Duration::parse(self.text(column)?)
    }

    pub(super) fn count(&self, column: &str) -> Option<f64> {
        self.text(column)?.parse().ok()
    }
}

pub(super) struct Table {
    /// The table's first heading.
    pub(super) name: String,
    /// The other headings.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Whether a line such as `3 more` stands for some rows.
    pub(super) lacks_rows: bool,
}

impl Table {
    pub(super) fn row(&self, label: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label)
    }
}

/// A cell, and the column after the cell's last character.
struct Cell {
    text: String,
    end: usize,
}

/// Splits a line at two or more spaces.
fn cells(line: &str) -> Vec<Cell> {
    let mut start = 0;
    let place = |part: &str| {
        let end = start + part.trim_end().chars().count();
        start += part.chars().count() + 2;
        Cell {
            text: part.trim().to_owned(),
            end,
        }
    };
    line.split("  ")
        .map(place)
        .filter(|cell| !cell.text.is_empty())
        .collect()
}

/// Finds the tables. Columns are right-aligned, so a cell belongs to the heading that ends at the
/// same column.
pub(super) fn tables(text: &str) -> Vec<Table> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let headings = cells(line);
        let is_table = headings.len() > 1
            && !line.starts_with(' ')
            && NAMES.contains(&headings[0].text.as_str());
        if is_table {
            found.push(table(&headings, &lines[index + 1..]));
        }
    }
    found
}

/// Reads a table from the lines below its headings.
fn table(headings: &[Cell], below: &[&str]) -> Table {
    let mut table = Table {
        name: headings[0].text.clone(),
        columns: headings[1..].iter().map(|cell| cell.text.clone()).collect(),
        rows: Vec::new(),
        lacks_rows: false,
    };
    for line in below {
        if is_number_before(line, " more in all") {
            table.lacks_rows = true;
            continue;
        }
        if is_number_before(line, " more") {
            table.lacks_rows = true;
            break;
        }
        let Some(row) = row(headings, line) else {
            break;
        };
        table.rows.push(row);
    }
    table
}

fn is_number_before(line: &str, suffix: &str) -> bool {
    line.strip_suffix(suffix)
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

fn row(headings: &[Cell], line: &str) -> Option<Row> {
    if line.starts_with([' ', '!']) {
        return None;
    }
    let cells = cells(line);
    let label = cells.first()?.text.clone();
    if NAMES.contains(&label.as_str()) {
        return None;
    }
    let with_heading = |cell: &Cell| {
        let heading = headings[1..]
            .iter()
            .find(|heading| heading.end == cell.end)?;
        Some((heading.text.clone(), cell.text.clone()))
    };
    let cells: Vec<_> = cells.iter().skip(1).filter_map(with_heading).collect();
    (!cells.is_empty()).then_some(Row { label, cells })
}

/// Joins each line with its continuations, which are indented by two spaces.
pub(super) fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let continuation = line
            .strip_prefix("  ")
            .filter(|rest| !rest.starts_with([' ', '~']));
        match (continuation, found.last_mut()) {
            (Some(rest), Some(last)) => *last = format!("{last} {rest}"),
            _ => found.push(line.to_owned()),
        }
    }
    found
}
