//! Writes all results of a run into one document: the summary, the machine, and the count of each
//! value.

use std::io::Write;

use serde_json::json;
use tardy_results::document::Format;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format json`.
pub(super) struct Json;

impl Exporter for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "summary, machine and the histogram of each series, as one JSON document"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let mut histograms = Vec::new();
        for series in &run.series {
            let histogram = series.histogram()?;
            let mut counts = Vec::new();
            histogram.for_each(|value, count| counts.push((value, count)));
            histograms.push(json!({
                "probe": series.descriptor.probe,
                "cpu": series.descriptor.cpu,
                "copy": series.descriptor.copy,
                "quantity": series.descriptor.quantity,
                "unit": series.descriptor.unit,
                "coarse": histogram.coarse(),
                "counts": counts,
            }));
        }
        let document = json!({
            "kind": run.record.kind,
            "tool": run.record.tool,
            "summary": run.summary,
            "machine": run.record.machine,
            "histograms": histograms,
        });
        writeln!(out, "{}", Format::EXPORT.line(&document))?;
        Ok(())
    }
}
