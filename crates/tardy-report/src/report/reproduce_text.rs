//! Reproduced papers as text: the outcomes first, then each claim, then tables.

use std::fmt::Write as _;

use tardy_core::units::Nanos;
use tardy_papers::claim::Reason;
use tardy_papers::experiment::{Extent, Place};
use tardy_results::reproduce::culprits::Culprit;
use tardy_results::reproduce::{
    ClaimResult, ExperimentResult, Outcome, PaperResult, Reproduction, TableResult, ValueResult,
};

use super::table::Table;

/// The note on the numbers that come from the lab.
pub(super) const VIRTUAL: &str = "The lab's times are virtual: every instruction takes 4 ns, so a \
                                  latency is the length of the kernel's code path. Compare the \
                                  lab's times with each other, never with times of a machine.";

#[must_use]
pub fn text(found: &Reproduction) -> String {
    let mut out = format!("{}\n{}\n", summary(found), cells(found));
    if found.place == Place::Lab {
        let _ = writeln!(out, "{VIRTUAL}");
    }
    for paper in &found.papers {
        of_paper(&mut out, paper);
    }
    out
}

/// Returns the number of claims for each outcome, in one line.
pub(super) fn summary(found: &Reproduction) -> String {
    let place = match found.place {
        Place::Local => "on this machine",
        Place::Lab => "in the lab",
    };
    let extent = match found.extent {
        Extent::Quick => "with quick runs",
        Extent::Full => "with runs as long as in the papers",
    };
    let counts = found.counts;
    let all = counts.hold + counts.do_not_hold + counts.not_tested;
    let s = if found.papers.len() == 1 { "" } else { "s" };
    format!(
        "{all} claims of {} paper{s}, {place}, {extent}: {} hold, {} do not hold, {} cannot be \
         tested here",
        found.papers.len(),
        counts.hold,
        counts.do_not_hold,
        counts.not_tested
    )
}

/// Returns a sentence with the number of published values, and the number of those beside which the
/// tables show a value that we measured.
pub(super) fn cells(found: &Reproduction) -> String {
    let cells = found.cells;
    format!(
        "the tables show our numbers beside {} of {} published numbers, and the reasons for the \
         missing ones",
        cells.with_ours, cells.published
    )
}

fn of_paper(out: &mut String, paper: &PaperResult) {
    let _ = writeln!(out, "\n{}: {}", paper.name, paper.title);
    for claim in &paper.claims {
        let _ = writeln!(
            out,
            "  {:<14} {} ({})",
            outcome(&claim.outcome),
            claim.words,
            claim.place
        );
        match &claim.outcome {
            Outcome::NotTested { why } => {
                let _ = writeln!(out, "                 {why}");
            }
            _ => {
                let values = claim
                    .values
                    .iter()
                    .map(value)
                    .collect::<Vec<_>>()
                    .join("; ");
                let _ = writeln!(
                    out,
                    "                 {}: {values}{}",
                    claim.rule,
                    times(claim)
                );
            }
        }
        if let Some(note) = note(claim) {
            let _ = writeln!(out, "                 {note}");
        }
        if let Some(reason) = &claim.reason {
            let _ = writeln!(out, "                 {}", why(reason));
        }
    }
    for table in &paper.tables {
        out.push_str(&of_table(table));
    }
    for experiment in &paper.experiments {
        of_experiment(out, experiment);
    }
}

/// Returns the outcome as text.
pub(super) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::DoesNotHold => "does not hold",
        Outcome::NotTested { .. } => "not tested",
    }
}

/// Formats our value, and the value in the paper.
pub(super) fn value(value: &ValueResult) -> String {
    let ours = value
        .ours
        .map_or_else(|| "-".to_owned(), |[median, ..]| value.unit.show(median));
    let published = value
        .published
        .as_ref()
        .map_or_else(String::new, |published| format!(" (paper: {published})"));
    format!("{} {ours}{published}", value.name)
}

/// Returns in how many cases a rule was confirmed; empty if there was only one case.
pub(super) fn times(claim: &ClaimResult) -> String {
    if claim.cases > 1 {
        format!("; in {} of {} cases", claim.held, claim.cases)
    } else {
        String::new()
    }
}

/// Returns the reason why a claim is not confirmed, and whether this reason was found in a trace,
/// was published, or is unknown.
pub(super) fn why(reason: &Reason) -> String {
    match reason {
        Reason::Traced(text) => format!("reason (traced): {text}"),
        Reason::Published(text) => format!("reason (published): {text}"),
        Reason::Unknown => "reason: unknown".to_owned(),
    }
}

/// Returns the note on a claim; `None` if the claim was not tested.
pub(super) fn note(claim: &ClaimResult) -> Option<&str> {
    claim
        .note
        .as_deref()
        .filter(|_| !matches!(claim.outcome, Outcome::NotTested { .. }))
}

/// Formats the reason why some cells of a table have only the published number.
pub(super) fn not_measured(why: &str) -> String {
    format!("Not measured: {why}")
}

fn of_table(found: &TableResult) -> String {
    let columns = found
        .columns
        .iter()
        .flat_map(|column| [format!("{column}: paper"), "ours".to_owned()]);
    let mut table = Table::new([String::new()].into_iter().chain(columns));
    for row in &found.rows {
        let cells = row
            .cells
            .iter()
            .flat_map(|(published, ours)| [published, ours])
            .map(|cell| cell.clone().unwrap_or_else(|| "-".to_owned()));
        table.row(
            [format!("{} ({})", row.published_name, row.our_name)]
                .into_iter()
                .chain(cells),
        );
    }
    let missing = found.missing.iter().map(|why| not_measured(why));
    let notes: String = found
        .note
        .iter()
        .cloned()
        .chain(missing)
        .map(|note| format!("  {note}\n"))
        .collect();
    format!("{}\n{}{notes}", found.source, table.text())
}

fn of_experiment(out: &mut String, found: &ExperimentResult) {
    let kernels: Vec<String> = found
        .kernels
        .iter()
        .map(|(kernel, replicas)| format!("{kernel} x {replicas}"))
        .collect();
    let kernels = if kernels.is_empty() {
        "no run".to_owned()
    } else {
        kernels.join(", ")
    };
    let _ = writeln!(out, "  {}: {}\n    {kernels}", found.name, found.about);
    if let Some(command) = &found.command {
        let _ = writeln!(out, "    {command}");
    }
    if let Some(text) = loads(found) {
        let _ = writeln!(out, "    {text}");
    }
    for remark in &found.remarks {
        let _ = writeln!(out, "    ! {remark}");
    }
    for culprit in &found.culprits {
        let _ = writeln!(out, "    cause of late samples: {}", late(culprit));
    }
}

/// Returns the number of operations of each load; `None` if no load ran.
pub(super) fn loads(found: &ExperimentResult) -> Option<String> {
    let amounts: Vec<String> = found
        .loads
        .iter()
        .map(|amount| format!("{} {}", amount.load, amount.least_operations))
        .collect();
    (!amounts.is_empty()).then(|| {
        format!(
            "operations of each load, in the run with the fewest: {}",
            amounts.join(", ")
        )
    })
}

/// Formats a cause of latency, for example `kernel none, 11.1 ms late: kernel code of cp (a, b)`.
pub(super) fn late(culprit: &Culprit) -> String {
    let functions = if culprit.functions.is_empty() {
        String::new()
    } else {
        format!(" ({})", culprit.functions.join(", "))
    };
    format!(
        "kernel {}, {} late: {}{functions}",
        culprit.kernel,
        Nanos(i64::try_from(culprit.late_ns).unwrap_or(i64::MAX)),
        culprit.who
    )
}
