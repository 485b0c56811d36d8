//! Tables of text whose columns are as wide as they need to be: the first to the left, the others to the right.

/// Rows of cells; the first row is the head.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    #[must_use]
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The head and the rows below it; a row may be shorter.
    #[must_use]
    pub fn parts(&self) -> (&[String], &[Vec<String>]) {
        self.rows.split_first().map_or((&[], &[]), |(head, rows)| (head, rows))
    }

    /// The table as text, one line a row.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let padded =
                cells.map(|(column, (cell, &width))| if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") });
            padded.collect::<String>().trim_end().to_owned()
        };
        self.rows.iter().map(|row| line(row) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["cpu", "max"]);
        table.row(["1", "12.5"]);
        table.row(["together", "3"]);
        assert_eq!(table.text(), "cpu        max\n1         12.5\ntogether     3\n");
    }
}
