//! `tardy show`: the summary of a run, from its folder.

use std::path::Path;

use serde::Serialize;
use tardy_core::verdict::requirement::Requirement;
use tardy_outside::census::is_watched;
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

/// What `--json` prints.
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
    if args.sections || (!args.run.join("run.json").exists() && is_watched(&args.run)) {
        return super::sections::show(&args.run, args.json);
    }
    match folder::open(&args.run) {
        Ok(record) if record.kind == RunKind::Cost => {
            if args.deadline.is_given() || args.statistics {
                eprintln!("tardy: {} is a run of costs: deadlines and --statistics are for latencies", args.run.display());
                return Exit::Usage;
            }
            super::cost::show(&args.run, args.paper, args.json)
        }
        Ok(_) if args.paper.is_some() => {
            eprintln!("tardy: {} is no run of costs: --paper has numbers to set beside those", args.run.display());
            Exit::Usage
        }
        // What is wrong with the folder is said by who reads it for its summary.
        _ => {
            let question = args.statistics.then(|| args.questions.question());
            let format = if args.json {
                Format::Json
            } else if args.full || args.statistics {
                Format::Full
            } else {
                Format::Screen
            };
            show_with(&args.run, &args.deadline.requirement(), format, question.as_ref())
        }
    }
}

/// How a summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// What fits a screen.
    Screen,
    /// Every table and warning.
    Full,
    Json,
}

/// Prints the summary of the run in `folder`; `tardy run` ends with it, so that both show the same.
#[must_use]
pub fn show(folder: &Path, requirement: &Requirement, format: Format) -> Exit {
    show_with(folder, requirement, format, None)
}

/// The same, with statistics where they are asked for.
fn show_with(folder: &Path, requirement: &Requirement, format: Format, question: Option<&Question>) -> Exit {
    let run = match read(folder, requirement) {
        Ok(run) => run,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
        }
    };
    if requirement.misses_allowed.is_some() && run.window().is_none() {
        eprintln!("tardy: --misses is the share that may miss a deadline: give --deadline or --window too");
        return Exit::Usage;
    }
    let summary = run.summary();
    let statistics = match question.map(|question| statistics(&run, question)).transpose() {
        Ok(statistics) => statistics,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
        }
    };
    let text = if format == Format::Json {
        document::Format::SHOW.document(&ShowDocument { summary: &summary, statistics: statistics.as_ref() })
    } else {
        let (blocks, screen) = (Blocks::of_environment(), output::screen_or_page());
        let histogram = |probe: &ProbeSummary, lines| {
            terminal_histogram::text(&run.of_probe(&probe.probe).latency, &probe.quantity, (screen.columns, lines), blocks)
        };
        let mut text = match format {
            Format::Full => summary_text::full(&summary, screen.columns, output::is_colored(), histogram),
            _ => summary_text::text(&summary, screen, output::is_colored(), histogram),
        };
        text.extend(statistics.as_ref().map(statistics_text::text));
        text
    };
    match output::print(&text) {
        Ok(()) => Exit::of_run(&summary),
        Err(error) => {
            eprintln!("tardy: cannot write the summary: {error}");
            Exit::Machine
        }
    }
}
