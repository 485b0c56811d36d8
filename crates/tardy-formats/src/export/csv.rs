//! Writes samples as comma-separated values (RFC 4180), one line each; with `--histogram`, one line
//! per value with its count.

use std::io::Write;

use tardy_chart::csv::quoted;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format csv`.
pub(super) struct Csv;

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "one sample per line: probe, cpu, copy, phase (by due time), due time since the start of \
         the run, latency, number of skipped due times; with --histogram, the count of each value. \
         In reports, a sample that ends in the next phase counts in both phases"
    }

    fn write(
        &self,
        run: &ExportedRun,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        if options.is_histogram {
            counts(run, out)
        } else {
            samples(run, out)
        }
    }
}

fn samples(run: &ExportedRun, out: &mut dyn Write) -> Result<(), ExportError> {
    run.needs_samples()?;
    let start = run.record.started.monotonic_ns;
    writeln!(out, "probe,cpu,copy,phase,due_ns,latency_ns,skipped")?;
    for series in &run.series {
        let phases: Vec<_> = run
            .phases(series.descriptor.cpu)
            .into_iter()
            .map(|(begin, end, name)| (begin, end, quoted(name)))
            .collect();
        let head = format!(
            "{},{},{}",
            quoted(&series.descriptor.probe),
            series.cpu_text(),
            series.copy_text()
        );
        series.samples(|sample| {
            let phase = phases
                .iter()
                .find(|&&(begin, end, _)| begin <= sample.due && sample.due < end)
                .map_or("", |phase| &phase.2);
            let due = sample.due.get().wrapping_sub(start.get());
            writeln!(
                out,
                "{head},{phase},{due},{},{}",
                sample.latency.get(),
                sample.skipped
            )
        })?;
    }
    Ok(())
}

fn counts(run: &ExportedRun, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(out, "probe,cpu,copy,latency_ns,count")?;
    for series in &run.series {
        let head = format!(
            "{},{},{}",
            quoted(&series.descriptor.probe),
            series.cpu_text(),
            series.copy_text()
        );
        let mut written = Ok(());
        series.histogram()?.for_each(|value, count| {
            if written.is_ok() {
                written = writeln!(out, "{head},{value},{count}");
            }
        });
        written?;
    }
    Ok(())
}
