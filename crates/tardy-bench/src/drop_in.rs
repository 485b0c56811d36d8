//! `cargo xtask drop-in`: runs every option of every packaged cyclictest with that version and with
//! `tardy cyclictest`, and writes the table of docs/cyclictest.md.
//!
//! The task fails if an option has no row, or if a row's result differs from the table.

mod observe;
mod options;
mod peers;

use std::fmt::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::workspace;

use observe::Observed;
use options::{Look, ROWS, Row, Trial, Verdict};
use peers::Peer;

/// The heading after the handwritten part of the page. The table follows it.
const PART: &str = "\n## Option by option\n";
/// Maximum number of attempts per trial, because a stall of the machine changes the number of
/// samples.
const TRIES: usize = 3;

/// `cargo xtask drop-in`.
#[derive(Debug, clap::Args)]
pub(crate) struct DropInArguments {
    /// Try only these rows of the table, and write no page
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
    /// Compare with this release only, and write no page
    #[arg(long, value_name = "NAME")]
    release: Option<String>,
    /// Use this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
}

/// Compares all versions, and writes the page.
pub(crate) fn run(arguments: &DropInArguments) -> Result<()> {
    observe::check()?;
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let ours = [tardy.display().to_string(), "cyclictest".to_owned()];
    let mut peers = peers::all()?;
    let is_whole = arguments.rows.is_empty() && arguments.release.is_none();
    if let Some(wanted) = &arguments.release {
        peers.retain(|peer| peer.release == wanted);
    }
    let mut faults: Vec<String> = peers.iter().flat_map(without_row).collect();
    let is_chosen = |row: &&Row| {
        arguments.rows.is_empty() || arguments.rows.iter().any(|name| name == row.name)
    };
    let mut results = Vec::new();
    for row in ROWS.iter().filter(is_chosen) {
        let verdicts = verdicts(row, &ours, &peers)?;
        let names: Vec<&str> = verdicts.iter().map(|verdict| verdict.name()).collect();
        eprintln!("{:<20} {}", row.name, names.join(" | "));
        faults.extend(unexpected(row, &verdicts));
        results.push((row, verdicts));
    }
    if is_whole {
        write(&table(&peers, &results))?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::new(faults.join("; ")))
}

/// Returns the options of this version that have no row.
fn without_row(peer: &Peer) -> Vec<String> {
    let has_row = |name: &&String| ROWS.iter().any(|row| row.name == name.as_str());
    let missing = peer.options.iter().filter(|name| !has_row(name));
    missing
        .map(|name| format!("--{name} of {} has no row in options.txt", peer.release))
        .collect()
}

/// Returns whether the row is about an option; then some versions may lack it.
fn is_option(row: &Row) -> bool {
    row.name
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || "-_".contains(letter))
        && !row.name.starts_with('-')
}

/// Returns the result of a row for each version.
fn verdicts(row: &Row, ours: &[String], peers: &[Peer]) -> Result<Vec<Verdict>> {
    let mut verdicts = vec![Verdict::Absent; peers.len()];
    for trial in &row.trials {
        let has_all = |peer: &Peer| {
            let has = |name: &str| peer.options.iter().any(|option| option == name);
            (!is_option(row) || has(row.name)) && (!trial.line.contains("--json") || has("json"))
        };
        let mut open: Vec<usize> = (0..peers.len()).filter(|&at| has_all(&peers[at])).collect();
        for left in (0..TRIES).rev() {
            let programs: Vec<Vec<String>> = std::iter::once(ours.to_vec())
                .chain(open.iter().map(|&at| peers[at].words()))
                .collect();
            let observed = observe::side_by_side(&programs, trial)?;
            let (mine, others) = observed.split_first().expect("one program is ours");
            let mut differing = Vec::new();
            for (&at, other) in open.iter().zip(others) {
                let found = difference(trial, mine, other);
                let (kind, why) = found.unwrap_or((Verdict::Same, String::new()));
                if kind == Verdict::Differs && left > 0 {
                    differing.push(at);
                    continue;
                }
                verdicts[at] = verdicts[at].max(kind);
                if kind != Verdict::Same {
                    eprintln!("    {} {}: {why}", peers[at].release, trial.line);
                }
            }
            open = differing;
            if open.is_empty() {
                break;
            }
        }
    }
    Ok(verdicts)
}

/// Returns the difference that a trial found, if any.
fn difference(trial: &Trial, mine: &Observed, other: &Observed) -> Option<(Verdict, String)> {
    if trial.look == Look::Refusal && mine.exit != Some(0) {
        let here = match other.exit {
            Some(0) => String::new(),
            _ => format!(" (here cyclictest fails as well: {})", other.complaint),
        };
        return Some((Verdict::Refused, format!("{}{here}", mine.complaint)));
    }
    let why = mine.differs_from(other)?;
    Some((Verdict::Differs, why))
}

/// Returns a description of the difference if a row's worst result over all versions is not the
/// expected one. A row that all versions lack has no difference.
fn unexpected(row: &Row, verdicts: &[Verdict]) -> Option<String> {
    let found = verdicts.iter().max().copied().unwrap_or(Verdict::Absent);
    (found != row.expected && found != Verdict::Absent).then(|| {
        format!(
            "{} is `{}` where options.txt expects `{}`",
            row.name,
            found.name(),
            row.expected.name()
        )
    })
}

fn table(peers: &[Peer], results: &[(&Row, Vec<Verdict>)]) -> String {
    let mut text = "| option |".to_owned();
    for peer in peers {
        let _ = write!(text, " {} ({}) |", peer.version, peer.release);
    }
    let _ = writeln!(
        text,
        " tried with | reason |\n|---{}|---|---|",
        "|---".repeat(peers.len())
    );
    for (row, verdicts) in results {
        let dashes = if is_option(row) { "--" } else { "" };
        let _ = write!(text, "| `{dashes}{}` |", row.name);
        for verdict in verdicts {
            let _ = write!(text, " {} |", verdict.name());
        }
        let lines: Vec<String> = row
            .trials
            .iter()
            .map(|trial| format!("`{}`", trial.line))
            .collect();
        let _ = writeln!(text, " {} | {} |", lines.join(", "), row.reason);
    }
    text
}

/// Replaces the page's table, below the handwritten part.
fn write(table: &str) -> Result<()> {
    let page = workspace::root().join("docs/cyclictest.md");
    let old = workspace::read(&page)?;
    let (by_hand, _) = old
        .split_once(PART)
        .ok_or_else(|| Failure::new(format!("{} has no part `{}`", page.display(), PART.trim())))?;
    workspace::write(&page, format!("{by_hand}{PART}{table}"))
}
