//! `tardy history`: shows builds of many boards, and the build after which numbers became worse.

use std::path::Path;

use tardy_formats::history_table::{TableError, TableWriter, collected, is_table};
use tardy_report::report::compare::history as history_text;
use tardy_report::report::history_html;
use tardy_results::compare::model::Outcome;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::history::{AcceptedError, History, accept, accepted, history};

use super::output;
use crate::cli::compare::CompareFormat;
use crate::cli::history::HistoryArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &HistoryArgs) -> Exit {
    let found = match found(args) {
        Ok(found) => found,
        Err((exit, error)) => {
            output::complain(&error);
            return exit;
        }
    };
    let is_page_printed = args.html.as_deref().is_some_and(output::is_standard_output);
    if let Some(file) = args.html.as_deref().filter(|_| !is_page_printed)
        && let Err(error) = output::write(file, history_html::page(&found).as_bytes())
    {
        say!(
            "tardy: cannot write {}: {error}: give another file with --html",
            file.display()
        );
        return Exit::Machine;
    }
    let printed = match args.format {
        _ if is_page_printed => history_html::page(&found),
        CompareFormat::Text => history_text::text(&found, output::screen_or_page().columns),
        CompareFormat::Json => Format::HISTORY.document(&found),
        CompareFormat::Markdown => history_text::markdown(&found),
        CompareFormat::Junit => history_text::junit(&found),
    };
    if let Err(error) = output::print(&printed) {
        say!("tardy: cannot write the history: {error}");
        return Exit::Machine;
    }
    match found.verdict {
        Outcome::Better | Outcome::Equivalent => Exit::Done,
        Outcome::Worse | Outcome::Mixed => Exit::Failed,
        Outcome::Inconclusive => Exit::Inconclusive,
    }
}

fn found(args: &HistoryArgs) -> Result<History, (Exit, String)> {
    let usage = |error: AcceptedError| (Exit::Usage, error.to_string());
    let runs = match &args.table {
        None => collected(&args.runs, |_| Ok(())),
        Some(name) => output::replace(name, |file| {
            let mut table = TableWriter::new(file, name)?;
            let runs = collected(&args.runs, |run| table.add(run))?;
            table.finish().map(|()| runs)
        }),
    };
    let runs = runs.map_err(|error| match (error, &args.table) {
        (TableError::Write(error), Some(table)) => (
            Exit::Machine,
            format!(
                "cannot write {}: {error}: give another file with --table",
                table.display()
            ),
        ),
        (error, _) => (Exit::Usage, error.to_string()),
    })?;
    let first = &args.runs[0];
    let beside = if is_table(first) {
        first.parent().unwrap_or(Path::new(""))
    } else {
        first
    };
    let before = history(&runs, &accepted(beside).map_err(usage)?, args.margin);
    if args.accept.is_empty() {
        return Ok(before);
    }
    if let Some(unknown) = args
        .accept
        .iter()
        .find(|name| !before.builds.iter().any(|build| build.name == **name))
    {
        return Err((
            Exit::Usage,
            format!("--accept {unknown}: the runs have no such build"),
        ));
    }
    let file = accept(beside, &args.accept).map_err(usage)?;
    say!(
        "tardy: the accepted builds are stored in {}",
        file.display()
    );
    Ok(history(
        &runs,
        &accepted(beside).map_err(usage)?,
        args.margin,
    ))
}
