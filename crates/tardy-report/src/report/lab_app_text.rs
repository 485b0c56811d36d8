//! A user's program on several kernels, as text: which kernels meet the deadline, by what margin,
//! and what delayed the program on the others.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::verdict::Outcome;
use tardy_results::lab_app::{
    AppCell, AppKernel, AppRun, JudgedBy, LabApp, ProgramEnd, ProgramEnding,
};

use super::screen::push_wrapped;
use super::table::Table;

/// Returns the table and its notes, in lines of at most `columns` characters. `out` is the guests'
/// folder.
#[must_use]
pub fn text(found: &LabApp, out: &Path, columns: usize) -> String {
    let mut text = String::new();
    push_wrapped(&mut text, &headline(found), columns, (0, 2));
    let head = std::iter::once("largest latency")
        .chain(found.loads.iter().map(String::as_str))
        .chain(["margin", "deadline"]);
    let mut table = Table::new(head).words([found.loads.len() + 2]);
    for kernel in &found.kernels {
        let cells = kernel.cells.iter().map(cell_word);
        let margin = kernel
            .margin_ns
            .map_or_else(|| "-".to_owned(), |margin| margin.to_string());
        table.row(
            std::iter::once(kernel.name.clone())
                .chain(cells)
                .chain([margin, outcome_word(kernel.outcome).to_owned()]),
        );
    }
    text.push_str(&table.in_blocks(columns));
    for (kernel, cell, run) in runs(found) {
        if run.outcome == Some(Outcome::Passed) {
            continue;
        }
        let culprit = run.culprit.as_ref().map_or_else(String::new, |culprit| {
            format!("; during the largest latency: {culprit}")
        });
        let line = format!(
            "! {} under {}: {}{culprit}",
            place(&kernel.name, run, found),
            cell.load,
            run.sentence
        );
        push_wrapped(&mut text, &line, columns, (0, 2));
    }
    let planned = found.kernels.len() * found.loads.len() * found.question.replicas as usize;
    let there = runs(found).count();
    if there < planned {
        let line = format!(
            "! {} of {planned} guests have no result: the messages during the run name the reasons",
            planned - there
        );
        push_wrapped(&mut text, &line, columns, (0, 2));
    }
    for (name, why) in &found.absent {
        push_wrapped(
            &mut text,
            &format!("! {name} is left out: {why}"),
            columns,
            (0, 2),
        );
    }
    for line in [
        ends(found),
        judged(found),
        next(found, out),
        found.question.meaning.clone(),
    ] {
        if !line.is_empty() {
            push_wrapped(&mut text, &line, columns, (0, 2));
        }
    }
    text
}

fn runs(found: &LabApp) -> impl Iterator<Item = (&AppKernel, &AppCell, &AppRun)> {
    let cells = found
        .kernels
        .iter()
        .flat_map(|kernel| kernel.cells.iter().map(move |cell| (kernel, cell)));
    cells.flat_map(|(kernel, cell)| cell.runs.iter().map(move |run| (kernel, cell, run)))
}

/// Returns how many kernels meet the deadline, and which does so by the largest margin.
fn headline(found: &LabApp) -> String {
    let met: Vec<&AppKernel> = found
        .kernels
        .iter()
        .filter(|kernel| kernel.outcome == Some(Outcome::Passed))
        .collect();
    let all = found.kernels.len() + found.absent.len();
    let which = match (met.len(), met.iter().max_by_key(|kernel| kernel.margin_ns)) {
        (_, None) | (0, _) => String::new(),
        (1, Some(only)) => format!(": {}{}", only.name, by_margin(only)),
        (_, Some(best)) => format!("; {} has the largest margin{}", best.name, by_margin(best)),
    };
    let verb = if met.len() == 1 { "meets" } else { "meet" };
    let noun = if all == 1 { "kernel" } else { "kernels" };
    format!(
        "{}: {} of {all} {noun} {verb} the deadline of {}{which}",
        found.question.program,
        met.len(),
        found.question.deadline_ns
    )
}

fn by_margin(kernel: &AppKernel) -> String {
    kernel
        .margin_ns
        .map_or_else(String::new, |margin| format!(", {margin}"))
}

/// Returns the largest latency of a cell, with a mark if the deadline was missed or the outcome is
/// undecided.
fn cell_word(cell: &AppCell) -> String {
    let outcome = |wanted: Outcome| cell.runs.iter().any(|run| run.outcome == Some(wanted));
    let mark = if outcome(Outcome::Failed) {
        "!"
    } else if outcome(Outcome::Inconclusive) {
        "?"
    } else {
        ""
    };
    match cell.runs.iter().filter_map(|run| run.max_ns).max() {
        Some(max) => format!("{mark}{max}"),
        None if cell.runs.iter().any(|run| run.outcome.is_none()) => "no result".to_owned(),
        None => format!("{mark}-"),
    }
}

fn outcome_word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "met",
        Some(Outcome::Failed) => "MISSED",
        Some(Outcome::Inconclusive) => "undecided",
        None => "no result",
    }
}

fn place(kernel: &str, run: &AppRun, found: &LabApp) -> String {
    if found.question.replicas > 1 {
        format!("{kernel} replica {}", run.replica)
    } else {
        kernel.to_owned()
    }
}

/// Returns how the program ended in the guests, with the number of guests for each outcome.
fn ends(found: &LabApp) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, _, run) in runs(found).filter(|(_, _, run)| run.outcome.is_some()) {
        let words = run.program.map_or_else(
            || "was stopped after the measurement".to_owned(),
            |end| end_words(&end),
        );
        *counts.entry(words).or_default() += 1;
    }
    let words = counts.iter().map(|(words, count)| {
        let guests = if *count == 1 { "guest" } else { "guests" };
        format!("{words} in {count} {guests}")
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("the program {}", words.join(", "))
    }
}

fn end_words(end: &ProgramEnd) -> String {
    let words = match end.ending {
        ProgramEnding::Exited(code) => format!("exited with {code}"),
        ProgramEnding::Signalled(signal) => format!("was ended by signal {signal}"),
    };
    if end.was_stopped {
        format!("{words} when asked to end")
    } else {
        format!("{words} by itself")
    }
}

fn judged(found: &LabApp) -> String {
    let judge = match found.question.judged_by {
        JudgedBy::Attach => "its wake-ups, measured by `tardy attach`",
        JudgedBy::Calls => "its calls of tardy_due and tardy_done, measured by `tardy run`",
    };
    format!("judged by {judge}, whose trace is part of the guest's work")
}

/// Returns commands that examine the guest with the largest latency.
fn next(found: &LabApp, out: &Path) -> String {
    let worst = runs(found).max_by_key(|(_, _, run)| run.max_ns);
    worst.map_or_else(String::new, |(_, _, run)| {
        let folder = out.join(&run.folder);
        let folder = folder.display();
        format!("next: tardy explain {folder} | cat {folder}/program/stdout.log")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::units::Nanos;
    use tardy_results::lab_app::AppQuestion;

    fn run(outcome: Option<Outcome>, max_us: Option<i64>, sentence: &str) -> AppRun {
        AppRun {
            folder: "x/none".to_owned(),
            outcome,
            sentence: sentence.to_owned(),
            max_ns: max_us.map(|us| Nanos(us * 1000)),
            program: outcome.map(|_| ProgramEnd {
                ending: ProgramEnding::Exited(0),
                was_stopped: true,
                lasted_ns: Nanos(1),
            }),
            ..AppRun::default()
        }
    }

    fn kernel(name: &str, outcome: Option<Outcome>, runs: Vec<AppRun>) -> AppKernel {
        let max_ns = runs.iter().filter_map(|run| run.max_ns).max();
        AppKernel {
            name: name.to_owned(),
            package: None,
            outcome,
            max_ns,
            margin_ns: max_ns.map(|max| Nanos(500_000) - max),
            cells: vec![AppCell {
                load: "none".to_owned(),
                runs,
            }],
        }
    }

    #[test]
    fn the_first_line_answers_and_each_guest_that_did_not_pass_has_its_reason() {
        use Outcome::{Failed, Inconclusive, Passed};
        let late = AppRun {
            culprit: Some("khugepaged/30".to_owned()),
            ..run(Some(Failed), Some(6540), "FAILED: 1 of 9")
        };
        let found = LabApp {
            question: AppQuestion {
                program: "./mine".to_owned(),
                arguments: Vec::new(),
                judged_by: JudgedBy::Attach,
                deadline_ns: Nanos(500_000),
                misses_allowed: None,
                files: 3,
                file_bytes: 9,
                replicas: 1,
                meaning: "virtual time".to_owned(),
            },
            loads: vec!["none".to_owned()],
            kernels: vec![
                kernel("a", Some(Failed), vec![late]),
                kernel(
                    "b",
                    Some(Passed),
                    vec![run(Some(Passed), Some(40), "passed")],
                ),
                kernel(
                    "c",
                    Some(Inconclusive),
                    vec![run(Some(Inconclusive), None, "the program ended")],
                ),
                kernel("d", None, vec![run(None, None, "the kernel panicked")]),
                kernel("e", None, Vec::new()),
            ],
            absent: vec![("f".to_owned(), "no package".to_owned())],
        };
        let expected = "\
./mine: 1 of 6 kernels meets the deadline of 500 us: b, 460 us
largest latency       none    margin  deadline
a                 !6.54 ms  -6.04 ms  MISSED
b                  40.0 us    460 us  met
c                       ?-         -  undecided
d                no result         -  no result
e                        -         -  no result
! a under none: FAILED: 1 of 9; during the largest latency: khugepaged/30
! c under none: the program ended
! d under none: the kernel panicked
! 1 of 5 guests have no result: the messages during the run name the reasons
! f is left out: no package
the program exited with 0 when asked to end in 3 guests
judged by its wake-ups, measured by `tardy attach`, whose trace is part of the guest's work
next: tardy explain app/x/none | cat app/x/none/program/stdout.log
virtual time
";
        assert_eq!(text(&found, Path::new("app"), 120), expected);
    }
}
