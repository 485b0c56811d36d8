//! The run folder of a responder. It stores, for each stimulus, how late the responder woke up and
//! when it sent its answer.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::{Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_probes::link::Link;
use tardy_probes::link::answer_log::AnswerLog;
use tardy_probes::recording::ring::ring;
use tardy_probes::recording::series::SeriesRecorder;
use tardy_run::folder::RunFolder;
use tardy_run::keep::KeptSamples;
use tardy_run::parameter::{Value, Values};
use tardy_run::plan::{
    Origin, Plan, PolicyName, ProbePlan, RESPOND, ThreadEntry, ThreadPlan, WaitsFor,
};
use tardy_run::record::{PhaseRecord, RunRecord, State};
use tardy_run::system_clock::{ProbeClocks, ThreadClocks};
use tardy_sys::{affinity, clock};

use super::keeper::KeeperThread;
use super::recorder::Recorder;
use super::session::closing::note_series;
use super::session::{SessionError, first_record, system};

/// Capacity of a ring in samples, the same as for a probe.
const RING_SAMPLES: usize = 32_768;
/// Assumed time between two stimuli, which can come at any time. It is only used to predict due
/// times in the file.
const REQUEST: Nanos = Nanos::from_millis(1);

/// The request for a responder's run.
#[derive(Debug)]
pub struct ResponderRequest<'a> {
    pub link: &'a Link,
    /// The file with the secret of the link. Only the file's name is stored.
    pub secret: Option<&'a Path>,
    /// CPU to answer on.
    pub cpu: Option<CpuId>,
    /// Real-time priority; `None` for an ordinary task.
    pub priority: Option<u32>,
    /// Samples to store.
    pub keep: KeptSamples,
}

/// The responder's run in progress.
#[derive(Debug)]
pub struct RespondRun {
    folder: RunFolder,
    record: RunRecord,
    recorder: Recorder,
    keeper: KeeperThread,
}

impl RespondRun {
    /// Makes the folder, and the log that the responder writes. Must be called before memory is
    /// locked.
    ///
    /// # Errors
    /// Returns a [`SessionError`] if the run cannot be made or finished.
    pub fn start(
        out: &Path,
        asked: &ResponderRequest<'_>,
        root: &Root,
    ) -> Result<(Self, AnswerLog), SessionError> {
        let folder = RunFolder::create(out)?;
        let started = Self::start_in(folder, asked, root);
        started.inspect_err(|_| {
            // The folder was made just above, and has no samples yet.
            let _ = std::fs::remove_dir_all(out);
        })
    }

    fn start_in(
        folder: RunFolder,
        asked: &ResponderRequest<'_>,
        root: &Root,
    ) -> Result<(Self, AnswerLog), SessionError> {
        let mut record = first_record(plan(asked), root);
        let begin = record.started.monotonic_ns;
        record.phases.push(PhaseRecord {
            name: "answering".to_owned(),
            loads: Vec::new(),
            begin_ns: begin,
            end_ns: None,
            planned_ns: (begin, Nanos::MAX),
            cpu_busy_ns: BTreeMap::new(),
        });
        let series = |part: &str, quantity: &str, is_outside_verdict| {
            let schedule = Schedule::Event { request: REQUEST };
            let descriptor = Descriptor::latency(
                &format!("{RESPOND}{part}"),
                asked.cpu,
                record.clock,
                schedule,
            );
            let (producer, consumer) = ring(RING_SAMPLES);
            let descriptor = Descriptor {
                quantity: quantity.to_owned(),
                is_outside_verdict,
                ..descriptor
            };
            let recorder =
                SeriesRecorder::create(&folder.samples(), descriptor, consumer, asked.keep);
            recorder
                .map(|recorder| (producer, recorder))
                .map_err(system("cannot write the samples"))
        };
        let (wake_up, mut recorders) = if asked.link.place().has_stamps() {
            let (producer, recorder) = series("", "wake-up latency", false)?;
            (Some(producer), vec![recorder])
        } else {
            (None, Vec::new())
        };
        let since = if asked.link.place().has_stamps() {
            "time to the answer"
        } else {
            "time from the wake-up to the answer"
        };
        let (answer, recorder) = series(".answer", since, true)?;
        recorders.push(recorder);
        note_series(&recorders, begin, &mut record);
        // The counts of the series are not known yet.
        record
            .series
            .iter_mut()
            .for_each(|series| series.counts = None);
        folder.update(&record)?;
        let cpus = &record.plan.housekeeping_cpus;
        let keeper = KeeperThread::start(cpus, folder.identity().clone())
            .map_err(system("cannot start the thread that writes files"))?;
        let recorder = Recorder::start(
            recorders.iter().map(SeriesRecorder::path),
            false,
            cpus,
            keeper.keeper(),
            None,
            None,
        )
        .map_err(system("cannot start the recorder"))?;
        recorder.begin(recorders);
        Ok((
            Self {
                folder,
                record,
                recorder,
                keeper,
            },
            AnswerLog::new(wake_up, answer),
        ))
    }

    /// Closes the folder, once the responder has closed its log.
    ///
    /// # Errors
    /// Returns a [`SessionError`] if the run cannot be made or finished.
    pub fn finish(mut self, state: State, warnings: Vec<Warning>) -> Result<(), SessionError> {
        let end = Nanos(clock::monotonic());
        self.record.warnings.extend(warnings);
        self.record.ended_ns = Some(end);
        for phase in &mut self.record.phases {
            phase.end_ns = Some(end);
            phase.planned_ns.1 = end;
        }
        // The keeper must end before the last record is written, so that none of the keeper's files
        // replaces that record.
        self.keeper.finish();
        let series = self
            .recorder
            .finish()
            .map_err(system("the samples may be incomplete"))?;
        note_series(&series, self.record.started.monotonic_ns, &mut self.record);
        self.record.state = state;
        self.folder.finish(&self.record)?;
        Ok(())
    }
}

fn parameters(asked: &ResponderRequest<'_>) -> Values {
    let secret = asked
        .secret
        .map(|file| ("secret".to_owned(), Value::Path(file.to_owned())));
    std::iter::once(("link".to_owned(), Value::Text(asked.link.to_string())))
        .chain(secret)
        .collect()
}

fn plan(asked: &ResponderRequest<'_>) -> Plan {
    let allowed: CpuList = affinity::get(0)
        .unwrap_or_default()
        .into_iter()
        .map(CpuId)
        .collect();
    let measured: CpuList = asked.cpu.into_iter().collect();
    let others: CpuList = allowed
        .iter()
        .filter(|&cpu| Some(cpu) != asked.cpu)
        .collect();
    let probe = ProbePlan {
        name: RESPOND.to_owned(),
        kind: None,
        offset: None,
        cpus: None,
        clocks: ProbeClocks::default(),
        period: REQUEST,
        dither: Nanos::ZERO,
        policy: if asked.priority.is_some() {
            PolicyName::Fifo
        } else {
            PolicyName::Other
        },
        priority: asked.priority,
        waits_for: WaitsFor::Event,
        parameters: parameters(asked),
    };
    let schedule = Schedule::Event { request: REQUEST };
    let place = ThreadPlan {
        cpu: asked.cpu,
        copy: None,
        schedule,
        seed: 0,
        cycles: None,
        stop_above: None,
        clocks: ThreadClocks::default(),
    };
    let tool = if others.is_empty() { allowed } else { others };
    Plan {
        probes: vec![probe],
        threads: vec![ThreadEntry {
            probe: RESPOND.to_owned(),
            plan: place,
        }],
        keep: asked.keep,
        origin: Some(Origin::Responder),
        ..Plan::without_probes(RESPOND, &measured, &tool)
    }
}
