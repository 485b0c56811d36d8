//! A page of docs/ with a table whose rows tasks write. The first cell of a row is its name.

use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::workspace;

/// The text of such a page, and the path from which it was read.
#[derive(Debug)]
pub struct TablePage {
    path: PathBuf,
    text: String,
}

impl TablePage {
    /// Reads a page of the workspace, such as `docs/proof.md`.
    ///
    /// # Errors
    /// Returns an error if the page cannot be read.
    pub fn read(path: &str) -> Result<Self> {
        let path = workspace::root().join(path);
        let text = workspace::read(&path)?;
        Ok(Self { path, text })
    }

    /// Returns the cells of each row.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        let lines: Vec<&str> = self.text.lines().collect();
        let rows = rows(&lines).unwrap_or_default();
        lines[rows].iter().map(|line| cells(line)).collect()
    }

    /// Removes the rows whose names `keep` rejects. The page is written by the next [`Self::set`].
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let lines: Vec<&str> = self.text.lines().collect();
        let rows = rows(&lines).unwrap_or_default();
        let lines = lines.iter().enumerate();
        let kept = lines.filter(|(at, line)| !rows.contains(at) || keep(cells(line)[0]));
        let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
        self.text = kept.join("\n") + "\n";
    }

    /// Writes a row; all other rows stay. A new row comes before the rows whose names follow its
    /// name in `order`.
    ///
    /// # Errors
    /// Returns an error if the page has no table, or cannot be written.
    pub fn set(&mut self, row: &[String], order: &[&str]) -> Result<()> {
        self.text = with_row(&self.text, row, order)
            .ok_or_else(|| Failure::new(format!("{} has no table", self.path.display())))?;
        workspace::write(&self.path, &self.text)
    }
}

/// Returns which lines are the rows of the first table.
fn rows(lines: &[&str]) -> Option<std::ops::Range<usize>> {
    let begin = 1 + lines.iter().position(|line| line.starts_with("|---"))?;
    let end = lines[begin..]
        .iter()
        .position(|line| !line.starts_with('|'));
    Some(begin..end.map_or(lines.len(), |end| begin + end))
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split(" | ").map(str::trim).collect()
}

fn with_row(text: &str, row: &[String], order: &[&str]) -> Option<String> {
    let row = row.iter().map(|cell| cell.replace('|', "\\|"));
    let row = format!("| {} |", row.collect::<Vec<_>>().join(" | "));
    let mut lines: Vec<&str> = text.lines().collect();
    let rows = rows(&lines)?;
    let place = |line: &str| order.iter().position(|name| *name == cells(line)[0]);
    let is_same = |at: &usize| cells(lines[*at])[0] == cells(&row)[0];
    if let Some(at) = rows.clone().find(is_same) {
        lines[at] = &row;
    } else {
        let own = place(&row);
        let follows = |at: &usize| place(lines[*at]) > own;
        let at = rows.clone().find(follows).unwrap_or(rows.end);
        lines.insert(at, &row);
    }
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_place_of_the_old_one_and_others_stay() {
        let text = "before\n\n| name | result |\n|---|---|\n| `a` | old |\n| `b` | old |\n| d | by hand |\n\nafter\n";
        let order = ["`a`", "`b`", "`c`"];
        let with = |text: &str, name: &str| {
            with_row(text, &[name.to_owned(), "x|y".to_owned()], &order).unwrap()
        };
        assert_eq!(
            with(text, "`b`"),
            text.replace("| `b` | old |", "| `b` | x\\|y |")
        );
        let without = text.replace("| `a` | old |\n", "");
        assert_eq!(
            with(&without, "`a`"),
            text.replace("| `a` | old |", "| `a` | x\\|y |")
        );
        assert!(with(text, "`c`").contains("| d | by hand |\n| `c` | x\\|y |\n\nafter\n"));
        assert_eq!(with_row("no table\n", &[], &order), None);
    }
}
