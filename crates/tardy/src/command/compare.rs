//! `tardy compare`: compares runs with other runs.

use std::path::PathBuf;

use tardy_report::report::compare::{
    cost as cost_text, cost_over_time as cost_over_time_text, junit, markdown,
    over_time as over_time_text, text,
};
use tardy_results::compare::grouped::{GroupedComparison, compare_within};
use tardy_results::compare::model::Outcome;
use tardy_results::compare::over_time::over_time;
use tardy_results::compare::read::compare;
use tardy_results::compare::side::CompareError;
use tardy_results::compare::{cost, cost_over_time, verdict};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::why::WhyQuestion;

use super::output;
use crate::cli::compare::{CompareArgs, CompareFormat};

/// Runs the command.
#[must_use]
pub fn run(args: &CompareArgs) -> Exit {
    let paths: Vec<&PathBuf> = std::iter::once(&args.base)
        .chain(&args.candidates)
        .collect();
    if args.why {
        return compared_functions(args);
    }
    let is_text =
        matches!(args.format, CompareFormat::Text | CompareFormat::Json) && !args.over_time;
    if args.sections || (is_text && tardy_outside::census::are_censuses(&paths)) {
        return compared_sections(args);
    }
    let compared = if paths.iter().any(|path| cost::is_cost(path)) {
        compared_costs(args)
    } else {
        compared(args).map_err(|error| error.to_string())
    };
    match compared {
        Ok((outcome, printed)) => match output::print(&printed) {
            Ok(()) => exit(outcome),
            Err(error) => {
                say!("tardy: cannot write the comparison: {error}");
                Exit::Machine
            }
        },
        Err(error) => {
            output::complain(&error);
            Exit::Usage
        }
    }
}

fn compared_sections(args: &CompareArgs) -> Exit {
    let is_json = match args.format {
        CompareFormat::Text => false,
        CompareFormat::Json => true,
        CompareFormat::Markdown | CompareFormat::Junit => {
            say!("tardy: sections are compared as text or JSON: give --format text or json");
            return Exit::Usage;
        }
    };
    let [candidate] = &args.candidates[..] else {
        say!("tardy: --sections compares two folders: give BASE and one NEW");
        return Exit::Usage;
    };
    super::sections::show_comparison(&args.base, candidate, is_json)
}

fn compared_functions(args: &CompareArgs) -> Exit {
    let is_json = match args.format {
        CompareFormat::Text => false,
        CompareFormat::Json => true,
        CompareFormat::Markdown | CompareFormat::Junit => {
            say!("tardy: --why prints text or JSON: give --format text or json");
            return Exit::Usage;
        }
    };
    let [candidate] = &args.candidates[..] else {
        say!("tardy: --why compares two folders: give BASE and one NEW");
        return Exit::Usage;
    };
    let quantile = match args.quantiles.as_deref() {
        None => None,
        Some(&[quantile]) => Some(quantile),
        Some(_) => {
            say!(
                "tardy: --why compares one sample of each side: give one quantile, or none for the largest latency"
            );
            return Exit::Usage;
        }
    };
    let question = WhyQuestion {
        phase: args.phase.clone(),
        quantile,
    };
    super::why::show((&args.base, candidate), &question, is_json, args.full)
}

/// Compares costs. All runs must be cost runs; the error names those that are not.
fn compared_costs(args: &CompareArgs) -> Result<(Outcome, String), String> {
    if args.over_time {
        let paths: Vec<PathBuf> = std::iter::once(&args.base)
            .chain(&args.candidates)
            .cloned()
            .collect();
        let found =
            cost_over_time::over_time(&paths, args.margin).map_err(|error| error.to_string())?;
        let printed = match args.format {
            CompareFormat::Text => cost_over_time_text::text(&found),
            CompareFormat::Json => Format::COST_COMPARE_OVER_TIME.document(&found),
            CompareFormat::Markdown => cost_over_time_text::markdown(&found),
            CompareFormat::Junit => cost_over_time_text::junit(&found),
        };
        return Ok((found.verdict, printed));
    }
    let found = cost::compare(&args.base, &args.candidates, args.margin, args.confidence)
        .map_err(|error| error.to_string())?;
    let printed = match args.format {
        CompareFormat::Text => cost_text::text(&found),
        CompareFormat::Json => Format::COST_COMPARE.document(&found),
        CompareFormat::Markdown => cost_text::markdown(&found),
        CompareFormat::Junit => cost_text::junit(&found),
    };
    let is_open = found.candidates.iter().any(|candidate| {
        candidate.verdict == Outcome::Inconclusive
            || candidate
                .rows
                .iter()
                .any(|row| row.verdict == Outcome::Inconclusive)
    });
    Ok((decided(found.verdict, is_open), printed))
}

fn compared(args: &CompareArgs) -> Result<(Outcome, String), CompareError> {
    let settings = args.settings();
    if args.over_time {
        let paths: Vec<PathBuf> = std::iter::once(&args.base)
            .chain(&args.candidates)
            .cloned()
            .collect();
        let found = over_time(&paths, &settings)?;
        let printed = match args.format {
            CompareFormat::Text => over_time_text::text(&found),
            CompareFormat::Json => Format::COMPARE_OVER_TIME.document(&found),
            CompareFormat::Markdown => over_time_text::markdown(&found),
            CompareFormat::Junit => over_time_text::junit(&found),
        };
        return Ok((found.verdict, printed));
    }
    let (found, left_out) = if args.candidates.is_empty() {
        let GroupedComparison {
            comparison,
            left_out,
        } = compare_within(&args.base, &settings)?;
        (comparison, left_out)
    } else {
        (
            compare(&args.base, &args.candidates, &settings)?,
            Vec::new(),
        )
    };
    for group in left_out {
        say!(
            "tardy: {group} is left out, because its measurement differs from that of the \
             baseline"
        );
    }
    let folder = args
        .candidates
        .is_empty()
        .then(|| args.base.display().to_string());
    let printed = match args.format {
        CompareFormat::Text => text::text(
            &found,
            folder.as_deref(),
            output::screen_or_page(),
            args.full,
        ),
        CompareFormat::Json => Format::COMPARE.document(&found),
        CompareFormat::Markdown => markdown::text(&found),
        CompareFormat::Junit => junit::text(&found),
    };
    let is_open = found.candidates.iter().any(|candidate| {
        candidate.verdict == Outcome::Inconclusive || verdict::is_open(&candidate.tables)
    });
    Ok((decided(found.verdict, is_open), printed))
}

/// Returns the outcome for the exit code: inconclusive if any result is inconclusive and none is
/// worse, even if other results are better.
fn decided(outcome: Outcome, is_open: bool) -> Outcome {
    if is_open && !outcome.has_worse() {
        Outcome::Inconclusive
    } else {
        outcome
    }
}

fn exit(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Better | Outcome::Equivalent => Exit::Done,
        Outcome::Worse | Outcome::Mixed => Exit::Failed,
        Outcome::Inconclusive => Exit::Inconclusive,
    }
}
