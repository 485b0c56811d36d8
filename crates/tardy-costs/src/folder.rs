//! Writes the run folder of a cost measurement in progress. The folder has a record, the series of
//! the metrics, and the rounds as phases.

use std::io;
use std::path::{Path, PathBuf};

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::checks;
use tardy_machine::clock::clock_kind;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_run::cost::{CostRecord, LeftOut, MetricRecord};
use tardy_run::folder::{FolderError, RunFolder};
use tardy_run::overhead::Overhead;
use tardy_run::plan::Plan;
use tardy_run::record::{PhaseRecord, RunKind, RunRecord, StartTime, State};
use tardy_sys::clock;
use tardy_sys::usage::{UsageScope, usage};

use super::series::TrialSeries;

/// Why a cost could not be measured at all.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A trial could not be stored.
    #[error("cannot write {path}: {error}: make room, or give another folder with --out")]
    Store {
        /// The run folder.
        path: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// A system call that every measurement needs has failed.
    #[error("cannot {doing}: {error}")]
    System {
        /// The operation that failed; for some operations, with a remedy.
        doing: &'static str,
        /// The error that the system returned.
        error: io::Error,
    },
    /// A CPU does not exist, or is not allowed.
    #[error("--cpu {cpu}: this CPU is not online or not allowed here: choose from {allowed}")]
    UnknownCpu {
        /// The requested CPU.
        cpu: CpuId,
        /// The allowed CPUs.
        allowed: CpuList,
    },
    /// The command to be timed cannot be run, or fails.
    #[error("{0}")]
    Command(String),
}

/// The run folder of a cost measurement in progress.
pub struct CostFolder {
    folder: RunFolder,
    record: RunRecord,
    cost: CostRecord,
    series: Vec<Option<TrialSeries>>,
    cpu_time: i64,
}

impl CostFolder {
    /// Makes the folder.
    ///
    /// # Errors
    /// Returns [`CostError::Folder`].
    pub fn create(out: &Path, cost: CostRecord, root: &Root) -> Result<Self, CostError> {
        let folder = RunFolder::create(out)?;
        let record = first_record(&cost, root);
        folder.update(&record)?;
        Ok(Self {
            folder,
            record,
            cost,
            series: Vec::new(),
            cpu_time: clock::process_cpu_time(),
        })
    }

    /// Adds a metric. Returns its index.
    ///
    /// # Errors
    /// Returns [`CostError::Store`].
    pub fn add(&mut self, mut metric: MetricRecord) -> Result<usize, CostError> {
        let (cpu, unit, length) = (self.cost.cpu, self.cost.unit, self.cost.trial_length_ns);
        let series = TrialSeries::create(
            &self.folder.samples(),
            &metric.name,
            cpu,
            unit,
            self.record.clock,
            length,
        );
        let series = series.map_err(|error| self.unwritable(error))?;
        metric.file = series.file_name();
        self.cost.metrics.push(metric);
        self.series.push(Some(series));
        Ok(self.series.len() - 1)
    }

    /// Returns the record of the metric with index `place`.
    #[must_use]
    pub fn metric(&mut self, place: usize) -> &mut MetricRecord {
        &mut self.cost.metrics[place]
    }

    /// Adds a trial of the metric with index `place`: its start, and the time of one operation in
    /// ps.
    pub fn push(&mut self, place: usize, begin: Nanos, picoseconds: i64) {
        let value = self.cost.unit.value(picoseconds);
        if let Some(series) = &mut self.series[place] {
            series.push(begin, value);
        }
    }

    /// Writes the trials of the metric with index `place`.
    ///
    /// # Errors
    /// Returns [`CostError::Store`].
    pub fn flush(&mut self, place: usize) -> Result<(), CostError> {
        let flushed = self.series[place]
            .as_mut()
            .map_or(Ok(()), |series| series.flush(false));
        flushed.map_err(|error| self.unwritable(error))
    }

    /// Records that a metric is not measured, with the reason. If the metric already has a series,
    /// removes this series.
    pub fn leave_out(&mut self, name: &str, reason: String) {
        if let Some(place) = self
            .cost
            .metrics
            .iter()
            .position(|metric| metric.name == name)
            && self.series[place].take().is_some()
        {
            let _ =
                std::fs::remove_file(self.folder.samples().join(&self.cost.metrics[place].file));
        }
        self.cost.left_out.push(LeftOut {
            name: name.to_owned(),
            reason,
        });
    }

    pub fn begin_round(&mut self, round: u32) {
        let now = Nanos(clock::monotonic());
        let name = format!("round {round}");
        self.record.phases.push(PhaseRecord {
            name,
            loads: Vec::new(),
            begin_ns: now,
            end_ns: None,
            planned_ns: (now, now),
            cpu_busy_ns: Default::default(),
        });
    }

    /// Adds a warning to the run.
    pub fn warn(&mut self, warning: Warning) {
        self.record.warnings.push(warning);
    }

    /// Ends the round, and updates the record.
    ///
    /// # Errors
    /// Returns [`CostError::Folder`].
    pub fn end_round(&mut self) -> Result<(), CostError> {
        let now = Nanos(clock::monotonic());
        if let Some(phase) = self.record.phases.last_mut() {
            phase.end_ns = Some(now);
            phase.planned_ns.1 = now;
        }
        self.update()
    }

    /// Updates the record, so that the results so far can be read even if the measurement fails
    /// later.
    ///
    /// # Errors
    /// Returns [`CostError::Folder`].
    pub fn update(&mut self) -> Result<(), CostError> {
        self.note(false);
        Ok(self.folder.update(&self.record)?)
    }

    /// Closes the folder after a trial has failed. Keeps the trials measured so far; removes the
    /// folder if there are none.
    ///
    /// # Errors
    /// Returns [`CostError::Folder`], [`CostError::Store`].
    pub fn give_up(mut self) -> Result<(), CostError> {
        if self
            .series
            .iter()
            .flatten()
            .any(|series| series.trials() > 0)
        {
            self.end_round()?;
            return self.finish(State::Interrupted).map(drop);
        }
        let path = self.folder.path().to_owned();
        drop(self);
        std::fs::remove_dir_all(&path).map_err(|error| CostError::Store { path, error })
    }

    /// Closes all series and the folder.
    ///
    /// # Errors
    /// Returns [`CostError::Folder`], [`CostError::Store`].
    pub fn finish(mut self, state: State) -> Result<RunRecord, CostError> {
        for series in self.series.iter_mut().flatten() {
            if let Err(error) = series.flush(true) {
                return Err(CostError::Store {
                    path: self.folder.path().to_owned(),
                    error,
                });
            }
        }
        self.note(true);
        self.record.state = state;
        self.record.ended_ns = Some(Nanos(clock::monotonic()));
        self.record.overhead = Some(Overhead {
            clock_read_ns: self.cost.clock_read_ns,
            threads: Vec::new(),
            process_cpu_time_ns: Nanos(clock::process_cpu_time() - self.cpu_time),
            resident_bytes_max: usage(UsageScope::Process)
                .map(|usage| usage.resident_bytes_max)
                .unwrap_or_default(),
        });
        self.folder.finish(&self.record)?;
        Ok(self.record)
    }

    fn note(&mut self, is_closed: bool) {
        let mut cost = self.cost.clone();
        // A metric that was removed keeps its index, but has no series.
        cost.metrics = cost
            .metrics
            .into_iter()
            .zip(&self.series)
            .filter(|(_, series)| series.is_some())
            .map(|(metric, _)| metric)
            .collect();
        self.record.series = self
            .series
            .iter()
            .flatten()
            .map(|series| series.record(is_closed))
            .collect();
        self.record.cost = Some(cost);
    }

    fn unwritable(&self, error: io::Error) -> CostError {
        CostError::Store {
            path: self.folder.path().to_owned(),
            error,
        }
    }
}

fn first_record(cost: &CostRecord, root: &Root) -> RunRecord {
    let clock = clock_kind(root);
    let measured: tardy_core::cpu::CpuList = cost.cpu.into_iter().collect();
    let machine = MachineFacts::read(root);
    let doctor = checks::stored(&machine, root, &measured);
    let started = StartTime {
        realtime_ns: Nanos(clock::realtime()),
        monotonic_ns: Nanos(clock::monotonic()),
    };
    // The plan has no probes; `cost` describes the planned work.
    let plan = Plan::without_probes("cost", &measured, &measured);
    RunRecord {
        clock,
        warnings: (clock == tardy_core::series::ClockKind::Virtual)
            .then_some(Warning::VirtualTime)
            .into_iter()
            .collect(),
        cost: Some(cost.clone()),
        doctor,
        ..RunRecord::begun(RunKind::Cost, plan, machine, started)
    }
}
