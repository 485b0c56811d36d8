//! Writes the table of docs/reliability.md, which has one row per fault.

use std::fmt;

use xtask::failure::Result;
use xtask::table_page::TablePage;

use crate::fault::{Fault, Tally};

const PAGE: &str = "docs/reliability.md";

/// A fault and its results.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) fault: &'a Fault,
    pub(crate) outcome: Result<Tally>,
}

impl Row<'_> {
    pub(crate) fn has_failed(&self) -> bool {
        self.outcome
            .as_ref()
            .map_or(true, |tally| !tally.failures.is_empty())
    }

    fn cells(&self) -> [String; 6] {
        let (tries, outcome, failures) = match &self.outcome {
            Ok(tally) => {
                let left_out = tally.left_out.iter();
                let left_out: String = left_out.map(|why| format!("; left out: {why}")).collect();
                (
                    tally.tries,
                    tally.seen_text() + &left_out,
                    tally.failures.len().to_string(),
                )
            }
            Err(failure) => (0, format!("not tried: {failure}"), String::new()),
        };
        [
            cell(self.fault),
            self.fault.done.to_owned(),
            self.fault.demanded.to_owned(),
            tries.to_string(),
            outcome,
            failures,
        ]
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.cells().join(" | "))?;
        let failures = self
            .outcome
            .as_ref()
            .map_or_else(|_| &[][..], |tally| &tally.failures);
        failures
            .iter()
            .try_for_each(|failure| writeln!(f, "  NOT SURVIVED: {failure}"))
    }
}

/// Writes these rows into the table, in the order of `faults`.
pub(crate) fn write(rows: &[Row<'_>], faults: &[Fault]) -> Result<()> {
    let names: Vec<String> = faults.iter().map(cell).collect();
    let order: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut page = TablePage::read(PAGE)?;
    rows.iter()
        .try_for_each(|row| page.set(&row.cells(), &order))
}

/// Returns the first cell of a fault's row.
fn cell(fault: &Fault) -> String {
    format!("`{}`", fault.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FAULTS;

    #[test]
    fn the_page_has_a_row_for_each_fault_in_their_order() {
        let page = TablePage::read(PAGE).unwrap();
        let names: Vec<String> = FAULTS.iter().map(cell).collect();
        let rows = page.rows();
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), names);
        for (row, fault) in rows.iter().zip(FAULTS) {
            assert_eq!(row[1..3], [fault.done, fault.demanded], "{}", fault.name);
        }
    }
}
