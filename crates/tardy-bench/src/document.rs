//! Results as text, and their rows in docs/promises.md.

use std::fmt::Write;
use std::fs;

use super::figure::{Figure, FigureResult};
use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// Returns the result of one figure, with all its tables, notes and commands, as Markdown.
pub(crate) fn section(figure: &Figure, measured: &FigureResult, commands: &[String]) -> String {
    let mut text = format!("## {}\n\n", figure.name);
    let _ = writeln!(
        text,
        "Promised: {}\n\n**Reached: {}**\n",
        figure.promise, measured.reached
    );
    for table in &measured.tables {
        let _ = writeln!(text, "{}", markdown(table));
    }
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

/// Returns date, CPU, kernel and distribution, and how busy the machine was.
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
        date(),
        field(&cpuinfo, "model name", ':'),
        kernel.trim(),
        field(&read("/etc/os-release"), "PRETTY_NAME", '='),
        load.split(' ').next().unwrap_or("unknown")
    )
}

/// Returns the current date in UTC, as year-month-day.
fn date() -> String {
    program::capture(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Replaces the row of `figure` in docs/promises.md.
pub(crate) fn replace(figure: &Figure, measured: &FigureResult) -> Result<()> {
    let path = workspace::root().join("docs/promises.md");
    let old = fs::read_to_string(&path).while_doing(|| format!("reading {}", path.display()))?;
    let new = replaced(&old, figure, &measured.reached, &date())
        .ok_or_else(|| Failure::new(format!("{} has no row `{}`", path.display(), figure.name)))?;
    fs::write(&path, new).while_doing(|| format!("writing {}", path.display()))
}

/// Returns the page with the figure's row replaced, or `None` if it has no such row.
fn replaced(page: &str, figure: &Figure, reached: &str, date: &str) -> Option<String> {
    let old = page
        .split_inclusive('\n')
        .find(|line| line.starts_with(&beginning(figure)))?;
    let new = format!(
        "{} {} | {date} |\n",
        beginning(figure),
        reached.replace('|', "\\|")
    );
    Some(page.replace(old, &new))
}

/// Returns the cells of a row that do not depend on the result.
fn beginning(figure: &Figure) -> String {
    format!("| `{}` | {} |", figure.name, figure.promise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIGURES;

    #[test]
    fn every_figure_has_a_row_and_a_new_result_replaces_it_alone() {
        let page = fs::read_to_string(workspace::root().join("docs/promises.md")).unwrap();
        let mut rows = page.lines().filter(|line| line.starts_with("| `"));
        for figure in FIGURES {
            let row = rows.next().unwrap_or_default();
            assert!(
                row.starts_with(&beginning(figure)),
                "{}: {row}",
                figure.name
            );
            let new = replaced(&page, figure, "a|b", "2000-01-01").unwrap();
            let changed: Vec<&str> = new
                .lines()
                .zip(page.lines())
                .filter_map(|(new, old)| (new != old).then_some(new))
                .collect();
            assert_eq!(
                changed,
                [format!("{} a\\|b | 2000-01-01 |", beginning(figure))]
            );
            assert_eq!(new.lines().count(), page.lines().count());
        }
        assert_eq!(rows.next(), None);
    }

    #[test]
    fn tables_are_markdown() {
        assert_eq!(
            markdown(&[vec!["a".into(), "b".into()], vec!["1".into(), "2".into()]]),
            "| a | b |\n|---|---:|\n| 1 | 2 |\n"
        );
    }
}
