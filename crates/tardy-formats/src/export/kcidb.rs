//! Writes a report for KernelCI's database, schema 5.3. An object holds one number, so the verdict
//! and each number are separate test objects.

use std::io::Write;

use serde_json::{Value, json};
use tardy_core::verdict::{Outcome, Verdict};
use tardy_report::report::date::rfc_3339;

use super::metric::{metrics, name};
use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// Default of `--origin`.
const ORIGIN: &str = "tardy";

/// `--format kcidb`.
pub(super) struct Kcidb;

impl Exporter for Kcidb {
    fn name(&self) -> &'static str {
        "kcidb"
    }

    fn about(&self) -> &'static str {
        "a report for KernelCI's database (schema 5.3), with one test object per number; needs \
         --build-id"
    }

    fn write(
        &self,
        run: &ExportedRun,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let why = "each test must name its kernel build, as in --build-id origin:42";
        let build_id = options.build_id.as_deref().ok_or(ExportError::Needs {
            format: "kcidb",
            flag: "--build-id",
            why,
        })?;
        let origin = options.origin.as_deref().unwrap_or(ORIGIN);
        let start = run.record.started.realtime_ns;
        let id = format!(
            "{origin}:{}-{}",
            name(run.record.machine.host_name.as_deref().unwrap_or("host")),
            start.get()
        );
        let tests: Vec<Value> = verdicts(run)
            .chain(numbers(run))
            .enumerate()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(index, test)| {
                let mut object = json!({
                    "id": format!("{id}-{index}"),
                    "build_id": build_id,
                    "origin": origin,
                    "start_time": rfc_3339(start),
                    "duration": run.summary.measured_ns.as_secs_f64(),
                    "environment": {"comment": run.record.machine.one_line()},
                });
                if let (Some(object), Value::Object(test)) = (object.as_object_mut(), test) {
                    object.extend(test);
                }
                object
            })
            .collect();
        let document = json!({ "version": { "major": 5, "minor": 3 }, "tests": tests });
        serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(())
    }
}

/// Returns the verdict on the run, then, if the run has several probes, the verdict on each. An
/// inconclusive verdict is reported as a test that ran without a result.
fn verdicts(run: &ExportedRun) -> impl Iterator<Item = Value> + '_ {
    let object = move |what: &str, verdict: &Verdict| {
        let status = match verdict.outcome {
            Outcome::Passed => "PASS",
            Outcome::Failed => "FAIL",
            Outcome::Inconclusive => "DONE",
        };
        json!({"path": path(run, what), "status": status, "comment": verdict.sentence})
    };
    let of_run = run
        .summary
        .verdict
        .iter()
        .map(move |verdict| object("deadline", verdict));
    let of_probes = run.summary.verdicts_of_probes().into_iter();
    of_run.chain(of_probes.map(move |(probe, verdict)| {
        object(
            &format!("deadline-{}", name(probe).replace('.', "_")),
            verdict,
        )
    }))
}

fn numbers(run: &ExportedRun) -> impl Iterator<Item = Value> + '_ {
    metrics(run).into_iter().map(|metric| {
        let number = match metric.unit {
            "us" => json!({"value": (metric.value * 1e3).round() / 1e9, "unit": "s", "prefix": "metric"}),
            _ => json!({"value": metric.value, "unit": metric.unit}),
        };
        // KCIDB separates the levels of a path by dots.
        json!({"path": path(run, &metric.name.replace('.', "_")), "status": "DONE", "number": number})
    })
}

fn path(run: &ExportedRun, what: &str) -> String {
    format!(
        "tardy.{}.{what}",
        name(&run.record.plan.scenario).replace('.', "_")
    )
}
