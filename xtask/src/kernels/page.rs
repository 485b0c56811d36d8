//! The page docs/kernels.md: a row for each architecture and kernel. The page is parsed, too, so
//! that rows can be renewed one by one.

use std::fmt::Write as _;

use super::guests::{order, series};
use crate::static_build::Architecture;

const HEAD: &str = "# Kernels
`cargo xtask kernels` boots each kernel in a guest of the lab, runs the commands of the table there, \
and writes this page. `--arch` selects the architectures, and `cargo xtask kernels KERNEL` renews the \
rows of one kernel. The command needs QEMU, busybox-static, and the cross compilers of \
`cargo xtask build`.

A cell shows \"yes\" if the command ended with exit code 0; otherwise, it shows the exit code. The \
list below the table gives the first reason that the command printed for such an exit code. A cell \
shows \"-\" if the command was not tried; the list then gives the reason for the row. The \
probes `app` and `response` are left out, because they need a program or another machine.

In the rows of armhf, the commands are those of the binary for 32-bit Arm. The guest is that of \
arm64, and its kernel runs the binary as a 32-bit process.

";

/// The table's columns for commands, and the names of the commands in a guest's script.
const COLUMNS: [(&str, &str); 7] = [
    ("run", "run"),
    ("probes", PROBE),
    ("run --explain", "traced"),
    ("explain", "explain"),
    ("attach", "attach"),
    ("lab run --watch", "watch"),
    ("doctor", "doctor"),
];
/// Start of the names of probes' runs in a guest's script.
const PROBE: &str = "probe:";

/// A command in a guest: its name, exit code, and first error message.
pub(super) struct Tried {
    pub(super) name: String,
    /// The exit code; `-` if the command was not tried.
    pub(super) code: String,
    pub(super) said: String,
}

impl Tried {
    /// Reads a line of a guest's script.
    pub(super) fn parsed(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(' ')?;
        let (code, said) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self {
            name: name.to_owned(),
            code: code.to_owned(),
            said: said.to_owned(),
        })
    }

    /// Makes a command that was not tried.
    pub(super) fn not(name: &str, reason: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            code: "-".to_owned(),
            said: reason.into(),
        }
    }
}

/// The results of a kernel: its row of the table, and its lines of the list.
pub(super) struct Row {
    architecture: String,
    kernel: String,
    line: String,
    reasons: Vec<String>,
}

impl Row {
    /// Makes the row of the commands that were tried on this date.
    pub(super) fn new(
        architecture: Architecture,
        kernel: &str,
        tried: &[Tried],
        date: &str,
    ) -> Self {
        let architecture = architecture.of_debian();
        let cells = COLUMNS.map(|(_, name)| cell(tried, name)).join(" | ");
        let failed = tried.iter().filter(|tried| tried.code != "0");
        Self {
            architecture: architecture.to_owned(),
            kernel: kernel.to_owned(),
            line: format!("| {architecture} | {kernel} | {cells} | {date} |"),
            reasons: failed
                .map(|failed| format!("- {architecture}, {kernel}, {}", reason(failed)))
                .collect(),
        }
    }

    /// Reads a line of the table.
    fn parsed(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let is_row = cells.len() == COLUMNS.len() + 3
            && Architecture::ALL
                .iter()
                .any(|known| known.of_debian() == cells[0]);
        is_row.then(|| Self {
            architecture: cells[0].to_owned(),
            kernel: cells[1].to_owned(),
            line: line.to_owned(),
            reasons: Vec::new(),
        })
    }
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

/// All rows.
#[derive(Default)]
pub(super) struct Page {
    rows: Vec<Row>,
}

impl Page {
    /// Reads the rows of a page.
    pub(super) fn parsed(text: &str) -> Self {
        let mut rows: Vec<Row> = text.lines().filter_map(Row::parsed).collect();
        for row in &mut rows {
            let start = format!("- {}, {}, ", row.architecture, row.kernel);
            let reasons = text.lines().filter(|line| line.starts_with(&start));
            row.reasons = reasons.map(str::to_owned).collect();
        }
        Self { rows }
    }

    /// Removes the rows of an architecture, or only those of these kernels.
    pub(super) fn remove(&mut self, architecture: Architecture, kernels: &[String]) {
        self.rows.retain(|row| {
            row.architecture != architecture.of_debian()
                || !(kernels.is_empty() || kernels.contains(&row.kernel))
        });
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
        self.rows.sort_by_key(|row| {
            let known = Architecture::ALL.iter();
            let of_row = |known: &Architecture| known.of_debian() == row.architecture;
            (
                known.copied().position(|known| of_row(&known)),
                order(series(&row.kernel)),
            )
        });
    }

    /// Returns the page's text.
    pub(super) fn text(&self) -> String {
        let columns = COLUMNS.map(|(column, _)| column).join(" | ");
        let mut page = format!("{HEAD}| architecture | kernel | {columns} | date |\n");
        let _ = writeln!(page, "|{}", "---|".repeat(COLUMNS.len() + 3));
        for row in &self.rows {
            let _ = writeln!(page, "{}", row.line);
        }
        page.push('\n');
        for reason in self.rows.iter().flat_map(|row| &row.reasons) {
            let _ = writeln!(page, "{reason}");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(architecture: Architecture, kernel: &str, lines: &[&str], date: &str) -> Row {
        let tried: Vec<Tried> = lines
            .iter()
            .filter_map(|line| Tried::parsed(line))
            .collect();
        Row::new(architecture, kernel, &tried, date)
    }

    #[test]
    fn a_row_counts_probes_and_names_what_failed() {
        let lines = [
            "run 0",
            "probe:rtc 4 ! it was stopped",
            "probe:cyclic 0",
            "traced 3 tardy: no tracefs",
            "watch - no such guest",
        ];
        let row = row(Architecture::Aarch64, "debian:6.1", &lines, "2026-01-02");
        assert_eq!(
            row.line,
            "| arm64 | debian:6.1 | yes | 1 of 2 | exit code 3 | - | - | - | - | 2026-01-02 |"
        );
        assert_eq!(
            row.reasons,
            [
                "- arm64, debian:6.1, probe rtc, exit code 4: it was stopped",
                "- arm64, debian:6.1, run --explain, exit code 3: no tracefs",
                "- arm64, debian:6.1, lab run --watch: no such guest",
            ]
        );
    }

    #[test]
    fn rows_are_renewed_one_by_one() {
        let of = Architecture::X86_64;
        let mut page = Page::default();
        page.add(row(
            of,
            "debian:trixie/6.12",
            &["run 3 tardy: no"],
            "2026-01-01",
        ));
        page.add(row(
            of,
            "debian:bookworm/6.1",
            &["run 3 tardy: no"],
            "2026-01-01",
        ));
        page.add(row(
            Architecture::Armv7,
            "debian:bookworm/6.1",
            &["run 0"],
            "2026-01-01",
        ));
        let before = page.text();
        let mut page = Page::parsed(&before);
        assert_eq!(page.text(), before);
        page.remove(of, &["debian:bookworm/6.1".to_owned()]);
        page.add(row(of, "debian:bookworm/6.1", &["run 0"], "2026-01-02"));
        let renewed = before
            .replacen("6.1 | exit code 3", "6.1 | yes", 1)
            .replacen("2026-01-01", "2026-01-02", 1)
            .replace("- amd64, debian:bookworm/6.1, run, exit code 3: no\n", "");
        assert_eq!(page.text(), renewed);
        page.remove(of, &[]);
        assert!(!page.text().contains("amd64, ") && page.text().contains("| armhf | debian:"));
    }
}
