//! Writes results as text, and as rows of docs/promises.md.

use std::fmt::Write;
use std::fs;

use super::figure::{Figure, FigureResult};
use crate::failure::Result;
use crate::program;
use xtask::table_page::TablePage;

const PAGE: &str = "docs/promises.md";

/// Returns the result of one figure, with its table, notes and commands, as Markdown.
pub(crate) fn section(figure: &Figure, measured: &FigureResult, commands: &[String]) -> String {
    let mut text = format!("## {}\n\n", figure.name);
    let _ = writeln!(
        text,
        "Promised: {}\n\n**Reached: {}**\n",
        figure.promise, measured.reached
    );
    let _ = writeln!(text, "{}", markdown(&measured.table));
    for note in &measured.notes {
        let _ = writeln!(text, "- {note}");
    }
    if !measured.notes.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{}\n\n```\n{}\n```", machine(), commands.join("\n"));
    text
}

fn markdown(table: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let Some((head, rows)) = table.split_first() else {
        return String::new();
    };
    let rule = head
        .iter()
        .enumerate()
        .map(|(column, _)| if column == 0 { "|---" } else { "|---:" })
        .collect::<String>();
    line(head) + &rule + "|\n" + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// Returns a text with the date, the CPU, the kernel, the distribution, and how busy the machine
/// was.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str, separator: char| {
        let value = text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .trim_start()
                .strip_prefix(separator)
                .map(str::trim)
        });
        value.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    let cpuinfo = read("/proc/cpuinfo");
    let virtual_machine = if cpuinfo.contains(" hypervisor") {
        "a virtual machine with "
    } else {
        ""
    };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "Measured {} on {virtual_machine}{cpus} CPUs ({}), Linux {}, {}, load average {} at the end.",
        program::date().unwrap_or_default(),
        field(&cpuinfo, "model name", ':'),
        kernel.trim(),
        field(&read("/etc/os-release"), "PRETTY_NAME", '='),
        load.split(' ').next().unwrap_or("unknown")
    )
}

/// Writes the row of `figure` into docs/promises.md.
pub(crate) fn replace(figure: &Figure, measured: &FigureResult) -> Result<()> {
    let row = [
        name(figure),
        figure.promise.to_owned(),
        measured.reached.clone(),
        program::date()?,
    ];
    TablePage::read(PAGE)?.set(&row, &[])
}

/// Returns the first cell of a figure's row.
fn name(figure: &Figure) -> String {
    format!("`{}`", figure.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIGURES;

    #[test]
    fn every_figure_has_a_row() {
        let page = TablePage::read(PAGE).unwrap();
        let mut rows = page.rows();
        rows.retain(|row| row[0].starts_with('`'));
        let promises: Vec<_> = rows.iter().map(|row| (row[0].to_owned(), row[1])).collect();
        let figures = FIGURES.iter().map(|figure| (name(figure), figure.promise));
        assert_eq!(promises, figures.collect::<Vec<_>>());
    }

    #[test]
    fn tables_are_markdown() {
        assert_eq!(
            markdown(&[vec!["a".into(), "b".into()], vec!["1".into(), "2".into()]]),
            "| a | b |\n|---|---:|\n| 1 | 2 |\n"
        );
    }
}
