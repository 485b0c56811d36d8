//! The table of docs/reliability.md, with one row per fault.

use std::fmt;

use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::fault::{Fault, Tally};

const PAGE: &str = "docs/reliability.md";
const HEAD: &str = "| fault | what is done | what must hold | tries | outcome: number of tries \
                    | not survived |\n|---|---|---|---|---|---|\n";

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

    fn line(&self) -> String {
        let start = format!(
            "| `{}` | {} | {} |",
            self.fault.name, self.fault.done, self.fault.demanded
        );
        match &self.outcome {
            Ok(tally) => {
                let left_out = tally
                    .left_out
                    .iter()
                    .map(|why| format!("; left out: {why}"))
                    .collect::<String>();
                format!(
                    "{start} {} | {}{left_out} | {} |\n",
                    tally.tries,
                    tally.seen_text(),
                    tally.failures.len()
                )
            }
            Err(failure) => format!("{start} 0 | not tried: {failure} | |\n"),
        }
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())?;
        let failures = self
            .outcome
            .as_ref()
            .map_or_else(|_| &[][..], |tally| &tally.failures);
        failures
            .iter()
            .try_for_each(|failure| writeln!(f, "  NOT SURVIVED: {failure}"))
    }
}

/// Replaces these rows of the table, in the order of `faults`.
pub(crate) fn write(rows: &[Row<'_>], faults: &[Fault]) -> Result<()> {
    let path = workspace::root().join(PAGE);
    let text = std::fs::read_to_string(&path).while_doing(|| format!("reading {PAGE}"))?;
    let new = replaced(&text, rows, faults)
        .ok_or_else(|| Failure::new(format!("{PAGE} has no table that begins with {HEAD}")))?;
    std::fs::write(&path, new).while_doing(|| format!("writing {PAGE}"))
}

fn replaced(text: &str, rows: &[Row<'_>], faults: &[Fault]) -> Option<String> {
    let (before, rest) = text.split_once(HEAD)?;
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    let (old, after) = rest.split_at(end);
    let line = |fault: &Fault| {
        let begin = format!("| `{}` |", fault.name);
        let new = rows
            .iter()
            .find(|row| row.fault.name == fault.name)
            .map(Row::line);
        new.or_else(|| {
            old.lines()
                .find(|line| line.starts_with(&begin))
                .map(|line| format!("{line}\n"))
        })
    };
    let table: String = faults.iter().filter_map(line).collect();
    Some(format!("{before}{HEAD}{table}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &'static str) -> Fault {
        Fault {
            name,
            done: "something",
            demanded: "something else",
            attempt: |_| Ok(Tally::default()),
        }
    }

    #[test]
    fn a_row_takes_the_place_of_the_old_one_and_others_stay() {
        let faults = [fault("a"), fault("b"), fault("c")];
        let text =
            format!("before\n\n{HEAD}| `a` | old |\n| `b` | old |\n| `gone` | old |\n\nafter\n");
        let mut tally = Tally::default();
        tally.count("a try", "all well", vec!["a fault".to_owned()]);
        let rows = [Row {
            fault: &faults[1],
            outcome: Ok(tally),
        }];
        let new = replaced(&text, &rows, &faults).unwrap();
        assert_eq!(
            new,
            format!(
                "before\n\n{HEAD}| `a` | old |\n| `b` | something | something else | 1 | all \
                 well: 1 | 1 |\n\nafter\n"
            )
        );
    }
}
