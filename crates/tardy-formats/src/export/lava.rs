//! Writes the signals that LAVA reads from the console: a test set for the run, test cases for the
//! verdicts and for the accounting, and one for each metric.
//!
//! The output contains the signals themselves, so LAVA's helper `lava-test-case` is not needed
//! (source: LAVA's documentation). The test case of a maximum beyond the deadline fails; the test
//! cases of all other metrics pass.

use std::io::Write;

use tardy_core::verdict::Outcome;
use tardy_core::warning::Severity;

use super::metric::{metrics, name};
use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format lava`.
pub(super) struct Lava;

impl Exporter for Lava {
    fn name(&self) -> &'static str {
        "lava"
    }

    fn about(&self) -> &'static str {
        "signals on the console for LAVA: verdict, accounting, and each number with its unit"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let set = name(&format!("tardy-{}", run.record.plan.scenario));
        writeln!(out, "<LAVA_SIGNAL_TESTSET START {set}>")?;
        if let Some(verdict) = &run.summary.verdict {
            writeln!(
                out,
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=deadline RESULT={}>",
                result(verdict.outcome)
            )?;
        }
        for (probe, verdict) in run.summary.verdicts_of_probes() {
            writeln!(
                out,
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=deadline-{} RESULT={}>",
                name(probe),
                result(verdict.outcome)
            )?;
        }
        let incomplete = run
            .summary
            .warnings
            .iter()
            .any(|warning| warning.severity() == Severity::Incomplete);
        writeln!(
            out,
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=accounting RESULT={}>",
            if incomplete { "fail" } else { "pass" }
        )?;
        let latest = run
            .summary
            .verdict
            .as_ref()
            .and_then(|verdict| Some(verdict.window?.latest.get() as f64 / 1e3));
        for metric in metrics(run) {
            let is_late = metric.is_max && latest.is_some_and(|latest| metric.value > latest);
            let result = if is_late { "fail" } else { "pass" };
            let (name, value, unit) = (metric.name, metric.value, metric.unit);
            writeln!(
                out,
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={name} RESULT={result} MEASUREMENT={value} \
                 UNITS={unit}>"
            )?;
        }
        writeln!(out, "<LAVA_SIGNAL_TESTSET STOP>")?;
        Ok(())
    }
}

fn result(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "pass",
        Outcome::Failed => "fail",
        Outcome::Inconclusive => "unknown",
    }
}
