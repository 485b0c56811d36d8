//! `tardy history`: builds of many boards, and after which one numbers became worse.

use std::io::Write;

use tardy_report::report::compare::history as history_text;
use tardy_report::report::history_html;
use tardy_results::compare::changes::folders_once;
use tardy_results::compare::model::Outcome;
use tardy_results::compare::side::CompareError;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::history::run::HistoryRun;
use tardy_results::history::{AcceptedError, Collected, History, accept, accepted, history};

use super::output;
use crate::cli::compare::CompareFormat;
use crate::cli::history::HistoryArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &HistoryArgs) -> Exit {
    let found = match found(args) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("tardy: {error}");
            return Exit::Usage;
        }
    };
    if let Some(file) = &args.html
        && let Err(error) = output::replace(file, |mut out| out.write_all(history_html::page(&found).as_bytes()))
    {
        eprintln!("tardy: cannot write {}: {error}: give another file with --html", file.display());
        return Exit::Machine;
    }
    let printed = match args.format {
        CompareFormat::Text => history_text::text(&found, output::screen_or_page().columns, output::is_colored()),
        CompareFormat::Json => Format::HISTORY.document(&found),
        CompareFormat::Markdown => history_text::markdown(&found),
        CompareFormat::Junit => history_text::junit(&found),
    };
    if let Err(error) = output::print(&printed) {
        eprintln!("tardy: cannot write the history: {error}");
        return Exit::Machine;
    }
    match found.verdict {
        Outcome::Better | Outcome::Equivalent => Exit::Done,
        Outcome::Worse => Exit::Failed,
        Outcome::Inconclusive => Exit::Inconclusive,
    }
}

fn found(args: &HistoryArgs) -> Result<History, String> {
    let words = |error: CompareError| error.to_string();
    let mut runs = Collected::default();
    for folder in folders_once(&args.folders) {
        HistoryRun::read(&folder).and_then(|run| runs.add(run)).map_err(words)?;
    }
    let beside = &args.folders[0];
    let known = |error: AcceptedError| error.to_string();
    let before = history(&runs, &accepted(beside).map_err(known)?, args.margin);
    if args.accept.is_empty() {
        return Ok(before);
    }
    if let Some(unknown) = args.accept.iter().find(|name| !before.builds.iter().any(|build| build.name == **name)) {
        return Err(format!("--accept {unknown}: no run is of this build"));
    }
    let file = accept(beside, &args.accept).map_err(known)?;
    eprintln!("tardy: accepted in {}", file.display());
    Ok(history(&runs, &accepted(beside).map_err(known)?, args.margin))
}
