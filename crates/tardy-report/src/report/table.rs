//! Formats text tables; each column is as narrow as its content allows. The first column and
//! columns of words ([`Table::words`]) are left-aligned, the others right-aligned. A row always
//! takes one line, so columns that do not fit the screen are omitted ([`Table::chosen`]) or follow
//! below ([`Table::in_blocks`]).

/// Number of blanks between two columns.
const GAP: usize = 2;

/// Rows of cells; the first row is the head.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Indices of left-aligned columns other than the first one.
    words: Vec<usize>,
}

impl Table {
    /// Creates a table with the given head.
    #[must_use]
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            rows: vec![head.into_iter().map(Into::into).collect()],
            words: Vec::new(),
        }
    }

    /// Left-aligns these columns, because they contain words.
    #[must_use]
    pub fn words(self, columns: impl IntoIterator<Item = usize>) -> Self {
        Self {
            words: columns.into_iter().collect(),
            ..self
        }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns the head and the rows below it. A row may be shorter than the head.
    #[must_use]
    pub fn parts(&self) -> (&[String], &[Vec<String>]) {
        self.rows
            .split_first()
            .map_or((&[], &[]), |(head, rows)| (head, rows))
    }

    /// Returns the width of a line of the table.
    #[must_use]
    pub fn line_width(&self) -> usize {
        (0..self.columns())
            .map(|column| self.width(column) + if column > 0 { GAP } else { 0 })
            .sum()
    }

    /// Returns the table as text, one line per row.
    #[must_use]
    pub fn text(&self) -> String {
        self.of_columns(&(0..self.columns()).collect::<Vec<_>>())
    }

    /// Returns the first column and as many other columns as fit a line of `columns`. Columns whose
    /// heads are in `importance` are chosen first.
    #[must_use]
    pub fn chosen(&self, columns: usize, importance: &[&str]) -> String {
        let (head, _) = self.parts();
        let mut order: Vec<usize> = (1..self.columns()).collect();
        let rank = |column: &usize| {
            importance
                .iter()
                .position(|name| head.get(*column).is_some_and(|head| head == name))
        };
        order.sort_by_key(|column| rank(column).unwrap_or(importance.len()));
        let mut left = columns.saturating_sub(self.width(0));
        let mut chosen = vec![0];
        for column in order {
            let width = self.width(column) + GAP;
            if width > left {
                break;
            }
            left -= width;
            chosen.push(column);
        }
        chosen.sort_unstable();
        self.of_columns(&chosen)
    }

    /// Returns all columns. If some columns do not fit a line of `columns`, they follow below in a
    /// second block that repeats the first column.
    #[must_use]
    pub fn in_blocks(&self, columns: usize) -> String {
        let room = columns.saturating_sub(self.width(0));
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        let mut left = 0;
        for column in 1..self.columns() {
            let width = self.width(column) + GAP;
            if width > left || blocks.is_empty() {
                blocks.push(vec![0]);
                left = room;
            }
            left = left.saturating_sub(width);
            blocks.last_mut().expect("one was pushed").push(column);
        }
        if blocks.is_empty() {
            self.text()
        } else {
            blocks.iter().map(|block| self.of_columns(block)).collect()
        }
    }

    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }

    fn of_columns(&self, columns: &[usize]) -> String {
        let widths: Vec<usize> = columns.iter().map(|&column| self.width(column)).collect();
        let line = |row: &Vec<String>| {
            let cell = |(&column, &width): (&usize, &usize)| {
                let cell = row.get(column).map_or("", String::as_str);
                match column {
                    0 => format!("{cell:<width$}"),
                    _ if self.words.contains(&column) => format!("{:GAP$}{cell:<width$}", ""),
                    _ => format!("{:GAP$}{cell:>width$}", ""),
                }
            };
            columns
                .iter()
                .zip(&widths)
                .map(cell)
                .collect::<String>()
                .trim_end()
                .to_owned()
        };
        self.rows.iter().map(|row| line(row) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["cpu", "median", "max"]);
        table.row(["1", "2.5", "12.5"]);
        table.row(["together", "2", "3"]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(
            table().text(),
            "cpu       median   max\n1            2.5  12.5\ntogether       2     3\n"
        );
    }

    #[test]
    fn words_stand_to_the_left() {
        assert_eq!(
            table().words([1]).text(),
            "cpu       median   max\n1         2.5     12.5\ntogether  2          3\n"
        );
        assert_eq!(table().line_width(), 22);
    }

    #[test]
    fn a_narrow_line_gets_what_matters_most_in_the_usual_order() {
        assert_eq!(table().chosen(22, &["max"]), table().text());
        assert_eq!(
            table().chosen(21, &["max"]),
            "cpu        max\n1         12.5\ntogether     3\n"
        );
        assert_eq!(table().chosen(3, &["max"]), "cpu\n1\ntogether\n");
    }

    #[test]
    fn columns_without_room_follow_below() {
        assert_eq!(table().in_blocks(22), table().text());
        let below = "cpu       median\n1            2.5\ntogether       2\ncpu        max\n1         \
             12.5\ntogether     3\n";
        assert_eq!(table().in_blocks(21), below);
        assert_eq!(table().in_blocks(1), below);
    }
}
