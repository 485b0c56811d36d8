//! `tardy breakdown`: shows timer resolution, scheduling jitter and non-preemptible sections side
//! by side.

use tardy_report::report::breakdown_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::summary::breakdown::breakdown;

use super::output;
use crate::cli::breakdown::BreakdownArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &BreakdownArgs) -> Exit {
    let breakdown = match breakdown(&args.runs) {
        Ok(breakdown) => breakdown,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let text = if args.json {
        Format::BREAKDOWN.document(&breakdown)
    } else {
        output::fitted(&breakdown_text::text(
            &breakdown,
            output::screen_or_page().columns,
        ))
    };
    match output::print(&text) {
        Ok(()) if breakdown.isolated.is_empty() => Exit::Inconclusive,
        Ok(()) => Exit::Done,
        Err(error) => {
            say!("tardy: cannot write the breakdown: {error}");
            Exit::Machine
        }
    }
}
