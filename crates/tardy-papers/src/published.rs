//! Numbers that papers published, in one file per table. The first line of a file names the source.

/// A published table.
#[derive(Debug)]
pub struct Table {
    /// Name by which [`find`] finds the table: the paper and the subject.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        /// Every table.
        pub const TABLES: &[Table] = &[$(Table { name: $name, text: include_str!(concat!("published/", $name, ".csv")) }),*];
    };
}

tables![
    "abeni2002_table1",
    "abeni2002_table2",
    "abeni2002_cdf",
    "abeni2002_player",
    "williams2002_summary",
    "williams2002_below",
    "williams2002_buckets",
    "williams2002_long",
    "mckenney2009_jitter",
    "mckenney2009_build",
    "mckenney2009_advantage",
    "mckenney2009_crossover",
    "mckenney2009_figure6",
    "koolwal2009_gtod",
    "koolwal2009_cyclictest",
    "koolwal2009_lpptest",
    "koolwal2009_lmbench",
    "koolwal2009_lmbench_cut",
];

/// Returns the table with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

impl Table {
    /// Returns the paper, by the name that this project uses.
    #[must_use]
    pub fn paper(&self) -> &'static str {
        self.name
            .split_once('_')
            .map_or(self.name, |(paper, _)| paper)
    }

    /// Returns where the table's numbers come from, and what readers must know about them.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# source: "))
            .unwrap_or_default()
    }

    /// Returns the names of the table's columns.
    #[must_use]
    pub fn head(&self) -> Vec<&'static str> {
        self.lines().next().unwrap_or_default()
    }

    /// Returns the table's rows, as the paper printed them. A cell is empty if the paper's cell is
    /// empty.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<&'static str>> {
        self.lines().skip(1).collect()
    }

    /// Returns the text in the column `column` of the row that starts with `keys`. In a key, an
    /// underscore may stand for a space. The text is empty if the paper's cell is empty. Returns
    /// `None` if the table has no such cell.
    #[must_use]
    pub fn cell(&self, keys: &[&str], column: &str) -> Option<&'static str> {
        let place = self.head().iter().position(|name| *name == column)?;
        let is = |(cell, key): (&&str, &&str)| cell == key || cell.replace(' ', "_") == **key;
        let row = self
            .rows()
            .into_iter()
            .find(|row| row.len() >= keys.len() && row.iter().zip(keys).all(is))?;
        row.get(place).copied()
    }

    // The tables contain no quoted cells.
    fn lines(&self) -> impl Iterator<Item = Vec<&'static str>> {
        self.text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(',').collect())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The first digits of the SHA-256 digests of the files that were compared, number by number,
    /// with the papers.
    const REFERENCE: &[(&str, &str)] = &[
        ("abeni2002_table1", "bc311456de6bcad9"),
        ("abeni2002_table2", "1c871ed14ccb02a1"),
        ("abeni2002_cdf", "cdbcc88c7d2617bc"),
        ("abeni2002_player", "36017480d27c82a4"),
        ("williams2002_summary", "0e5bd2c1752dce3b"),
        ("williams2002_below", "2f83722e1cec9b96"),
        ("williams2002_buckets", "25877c3ea4013928"),
        ("williams2002_long", "dc16dcd6a9081f77"),
        ("mckenney2009_jitter", "4e9a8234d4d2c28f"),
        ("mckenney2009_build", "b7b3b43cce6c5c39"),
        ("mckenney2009_advantage", "7dae60a270e5b9a9"),
        ("koolwal2009_gtod", "37671d5b922ec052"),
        ("koolwal2009_cyclictest", "c606e4d353fc66f6"),
        ("koolwal2009_lpptest", "cfc80654539c20ac"),
        ("koolwal2009_lmbench", "850b49c4e4111e19"),
        ("koolwal2009_lmbench_cut", "cb335caa78c57a28"),
        ("mckenney2009_crossover", "aa8380feb2bd5c89"),
        ("mckenney2009_figure6", "8c174a71c016d7d7"),
    ];

    #[test]
    fn every_number_is_that_of_the_reference_files() {
        for (name, expected) in REFERENCE {
            let digest: String = Sha256::digest(find(name).unwrap().text)
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(
                digest, *expected,
                "{name}: a number was changed: compare it with the paper"
            );
        }
        assert_eq!(TABLES.len(), REFERENCE.len());
    }

    #[test]
    fn every_table_has_a_source_a_paper_and_as_many_cells_as_its_head() {
        for table in TABLES {
            assert!(
                table.source().starts_with(table.paper()),
                "{}: {}",
                table.name,
                table.source()
            );
            assert!(crate::PAPERS.contains(&table.paper()), "{}", table.name);
            for row in table.rows() {
                assert_eq!(row.len(), table.head().len(), "{}: {row:?}", table.name);
            }
        }
    }

    #[test]
    fn a_cell_is_found_by_the_names_of_its_row_and_column() {
        let cyclictest = find("koolwal2009_cyclictest").unwrap();
        assert_eq!(
            cyclictest.cell(&["2.6.26-rt1", "yes", "24h"], "max"),
            Some("100")
        );
        assert_eq!(cyclictest.cell(&["2.6.26-rt1", "yes", "1h"], "max"), None);
        assert_eq!(
            find("mckenney2009_jitter")
                .unwrap()
                .cell(&["real-fast", "idle"], "p99_999_us"),
            Some(""),
            "empty in the paper"
        );
    }
}
