//! What the user asks for, and the scenario that is meant by it: flags go before the scenario's own
//! values. Pure but for reading a scenario's file.

use std::path::PathBuf;
use std::str::FromStr;

use tardy_core::cpu::{CpuList, ParseCpuListError};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_probes::probe::{self, ProbeSpec};
use tardy_run::keep::KeptSamples;
use tardy_run::plan::{FLAGS, Origin, PolicyName, UNTIL_STOPPED_LENGTH};
use tardy_run::system_clock::SystemClock;
use tardy_run::threshold::ThresholdAction;
use tardy_run::tracing::ExplainLevel;

use crate::scenario::{self, Order, PhaseRequest, ProbeRequest, Scenario, ScenarioError};

/// The idle phase before a load that was named: long enough to see what the machine does by itself,
/// never more than a third of the run.
const IDLE_MAX: Nanos = Nanos::from_secs(10);
/// Length of a run with `--load` and without `--for`.
const LENGTH: Nanos = Nanos::from_secs(30);

/// What the user asks for, not yet compared with the machine. A field that is absent was not asked
/// for: the scenario's value stands, or the usual one.
#[derive(Debug, Clone)]
pub struct Request {
    /// Built-in scenario or file to follow.
    pub scenario: Option<String>,
    /// How long to measure in all.
    pub length: Option<Nanos>,
    /// Cycles of each probe in every phase, in place of a length.
    pub cycles: Option<u64>,
    /// Whether it goes on until somebody stops it, in place of a length.
    pub until_stopped: bool,
    /// Whether it goes on with the run that is where it is to be.
    pub resume: bool,
    /// Probes; those of the scenario where there are none.
    pub probes: Vec<ProbeSpec>,
    /// A program whose loop is measured, with its arguments; none where it is empty.
    pub program: Vec<String>,
    /// Time between two wake-ups.
    pub period: Option<Nanos>,
    /// Scheduling policy of the probes.
    pub policy: Option<PolicyName>,
    /// Real-time priority of the probes.
    pub priority: Option<u32>,
    /// Widest random move of a due time.
    pub dither: Option<Nanos>,
    /// Clock of the probes' timers.
    pub clock: Option<SystemClock>,
    /// Clock on which due times are whole multiples of the period.
    pub align: Option<SystemClock>,
    /// Whether due times of all CPUs coincide.
    pub aligned: bool,
    pub cpus: Option<MeasuredCpus>,
    /// Loads, as for `--load`.
    pub loads: Vec<String>,
    pub load_cpus: Option<LoadCpus>,
    /// Loads of a built-in scenario that run although they can do harm.
    pub allow: Vec<String>,
    /// What the run is held to.
    pub requirement: Requirement,
    /// Samples to store.
    pub keep: KeptSamples,
    /// Bytes that the run's folder may take.
    pub disk: Option<u64>,
    /// Folder in memory to write to while measuring.
    pub spool: Option<PathBuf>,
    /// What to do about sleep states of all CPUs.
    pub cpu_dma_latency: CpuDmaLatency,
    /// The same for the measured CPUs alone, in us.
    pub resume_latency: Option<u32>,
    /// Control group for the measuring threads.
    pub probe_cgroup: Option<PathBuf>,
    /// Control group for the loads.
    pub load_cgroup: Option<PathBuf>,
    /// Whether interrupts are moved off the measured CPUs.
    pub move_irqs: bool,
    /// Seed of everything random; drawn where there is none.
    pub seed: Option<u64>,
    /// Latency at which the run stops.
    pub stop_above: Option<Nanos>,
    /// Whether the kernel's tracing stops there too.
    pub tracing_off: bool,
    /// What is done at `stop_above`, or at the deadline.
    pub on_threshold: Vec<ThresholdAction>,
    /// What of the kernel's trace is recorded to explain samples.
    pub explain: ExplainLevel,
    /// Whether all of it is kept.
    pub keep_trace: bool,
    /// Whether periods and priorities are accepted that the machine may not keep up with.
    pub force: bool,
}

/// What to do about sleep states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuDmaLatency {
    /// Nothing.
    Leave,
    /// Ask the power management for at most so many us.
    Micros(i32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasuredCpus {
    /// Those that are set apart by `isolcpus=` or `nohz_full=`.
    Isolated,
    /// Those that are not.
    Housekeeping,
    /// All that the kernel lets this process use.
    All,
    List(CpuList),
}

/// Where loads run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadCpus {
    /// The measured CPUs.
    Measured,
    /// Those that are not measured.
    Other,
    /// All that the kernel lets this process use, also those that it keeps ordinary tasks off.
    All,
    List(CpuList),
}

impl FromStr for MeasuredCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "isolated" => Self::Isolated,
            "housekeeping" => Self::Housekeeping,
            "all" => Self::All,
            list => Self::List(list.parse().map_err(|error: ParseCpuListError| {
                format!("{error}; or isolated, housekeeping, all")
            })?),
        })
    }
}

impl FromStr for LoadCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "measured" => Self::Measured,
            "other" => Self::Other,
            "all" => Self::All,
            list => {
                Self::List(list.parse().map_err(|error: ParseCpuListError| {
                    format!("{error}; or measured, other, all")
                })?)
            }
        })
    }
}

impl FromStr for CpuDmaLatency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "leave" {
            return Ok(Self::Leave);
        }
        let micros = text.parse::<i32>().ok().filter(|&micros| micros >= 0);
        micros.map(Self::Micros).ok_or_else(|| {
            format!("`{text}` is neither `leave` nor a number of microseconds: write 0, or leave")
        })
    }
}

impl Request {
    /// The latency that is acted on: that of `stop_above`, or with actions the deadline.
    #[must_use]
    pub fn threshold(&self) -> Option<Nanos> {
        let deadline = self
            .requirement
            .window
            .map(|window| window.latest)
            .filter(|_| !self.on_threshold.is_empty());
        self.stop_above.or(deadline)
    }

    /// The latency at which measuring threads stop.
    #[must_use]
    pub fn stops_above(&self) -> Option<Nanos> {
        self.threshold()
            .filter(|_| !self.on_threshold.contains(&ThresholdAction::Continue))
    }
}

/// What in `request` would have no effect, and why; nothing where all of it has one. Names of loads
/// are checked where they are planned.
#[must_use]
pub fn contradiction(request: &Request) -> Option<&'static str> {
    let is_ordinary = request.policy == Some(PolicyName::Other);
    match () {
        () if request.requirement.misses_allowed.is_some()
            && request.requirement.window.is_none() =>
        {
            Some("--misses is the share that may miss a deadline: give --deadline or --window too")
        }
        () if is_ordinary && request.priority.is_some() => {
            Some("--policy other has no priority: leave --priority out, or use fifo or rr")
        }
        () if request.loads.len() > 1 && request.loads.iter().any(|load| load == "none") => {
            Some("--load none is for no load at all: leave it out beside other loads")
        }
        () if !request.on_threshold.is_empty() && request.threshold().is_none() => Some(
            "--on-threshold acts on latencies above --stop-above or --deadline: give one of them \
             too",
        ),
        () => None,
    }
}

/// The scenario that `request` ask for.
///
/// # Errors
/// [`ScenarioError`] where a scenario is named that is not there, or not one.
pub fn scenario(request: &Request) -> Result<Scenario, ScenarioError> {
    let mut scenario = match &request.scenario {
        Some(name) => scenario::find(name)?,
        None => by_flags(request)?,
    };
    override_probes(&mut scenario, request);
    if request.cycles.is_some() {
        scenario
            .phases
            .iter_mut()
            .for_each(|phase| phase.cycles = request.cycles);
    }
    scenario.estimate_lengths();
    if let (Some(length), true) = (request.length, request.loads.is_empty()) {
        if scenario.counts_cycles() {
            return Err(ScenarioError::CountsCycles);
        }
        scenario = scenario.stretched_to(length);
    }
    Ok(scenario)
}

fn by_flags(request: &Request) -> Result<Scenario, ScenarioError> {
    if request.loads.is_empty() && request.cycles.is_none() && !request.until_stopped {
        return scenario::find("default");
    }
    let length = if request.until_stopped {
        UNTIL_STOPPED_LENGTH
    } else {
        request.length.unwrap_or(LENGTH)
    };
    let phases = if request.loads.is_empty() || request.loads == ["none"] {
        vec![idle(length)]
    } else {
        let before = IDLE_MAX.min(Nanos(length.get() / 3));
        let loads = request
            .loads
            .iter()
            .filter(|load| *load != "none")
            .cloned()
            .collect();
        vec![
            idle(before),
            PhaseRequest {
                name: request.loads.join("+"),
                length: length - before,
                cycles: None,
                loads,
            },
        ]
    };
    Ok(Scenario {
        name: FLAGS.into(),
        about: "from the command line".into(),
        origin: Origin::Flags,
        file: None,
        order: Order::Fixed,
        repeats: 1,
        warm_up: Nanos::ZERO,
        probes: vec![ProbeRequest::new(usual_probe())],
        phases,
    })
}

fn idle(length: Nanos) -> PhaseRequest {
    PhaseRequest {
        name: "idle".into(),
        length,
        cycles: None,
        loads: Vec::new(),
    }
}

/// What is measured with where nothing is named.
fn usual_probe() -> ProbeSpec {
    ProbeSpec::usual(probe::PROBES[0])
}

fn override_probes(scenario: &mut Scenario, request: &Request) {
    if !request.probes.is_empty() {
        let like = scenario
            .probes
            .first()
            .cloned()
            .unwrap_or_else(|| ProbeRequest::new(usual_probe()));
        scenario.probes = request
            .probes
            .iter()
            .map(|spec| like.with(spec.clone()))
            .collect();
    }
    if !request.program.is_empty() {
        let app = ProbeRequest::new(ProbeSpec::of_program(request.program.clone()));
        // With a program alone it is the one that is measured; scenarios and --probe name what is
        // measured beside it.
        if request.probes.is_empty() && request.scenario.is_none() {
            scenario.probes.clear();
        }
        scenario.probes.push(app);
    }
    for probe in &mut scenario.probes {
        probe.period = request.period.or(probe.period);
        probe.policy = request.policy.or(probe.policy);
        probe.priority = request.priority.or(probe.priority);
        probe.dither = request.dither.or(probe.dither);
        probe.clock = request.clock.or(probe.clock);
        probe.align = request.align.or(probe.align);
    }
}
