//! docs/benchmarks.md: a section a figure, each with its own date and machine, because they are not
//! all measured on the same day.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::figure::{Figure, FigureResult};
use crate::failure::{Result, While};
use crate::{program, workspace};

const HEAD: &str = "# Benchmarks\n\nMade by `cargo xtask bench --write`; timing fails nothing. \
                    Each section states a promise and the result.\nPeers are the packages \
                    rt-tests (cyclictest) and jitterdebugger of the distribution named in each \
                    section.\n";

/// Heading of the table of all figures.
const OVERVIEW: &str = "## All figures";

/// A figure's section.
pub(crate) fn section(figure: &Figure, measured: &FigureResult) -> String {
    let mut text = format!("{}\n\n", heading(figure));
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
    let _ = writeln!(
        text,
        "{}\n\n```\n{}\n```",
        machine(),
        measured.commands.join("\n")
    );
    text
}

fn heading(figure: &Figure) -> String {
    format!("## {}: {}", figure.name, figure.title)
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

/// Date, CPU, kernel, distribution, and how busy the machine was.
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
    let date = program::capture(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))
        .unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "Measured {} on {virtual_machine}{cpus} CPUs ({}), Linux {}, {}, load average {} at the end.",
        date.trim(),
        field(&cpuinfo, "model name", ':'),
        kernel.trim(),
        field(&read("/etc/os-release"), "PRETTY_NAME", '='),
        load.split(' ').next().unwrap_or("unknown")
    )
}

/// Puts the section in its place in the document.
pub(crate) fn replace(figure: &Figure, section: &str, figures: &[Figure]) -> Result<()> {
    let path: PathBuf = workspace::root().join("docs/benchmarks.md");
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))
        .while_doing(|| format!("making {}", path.display()))?;
    fs::write(&path, replaced(&old, figure, section, figures))
        .while_doing(|| format!("writing {}", path.display()))
}

/// `old` with one section replaced; the sections stand in the order of `figures`, and those of no
/// figure, written by hand, behind them.
fn replaced(old: &str, figure: &Figure, section: &str, figures: &[Figure]) -> String {
    let old = sections(old);
    let of_figures = figures.iter().filter_map(|other| {
        let of_old = || {
            old.iter()
                .copied()
                .find(|section| section.starts_with(&heading(other)))
        };
        if other.name == figure.name {
            Some(section)
        } else {
            of_old()
        }
    });
    let by_hand = old.iter().copied().filter(|section| {
        !figures
            .iter()
            .any(|figure| section.starts_with(&heading(figure)))
    });
    let kept: Vec<&str> = of_figures
        .chain(by_hand)
        .filter(|section| !section.starts_with(OVERVIEW))
        .collect();
    let details = kept
        .iter()
        .map(|section| format!("\n{}\n", section.trim_end()))
        .collect::<String>();
    format!("{HEAD}\n{}{details}", overview(&kept))
}

/// A row for each section: its title, and in short whether the promise held. What was promised and
/// reached stands in the section.
fn overview(sections: &[&str]) -> String {
    let mut text = format!("{OVERVIEW}\n\n| figure | promise |\n|---|---|\n");
    for section in sections {
        let after = |mark: &str| {
            section
                .lines()
                .find_map(|line| line.strip_prefix(mark))
                .unwrap_or_default()
        };
        let title = after("## ");
        let verdict = in_short(after("**Reached: ").trim_end_matches("**"));
        let _ = writeln!(
            text,
            "| [{title}](#{}) | {} |",
            anchor(title),
            cell(&verdict)
        );
    }
    text
}

/// Whether what was reached holds; where it has several parts, how many of them do; its beginning
/// where it does not say so.
fn in_short(reached: &str) -> String {
    let (holds, misses) = (
        reached.matches("holds").count(),
        reached.matches("NOT reached").count(),
    );
    match (holds, misses) {
        (0, 0) => reached.split(';').next().unwrap_or_default().to_owned(),
        (_, 0) => "holds".to_owned(),
        (0, _) => "NOT reached".to_owned(),
        _ => format!("{holds} of {} parts hold", holds + misses),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The name by which a heading is linked to: lower case, words joined by `-`, without other signs.
fn anchor(title: &str) -> String {
    let signs = title
        .to_lowercase()
        .chars()
        .filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'))
        .collect::<String>();
    signs.replace(' ', "-")
}

/// The document from heading to heading; what stands before the first one is left out. A line of a
/// quoted command is no heading.
fn sections(text: &str) -> Vec<&str> {
    let (mut begins, mut at, mut is_quoted) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        is_quoted ^= line.starts_with("```");
        if !is_quoted && line.starts_with("## ") {
            begins.push(at);
        }
        at += line.len();
    }
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    begins
        .iter()
        .zip(ends)
        .map(|(begin, end)| &text[*begin..end])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &'static str) -> Figure {
        Figure {
            name,
            title: "a title",
            promise: "<= 1",
            measure: |_| Ok(FigureResult::default()),
        }
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let figures = [figure("one"), figure("two")];
        let measured = |reached: &str| FigureResult {
            reached: reached.to_owned(),
            ..FigureResult::default()
        };
        let mut text = String::new();
        for (which, reached) in [(1, "old two"), (0, "first"), (1, "new two")] {
            text = replaced(
                &text,
                &figures[which],
                &section(&figures[which], &measured(reached)),
                &figures,
            );
        }
        assert!(
            text.contains("Reached: first")
                && text.contains("Reached: new two")
                && !text.contains("old two"),
            "{text}"
        );
        assert!(text.find("## one") < text.find("## two"), "{text}");
        assert_eq!(text.matches("# Benchmarks").count(), 1);
    }

    #[test]
    fn a_section_written_by_hand_stays() {
        let figures = [figure("one")];
        let section = section(&figures[0], &FigureResult::default());
        // Without an empty line before it, as merging two documents may leave it.
        let by_hand = "## ours: measured in the lab\n\n```\n## no heading\n```\n";
        let text = replaced(
            &format!("{section}{by_hand}"),
            &figures[0],
            &section,
            &figures,
        );
        let table = overview(&[&section, by_hand]);
        assert_eq!(text, format!("{HEAD}\n{table}\n{section}\n{by_hand}"));
        assert_eq!(replaced(&text, &figures[0], &section, &figures), text);
    }

    #[test]
    fn the_table_of_all_figures_links_to_each_with_a_short_verdict() {
        let row = |reached: &str| {
            let section = section(
                &figure("one"),
                &FigureResult {
                    reached: reached.to_owned(),
                    ..FigureResult::default()
                },
            );
            overview(&[&section])
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(
            row("0.5 a|b; more"),
            "| [one: a title](#one-a-title) | 0.5 a\\|b |"
        );
        for (reached, verdict) in [
            ("0.5: holds; 0.7: holds", "holds"),
            ("2.0: NOT reached", "NOT reached"),
            (
                "2.0: NOT reached; 0.5: holds; 0.6: holds",
                "2 of 3 parts hold",
            ),
        ] {
            assert_eq!(
                row(reached),
                format!("| [one: a title](#one-a-title) | {verdict} |")
            );
        }
    }

    #[test]
    fn the_document_begins_with_the_table_of_its_sections() {
        let text = fs::read_to_string(workspace::root().join("docs/benchmarks.md")).unwrap();
        let all = sections(&text);
        let details: Vec<&str> = all
            .iter()
            .copied()
            .filter(|section| !section.starts_with(OVERVIEW))
            .collect();
        assert!(
            text.starts_with(&format!("{HEAD}\n{}\n## ", overview(&details))),
            "{}",
            overview(&details)
        );
    }

    #[test]
    fn tables_are_markdown() {
        assert_eq!(
            markdown(&[vec!["a".into(), "b".into()], vec!["1".into(), "2".into()]]),
            "| a | b |\n|---|---:|\n| 1 | 2 |\n"
        );
    }
}
