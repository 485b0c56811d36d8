//! Checks that the runs of one side repeat the same measurement: probes, loads, CPUs, kernel and,
//! for imports, tool. If they do not, the side is refused, because the pooled samples of two
//! measurements describe neither of them.

use serde_json::json;
use tardy_run::record::{RunKind, RunRecord};
use tardy_run::tracing::TracingRecord;

use super::side::{CompareError, RunSide, Side};

/// The aspects of a measurement that must be equal in all runs of a side, each as a name and a
/// value. Messages describe the measurement with the text `words`.
struct Measurement {
    aspects: [(&'static str, String); 6],
    words: String,
}

impl Measurement {
    fn of(record: &RunRecord, with_kernel: bool) -> Self {
        let plan = &record.plan;
        let mut phases: Vec<&str> = record
            .phases
            .iter()
            .map(|phase| phase.name.as_str())
            .collect();
        // Phases may run in random order, so their order is ignored.
        phases.sort_unstable();
        phases.dedup();
        let kernel = if with_kernel {
            record.machine.one_line()
        } else {
            String::new()
        };
        let origin = if record.kind == RunKind::Imported {
            record.tool.name.as_str()
        } else {
            ""
        };
        let probes: Vec<String> = plan.probes.iter().map(ToString::to_string).collect();
        let shown = [
            probes.join(", "),
            phases.join("+"),
            kernel.clone(),
            origin.to_owned(),
        ];
        let shown: Vec<String> = shown.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            words: shortened(&shown.join("; ")),
            aspects: [
                ("the probes", json!(plan.probes).to_string()),
                ("the loads", phases.join(", ")),
                ("the CPUs", record.measured_cpus.to_string()),
                ("the kernel", kernel),
                (
                    "the kernel's command line",
                    if with_kernel {
                        command_line(record)
                    } else {
                        String::new()
                    },
                ),
                ("the origin", origin.to_owned()),
            ],
        }
    }
}

/// Returns the aspects that all runs of a side must share.
pub(super) fn aspects(record: &RunRecord) -> Vec<String> {
    Measurement::of(record, true)
        .aspects
        .into_iter()
        .map(|(_, value)| value)
        .collect()
}

/// Returns whether two runs repeat the same measurement, apart from the kernel.
pub(super) fn is_same_measurement(one: &RunRecord, other: &RunRecord) -> bool {
    one.clock == other.clock
        && Measurement::of(one, false).aspects == Measurement::of(other, false).aspects
}

/// Comparisons ignore words on the kernel's command line that start with this text. These words
/// differ between replicas in the lab, although the replicas repeat the same measurement.
const PAD_WORD: &str = "tardy.pad=";

fn command_line(record: &RunRecord) -> String {
    let text = record
        .machine
        .kernel
        .command_line
        .as_deref()
        .unwrap_or_default();
    text.split_whitespace()
        .filter(|word| !word.starts_with(PAD_WORD))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Maximum length of a run's description in a message, in characters.
const SHOWN: usize = 100;

fn shortened(text: &str) -> String {
    if text.chars().count() > SHOWN {
        text.chars().take(SHOWN).chain("...".chars()).collect()
    } else {
        text.to_owned()
    }
}

/// Refuses a side whose runs measured different things.
///
/// # Errors
/// Fails as [`all_alike`] does.
pub(super) fn one_measurement(side: &Side) -> Result<(), CompareError> {
    all_alike(&side.name, &side.runs, true)
}

/// Refuses runs that measured different things. Their kernels may differ, unless `with_kernel` is
/// set.
///
/// # Errors
/// Fails with [`CompareError::Mixed`] if the runs differ, or with [`CompareError::Stacks`] if a run
/// cannot be compared with any other run.
pub(super) fn all_alike(
    name: &str,
    runs: &[RunSide],
    with_kernel: bool,
) -> Result<(), CompareError> {
    let has_stacks = |run: &&RunSide| {
        run.record
            .tracing
            .as_ref()
            .is_some_and(TracingRecord::is_beyond_comparison)
    };
    if let Some(run) = runs.iter().find(has_stacks) {
        return Err(CompareError::Stacks(run.folder.clone()));
    }
    let mut runs = runs
        .iter()
        .map(|run| (run, Measurement::of(&run.record, with_kernel)));
    let Some((first, expected)) = runs.next() else {
        return Ok(());
    };
    for (run, found) in runs {
        let differs = expected
            .aspects
            .iter()
            .zip(&found.aspects)
            .find(|(one, other)| one.1 != other.1);
        if let Some(((aspect, _), _)) = differs {
            return Err(CompareError::Mixed {
                side: name.into(),
                aspect,
                one: first.folder.clone(),
                one_is: expected.words.into(),
                other: run.folder.clone(),
                other_is: found.words.into(),
            });
        }
    }
    Ok(())
}
