//! `tardy show`: prints the summary of a run, from its folder.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_chart::names::apart;
use tardy_core::verdict::requirement::Requirement;
use tardy_outside::census::is_census;
use tardy_report::report::runs_text::{self, RunRow};
use tardy_report::report::terminal_histogram::{self, Blocks};
use tardy_report::report::{statistics_text, summary_text};
use tardy_results::document;
use tardy_results::exit::Exit;
use tardy_results::statistics::read::{Question, Statistics, statistics};
use tardy_results::summary::model::{ProbeSummary, Summary};
use tardy_results::summary::read::read;
use tardy_run::folder;
use tardy_run::record::RunKind;

use super::output;
use crate::cli::ShowArgs;

/// The output of `--json`.
#[derive(Serialize)]
struct ShowDocument<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<&'a Statistics>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &ShowArgs) -> Exit {
    if args.sections || is_census(&args.run) {
        return super::sections::show(&args.run, args.json);
    }
    let runs = folder::folders(&args.run);
    match runs.as_slice() {
        [only] => show_run(args, only),
        _ => show_below(args, runs),
    }
}

/// Prints the summary of `run`.
fn show_run(args: &ShowArgs, run: &Path) -> Exit {
    match folder::open(run) {
        Ok(record) if record.kind == RunKind::Cost => {
            if args.deadline.is_given() || args.statistics {
                say!(
                    "tardy: {} is a run of `tardy cost`, which has no latencies: leave out \
                     --statistics and all options about deadlines",
                    run.display()
                );
                return Exit::Usage;
            }
            super::cost::show(run, args.paper, args.json)
        }
        Ok(_) if args.paper.is_some() => {
            say!(
                "tardy: {} is not a run of `tardy cost`: leave out --paper, which is for costs",
                run.display()
            );
            Exit::Usage
        }
        // If the folder is not a run, reading the summary reports the error.
        _ => {
            let question = args.statistics.then(|| args.questions.question());
            let format = if args.json {
                Format::Json
            } else if args.full || args.statistics {
                Format::Full
            } else {
                Format::Screen
            };
            show_with(run, &args.deadline.requirement, format, question.as_ref())
        }
    }
}

/// How much of a summary is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The part that fits on a screen.
    Screen,
    /// All tables and warnings.
    Full,
    Json,
}

/// Prints the summary of the run in `folder`. `tardy run` also ends with this function, so both
/// commands print the same text.
#[must_use]
pub fn show(folder: &Path, requirement: &Requirement, format: Format) -> Exit {
    show_with(folder, requirement, format, None)
}

/// Prints the runs below a folder as one table.
fn show_below(args: &ShowArgs, below: Vec<PathBuf>) -> Exit {
    if args.json || args.statistics || args.full || args.paper.is_some() {
        say!(
            "tardy: {} is a folder of {} runs, but --json, --full, --statistics and --paper show a \
             single run: name one of them",
            args.run.display(),
            below.len()
        );
        return Exit::Usage;
    }
    show_all(below, &args.deadline.requirement)
}

/// Prints the runs in `folder` as one table.
pub(super) fn show_folder(path: &Path, requirement: &Requirement) -> Exit {
    show_all(folder::folders(path), requirement)
}

/// Prints each run with the part of its path that distinguishes it.
fn show_all(below: Vec<PathBuf>, requirement: &Requirement) -> Exit {
    let last = |path: &PathBuf| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let (folders, last): (Vec<String>, Vec<String>) = below
        .iter()
        .map(|path| (path.display().to_string(), last(path)))
        .unzip();
    let names = apart(
        &folders,
        &last.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    show_several(
        &names.into_iter().zip(below).collect::<Vec<_>>(),
        requirement,
    )
}

/// Prints runs as one table, each with its name.
#[must_use]
pub(super) fn show_several(runs: &[(String, PathBuf)], requirement: &Requirement) -> Exit {
    let mut rows = Vec::new();
    let mut exits = Vec::new();
    for (name, path) in runs {
        match read(path, requirement) {
            Ok(run) if run.record.kind != RunKind::Cost => {
                let kernel = run
                    .record
                    .machine
                    .kernel
                    .release
                    .clone()
                    .unwrap_or_else(|| "unknown kernel".to_owned());
                let summary = run.summary();
                exits.push(Exit::of_run(&summary));
                rows.push(RunRow {
                    name: name.clone(),
                    kernel,
                    summary,
                });
            }
            Ok(_) => {
                say!(
                    "tardy: {} holds costs: `tardy show {}` prints them",
                    path.display(),
                    path.display()
                );
            }
            Err(error) => {
                output::complain(&error);
                exits.push(Exit::Usage);
            }
        }
    }
    if output::print(&runs_text::text(&rows, output::screen_or_page())).is_err() {
        return Exit::Machine;
    }
    let worst = [
        Exit::Usage,
        Exit::Failed,
        Exit::Inconclusive,
        Exit::Interrupted,
    ];
    worst
        .into_iter()
        .find(|exit| exits.contains(exit))
        .unwrap_or(Exit::Done)
}

/// Prints the run, with statistics if requested.
fn show_with(
    folder: &Path,
    requirement: &Requirement,
    format: Format,
    question: Option<&Question>,
) -> Exit {
    let run = match read(folder, requirement) {
        Ok(run) => run,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    if requirement.misses_allowed.is_some() && run.window().is_none() {
        say!(
            "tardy: --misses is the share that may miss a deadline: give --deadline or --window \
             too"
        );
        return Exit::Usage;
    }
    let summary = run.summary();
    let statistics = match question
        .map(|question| statistics(&run, question))
        .transpose()
    {
        Ok(statistics) => statistics,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let text = if format == Format::Json {
        document::Format::SHOW.document(&ShowDocument {
            summary: &summary,
            statistics: statistics.as_ref(),
        })
    } else {
        let (blocks, screen) = (Blocks::of_environment(), output::screen_or_page());
        let histogram = |probe: &ProbeSummary, lines| {
            terminal_histogram::text(
                &run.of_probe(&probe.probe).latency,
                &probe.quantity,
                (screen.columns, lines),
                blocks,
            )
        };
        let mut text = match format {
            Format::Full => summary_text::full(&summary, screen.columns, histogram),
            _ => summary_text::text(&summary, screen, histogram),
        };
        text.extend(
            statistics
                .as_ref()
                .map(|statistics| statistics_text::text(statistics, screen.columns)),
        );
        text
    };
    match output::print(&text) {
        Ok(()) => Exit::of_run(&summary),
        Err(error) => {
            say!("tardy: cannot write the summary: {error}");
            Exit::Machine
        }
    }
}
