//! Measures metrics round by round, and stores the results in a run folder.
//!
//! Rounds are the run's phases, and each prepares every metric again. A metric's figure is the
//! minimum of the rounds' medians, because disturbances only add to a cost.

use std::path::Path;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_machine::clock::instruction_time;
use tardy_machine::idle::idle_time;
use tardy_machine::journal::Scratch;
use tardy_machine::root::Root;
use tardy_run::cost::{CostRecord, CostSet, CostUnit};
use tardy_run::record::{RunRecord, State};
use tardy_sys::affinity;
use tardy_sys::clock;
use tardy_sys::signal::{self, SignalFd};

use super::folder::{CostError, CostFolder};
use super::metric::{Metric, Place, Unavailable, Work};
use super::repetition::{calibrate, clock_read_cost, trial};

/// The requested measurement.
#[derive(Debug)]
pub struct CostRequest {
    /// The metrics, in the order of tables.
    pub metrics: Vec<&'static Metric>,
    /// Number of rounds. Each round prepares and measures every metric.
    pub rounds: u32,
    /// Number of trials of each metric in a round.
    pub trials: u32,
    pub trial_length: Nanos,
    /// CPU to measure on; by default the last CPU that this process may use.
    pub cpu: Option<CpuId>,
}

/// Measures the metrics, and reports each step to `progress`.
///
/// Must be called before the process starts threads, because metrics with two processes fork.
///
/// # Errors
/// Returns [`CostError`]. A metric that cannot be measured here is not an error, but is left out
/// with its reason.
pub fn run(
    request: &CostRequest,
    out: &Path,
    root: &Root,
    progress: &mut dyn FnMut(&str),
) -> Result<RunRecord, CostError> {
    let counted_in = unit(root);
    let (cpu, other_cpu) = bind(request.cpu)?;
    let signals = SignalFd::block(&[
        signal::INTERRUPT,
        signal::TERMINATE,
        signal::HANG_UP,
        signal::PIPE,
    ])
    .map_err(|error| CostError::System {
        doing: "wait for signals",
        error,
    })?;
    let cost = CostRecord {
        set: CostSet::Metrics,
        command: Vec::new(),
        cpu: Some(cpu),
        other_cpu,
        rounds: request.rounds,
        trials: request.trials,
        trial_length_ns: request.trial_length,
        clock_read_ns: clock_read_cost(),
        unit: counted_in,
        metrics: Vec::new(),
        left_out: Vec::new(),
    };
    let clock_read = cost.clock_read_ns;
    let folder = CostFolder::create(out, cost, root)?;
    let scratch =
        Scratch::make(&std::env::temp_dir(), "cost").map_err(|error| CostError::System {
            doing: "make a folder for files (set TMPDIR to one that is writable)",
            error,
        })?;
    let place = Place {
        cpu,
        other_cpu,
        scratch: scratch.path().to_owned(),
    };
    let mut session = Session {
        request,
        root,
        counted_in,
        place,
        signals,
        folder,
        clock_read,
        known: request.metrics.iter().map(|_| MetricState::New).collect(),
    };
    let mut state = State::Finished;
    for round in 1..=request.rounds {
        session.folder.begin_round(round);
        let is_interrupted = session.round(round, progress)?;
        session.folder.end_round()?;
        if is_interrupted {
            state = State::Interrupted;
            break;
        }
    }
    session.folder.finish(state)
}

/// Returns the unit of this machine's costs.
#[must_use]
pub fn unit(root: &Root) -> CostUnit {
    instruction_time(root).map_or(CostUnit::Time, |instruction_ns| CostUnit::Instructions {
        instruction_ns,
    })
}

/// The state of a metric in the rounds so far.
#[derive(Debug, Clone, Copy)]
enum MetricState {
    New,
    Measured { place: usize, operations: u64 },
    LeftOut,
}

struct Session<'a> {
    request: &'a CostRequest,
    root: &'a Root,
    counted_in: CostUnit,
    place: Place,
    signals: SignalFd,
    folder: CostFolder,
    clock_read: Nanos,
    known: Vec<MetricState>,
}

impl Session<'_> {
    /// Measures every metric once more. Returns true if a signal asks the tool to stop.
    fn round(&mut self, round: u32, progress: &mut dyn FnMut(&str)) -> Result<bool, CostError> {
        for index in 0..self.request.metrics.len() {
            let metric = self.request.metrics[index];
            if matches!(self.known[index], MetricState::LeftOut) {
                continue;
            }
            progress(&format!(
                "round {round} of {}: {} ({} of {})",
                self.request.rounds,
                metric.name,
                index + 1,
                self.known.len()
            ));
            match self.measure(metric, self.known[index]) {
                Ok(known) => self.known[index] = known,
                Err(Problem::Metric(unavailable)) => {
                    self.folder.leave_out(metric.name, unavailable.to_string());
                    self.known[index] = MetricState::LeftOut;
                }
                Err(Problem::Run(error)) => return Err(error),
            }
            if matches!(self.signals.take(), Ok(Some(signal)) if signal != signal::PIPE) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn measure(
        &mut self,
        metric: &'static Metric,
        known: MetricState,
    ) -> Result<MetricState, Problem> {
        let mut work = (metric.prepare)(&self.place)?;
        let (place, operations) = match known {
            MetricState::Measured { place, operations } => {
                // New resources are not in the caches yet. Without these additional operations, the
                // first trial would take longer than the others.
                work.run(operations.div_ceil(4))
                    .map_err(Unavailable::system("repeat its operation"))?;
                (place, operations)
            }
            _ => {
                let operations = calibrate(&mut *work, self.request.trial_length)
                    .map_err(Unavailable::system("repeat its operation"))?;
                let place = self.folder.add(metric.record()).map_err(Problem::Run)?;
                self.folder.metric(place).operations = operations;
                (place, operations)
            }
        };
        self.trials(&mut *work, place, operations)?;
        Ok(MetricState::Measured { place, operations })
    }

    fn trials(
        &mut self,
        work: &mut dyn Work,
        place: usize,
        operations: u64,
    ) -> Result<(), Problem> {
        let (idle, began) = (self.idle(), clock::monotonic());
        for _ in 0..self.request.trials {
            let begin = Nanos(clock::monotonic());
            let took = trial(work, operations, self.clock_read)
                .map_err(Unavailable::system("repeat its operation"))?;
            self.folder.push(place, begin, took);
        }
        if let (Some(before), Some(after)) = (idle, self.idle()) {
            let waiting = self.folder.metric(place).waiting.get_or_insert_default();
            waiting.idle_ns += after - before;
            waiting.of_ns += Nanos(clock::monotonic() - began);
        }
        self.folder.flush(place).map_err(Problem::Run)
    }

    /// Returns the idle time of an emulated CPU. On a real machine with other work and CPUs, idle
    /// time is unrelated to a metric and is not read.
    fn idle(&self) -> Option<Nanos> {
        matches!(self.counted_in, CostUnit::Instructions { .. }).then(|| idle_time(self.root))?
    }
}

/// The failure of a single metric, or of the run.
enum Problem {
    Metric(Unavailable),
    Run(CostError),
}

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        Self::Metric(unavailable)
    }
}

/// Binds this process, and all processes that it will start, to one CPU. Returns this CPU and
/// another one.
fn bind(asked: Option<CpuId>) -> Result<(CpuId, Option<CpuId>), CostError> {
    let refused = |error| CostError::System {
        doing: "bind to the CPU (choose another one with --cpu)",
        error,
    };
    let allowed = affinity::get(0).map_err(refused)?;
    // The affinity mask that the shell passes on lacks isolated CPUs, but the user may request an
    // isolated CPU.
    let usable = affinity::obtainable().map_err(refused)?;
    if let Some(cpu) = asked.filter(|cpu| !usable.contains(&cpu.0)) {
        let allowed = usable.into_iter().map(CpuId).collect();
        return Err(CostError::UnknownCpu { cpu, allowed });
    }
    // The last CPU is the default, because the first one serves most interrupts.
    let cpu = asked
        .or_else(|| allowed.last().copied().map(CpuId))
        .ok_or_else(|| refused(std::io::Error::other("the affinity mask is empty")))?;
    affinity::set(0, &[cpu.0]).map_err(refused)?;
    Ok((
        cpu,
        allowed
            .into_iter()
            .rev()
            .map(CpuId)
            .find(|other| *other != cpu),
    ))
}
