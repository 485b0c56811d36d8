//! `tardy list`: prints one line per entry of a kind, or all details of named entries.

mod checks;
mod costs;
mod links;
mod loads;
mod probes;

use std::fmt::Write as _;

use clap::ValueEnum;
use tardy_report::report::table::Table;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::nearest::did_you_mean;

use super::output;
use crate::cli::{ListArgs, ListKind};

/// An entry of a list.
struct Entry {
    name: String,
    /// A one-line description.
    line: String,
    /// All details.
    full: String,
    json: serde_json::Value,
    /// Heading above the entry's group. The entries of a group are adjacent.
    group: Option<String>,
}

struct Listing {
    entries: Vec<Entry>,
    /// A note about all entries.
    note: Option<String>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &ListArgs) -> Exit {
    let Some(what) = args.what else {
        return printed(&output::fitted(&lists()));
    };
    let Listing { mut entries, note } = match what {
        ListKind::Probes => probes::listing(),
        ListKind::Loads => loads::listing(),
        ListKind::Costs => costs::listing(),
        ListKind::Checks => checks::listing(),
        ListKind::Links => links::listing(),
    };
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    if let Some(unknown) = args
        .names
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        let list = list_name(what);
        say!(
            "tardy: `{unknown}` is not one of the {list}{}: `tardy list {list}` names them",
            did_you_mean(unknown, names)
        );
        return Exit::Usage;
    }
    if !args.names.is_empty() {
        entries.retain(|entry| args.names.contains(&entry.name));
    }
    let text = match () {
        () if args.json => {
            let values: Vec<_> = entries.iter().map(|entry| &entry.json).collect();
            Format::LIST.document(&serde_json::json!({ list_name(what): values }))
        }
        () if args.full || !args.names.is_empty() => output::fitted(
            &(entries
                .iter()
                .map(|entry| entry.full.as_str())
                .collect::<String>()
                + &line(note)),
        ),
        () => {
            lines(&entries, output::screen().columns)
                + &output::fitted(&(line(note) + &line(Some(more(&entries, what)))))
        }
    };
    printed(&text)
}

fn printed(text: &str) -> Exit {
    output::print(text).map_or(Exit::Machine, |()| Exit::Done)
}

/// Returns the names of all lists.
fn lists() -> String {
    let mut table = Table::new([""; 0]);
    for what in ListKind::value_variants() {
        let about = what
            .to_possible_value()
            .and_then(|value| Some(value.get_help()?.to_string()))
            .unwrap_or_default();
        table.row([format!("tardy list {:<7} {about}", list_name(*what))]);
    }
    table.text().trim_start().to_owned()
}

fn list_name(what: ListKind) -> String {
    what.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn more(entries: &[Entry], what: ListKind) -> String {
    let list = list_name(what);
    entries.first().map_or_else(String::new, |first| {
        format!(
            "`tardy list {list} {}` describes one in full; --full describes all",
            first.name
        )
    })
}

fn line(text: Option<String>) -> String {
    text.map_or_else(String::new, |text| text + "\n")
}

/// Formats one line per entry, at most `columns` wide.
fn lines(entries: &[Entry], columns: usize) -> String {
    let width = entries
        .iter()
        .map(|entry| entry.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    let mut group = &None;
    for entry in entries {
        if entry.group != *group {
            let _ = writeln!(out, "{}", entry.group.as_deref().unwrap_or_default());
            group = &entry.group;
        }
        let indent = if entry.group.is_some() { 2 } else { 0 };
        let room = columns.saturating_sub(indent + width + 2);
        let _ = writeln!(
            out,
            "{:indent$}{:<width$}  {}",
            "",
            entry.name,
            cut(&entry.line, room)
        );
    }
    out
}

/// Returns as many words as fit, with a mark if some are left out.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        if kept.chars().count() + 1 + word.chars().count() + 4 > columns {
            break;
        }
        kept.push_str(if kept.is_empty() { "" } else { " " });
        kept.push_str(word);
    }
    kept.trim_end_matches([',', ';', ':']).to_owned() + " ..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_lines_that_fit_80_columns_and_names_that_occur_once() {
        for listing in [
            probes::listing(),
            loads::listing(),
            costs::listing(),
            checks::listing(),
            links::listing(),
        ] {
            let text = lines(&listing.entries, 80);
            assert!(
                text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
            let mut names: Vec<&str> = listing
                .entries
                .iter()
                .map(|entry| entry.name.as_str())
                .collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
            for entry in listing.entries {
                assert!(
                    !entry.line.is_empty()
                        && entry.full.contains(&entry.name)
                        && entry.json["name"] == entry.name,
                    "{}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn probes_are_told_without_cutting() {
        let text = lines(&probes::listing().entries, 80);
        assert!(!text.contains(" ..."), "{text}");
    }

    #[test]
    fn long_lines_are_cut_between_words() {
        assert_eq!(cut("sends data, without end", 16), "sends data ...");
        assert_eq!(cut("sends data", 10), "sends data");
    }
}
