//! Starts and ends the recording of the kernel's trace. Failures of the recording never end the
//! run.

use std::path::Path;

use tardy_core::series::ClockKind;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_machine::tracefs::{self, Tracefs};
use tardy_machine::undo::Undo;
use tardy_run::plan::Plan;
use tardy_run::record::RunRecord;
use tardy_run::tracing::ExplainLevel;
use tardy_tracer::{FollowedLoop, FollowedSeries, NotTraced, Options, Tracer};

use tardy_probes::probe::{self, Cycles};
use tardy_probes::recording::series::PreparedSeries;

/// A recording that can be started, because tracefs is available.
pub(super) struct Recording {
    tracefs: Tracefs,
    instance: String,
}

/// Checks the requirements of recording, if the plan requests it. A missing requirement gives a
/// warning.
pub(super) fn prepare(plan: &Plan, root: &Root, warnings: &mut Vec<Warning>) -> Option<Recording> {
    if plan.explain == ExplainLevel::Off {
        return None;
    }
    match Tracefs::open(root) {
        Ok(tracefs) => Some(Recording {
            tracefs,
            instance: tracefs::instance_name(root),
        }),
        Err(error) => {
            warnings.push(not_explained(&NotTraced::NoTracefs(error)));
            None
        }
    }
}

impl Recording {
    /// Returns the change that removes the tracefs instance, for the journal of changes.
    pub(super) fn undo(&self) -> Undo {
        Undo::RemoveTraceInstance(self.instance.clone())
    }

    /// Starts to record.
    pub(super) fn start(
        self,
        record: &mut RunRecord,
        folder: &Path,
        root: &Root,
    ) -> Option<Tracer> {
        let has_loops = record.plan.probes.iter().any(|probe| {
            probe::find(probe.kind()).is_some_and(|info| info.cycles == Cycles::OfAProgram)
        });
        // A measured program may also use the tool's CPUs, so they are traced, too.
        let measured = record.plan.measured_cpus.iter();
        let cpus = measured
            .chain(record.plan.housekeeping_cpus.iter().filter(|_| has_loops))
            .collect();
        let options = Options {
            root,
            machine: &record.machine,
            is_virtual_time: record.clock == ClockKind::Virtual,
            folder,
            instance: &self.instance,
            cpus: &cpus,
            housekeeping_cpus: &record.plan.housekeeping_cpus,
            disk: record.plan.disk_of_explanations(),
            keep_all: record.plan.keep_trace,
            has_stacks: record.plan.explain == ExplainLevel::Stacks,
            has_timerlat: record.plan.explain == ExplainLevel::Timerlat,
            has_loops,
        };
        match Tracer::start(self.tracefs, &options) {
            Ok(tracer) => {
                let recording = tracer.record().clone();
                let calibration = recording.calibration;
                record.warnings.push(Warning::Traced {
                    level: recording.level,
                    events: recording.events.len() as u64,
                    absent: recording.absent.clone(),
                    is_leaving_idle_seen: calibration.out_of_idle > 0 || calibration.into_idle == 0,
                });
                if let Some(error) = &recording.no_stacks {
                    let text = format!(
                        "the kernel's stacks are not recorded, because its events do not support \
                         stack-trace triggers ({error})"
                    );
                    record.warnings.push(Warning::Problem { text });
                }
                if let Some(error) = &recording.no_second_opinion {
                    let text = format!(
                        "there is no second opinion by timerlat, because this kernel lacks the \
                         tracer (CONFIG_TIMERLAT_TRACER; {error})"
                    );
                    record.warnings.push(Warning::Problem { text });
                }
                record.tracing = Some(recording);
                Some(tracer)
            }
            Err(why) => {
                record.warnings.push(not_explained(&why));
                None
            }
        }
    }
}

fn not_explained(why: &NotTraced) -> Warning {
    Warning::NotExplained {
        reason: why.to_string(),
        remedy: why.remedy().to_owned(),
    }
}

/// Lets the tracer explain the samples of `series`, each given with the index of its probe
/// instance. `loops` are the threads of programs' loops, each with the index of its probe instance.
pub(super) fn follow<'a>(
    tracer: &Tracer,
    series: impl Iterator<Item = (&'a mut PreparedSeries, usize)>,
    loops: impl Iterator<Item = (usize, i32)>,
) -> std::io::Result<()> {
    let series: Vec<_> = series.collect();
    let followed = |(series, place): &(&mut PreparedSeries, usize)| {
        let descriptor = series.descriptor();
        FollowedSeries {
            file: descriptor.file_name(),
            probe: descriptor.probe.clone(),
            cpu: descriptor.cpu,
            place: *place,
        }
    };
    let followed: Vec<_> = series.iter().map(followed).collect();
    let loops = loops
        .map(|(place, thread)| FollowedLoop { place, thread })
        .collect();
    for ((series, _), tap) in series.into_iter().zip(tracer.follow(&followed, loops)?) {
        series.explain_by(tap);
    }
    Ok(())
}

/// Ends the recording, and adds its result to the record.
pub(super) fn finish(tracer: Tracer, record: &mut RunRecord) {
    match tracer.finish() {
        Ok(recording) => {
            let unknown = recording
                .series
                .iter()
                .map(|series| series.with_unknown + series.left_out)
                .sum();
            if unknown > 0 {
                record.warnings.push(Warning::ExplanationsLost {
                    samples: unknown,
                    lost_events: recording.lost_events,
                });
            }
            record.tracing = Some(recording);
        }
        Err(error) => {
            let remedy = "the samples are complete; please report this".to_owned();
            record.warnings.push(Warning::NotExplained {
                reason: error.to_string(),
                remedy,
            });
        }
    }
}
