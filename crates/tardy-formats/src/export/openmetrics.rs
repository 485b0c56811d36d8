//! Writes metrics for Prometheus and for node_exporter's textfile collector. With --output, the
//! file is replaced atomically, so the collector never reads half a file.
//!
//! `tardy_run_info` is typed as a gauge, because collectors of the older text format refuse the
//! type `info`.

use std::io::Write;

use tardy_core::openmetrics::{self, Buckets, SeriesMetrics, family, label_list, seconds};
use tardy_core::units::Nanos;

use super::run::{ExportedRun, ExportedSeries};
use super::{ExportError, Exporter, Options};

/// `--format openmetrics`.
pub(super) struct OpenMetrics;

impl Exporter for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn about(&self) -> &'static str {
        "metrics for Prometheus and node_exporter's textfile collector"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let series: Vec<SeriesMetrics> = run
            .series
            .iter()
            .map(|series| metrics(run, series))
            .collect::<Result<_, _>>()?;
        let mut text = openmetrics::series(&series);
        about_run(&mut text, run);
        text.push_str(openmetrics::END);
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn metrics(run: &ExportedRun, series: &ExportedSeries) -> Result<SeriesMetrics, ExportError> {
    let summary = run.summary_of(series);
    let numbers = summary.and_then(|summary| summary.numbers.as_ref());
    let mut buckets = Buckets::of(&series.histogram()?);
    // The mean that the imported file states includes values outside its buckets.
    if let Some(numbers) = numbers.filter(|_| run.record.imported.is_some()) {
        buckets = buckets.with_mean(numbers.mean_ns);
    }
    Ok(SeriesMetrics {
        descriptor: series.descriptor.clone(),
        counts: summary.map(|summary| summary.counts).unwrap_or_default(),
        is_skipped_unknown: summary.is_none_or(|summary| summary.is_skipped_unknown),
        misses: numbers.and_then(|numbers| numbers.misses),
        max: numbers.map(|numbers| Nanos(numbers.max_ns)),
        buckets,
    })
}

fn about_run(text: &mut String, run: &ExportedRun) {
    let machine = &run.record.machine;
    let labels = label_list(&[
        ("host", machine.host_name.as_deref().unwrap_or("")),
        ("kernel", machine.kernel.release.as_deref().unwrap_or("")),
        ("machine", &machine.one_line()),
        ("scenario", &run.record.plan.scenario),
        ("clock", &format!("{:?}", run.record.clock).to_lowercase()),
        ("version", &run.record.tool.version),
    ]);
    family(
        text,
        "tardy_run_info",
        ("gauge", ""),
        "Host, kernel and settings of the run.",
        [(labels, "1".to_owned())],
    );
    let started = seconds(run.record.started.realtime_ns.get());
    family(
        text,
        "tardy_run_started_timestamp_seconds",
        ("gauge", ""),
        "Start time of the run, since 1970.",
        [(String::new(), started)],
    );
}
