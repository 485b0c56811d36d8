//! The rows of docs/kernels.md: one for each architecture and kernel.

use super::guests::{order, series};
use crate::static_build::Architecture;
use crate::table_page::TablePage;

/// The table's columns for commands. For each column: its title, and the name of the command in a
/// guest's script.
const COLUMNS: [(&str, &str); 7] = [
    ("run", "run"),
    ("probes", PROBE),
    ("run --explain", "traced"),
    ("explain", "explain"),
    ("attach", "attach"),
    ("lab run --watch", "watch"),
    ("doctor", "doctor"),
];
/// If the name of a run in a guest's script starts with this text, the run tests a probe.
const PROBE: &str = "probe:";

/// A command in a guest: its name, exit code, and first error message.
pub(super) struct Tried {
    pub(super) name: String,
    /// The exit code; `-` if the command was not tried.
    pub(super) code: String,
    pub(super) said: String,
}

impl Tried {
    /// Parses a line that a guest's script wrote.
    pub(super) fn parsed(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(' ')?;
        let (code, said) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self {
            name: name.to_owned(),
            code: code.to_owned(),
            said: said.to_owned(),
        })
    }

    /// Makes the entry of a command that was not tried.
    pub(super) fn not(name: &str, reason: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            code: "-".to_owned(),
            said: reason.into(),
        }
    }
}

/// Returns the first cell of a kernel's row.
fn name(architecture: Architecture, kernel: &str) -> String {
    format!("{} {kernel}", architecture.of_debian())
}

/// Returns a row with the commands that were tried on this date.
pub(super) fn row(
    architecture: Architecture,
    kernel: &str,
    tried: &[Tried],
    date: String,
) -> Vec<String> {
    let failed = tried.iter().filter(|tried| tried.code != "0");
    let reasons: Vec<String> = failed.map(reason).collect();
    let mut row = vec![name(architecture, kernel)];
    row.extend(COLUMNS.map(|(_, name)| cell(tried, name)));
    row.extend([date, reasons.join("<br>")]);
    row
}

/// Removes the rows of an architecture; if kernels are given, only their rows.
pub(super) fn remove(page: &mut TablePage, architecture: Architecture, kernels: &[String]) {
    page.retain(|row| {
        let (of, kernel) = row.split_once(' ').unwrap_or((row, ""));
        let is_asked = |asked: &String| asked == kernel;
        of != architecture.of_debian() || !(kernels.is_empty() || kernels.iter().any(is_asked))
    });
}

/// Returns the names of all rows, including the new one, in the order of the table.
pub(super) fn in_order(page: &TablePage, new: &str) -> Vec<String> {
    let mut names: Vec<String> = page.rows().iter().map(|row| row[0].to_owned()).collect();
    names.push(new.to_owned());
    names.sort_by_key(|name| {
        let (of, kernel) = name.split_once(' ').unwrap_or((name, ""));
        let known = Architecture::ALL.iter();
        (
            known
                .map(|known| known.of_debian())
                .position(|known| known == of),
            order(series(kernel)),
        )
    });
    names
}

fn cell(tried: &[Tried], name: &str) -> String {
    let of_column = || tried.iter().filter(|tried| tried.name.starts_with(name));
    let good = of_column().filter(|tried| tried.code == "0").count();
    match of_column().next().map(|tried| tried.code.as_str()) {
        None | Some("-") => "-".to_owned(),
        Some(_) if name == PROBE => format!("{good} of {}", of_column().count()),
        Some("0") => "yes".to_owned(),
        Some(code) => format!("exit code {code}"),
    }
}

fn reason(failed: &Tried) -> String {
    let name = COLUMNS.iter().find(|(_, name)| *name == failed.name);
    let name = name.map_or_else(
        || failed.name.replace(PROBE, "probe "),
        |(column, _)| (*column).to_owned(),
    );
    let code = match failed.code.as_str() {
        "-" => String::new(),
        code => format!(", exit code {code}"),
    };
    let said = failed.said.trim_start_matches("tardy: ");
    format!("{name}{code}: {}", said.trim_start_matches("! "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_probes_and_names_what_failed() {
        let lines = [
            "run 0",
            "probe:rtc 4 ! it was stopped",
            "probe:cyclic 0",
            "traced 3 tardy: no tracefs",
            "watch - no such guest",
        ];
        let tried: Vec<Tried> = lines.into_iter().filter_map(Tried::parsed).collect();
        let date = "2026-01-02".to_owned();
        let row = row(Architecture::Aarch64, "debian:6.1", &tried, date);
        assert_eq!(
            row.join(" | "),
            "arm64 debian:6.1 | yes | 1 of 2 | exit code 3 | - | - | - | - | 2026-01-02 | probe \
             rtc, exit code 4: it was stopped<br>run --explain, exit code 3: no tracefs<br>lab run \
             --watch: no such guest"
        );
    }

    #[test]
    fn rows_of_the_page_are_in_order_and_can_be_removed_one_by_one() {
        let mut page = TablePage::read(super::super::PAGE).unwrap();
        let names = |page: &TablePage| {
            let rows = page.rows().into_iter();
            rows.map(|row| row[0].to_owned()).collect::<Vec<_>>()
        };
        let all = names(&page);
        assert!(page.rows().iter().all(|row| row.len() == COLUMNS.len() + 3));
        let (of, kernel) = (Architecture::X86_64, "debian:bookworm/6.1");
        remove(&mut page, of, &[kernel.to_owned()]);
        assert_eq!(names(&page).len() + 1, all.len());
        assert_eq!(in_order(&page, &name(of, kernel)), all);
        remove(&mut page, of, &[]);
        assert!(names(&page).iter().all(|name| !name.starts_with("amd64 ")));
    }
}
