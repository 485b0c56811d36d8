//! A report of runs as one self-contained HTML file: verdict and warnings, charts, all numbers as
//! tables, the machine, and the command that repeats the run.
//!
//! Text from runs is data. maud escapes it in the page, [`json::embedded`] escapes it in the
//! script's input, and the page's content policy allows only the page's own script.
//!
//! Time lines show the extremes (the smallest and the largest value) of short intervals. After the
//! first zoom, the script draws the extremes on a canvas, as one rectangle per pixel column. An SVG
//! path that changes with every frame would be too slow: the browser would rasterise it again in
//! every tile that it touches. On printed pages, the extremes are drawn as paths.

mod comparison;
mod costs;
mod cycles;
mod explained;
mod facts;
mod figure;
mod flames;
mod head;
mod layers;
mod repeat;
mod sections;
mod side_by_side;
mod unit;
mod why;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use tardy_core::units::Nanos;
use tardy_results::compare::model::Comparison;
use tardy_results::cost::run::CostRun;
use tardy_results::why::Why;

use super::page::{Page, maker, themed};
use figure::Figures;
use tardy_chart::build;
use tardy_chart::data::{LANES_MAX, RunData};
use tardy_chart::json;
use tardy_chart::model::{Chart, Kind};

pub(super) const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// The kinds of charts that each run has, in the order in which the page shows them.
const KINDS: [Kind; 8] = [
    Kind::Timeline,
    Kind::CpuMap,
    Kind::Hist,
    Kind::Ccdf,
    Kind::Percentiles,
    Kind::RunningMax,
    Kind::Heatmap,
    Kind::Cdf,
];

/// Returns the complete HTML file of a report. `comparison` compares the other runs with the first
/// one, or contains the reason why they cannot be compared. `why` explains the difference between
/// the latencies of two watched guests. `now` is the time at which the file is made.
#[must_use]
pub fn page(
    runs: &[RunData],
    comparison: Option<&Result<Comparison, String>>,
    why: Option<&Why>,
    now: Nanos,
) -> String {
    let mut figures = Figures::new(runs.len());
    let lead = Lead::of(runs).and_then(|lead| Some((lead, lead.chart(runs)?)));
    let (lead, chart) = lead.unzip();
    let first = chart.map(|chart| figures.add(chart));
    let charts = charts(runs, lead, &mut figures);
    let sections = sections::section(runs, &mut figures);
    let title = runs
        .iter()
        .map(|run| run.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let described: Vec<_> = runs.iter().map(facts::of_latencies).collect();
    let content = html! {
        (head::head(runs, &title, comparison, first.as_ref()))
        (charts)
        (why::section(why))
        (explained::section(runs))
        (cycles::section(runs))
        (sections)
        (layers::section(runs))
        (facts::section(&described))
        (words::section())
        (repeat::section(runs))
    };
    whole(
        &format!("{title} – latency report"),
        runs.len(),
        &content,
        "to zoom, drag over the time line",
        figures,
        now,
    )
}

/// Returns the complete HTML file of a report of costs. All `runs` must count the same unit.
#[must_use]
pub fn cost_page(runs: &[CostRun], now: Nanos) -> String {
    let mut figures = Figures::new(1);
    let content = costs::content(runs, &mut figures);
    let title = runs
        .iter()
        .map(|run| run.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    whole(
        &format!("{title} – cost report"),
        runs.len(),
        &content,
        "for all numbers, see the tables",
        figures,
        now,
    )
}

/// Returns the page around `content`. `hint` ends the sentence that explains how to read charts.
fn whole(
    title: &str,
    runs: usize,
    content: &Markup,
    hint: &str,
    figures: Figures,
    now: Nanos,
) -> String {
    let columns = format!("--runs:{runs}");
    let body = html! {
        main class=(match runs { 1 => "one", runs if runs >= IN_ROWS_FROM => "many", _ => "two" }) style=(columns) {
            (content)
            footer {
                "Made by " (maker()) ", " (super::date::date_and_time(now)) " UTC. This file is self-contained. "
                "To read values in a chart, hover or use the arrow keys; to show or hide a series, \
                 use the legend; " (hint) "."
            }
        }
        script type="application/json" id="charts" { (PreEscaped(json::embedded(&figures.data()))) }
        script { (PreEscaped(SCRIPT)) }
    };
    Page {
        title,
        style: &themed(STYLE),
        scripts: &scripts(),
    }
    .around(&body)
}

/// From this number of runs on, the page shows runs in rows instead of columns.
const IN_ROWS_FROM: usize = 3;

/// Returns the content policy, which allows only the page's own script.
fn scripts() -> String {
    format!(
        "script-src 'sha256-{}'; ",
        STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()))
    )
}

/// The chart next to the verdict. The section about its probe does not show this chart again.
#[derive(Debug, Clone, Copy)]
enum Lead<'a> {
    /// The chart of all probes of a run.
    AllProbes,
    OfProbe(&'a str, Kind),
}

impl<'a> Lead<'a> {
    /// Chooses the chart for the top of the page. For several runs, the chart shows their tails.
    /// For a single run with several probes, it shows all probes. For a single run with one probe,
    /// it shows the loads if there are several, and otherwise the tail.
    fn of(runs: &'a [RunData]) -> Option<Self> {
        let probe = runs
            .iter()
            .find_map(|run| run.probes.first())?
            .probe
            .as_str();
        Some(match runs {
            [run] if run.probes.len() > 1 => Self::AllProbes,
            [run] if run.summary.loads.len() > 1 => Self::OfProbe(probe, Kind::Bars),
            _ => Self::OfProbe(probe, Kind::Ccdf),
        })
    }

    fn chart(self, runs: &[RunData]) -> Option<Chart> {
        let first = |charts: Vec<Option<Chart>>| charts.into_iter().next().flatten();
        match self {
            Self::AllProbes => first(build::all_probes(runs)),
            Self::OfProbe(probe, kind) if runs.len() > 1 => build::overlaid(kind, runs, probe),
            Self::OfProbe(probe, kind) => first(build::each(kind, runs, probe)),
        }
    }

    fn is(self, probe: &str, kind: Kind) -> bool {
        matches!(self, Self::OfProbe(of, own) if of == probe && own == kind)
    }
}

fn charts(runs: &[RunData], lead: Option<Lead<'_>>, figures: &mut Figures) -> Markup {
    let mut probes: Vec<&str> = Vec::new();
    for probe in runs.iter().flat_map(|run| &run.probes) {
        if !probes.contains(&probe.probe.as_str()) {
            probes.push(&probe.probe);
        }
    }
    let is_folded = runs.iter().any(|run| run.probes.len() > 1);
    let sections: Vec<Markup> = probes
        .into_iter()
        .map(|probe| probe_section(runs, probe, lead, is_folded, figures))
        .collect();
    html! { @for section in sections { (section) } }
}

/// The charts of one kind: one chart of all runs, if that is readable, and one chart per run.
struct Row {
    kind: Kind,
    together: Option<Markup>,
    each: Vec<Markup>,
}

impl Row {
    fn markup(&self, runs: &[RunData], is_named: bool) -> Markup {
        let columns = html! {
            div class="columns" {
                @for (run, figure) in runs.iter().zip(&self.each) {
                    div {
                        @if is_named { p class="run-name" { (run.name) } }
                        (figure)
                    }
                }
            }
        };
        html! {
            @match &self.together {
                Some(together) => {
                    div class="span" { (together) }
                    details { summary { "Each run with its loads and CPUs" } (columns) }
                }
                None => (columns),
            }
        }
    }
}

/// Kinds of charts that are unfolded for each probe when the report has several probes. The chart
/// with a bar per load is not in this list, but is unfolded, too.
const KINDS_OPEN: [Kind; 2] = [Kind::Timeline, Kind::Ccdf];

/// Returns the charts of one probe, without the chart next to the verdict. With `is_folded`, only
/// some charts are unfolded, because a page with several probes would become too long otherwise.
fn probe_section(
    runs: &[RunData],
    probe: &str,
    lead: Option<Lead<'_>>,
    is_folded: bool,
    figures: &mut Figures,
) -> Markup {
    let is_lead = |kind| lead.is_some_and(|lead| lead.is(probe, kind));
    let is_alone = runs.len() == 1;
    let bars = if is_lead(Kind::Bars) {
        None
    } else {
        build::together(runs, probe).map(|chart| figures.add(chart))
    };
    let mut rows: Vec<Row> = Vec::new();
    // If each CPU has its own colour, the map of CPUs is left out, because the time line already
    // shows the same.
    let has_map = runs
        .iter()
        .filter_map(|run| run.probe(probe))
        .any(|probe| probe.map.rows.len() > LANES_MAX);
    for kind in KINDS
        .into_iter()
        .filter(|kind| (has_map || *kind != Kind::CpuMap) && !(is_alone && is_lead(*kind)))
    {
        let together = if is_alone || is_lead(kind) {
            None
        } else {
            build::overlaid(kind, runs, probe)
        };
        let charts = build::each(kind, runs, probe);
        if charts.iter().any(Option::is_some) {
            rows.push(Row {
                kind,
                together: together.map(|chart| figures.add(chart)),
                each: charts
                    .into_iter()
                    .map(|chart| chart.map_or_else(absent, |chart| figures.add(chart)))
                    .collect(),
            });
        }
    }
    let (open, more): (Vec<&Row>, Vec<&Row>) = rows
        .iter()
        .partition(|row| !is_folded || KINDS_OPEN.contains(&row.kind));
    let quantity = runs
        .iter()
        .find_map(|run| run.probe(probe))
        .map_or("latency", |probe| probe.quantity.as_str());
    html! {
        section {
            h2 id={ "probe-" (probe) } { "Probe " (probe) ": " (quantity) }
            @if rows.is_empty() && !KINDS.into_iter().chain([Kind::Bars]).any(is_lead) { p { "This probe has no samples." } }
            @if is_folded && is_alone {
                @for row in open.iter().filter(|row| row.kind == Kind::Timeline) { (row.markup(runs, false)) }
                div class="pair" {
                    @if let Some(bars) = &bars { div { (bars) } }
                    @for row in open.iter().filter(|row| row.kind != Kind::Timeline) { (row.markup(runs, false)) }
                }
            } @else { @for (index, row) in open.iter().enumerate() {
                (row.markup(runs, !is_alone && (index == 0 || row.together.is_some())))
                // The bars per load follow the time line, which shows when each load ran.
                @if index == 0 { @if let Some(bars) = &bars { div class="span" { (bars) } } }
            } }
            @if !more.is_empty() {
                details class="more" {
                    summary { "More charts of " (probe) ": histogram, percentiles, maximum so far, heat map, distribution" }
                    @for row in &more { (row.markup(runs, !is_alone)) }
                }
            }
        }
    }
}

fn absent() -> Markup {
    html! { p class="quiet" { "Not shown: this run kept no samples, only their histogram." } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_does_not_end_its_element_and_makes_no_markup_from_text() {
        for forbidden in [
            "</",
            "<!--",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "XMLHttpRequest",
        ] {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
