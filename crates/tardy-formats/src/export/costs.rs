//! Exports cost runs in the formats that can express costs.

use std::fmt::Write as _;
use std::io::Write;

use tardy_chart::csv::quoted;
use tardy_core::openmetrics::{escape, family};
use tardy_report::report::compare::markdown;
use tardy_results::cost::run::CostRun;
use tardy_results::cost::shown::DisplayUnit;
use tardy_results::document::Format;
use tardy_run::cost::Group;

use super::ExportError;

/// Export formats of cost runs.
pub const FORMATS: [&str; 4] = ["csv", "json", "markdown", "openmetrics"];

/// Writes the run in `format`, one of [`FORMATS`].
///
/// # Errors
/// Returns [`ExportError::CostFormat`] for other formats; also returns an error if the output
/// cannot be written.
pub fn write(run: &CostRun, format: &str, out: &mut dyn Write) -> Result<(), ExportError> {
    let text = match format {
        "csv" => trials(run),
        "json" => Format::COST.document(&run.summary),
        "markdown" => table(run),
        "openmetrics" => metrics(run),
        _ => {
            return Err(ExportError::CostFormat {
                run: run.folder.clone(),
                format: format.to_owned(),
            });
        }
    };
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Returns a table with one line per trial, in order. All values are per operation, also those of
/// bandwidths.
fn trials(run: &CostRun) -> String {
    let mut out = format!(
        "metric,group,trial,{}_per_operation,bytes_per_operation\n",
        run.summary.how.unit
    );
    for metric in &run.summary.metrics {
        let bytes = metric
            .bytes
            .map_or_else(String::new, |bytes| bytes.to_string());
        for (trial, value) in metric.values.iter().enumerate() {
            let _ = writeln!(
                out,
                "{},{},{},{value},{bytes}",
                quoted(&metric.name),
                metric.group.name(),
                trial + 1
            );
        }
    }
    out
}

fn table(run: &CostRun) -> String {
    let summary = &run.summary;
    let mut out = format!("## {}\n\n", markdown::escape(&run.folder));
    for warning in &summary.warnings {
        let _ = writeln!(
            out,
            "- :warning: {}",
            markdown::escape(&warning.to_string())
        );
    }
    if summary.how.unit == "instructions" {
        out.push_str(
            "- :warning: costs are counts of executed instructions: they show the length of the \
             kernel's code, not the speed of a machine\n",
        );
    }
    let head = ["metric", "unit", "cost", "best", "median", "worst"].map(str::to_owned);
    let rows: Vec<Vec<String>> = summary
        .metrics
        .iter()
        .map(|metric| {
            let shown = DisplayUnit::new(summary, metric);
            let figure = if metric.group == Group::Program {
                metric.mean
            } else {
                metric.cost
            };
            let values =
                [figure, metric.min, metric.median, metric.max].map(|value| shown.text(value));
            [metric.name.clone(), shown.unit.to_owned()]
                .into_iter()
                .chain(values)
                .collect()
        })
        .collect();
    let _ = writeln!(out, "\n{}", markdown::table(&head, &rows));
    for one in &summary.left_out {
        let _ = writeln!(
            out,
            "- left out: {} ({})",
            markdown::escape(&one.name),
            markdown::escape(&one.reason)
        );
    }
    for line in summary.machine.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "- {}", markdown::escape(line));
    }
    out
}

/// Returns the run as OpenMetrics text. Times are in seconds, the base unit of OpenMetrics. Counts
/// of instructions have a separate metric name, so that no tool adds them to times.
fn metrics(run: &CostRun) -> String {
    let summary = &run.summary;
    let (name, scale, unit) = if summary.how.unit == "ns" {
        ("tardy_cost_seconds", 1e-9, "seconds")
    } else {
        ("tardy_cost_instructions", 1.0, "instructions")
    };
    let values =
        |value: fn(&tardy_results::cost::summary::MetricSummary) -> f64| -> Vec<(String, String)> {
            let labels = |metric: &tardy_results::cost::summary::MetricSummary| {
                format!("metric=\"{}\"", escape(&metric.name))
            };
            summary
                .metrics
                .iter()
                .map(|metric| (labels(metric), format!("{:e}", value(metric) * scale)))
                .collect()
        };
    let mut text = String::new();
    let figures = values(|metric| {
        if metric.group == Group::Program {
            metric.mean
        } else {
            metric.cost
        }
    });
    family(
        &mut text,
        name,
        ("gauge", ""),
        &format!("Cost of one operation, in {unit}."),
        figures,
    );
    let (least, most) = (
        format!("tardy_cost_least_{unit}"),
        format!("tardy_cost_most_{unit}"),
    );
    family(
        &mut text,
        &least,
        ("gauge", ""),
        &format!("Smallest trial, in {unit}."),
        values(|metric| metric.min),
    );
    family(
        &mut text,
        &most,
        ("gauge", ""),
        &format!("Largest trial, in {unit}."),
        values(|metric| metric.max),
    );
    let kernel = format!(
        "kernel=\"{}\",version=\"{}\"",
        escape(&run.kernel()),
        escape(&run.record.tool.version)
    );
    family(
        &mut text,
        "tardy_run_info",
        ("gauge", ""),
        "Kernel and tardy version of the run.",
        [(kernel, "1".to_owned())],
    );
    text + "# EOF\n"
}
