//! `tardy plot`: writes a chart of runs as a file for papers, or its numbers.

use std::path::PathBuf;

use tardy_chart::build;
use tardy_chart::build::costs;
use tardy_chart::data::{DataError, Detail, RunData};
use tardy_chart::model::{Chart, Kind};
use tardy_chart::names::tell_apart;
use tardy_chart::picture::{Picture, PictureError};
use tardy_report::report::date::date_and_time;
use tardy_results::cost::run::{is_cost, read_alike};
use tardy_results::exit::Exit;
use tardy_results::statistics::read::Question;
use tardy_run::folder::folders;
use tardy_run::imported::ImportRecord;

use super::output;
use crate::cli::plot::PlotArgs;

/// Maximum number of samples that are drawn individually; a picture has no space for more.
const POINTS: usize = 20_000;

/// The reason why there is no picture.
#[derive(Debug, thiserror::Error)]
enum PlotError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the runs have several probes: name one of {0} with --probe")]
    Probe(String),
    #[error("the runs have no samples of a probe {0}: choose from {1}")]
    NoSuchProbe(String, String),
    #[error("the runs have several groups of services: name one of {0} with --probe")]
    Group(String),
    #[error("the runs have no services of a group {0}: choose from {1}")]
    NoSuchGroup(String, String),
    #[error("costs are drawn as bars: give --kind bars")]
    CostKind,
    #[error("{0}")]
    Costs(String),
    #[error("--line: {0}")]
    Line(String),
    #[error("there is nothing to draw: {0}")]
    Nothing(&'static str),
    #[error("--output: {0}")]
    Picture(#[from] PictureError),
}

/// Runs the command.
#[must_use]
pub fn run(args: &PlotArgs) -> Exit {
    match plot(args) {
        Ok(()) => Exit::Done,
        Err(error) => {
            output::complain(&error);
            if matches!(error, PlotError::Picture(PictureError::Unwritable(..))) {
                Exit::Machine
            } else {
                Exit::Usage
            }
        }
    }
}

fn plot(args: &PlotArgs) -> Result<(), PlotError> {
    let picture = Picture::at(&args.output)?;
    if args.runs.iter().any(|run| is_cost(run)) {
        return plot_costs(args, &picture);
    }
    let has_model = matches!(args.kind, Kind::Cdf | Kind::Ccdf);
    let statistics = has_model.then(|| Question {
        horizon: args.horizon,
        ..Question::default()
    });
    let detail = Detail {
        columns: 8192,
        points: POINTS,
        statistics,
    };
    let read = |path: &PathBuf| RunData::read(path, &args.deadline.requirement, &detail);
    let mut runs = args
        .runs
        .iter()
        .flat_map(|run| folders(run))
        .map(|run| read(&run))
        .collect::<Result<Vec<_>, _>>()?;
    tell_apart(&mut runs);
    if args.kind == Kind::Bars
        && args.probe.is_none()
        && runs.iter().any(|run| run.probes.len() > 1)
    {
        return plot_probes(args, &picture, &runs);
    }
    let probe = probe(&runs, args.probe.as_deref())?;
    let overlaid = if runs.len() > 1 && !args.panels {
        build::overlaid(args.kind, &runs, &probe)
    } else {
        None
    };
    let is_overlaid = overlaid.is_some();
    let mut charts: Vec<Option<Chart>> = overlaid.map_or_else(
        || build::each(args.kind, &runs, &probe),
        |chart| vec![Some(chart)],
    );
    if is_overlaid || args.kind == Kind::Bars {
        let all: Vec<String> = runs.iter().map(|run| subtitle(run, &probe)).collect();
        charts
            .iter_mut()
            .flatten()
            .for_each(|chart| chart.subtitle = all.join("; "));
    } else {
        charts.iter_mut().zip(&runs).for_each(|(chart, run)| {
            chart
                .iter_mut()
                .for_each(|chart| chart.subtitle = subtitle(run, &probe));
        });
    }
    if runs.len() > 1 && args.kind != Kind::Bars && !is_overlaid {
        for (chart, run) in charts.iter_mut().zip(&runs) {
            if let Some(chart) = chart {
                chart.title = format!("{}: {}", run.name, chart.title);
            }
        }
    }
    if !args.lines.is_empty() {
        charts
            .iter_mut()
            .flatten()
            .try_for_each(|chart| chart.choose(&args.lines))
            .map_err(PlotError::Line)?;
    }
    let size = (args.size.width, args.size.height);
    // If one chart shows several runs, the name of each series includes its run.
    let named: Vec<(&str, &Chart)> = charts
        .iter()
        .enumerate()
        .filter_map(|(index, chart)| {
            Some((
                if charts.len() == runs.len() {
                    runs[index].name.as_str()
                } else {
                    "all"
                },
                chart.as_ref()?,
            ))
        })
        .collect();
    if named.is_empty() {
        return Err(PlotError::Nothing(
            "the run stored only a histogram of its samples: draw it with --kind hist, cdf, ccdf, \
             percentiles or bars",
        ));
    }
    for (chart, run) in charts.iter().zip(&runs) {
        if chart.is_none() && !is_overlaid {
            say!(
                "tardy: {} is left out: it has no data for this kind of chart",
                run.folder
            );
        }
    }
    Ok(picture.write(&named, size, args.scale)?)
}

/// Draws one chart per run, with all its probes.
fn plot_probes(args: &PlotArgs, picture: &Picture, runs: &[RunData]) -> Result<(), PlotError> {
    let mut charts = build::all_probes(runs);
    for (chart, run) in charts.iter_mut().zip(runs) {
        match chart {
            Some(chart) => chart.subtitle = format!("{}, {}, {}", run.name, run.kernel(), day(run)),
            None => say!(
                "tardy: {} is left out: it has only one probe; select that probe with --probe",
                run.folder
            ),
        }
    }
    let named: Vec<(&str, &Chart)> = runs
        .iter()
        .zip(&charts)
        .filter_map(|(run, chart)| Some((run.name.as_str(), chart.as_ref()?)))
        .collect();
    if named.is_empty() {
        return Err(PlotError::Nothing(
            "each run has samples of at most one probe",
        ));
    }
    Ok(picture.write(&named, (args.size.width, args.size.height), args.scale)?)
}

/// Returns the date of the measurement.
fn day(run: &RunData) -> String {
    date_and_time(run.summary.started_realtime_ns)
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Returns the run's name, kernel, number of samples and date, because a picture may be shown
/// without its file name.
fn subtitle(run: &RunData, probe: &str) -> String {
    let samples = run
        .probe(probe)
        .map_or(0, |probe| probe.all().histogram.count());
    format!(
        "{}, {}, {} samples, {}",
        run.name,
        run.kernel(),
        samples,
        day(run)
    )
}

/// Draws bars for one group of services, with the runs side by side.
fn plot_costs(args: &PlotArgs, picture: &Picture) -> Result<(), PlotError> {
    if args.kind != Kind::Bars {
        return Err(PlotError::CostKind);
    }
    let runs = read_alike(args.runs.iter().map(PathBuf::as_path)).map_err(PlotError::Costs)?;
    let mut charts = costs::charts(&runs);
    let names = charts
        .iter()
        .map(|(group, _)| group.name())
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(wanted) = &args.probe {
        charts.retain(|(group, _)| group.name() == wanted);
    }
    match (charts.as_slice(), &args.probe) {
        ([(group, chart)], _) => Ok(picture.write(
            &[(group.name(), chart)],
            (args.size.width, args.size.height),
            args.scale,
        )?),
        (_, Some(wanted)) => Err(PlotError::NoSuchGroup(wanted.clone(), names)),
        ([], None) => Err(PlotError::Nothing("the runs measured no service")),
        (_, None) => Err(PlotError::Group(names)),
    }
}

fn probe(runs: &[RunData], wanted: Option<&str>) -> Result<String, PlotError> {
    let mut names: Vec<&str> = Vec::new();
    for probe in runs
        .iter()
        .flat_map(|run| &run.probes)
        .filter(|probe| probe.all().histogram.count() > 0)
    {
        if !names.contains(&probe.probe.as_str()) {
            names.push(&probe.probe);
        }
    }
    match (wanted, names.as_slice()) {
        (_, []) => Err(PlotError::Nothing("the runs have no samples")),
        (Some(wanted), names) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), names) => Err(PlotError::NoSuchProbe(wanted.to_owned(), names.join(", "))),
        (None, [one]) => Ok((*one).to_owned()),
        (None, names) if runs.iter().all(is_attached) => Ok(most_frequent(runs, names)),
        (None, names) => Err(PlotError::Probe(names.join(", "))),
    }
}

/// Returns whether `tardy attach` made the run. The series of such a run are the threads and kinds
/// of wake-ups that `tardy attach` found, so users cannot know their names.
fn is_attached(run: &RunData) -> bool {
    let imported = run.record.imported.as_ref();
    imported.is_some_and(ImportRecord::is_of_timers)
}

/// Returns the probe with the most samples, and reports that it was chosen.
fn most_frequent(runs: &[RunData], names: &[&str]) -> String {
    let samples = |name: &str| {
        let probes = runs.iter().filter_map(|run| run.probe(name));
        probes
            .map(|probe| probe.all().histogram.count())
            .sum::<u64>()
    };
    // Of probes with equally many samples, the first is shown. `max_by_key` returns the last of
    // equal items, so the order is reversed.
    let most = names.iter().rev().max_by_key(|name| samples(name));
    let most = most.map_or_else(String::new, |name| (*name).to_owned());
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != most).collect();
    say!(
        "tardy: the chart shows {most}, the probe with the most samples; to draw another, give \
         --probe with one of {}",
        others.join(", ")
    );
    most
}
