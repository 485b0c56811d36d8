//! After the threads have ended, closes the run's folder and restores everything.

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_loads::guardian::Guardian;
use tardy_machine::root::Root;
use tardy_probes::recording::series::SeriesRecorder;
use tardy_run::overhead::{Overhead, ThreadOverhead};
use tardy_run::record::{RunRecord, SeriesRecord, State};
use tardy_sys::clock;
use tardy_sys::usage::{UsageScope, usage};

use super::follow::StoppedRun;
use super::{SessionError, system, tracing};
use crate::measure::interference::Snapshot;
use crate::measure::scheduling_watch::SchedulingWatch;
use crate::measure::threads::MeasuringThread;
use crate::measure::watchdog::{Watchdog, WatchdogFindings};

pub(super) fn close(followed: StoppedRun, root: &Root) -> Result<RunRecord, SessionError> {
    let StoppedRun {
        armed,
        mut state,
        threshold,
    } = followed;
    let mut record = armed.record;
    if let Some(watchdog) = &armed.watchdog {
        watchdog.expect_end();
    }
    let after = Snapshot::take(root, &record.measured_cpus);
    let process_cpu_time_ns = Nanos(clock::process_cpu_time() - armed.process_cpu_time);
    let mut scheduling = armed.scheduling;
    let mut clocks = armed.clocks;
    let threads = join(armed.threads, &mut scheduling, &mut record.warnings)?;
    // This last check finds clock steps that happened after the previous check.
    clocks.update(Nanos(clock::monotonic()), &[]);
    record.warnings.extend(clocks.into_warnings());
    record.warnings.extend(armed.control.take_warnings());
    record.ended_ns = Some(Nanos(clock::monotonic()));
    let WatchdogFindings { ended, starved } =
        armed.watchdog.map(Watchdog::stop).unwrap_or_default();
    let before = std::mem::replace(&mut record.scheduling_changes, scheduling.into_changes());
    // The watchdog itself changed the scheduling of these threads, so this change needs no warning.
    record
        .scheduling_changes
        .retain(|change| !ended.contains(&change.cpu) && !starved.contains(&change.cpu));
    record.scheduling_changes.splice(..0, before);
    if !(ended.is_empty() && starved.is_empty()) {
        state = State::EndedByWatchdog;
    }
    record
        .warnings
        .extend(ended.into_iter().map(|cpu| Warning::WatchdogEnded { cpu }));
    record
        .warnings
        .extend(starved.into_iter().map(|cpu| Warning::Starved { cpu }));
    if let (Some(stopped), Some(limit)) = (armed.control.stopped_by(), record.plan.stop_above) {
        record.warnings.push(Warning::StoppedAbove {
            cpu: stopped.cpu,
            latency: stopped.sample.latency,
            limit,
        });
        state = State::Stopped;
    }
    // The keeper must end before the last histograms and the last record are written, so that none
    // of the keeper's files replaces them.
    armed.keeper.finish();
    drop(armed.metrics);
    let series = armed
        .recorder
        .finish()
        .map_err(system("the samples may be incomplete"))?;
    note_series(&series, record.started.monotonic_ns, &mut record);
    if let Some(earlier) = &armed.earlier {
        record.add_series_of(earlier);
    }
    if let Some(mut threshold) = threshold {
        // If the run continues after a latency above the threshold, the last samples may still
        // cause actions.
        if threshold.goes_on() {
            let worst = series
                .iter()
                .filter_map(|series| Some((series.descriptor().cpu, series.worst()?)));
            worst.for_each(|(cpu, worst)| threshold.look(cpu, worst.latency, worst.due));
        }
        record.warnings.extend(threshold.finish());
    }
    // The tracer ends after the recorder, because the recorder passes the last samples to the
    // tracer.
    if let Some(tracer) = armed.tracer {
        tracing::finish(tracer, &mut record);
    }
    // If the loads fail, the measured data are still stored.
    if let Some(Err(error)) = armed.guardian.map(Guardian::shutdown) {
        record.warnings.push(Warning::LoadProblem {
            load: "supervisor".to_owned(),
            problem: error.to_string(),
        });
    }
    if let Some(journal) = armed.settings.journal {
        for undone in journal.undo() {
            if let Err(error) = undone.result {
                record.warnings.push(Warning::Problem {
                    text: format!(
                        "{} was not restored ({error}): run `tardy restore`",
                        undone.setting
                    ),
                });
            }
        }
    }
    let interference = after.since(&armed.before, &record.measured_cpus);
    record.warnings.extend(interference.warnings());
    record.interference = Some(interference);
    let resident_bytes_max = usage(UsageScope::Process)
        .map(|usage| usage.resident_bytes_max)
        .unwrap_or_default();
    record.overhead = Some(Overhead {
        clock_read_ns: armed.clock_read,
        threads,
        process_cpu_time_ns,
        resident_bytes_max,
    });
    let mut folder = armed.folder;
    if !folder.identity().is_there() {
        return Err(SessionError::FolderGone(folder.path().to_owned()));
    }
    if let Some(spool) = armed.spool {
        record.samples_folder = None;
        if let Some(error) = spool
            .store()
            .into_iter()
            .find_map(|undone| undone.result.err())
        {
            return Err(system("cannot move the samples from --spool to --out")(
                std::io::Error::other(error),
            ));
        }
    }
    record.state = state;
    folder.finish(&record)?;
    Ok(record)
}

fn join(
    threads: Vec<MeasuringThread>,
    scheduling: &mut SchedulingWatch,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<ThreadOverhead>, SessionError> {
    let mut overheads = Vec::new();
    for thread in threads {
        let (cpu, name, began) = (thread.cpu, thread.name.clone(), thread.scheduling.clone());
        let report = thread.join().map_err(system("a measuring thread failed"))?;
        if let Some(error) = report.error {
            return Err(system("a probe failed")(error));
        }
        if let Some(ended) = report.scheduling {
            scheduling.note(Nanos(clock::monotonic()), &name, cpu, began.as_ref(), ended);
        }
        let Some(overhead) = report.overhead else {
            continue;
        };
        if overhead.faults > 0 {
            warnings.push(Warning::FaultsInLoop {
                cpu,
                faults: overhead.faults,
            });
        }
        overheads.push(overhead);
    }
    Ok(overheads)
}

/// Records the counts of the series, and the caveats that follow from them. Caveats that depend on
/// the samples are found later, when somebody reads the samples.
pub(in crate::measure) fn note_series(
    series: &[SeriesRecorder],
    start: Nanos,
    record: &mut RunRecord,
) {
    record.series.clear();
    for series in series {
        let (descriptor, counts) = (series.descriptor(), series.counts());
        let (probe, cpu) = (descriptor.probe.clone(), descriptor.cpu);
        if let Some(failure) = series.failure() {
            record.warnings.push(Warning::SamplesNotStored {
                probe: probe.clone(),
                cpu,
                samples: failure.samples,
                since_start: failure.since - start,
                error: failure.error.clone(),
            });
        }
        record.series.push(SeriesRecord {
            file: descriptor.file_name(),
            probe,
            cpu,
            counts: Some(counts),
            observed_ns: series.observed(),
            failure: series.failure().cloned(),
            elsewhere: series.elsewhere(),
        });
    }
}
