//! `tardy advise`: judges whether work is in time, and which kernel suits it.

mod questions;

use std::io::{self, IsTerminal};

use tardy_advise::advice::{Comparison, advice};
use tardy_advise::kernels::ReadError;
use tardy_advise::task::{Task, TaskError};
use tardy_advise::{kernels, mckenney2009};
use tardy_chart::build::total_delay::chart;
use tardy_chart::model::Chart;
use tardy_chart::picture::{Picture, PictureError};
use tardy_core::verdict::Outcome;
use tardy_machine::root::Root;
use tardy_report::report;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::summary::read::SummaryError;

use super::output;
use crate::cli::advise::{AdviseArgs, AdviseSource};

/// Width and height of a figure, in px.
const FIGURE: (f64, f64) = (560.0, 440.0);
/// Number of pixels of a PNG for each px of a figure.
const SCALE: f64 = 2.0;

/// The reason why there is no advice.
#[derive(Debug, thiserror::Error)]
enum AdviseError {
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Runs(#[from] ReadError),
    #[error(transparent)]
    Summary(#[from] SummaryError),
    #[error("cannot ask: {0}")]
    Asking(#[from] io::Error),
    #[error("--plot: {0}")]
    Picture(#[from] PictureError),
    #[error(
        "--plot: there are no curves to draw: give latency runs of a real-time kernel and of \
         another kernel, both measured on a machine or both in the lab"
    )]
    NoCurves,
}

/// Runs the command.
#[must_use]
pub fn run(args: &AdviseArgs) -> Exit {
    // An unknown picture format is refused before anything is asked or printed.
    let picture = args
        .plot
        .as_deref()
        .map(Picture::at)
        .transpose()
        .map_err(AdviseError::from);
    let advised = picture.and_then(|picture| {
        let advised = match args.paper {
            Some(AdviseSource::Mckenney2009) => of_paper(args),
            None => of_runs(args),
        };
        Ok((advised?, picture))
    });
    match advised {
        Ok((advised, picture)) => {
            if let Err(error) = output::print(&advised.text) {
                say!("tardy: cannot write the advice: {error}");
                return Exit::Machine;
            }
            draw_figures(picture, advised.charts)
                .map_or_else(|error| refuse(&error), |()| advised.exit)
        }
        Err(error) => refuse(&error),
    }
}

/// The advice as text and as charts.
struct AdviceOutput {
    text: String,
    charts: Vec<Chart>,
    exit: Exit,
}

fn refuse(error: &AdviseError) -> Exit {
    output::complain(&error);
    if matches!(error, AdviseError::Picture(PictureError::Unwritable(..))) {
        Exit::Machine
    } else {
        Exit::Usage
    }
}

fn of_paper(args: &AdviseArgs) -> Result<AdviceOutput, AdviseError> {
    let found = mckenney2009::conclusions();
    let names = ["real fast", "real time"];
    let charts = found
        .figures
        .iter()
        .map(|figure| chart(figure, names, &Task::default()))
        .collect();
    let text = if args.json {
        Format::ADVISE_PAPER.document(&found)
    } else {
        report::advise::mckenney2009::text(&found)
    };
    Ok(AdviceOutput {
        text,
        charts,
        exit: Exit::Done,
    })
}

fn of_runs(args: &AdviseArgs) -> Result<AdviceOutput, AdviseError> {
    let mut task = args.task.task();
    if task == Task::default()
        && !args.json
        && io::stdin().is_terminal()
        && io::stderr().is_terminal()
    {
        questions::ask(
            &mut task,
            &mut io::stdin().lock(),
            &mut io::stderr(),
            output::screen().columns,
        )?;
    }
    task.check()?;
    let kernels = kernels::read(&args.runs)?;
    let advice = advice(&kernels, &task, args.probe.as_deref(), &Root::system())?;
    let figure = |comparison: &Comparison| {
        chart(
            &comparison.curves,
            [&comparison.fast, &comparison.real_time],
            &task,
        )
    };
    let charts = advice.comparisons.iter().map(figure).collect();
    let exit = match advice.outcome {
        None | Some(Outcome::Passed) => Exit::Done,
        Some(Outcome::Failed) => Exit::Failed,
        Some(Outcome::Inconclusive) => Exit::Inconclusive,
    };
    let text = if args.json {
        Format::ADVISE.document(&advice)
    } else {
        output::fitted(&report::advise::text::text(
            &advice,
            output::screen().columns,
        ))
    };
    Ok(AdviceOutput { text, charts, exit })
}

/// Draws all charts side by side with the same y axis, so that they can be compared.
fn draw_figures(picture: Option<Picture>, mut charts: Vec<Chart>) -> Result<(), AdviseError> {
    let Some(picture) = picture else {
        return Ok(());
    };
    if charts.is_empty() {
        return Err(AdviseError::NoCurves);
    }
    let low = charts
        .iter()
        .map(|chart| chart.y.low)
        .fold(f64::INFINITY, f64::min);
    let high = charts.iter().map(|chart| chart.y.high).fold(0.0, f64::max);
    for chart in &mut charts {
        (chart.y.low, chart.y.high) = (low, high);
    }
    let named: Vec<(&str, &Chart)> = charts
        .iter()
        .map(|chart| (chart.title.as_str(), chart))
        .collect();
    Ok(picture.write(&named, FIGURE, SCALE)?)
}
