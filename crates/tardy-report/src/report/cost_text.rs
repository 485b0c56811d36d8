//! Costs as a table: the cost of each metric, the spread of its trials, and published numbers on
//! request.

use std::fmt::Write as _;

use tardy_core::units::Nanos;
use tardy_results::cost::reference::PublishedTable;
use tardy_results::cost::shown::{DisplayUnit, number};
use tardy_results::cost::summary::{CostSummary, MetricSummary};
use tardy_run::cost::{CacheState, CostSet, Group};

use super::summary_text;
use super::table::Table;

#[must_use]
pub fn text(summary: &CostSummary, published: Option<&PublishedTable>) -> String {
    let mut out = String::new();
    head(&mut out, summary);
    out.push_str(&table(summary, published));
    foot(&mut out, summary, published);
    out
}

fn head(out: &mut String, summary: &CostSummary) {
    let how = &summary.how;
    let state = summary_text::ending(summary.state);
    if let Some(real) = summary
        .metrics
        .iter()
        .find(|metric| how.set == CostSet::Command && metric.name == "real")
    {
        let time = |value: f64| Nanos(value.round() as i64).to_string();
        let _ = writeln!(
            out,
            "{} +- {} (range {} to {}, {} trials)",
            time(real.mean),
            time(real.standard_deviation),
            time(real.min),
            time(real.max),
            how.trials
        );
    }
    let _ = match how.set {
        CostSet::Metrics => writeln!(
            out,
            "{}: cost of {} services on CPU {}, {} x {} trials of {}{state}",
            summary.run,
            summary.metrics.len(),
            how.cpu
                .map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            how.rounds,
            how.trials,
            how.trial_length_ns.exact(),
        ),
        CostSet::Build | CostSet::Command => writeln!(
            out,
            "{}: {} times: {}{state}",
            summary.run,
            how.trials,
            how.command.join(" ")
        ),
    };
    for warning in &summary.warnings {
        let _ = writeln!(out, "{}", warning.line());
    }
    if how.unit == "instructions" {
        let _ = writeln!(
            out,
            "note: costs are counts of executed instructions: they show the length of the kernel's \
             code, not the speed of a machine"
        );
    }
}

fn table(summary: &CostSummary, published: Option<&PublishedTable>) -> String {
    let is_program = summary.how.set != CostSet::Metrics;
    let mut head: Vec<&str> = if is_program {
        vec![
            "time",
            "unit",
            "average",
            "standard deviation",
            "best",
            "median",
            "worst",
        ]
    } else {
        vec!["metric", "unit", "cost", "best", "median", "worst"]
    };
    let columns = published
        .map(|published| {
            published
                .columns
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    head.extend(columns);
    let mut table = Table::new(head);
    let mut group: Option<Group> = None;
    for metric in &summary.metrics {
        if group != Some(metric.group) && !is_program {
            table.row([format!("-- {}", metric.group.title())]);
        }
        group = Some(metric.group);
        table.row(row(summary, metric, published, is_program));
    }
    table.text()
}

fn row(
    summary: &CostSummary,
    metric: &MetricSummary,
    published: Option<&PublishedTable>,
    is_program: bool,
) -> Vec<String> {
    // Published times of programs are in seconds.
    let shown = match published {
        Some(_) => DisplayUnit::of(summary.how.unit, metric.bytes, is_program),
        None => DisplayUnit::new(summary, metric),
    };
    let cold = if metric.state == CacheState::Cold {
        " (cold)"
    } else {
        ""
    };
    let mut cells = vec![
        format!("{}{cold}{}", metric.name, waiting(metric)),
        shown.unit.to_owned(),
    ];
    if is_program {
        cells.extend([
            shown.text(metric.mean),
            shown.text(metric.standard_deviation),
            shown.text(metric.min),
        ]);
        cells.extend([shown.text(metric.median), shown.text(metric.max)]);
    } else {
        cells.extend(
            [metric.cost, metric.min, metric.median, metric.max].map(|value| shown.text(value)),
        );
    }
    if let Some(published) = published {
        let row = published.rows.iter().find(|row| row.metric == metric.name);
        let values = row.map(|row| {
            row.values
                .iter()
                .map(|value| number(*value))
                .collect::<Vec<_>>()
        });
        cells.extend(values.unwrap_or_else(|| vec!["-".to_owned(); published.columns.len()]));
    }
    cells
}

/// Returns which share of an instruction count was counted while the emulated machine was idle. The
/// count includes this share, because the machine's clock also advances while the machine is idle.
/// The text is empty if this share is negligible.
fn waiting(metric: &MetricSummary) -> String {
    metric
        .idle_share
        .filter(|share| *share >= IDLE_SHARE_TOLD)
        .map_or_else(String::new, waiting_share)
}

/// Smallest share of idle time that is printed. Smaller shares are below the resolution of a
/// guest's idle time.
pub const IDLE_SHARE_TOLD: f64 = 0.01;

/// Returns the share as text that starts with a space.
#[must_use]
pub fn waiting_share(idle_share: f64) -> String {
    format!(" ({:.0} % waiting)", idle_share * 100.0)
}

fn foot(out: &mut String, summary: &CostSummary, published: Option<&PublishedTable>) {
    if summary.how.set == CostSet::Metrics {
        let _ = writeln!(
            out,
            "cost: the smallest of the {} rounds' medians; {} of clock overhead is subtracted from \
             each trial. Caches are warm unless a description (tardy list costs) says cold",
            summary.how.rounds,
            summary.how.clock_read_ns.exact()
        );
    } else {
        let _ = writeln!(
            out,
            "standard deviations are those of the population, as in mckenney2009; times include \
             the command's child processes"
        );
    }
    for left_out in &summary.left_out {
        let _ = writeln!(out, "left out: {} ({})", left_out.name, left_out.reason);
    }
    for line in summary.machine.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(published) = published {
        let _ = writeln!(
            out,
            "published numbers: {}; they come from another machine, so compare directions and \
             ratios, not values",
            published.source
        );
    }
}
