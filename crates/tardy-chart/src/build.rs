//! Turns the data of runs into charts. Each kind of chart has its own module. Charts of the same
//! kind have the same axes for all runs.

mod bars;
pub mod costs;
mod cpu_map;
pub mod curves;
mod distribution;
mod grid;
mod hist;
pub mod history;
mod percentiles;
mod probes;
mod running_max;
pub mod section_latency;
mod timeline;
pub mod total_delay;

use super::data::{Group, ProbeData, RunData};
use super::model::{Axis, Chart, Kind, Rule, Tone, Values};
use super::scale::Scale;

/// Returns the charts of `kind` for the probe: one for each run, in the order of the runs, or
/// `None` if a run lacks the necessary data. [`Kind::Bars`] gives one chart of all runs, and
/// [`Kind::TotalDelay`] no chart.
#[must_use]
pub fn each(kind: Kind, runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let charts = match kind {
        Kind::Timeline => timeline::charts(runs, probe),
        Kind::Hist => hist::charts(runs, probe),
        Kind::Cdf | Kind::Ccdf => distribution::charts(kind, runs, probe),
        Kind::Percentiles => percentiles::charts(runs, probe),
        Kind::RunningMax => running_max::charts(runs, probe),
        Kind::Heatmap => grid::heat_maps(runs, probe),
        Kind::CpuMap => cpu_map::charts(runs, probe),
        Kind::Scatter => grid::scatters(runs, probe),
        Kind::Bars => vec![together(runs, probe)],
        // This kind needs costs and a model in addition to runs.
        Kind::TotalDelay => Vec::new(),
    };
    charts
        .into_iter()
        .map(|chart| chart.map(Chart::distinct))
        .collect()
}

/// Returns one chart that shows the smallest, median and largest latency of each run under each
/// load.
#[must_use]
pub fn together(runs: &[RunData], probe: &str) -> Option<Chart> {
    bars::chart(runs, probe).map(Chart::distinct)
}

/// Returns, for each run, a chart that compares all its probes without and with load; `None` if the
/// run has fewer than two probes.
#[must_use]
pub fn all_probes(runs: &[RunData]) -> Vec<Option<Chart>> {
    probes::charts(runs)
}

/// Returns one chart that combines all runs; `None` if such a chart of this kind would be
/// unreadable.
#[must_use]
pub fn overlaid(kind: Kind, runs: &[RunData], probe: &str) -> Option<Chart> {
    let chart = match kind {
        Kind::Cdf | Kind::Ccdf => distribution::overlaid(kind, runs, probe),
        Kind::Hist => hist::overlaid(runs, probe),
        Kind::Percentiles => percentiles::overlaid(runs, probe),
        Kind::RunningMax => running_max::overlaid(runs, probe),
        // If several runs shared one chart, their extremes over time, heat maps or scatters would
        // cover each other. All runs are shown anyway in the chart of bars.
        Kind::Timeline
        | Kind::Heatmap
        | Kind::CpuMap
        | Kind::Scatter
        | Kind::Bars
        | Kind::TotalDelay => None,
    };
    chart.map(Chart::distinct)
}

/// Returns the deadlines of all runs, without duplicates.
fn rules_of_all(runs: &[RunData], probe: &str, is_vertical: bool) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    for rule in of_probe(runs, probe).flat_map(|probe| rules(probe, is_vertical)) {
        if !all.contains(&rule) {
            all.push(rule);
        }
    }
    all
}

/// Maximum number of runs for which bands are drawn. More bands would overlap.
const BANDS_MAX: usize = 2;

/// For each run that has the probe, returns all samples of the probe, with the run's name and
/// colour.
fn a_group_a_run(runs: &[RunData], probe: &str) -> Vec<(Tone, Group)> {
    let named = |(index, run): (usize, &RunData)| {
        Some((
            Tone::Series(index),
            Group {
                name: run.name.clone(),
                ..run.probe(probe)?.all().clone()
            },
        ))
    };
    runs.iter().enumerate().filter_map(named).collect()
}

fn of_probe<'a>(runs: &'a [RunData], probe: &'a str) -> impl Iterator<Item = &'a ProbeData> {
    runs.iter().filter_map(move |run| run.probe(probe))
}

/// Returns `quantity` with a capital first letter, for titles.
fn capital(quantity: &str) -> String {
    let mut letters = quantity.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// Returns the smallest and the largest latency of all runs; every axis of latencies covers this
/// range.
fn extent(runs: &[RunData], probe: &str) -> (i64, i64) {
    let histograms = || of_probe(runs, probe).map(|probe| &probe.all().histogram);
    let min = histograms()
        .filter_map(|histogram| histogram.min())
        .min()
        .unwrap_or(0);
    let max = histograms()
        .filter_map(|histogram| histogram.max())
        .max()
        .unwrap_or(0);
    (min, max)
}

/// Returns an axis for latencies with some margin at its ends. The axis includes a deadline if it
/// is close to the latencies.
fn latency_axis(runs: &[RunData], probe: &str) -> Axis {
    let (min, max) = extent(runs, probe);
    let scale = Scale::of_latency(min);
    let quantity = of_probe(runs, probe)
        .next()
        .map_or("latency", |probe| probe.quantity.as_str());
    let (low, mut high) = (scale.place(min as f64), scale.place(max as f64));
    for window in of_probe(runs, probe).filter_map(|probe| probe.window) {
        let deadline = scale.place(window.latest.get() as f64);
        // An axis with a deadline ten times as long as the largest latency would leave the chart
        // almost empty.
        if deadline > high && deadline < high + 1.0 {
            high = deadline;
        }
    }
    let room = ((high - low) * 0.04).max(0.02);
    let title = format!("{quantity} (logarithmic)");
    Axis::new(
        title,
        scale,
        Values::Latency,
        (scale.value(low - room), scale.value(high + room)),
    )
}

/// Returns a time axis that covers the longest run.
fn time_axis(runs: &[RunData], probe: &str) -> Axis {
    let longest = of_probe(runs, probe)
        .map(|probe| probe.length)
        .fold(0.0, f64::max);
    let unit = if longest <= 120.0 {
        "s"
    } else if longest < 7200.0 {
        "min:s"
    } else {
        "h:min:s"
    };
    Axis::new(
        format!("time from the start of the run ({unit})"),
        Scale::Linear,
        Values::Seconds,
        (0.0, longest),
    )
}

/// Returns the limits of a probe's window as lines across its chart.
fn rules(probe: &ProbeData, is_vertical: bool) -> Vec<Rule> {
    let Some(window) = probe.window else {
        return Vec::new();
    };
    let name = |what: &str, value: f64| format!("{what} {}", super::scale::latency_name(value));
    let latest = window.latest.get() as f64;
    let what = if window.earliest.is_some() {
        "latest"
    } else {
        "deadline"
    };
    let mut rules = vec![Rule {
        is_vertical,
        value: latest,
        text: name(what, latest),
    }];
    if let Some(earliest) = window.earliest {
        let earliest = earliest.get() as f64;
        rules.push(Rule {
            is_vertical,
            value: earliest,
            text: name("earliest", earliest),
        });
    }
    rules
}

/// Returns a note for charts over time: it states that samples are missing. Returns an empty text
/// if all samples were stored.
fn kept_note(probe: &ProbeData) -> &'static str {
    if probe.is_partial {
        " Only samples that were stored are shown."
    } else {
        ""
    }
}
