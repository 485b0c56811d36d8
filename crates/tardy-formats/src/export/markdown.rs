//! Writes a run as Markdown, for a merge request or a wiki: verdict and warnings first, then one
//! table per probe.

use std::fmt::Write as _;
use std::io::Write;

use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_report::report::compare::markdown::{escape, table};
use tardy_report::report::summary_text;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format markdown`.
pub(super) struct Markdown;

impl Exporter for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn about(&self) -> &'static str {
        "verdict, warnings and tables for a merge request or a wiki"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        out.write_all(text(run).as_bytes())?;
        Ok(())
    }
}

fn text(run: &ExportedRun) -> String {
    let summary = &run.summary;
    let mut out = format!("## {}\n\n", escape(&summary.run));
    for (outcome, sentence) in summary_text::verdict_lines(summary) {
        let _ = writeln!(
            out,
            "**{}**: {}\n",
            summary_text::word(outcome).to_lowercase(),
            escape(&sentence)
        );
    }
    for warning in &summary.warnings {
        let _ = writeln!(out, "- :warning: {}", escape(&warning.to_string()));
    }
    for probe in &summary.probes {
        let period = if probe.period_ns.get() > 0 {
            format!(" every {}", probe.period_ns.exact())
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "\n### {} ({}){}\n",
            escape(&probe.probe),
            escape(&probe.quantity),
            escape(&period)
        );
        let (like, head) = (probe.numbers.as_ref(), head(probe.numbers.as_ref()));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for series in summary
            .series
            .iter()
            .filter(|series| series.probe == probe.probe)
        {
            let label = match (series.cpu, series.copy) {
                (Some(cpu), _) => format!("CPU {cpu}"),
                (None, Some(copy)) => format!("copy {copy}"),
                (None, None) => "not bound".to_owned(),
            };
            rows.extend(
                series
                    .numbers
                    .as_ref()
                    .map(|numbers| row(label, numbers, like, series.is_skipped_unknown)),
            );
        }
        if rows.len() > 1 {
            rows.extend(
                probe
                    .numbers
                    .as_ref()
                    .map(|numbers| row("all".to_owned(), numbers, like, probe.is_skipped_unknown)),
            );
        }
        out.push_str(&table(&head, &rows));
    }
    if summary.loads.len() > 1 {
        let _ = writeln!(
            out,
            "\n### {}\n",
            if summary.is_ranked {
                "Loads, worst first"
            } else {
                "Phases"
            }
        );
        let mut rows = Vec::new();
        let like = summary
            .probes
            .first()
            .and_then(|probe| probe.numbers.as_ref());
        for load in &summary.loads {
            for (probe, numbers) in &load.probes {
                let label = if summary.probes.len() > 1 {
                    format!("{} ({probe})", load.name)
                } else {
                    load.name.clone()
                };
                let is_skipped_unknown = summary
                    .probes
                    .iter()
                    .any(|of| of.probe == *probe && of.is_skipped_unknown);
                rows.extend(
                    numbers
                        .as_ref()
                        .map(|numbers| row(label, numbers, like, is_skipped_unknown)),
                );
            }
        }
        out.push_str(&table(&head(like), &rows));
    }
    out.push('\n');
    for line in summary.machine.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "{}  ", escape(line));
    }
    out
}

fn head(numbers: Option<&Numbers>) -> Vec<String> {
    let mut head = ["us", "samples", "skipped", "min", "mean"]
        .map(str::to_owned)
        .to_vec();
    let percentiles = numbers.iter().flat_map(|numbers| &numbers.percentiles);
    head.extend(
        percentiles.map(|percentile| format!("{} %", (percentile.probability * 1e9).round() / 1e7)),
    );
    head.push("max".to_owned());
    head.extend(
        numbers
            .and_then(|numbers| numbers.misses)
            .map(|_| "misses".to_owned()),
    );
    head
}

/// Returns the cells of a row. A percentile is followed by the upper end of its interval. A
/// percentile without an upper end is marked by `~`, and followed by the number of samples that an
/// upper end needs. `like` is the series from which [`head`] made the columns.
fn row(
    label: String,
    numbers: &Numbers,
    like: Option<&Numbers>,
    is_skipped_unknown: bool,
) -> Vec<String> {
    let micros = |nanos: i64| format!("{:.1}", nanos as f64 / 1e3);
    let skipped = if is_skipped_unknown {
        "-".to_owned()
    } else {
        numbers.skipped.to_string()
    };
    let mut cells = vec![
        label,
        numbers.samples.to_string(),
        skipped,
        micros(numbers.min_ns),
    ];
    cells.push(format!("{:.1}", numbers.mean_ns / 1e3));
    let cell = |percentile: &Percentile| match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => format!("{} (<= {})", micros(percentile.value_ns), micros(upper)),
        (None, Some(needed)) => format!("~{} (n >= {needed})", micros(percentile.value_ns)),
        (None, None) => format!("~{}", micros(percentile.value_ns)),
    };
    let unknown = || "-".to_owned();
    let columns = like.map_or(0, |like| like.percentiles.len());
    cells.extend(
        (0..columns).map(|place| numbers.percentiles.get(place).map_or_else(unknown, cell)),
    );
    cells.push(micros(numbers.max_ns));
    cells.extend(like.and_then(|like| like.misses).map(|_| {
        numbers
            .misses
            .map_or_else(unknown, |misses| misses.to_string())
    }));
    cells
}
