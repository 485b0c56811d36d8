//! Explains late samples of a watched guest from its plugin trace. The explanation uses the same
//! model and terms as for traced runs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_outside::late::{LateSample, late_samples};
use tardy_outside::store;
use tardy_run::folder;
use tardy_run::record::RunRecord;
use tardy_run::tracing::ExplainedSeries;
use tardy_samples::delays::DelayHolder;
use tardy_samples::read_series::SeriesFile;
use tardy_trace::explain::{Facts, Preemption};
use tardy_trace::merge::Item;
use tardy_trace::perfetto::Writer;

use super::executed::{ExecutedCode, OutsideFacts};
use super::run::{Reading, RunError, RunExplanation, RunQuestion, thread_name};
use super::threshold::{Late, Threshold};

/// Maximum number of sections and functions that are listed for a sample.
const SECTIONS_MAX: usize = 8;
const FUNCTIONS_MAX: usize = 200;

/// Returns the facts that a watched run stored for explanations; `None` if it stored none.
pub(super) fn facts_of(run: &Path) -> Result<Option<OutsideFacts>, RunError> {
    let unreadable = |error: store::StoreError| RunError::Outside(error);
    let watched = store::read(run)
        .map_err(unreadable)?
        .filter(|watched| watched.windows > 0);
    Ok(watched.map(|watched| OutsideFacts {
        windows: watched.windows,
        left_out: watched.left_out_windows,
        of_nobody: 0,
        instruction_ns: watched.instruction_ns,
    }))
}

/// Returns those facts about the guest that help to decide between possible causes.
pub(crate) fn facts(record: &RunRecord) -> Facts {
    let preemption = record
        .machine
        .kernel
        .preemption
        .as_ref()
        .and_then(|found| found.is_full());
    let preemption = preemption.map(|is_full| {
        if is_full {
            Preemption::Full
        } else {
            Preemption::No
        }
    });
    // In virtual time, the host cannot take time from the guest.
    Facts {
        preemption,
        is_guest: Some(false),
        ..Facts::default()
    }
}

/// Explains the late samples of a watched run.
pub(super) fn explain_outside(
    folder: &Path,
    question: RunQuestion,
    mut outside: OutsideFacts,
) -> Result<RunExplanation, RunError> {
    let record = folder::open(folder)?;
    let mut reading = Reading::new(
        &record,
        match question.late {
            Late::Above(above) => Threshold::asked(above),
            Late::Worst => Threshold::KEPT,
        },
        question.worst,
    );
    let mut series: BTreeMap<String, ExplainedSeries> = BTreeMap::new();
    for of_run in &record.series {
        let explained = ExplainedSeries {
            file: of_run.file.clone(),
            probe: of_run.probe.clone(),
            cpu: of_run.cpu,
            samples: 0,
            explained: 0,
            with_unknown: 0,
            left_out: 0,
            given_way: 0,
            bytes: 0,
        };
        series
            .entry(thread_name(&explained).to_string())
            .or_insert(explained);
    }
    let mut latencies: BTreeMap<String, Vec<(Nanos, u64)>> = BTreeMap::new();
    late_samples(folder, facts(&record), |sample| {
        match series.get(&sample.thread) {
            None => outside.of_nobody += 1,
            Some(series) => {
                latencies
                    .entry(series.file.clone())
                    .or_default()
                    .push((sample.due(), sample.delay.samples[0].sum()));
                take(&mut reading, series, sample);
            }
        }
    })
    .map_err(RunError::Outside)?;
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| folder.join("samples"));
    for (file, expected) in latencies {
        let series = SeriesFile::open(&samples.join(&file))?;
        let schedule = series.descriptor().schedule;
        let expected: BTreeMap<Nanos, u64> = expected.into_iter().collect();
        series.read(&mut |stored| {
            for (_, sample) in stored.samples(&schedule) {
                if let Some(&latency) = expected.get(&sample.due) {
                    reading.compare(latency, sample.latency);
                }
            }
        })?;
    }
    Ok(reading.finish(None, Some(outside)))
}

fn take(reading: &mut Reading<'_>, series: &ExplainedSeries, sample: LateSample) {
    let LateSample {
        delay,
        sections,
        functions,
        stacks,
        ..
    } = sample;
    let places = reading.places(&delay);
    let told = reading.sample(series, &delay.samples[0], &delay, &places);
    if !told.is_ranked {
        return;
    }
    for stack in stacks {
        let holder = DelayHolder {
            stack: stack.functions,
            ended: Vec::new(),
            ..delay.holders[stack.holder].clone()
        };
        reading.stack(&holder, stack.ns);
    }
    if let Some(story) = told.story {
        let mut executed = ExecutedCode {
            sections,
            functions,
        };
        executed.sections.truncate(SECTIONS_MAX);
        executed.functions.truncate(FUNCTIONS_MAX);
        reading.worst[story].executed = Some(executed);
    }
}

/// Writes a trace for Perfetto. The trace shows the code that was executed before the late samples
/// of the watched run in `folder`.
pub(super) fn perfetto_outside(folder: &Path, out: &mut dyn io::Write) -> Result<(), RunError> {
    let record = folder::open(folder)?;
    let mut samples = Vec::new();
    late_samples(folder, facts(&record), |sample| {
        samples.push((sample.due(), sample.events))
    })
    .map_err(RunError::Outside)?;
    samples.sort_by_key(|&(due, _)| due);
    let mut writer = Writer::new(out, true);
    // The stored events of samples may overlap, so events that were already written are skipped.
    let mut reached = 0;
    for (_, events) in samples {
        let begin = reached;
        for event in events.into_iter().filter(|event| event.time >= begin) {
            reached = event.time;
            writer.item(&Item::Event(event))?;
        }
    }
    writer.finish()?;
    Ok(())
}
