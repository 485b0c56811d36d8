//! `tardy report`: writes a report of runs as one HTML file.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use tardy_chart::data::{DataError, Detail, RunData};
use tardy_chart::names::tell_apart;
use tardy_core::units::Nanos;
use tardy_report::report::html;
use tardy_results::compare::model::Settings;
use tardy_results::compare::read::compare;
use tardy_results::cost::run::{is_cost, read_alike};
use tardy_results::exit::Exit;
use tardy_results::statistics::read::Question;
use tardy_results::why::{WhyError, WhyQuestion, why};
use tardy_run::folder::{folders, open};

use super::output;
use crate::cli::plot::ReportArgs;

/// Number of time intervals in a report. Each interval takes about 15 bytes, so the file stays far
/// below 3 MB.
const COLUMNS: usize = 64 * 1024;
/// Minimum number of time intervals of each run.
const COLUMNS_MIN: usize = 4096;

/// Number of series of a probe that get a tail model: those with a colour in charts.
const SERIES_MAX: usize = tardy_chart::data::LANES_MAX;

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("{0}")]
    Costs(String),
    #[error("{0} holds costs, and other runs hold latencies: make one report of each kind")]
    Mixed(String),
}

/// Runs the command.
#[must_use]
pub fn run(args: &ReportArgs) -> Exit {
    let page = match page(args) {
        Ok(page) => page,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    match output::write(&args.html, page.as_bytes()) {
        Ok(()) => Exit::Done,
        Err(error) => {
            say!(
                "tardy: cannot write {}: {error}: give another file with --html",
                args.html.display()
            );
            Exit::Machine
        }
    }
}

fn page(args: &ReportArgs) -> Result<String, ReportError> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        });
    let found: Vec<PathBuf> = args.runs.iter().flat_map(|run| folders(run)).collect();
    // In a folder of runs, an unreadable run is left out, because a power failure may have emptied
    // it. A run that the user named must be readable.
    let (mut runs, mut broken) = (Vec::new(), None);
    for run in found {
        match open(&run) {
            Err(error) if !args.runs.contains(&run) => {
                say!("tardy: left out: {error}");
                broken = Some(run);
            }
            _ => runs.push(run),
        }
    }
    let folders = if runs.is_empty() {
        broken.into_iter().collect()
    } else {
        runs
    };
    if folders.iter().all(|run| is_cost(run)) {
        let runs = read_alike(folders.iter().map(PathBuf::as_path)).map_err(ReportError::Costs)?;
        return Ok(html::cost_page(&runs, Nanos(now)));
    }
    if let Some(costs) = folders.iter().find(|run| is_cost(run)) {
        return Err(ReportError::Mixed(costs.display().to_string()));
    }
    let question = Question {
        limits: args.limits.clone(),
        horizon: args.horizon,
        mhz: args.mhz.map(f64::from),
        series_max: SERIES_MAX,
        ..Question::default()
    };
    let detail = Detail {
        columns: (COLUMNS / folders.len()).max(COLUMNS_MIN),
        points: 0,
        statistics: Some(question.with_limits_in_order()),
    };
    let read = |path: &PathBuf| RunData::read(path, &args.deadline.requirement, &detail);
    let mut runs = folders.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    tell_apart(&mut runs);
    let comparison = folders
        .split_first()
        .filter(|(_, others)| !others.is_empty())
        .map(|(first, others)| {
            let settings = Settings::usual(args.deadline.requirement.window);
            compare(first, others, &settings).map_err(|error| error.to_string())
        });
    let why = match &folders[..] {
        [base, new] => match why(base, new, &WhyQuestion::default()) {
            Ok(why) => Some(why),
            Err(WhyError::NotWatched(_)) => None,
            Err(error) => {
                say!("tardy: the report does not explain the difference: {error}");
                None
            }
        },
        _ => None,
    };
    let page = html::page(&runs, comparison.as_ref(), why.as_ref(), Nanos(now));
    Ok(page)
}
