//! Writes a run as JUnit XML. Its test cases state whether the deadline was met, whether every due
//! time is accounted for, and whether the set-up was as planned.

use std::io::Write;

use tardy_core::verdict::{Outcome as Judged, Verdict};
use tardy_core::warning::Severity;
use tardy_report::report::junit::{Case, Outcome, Suite, document};
use tardy_report::report::summary_text;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format junit`.
pub(super) struct Junit;

impl Exporter for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn about(&self) -> &'static str {
        "test results for continuous integration: deadline, accounting, set-up"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let judged = |verdict: &Verdict| match verdict.outcome {
            Judged::Passed => Outcome::Passed,
            Judged::Failed => Outcome::Failed(verdict.sentence.clone()),
            Judged::Inconclusive => Outcome::Skipped(verdict.sentence.clone()),
        };
        let none = || Outcome::Skipped("give --deadline for a verdict".to_owned());
        let deadline = run.summary.verdict.as_ref().map_or_else(none, judged);
        let text = summary_text::full(&run.summary, usize::MAX, |_, _| String::new());
        let lost = worded(run, Severity::Incomplete).map_or(Outcome::Passed, Outcome::Failed);
        let degraded = worded(run, Severity::Degraded).map_or(Outcome::Passed, Outcome::Skipped);
        let case = |name: &str, outcome, output: &str| Case {
            name: name.to_owned(),
            outcome,
            output: output.to_owned(),
        };
        let mut cases = vec![case("deadline", deadline, &text)];
        let of_probes = run.summary.verdicts_of_probes();
        cases.extend(
            of_probes
                .into_iter()
                .map(|(probe, verdict)| case(&format!("deadline of {probe}"), judged(verdict), "")),
        );
        cases.extend([case("accounting", lost, ""), case("set-up", degraded, "")]);
        out.write_all(
            document(
                "tardy",
                &[Suite {
                    name: run.summary.run.clone(),
                    cases,
                }],
            )
            .as_bytes(),
        )?;
        Ok(())
    }
}

fn worded(run: &ExportedRun, severity: Severity) -> Option<String> {
    let words: Vec<String> = run
        .summary
        .warnings
        .iter()
        .filter(|warning| warning.severity() == severity)
        .map(ToString::to_string)
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}
