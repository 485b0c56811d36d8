//! Draws the figures of papers again, from our own runs of the papers' experiments.

use std::path::Path;

use maud::{Markup, html};
use tardy_advise::curves::{Curves, curves as curves_of};
use tardy_advise::mckenney2009::conclusions;
use tardy_advise::task::Task;
use tardy_chart::build::{self, curves};
use tardy_chart::data::{Detail, Group, GroupKind, RunData};
use tardy_chart::model::{Chart, Kind};
use tardy_core::verdict::requirement::Requirement;
use tardy_papers::claim::Paper;
use tardy_papers::figure::{Figure, FigureKind};
use tardy_papers::quantity::Quantity;
use tardy_results::reproduce::measured::PaperRuns;
use tardy_statistics::estimate::Estimate;

use super::history_html::drawn as chart_drawn;

/// Number of intervals of a time line, about one per px.
const COLUMNS: usize = 1000;
/// Maximum number of samples that a scatter plot draws one by one; more samples are drawn as cells
/// of a grid.
const POINTS: usize = 5000;

/// The name of the phase with loads in a figure. In the run, this phase is named after its loads.
const LOADED: &str = "load";

/// A figure of a paper, with charts of our runs.
pub struct FigureCharts {
    /// Name of the paper in this project.
    pub paper: &'static str,
    place: String,
    about: String,
    /// Charts of our runs; empty if no experiment of the figure was run.
    charts: Vec<Chart>,
}

/// Returns the figures of `papers`, drawn from the experiments' folders below `folder`.
#[must_use]
pub fn drawn(papers: &[Paper], folder: &Path) -> Vec<FigureCharts> {
    let of_paper = |paper: &Paper| -> Vec<FigureCharts> {
        let draw = |figure: &Figure| FigureCharts {
            paper: paper.name,
            place: figure.place.clone(),
            about: figure.about.clone(),
            charts: charts(paper, figure, folder),
        };
        paper.figures.iter().map(draw).collect()
    };
    papers.iter().flat_map(of_paper).collect()
}

fn charts(paper: &Paper, figure: &Figure, folder: &Path) -> Vec<Chart> {
    let kind = match figure.kind {
        FigureKind::Sweep => return sweep(paper, figure, folder).into_iter().collect(),
        FigureKind::TotalDelay => return total_delays(paper, figure, folder).unwrap_or_default(),
        FigureKind::Cdf => Kind::Cdf,
        FigureKind::Hist => Kind::Hist,
        FigureKind::Timeline => Kind::Timeline,
        FigureKind::Scatter => Kind::Scatter,
        FigureKind::Bars => Kind::Bars,
    };
    let runs = runs(figure, folder);
    let Some(probe) = figure
        .probe
        .clone()
        .or_else(|| Some(runs.first()?.probes.first()?.probe.clone()))
    else {
        return Vec::new();
    };
    let in_one = match kind {
        Kind::Bars => build::together(&runs, &probe),
        _ if figure.is_apart => None,
        _ => build::overlaid(kind, &runs, &probe),
    };
    if let Some(chart) = in_one {
        return vec![chart];
    }
    let each = build::each(kind, &runs, &probe).into_iter().zip(&runs);
    each.filter_map(|(chart, run)| {
        Some(Chart {
            subtitle: run.name.clone(),
            ..chart?
        })
    })
    .collect()
}

/// Returns the first run of each kernel of the figure, named after the kernel. If the figure has a
/// load, only samples under that load are used.
fn runs(figure: &Figure, folder: &Path) -> Vec<RunData> {
    let Some(experiment) = figure.experiments.first() else {
        return Vec::new();
    };
    let found = PaperRuns::first_runs(experiment, folder);
    let detail = Detail {
        columns: COLUMNS,
        points: POINTS,
        statistics: None,
    };
    let run = |kernel: &String| {
        let (_, path) = found.iter().find(|(name, _)| name == kernel)?;
        let mut run = RunData::read(path, &Requirement::default(), &detail).ok()?;
        run.name.clone_from(kernel);
        if let Some(load) = &figure.load {
            let is_meant = |group: &Group| {
                group.what == GroupKind::Load
                    && (group.name == *load || (load == LOADED && group.name != "idle"))
            };
            for probe in &mut run.probes {
                if let Some(place) = probe.groups.iter().rposition(is_meant) {
                    probe.groups = vec![probe.groups.swap_remove(place)];
                }
            }
        }
        Some(run)
    };
    figure.kernels.iter().filter_map(run).collect()
}

/// Returns a chart whose curves come from the first replica of each experiment.
fn sweep(paper: &Paper, figure: &Figure, folder: &Path) -> Option<Chart> {
    let measured = PaperRuns::read(paper, folder);
    let kernel = figure.kernels.first()?;
    let curve = |(name, rest): &(String, String)| {
        let quantity: Option<Quantity> = format!("{kernel} {rest}").parse().ok();
        let value = |experiment: &String| measured.value(quantity.as_ref()?, experiment, 0).ok();
        let points = figure
            .at
            .iter()
            .zip(&figure.experiments)
            .filter_map(|(at, experiment)| Some((f64::from(*at), value(experiment)?)));
        (name.clone(), points.collect())
    };
    let curves: Vec<curves::Curve> = figure.curves.iter().map(curve).collect();
    curves::chart(&figure.place, &figure.about, &figure.axis, &curves)
}

/// Returns a chart for each slowdown in the paper, with the latencies of our two kernels.
fn total_delays(paper: &Paper, figure: &Figure, folder: &Path) -> Option<Vec<Chart>> {
    let measured = PaperRuns::read(paper, folder);
    let (experiment, (_, rest)) = (figure.experiments.first()?, figure.curves.first()?);
    let latency = |kernel: &String| {
        let quantity: Quantity = format!("{kernel} {rest}").parse().ok()?;
        let value = measured.value(&quantity, experiment, 0).ok()?;
        Some(Estimate::exact(value))
    };
    let [fast, real_time] = figure.kernels.as_slice() else {
        return None;
    };
    let (of_fast, of_real_time) = (latency(fast)?, latency(real_time)?);
    let chart = |published: &Curves| {
        let title = published.title.clone();
        let ours = curves_of(title, of_fast, of_real_time, published.slowdown);
        build::total_delay::chart(&ours, [fast, real_time], &Task::default())
    };
    Some(conclusions().figures.iter().map(chart).collect())
}

/// Returns the figure for the page. `index` distinguishes the drawings of a page.
pub(super) fn of_figure(figure: &FigureCharts, index: usize) -> Markup {
    html! {
        h3 { (figure.place) }
        p.note { (figure.about) }
        @if figure.charts.is_empty() { p { "no run" } }
        @for (place, chart) in figure.charts.iter().enumerate() {
            figure {
                @if !chart.subtitle.is_empty() { figcaption { (chart.subtitle) } }
                (chart_drawn(chart, index * 100 + place))
            }
        }
    }
}
