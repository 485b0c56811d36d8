//! Makes the scenario that a request describes. Flags override the scenario's own values. Except
//! for reading a scenario's file, this module does not depend on the machine.
//!
//! Flags and TOML are parsed only once, into the same types. The text of a probe is kept only for
//! messages, and a program's arguments stay separate words until `execve`.

use tardy_core::units::Nanos;
use tardy_probes::probe::request::ProbeRequestError;
use tardy_probes::probe::{self, ProbeSpec};
use tardy_run::plan::{FLAGS, Origin, PolicyName, UNTIL_STOPPED_LENGTH};
use tardy_run::request::Request;

use crate::scenario::{self, Order, PhaseRequest, ProbeRequest, Scenario, ScenarioError};

/// Maximum length of the idle phase before a named load: long enough to show the machine's own
/// activity. The idle phase is never more than a third of the run.
const IDLE_MAX: Nanos = Nanos::from_secs(10);
/// Default length of a run with `--load`.
const LENGTH: Nanos = Nanos::from_secs(30);

/// Returns why a part of `request` would have no effect; `None` if every part has an effect. Names
/// of loads are checked later, when the loads are planned.
#[must_use]
pub fn contradiction(request: &Request) -> Option<&'static str> {
    let is_ordinary = request.policy == Some(PolicyName::Other);
    match () {
        () if request.misses.is_some() && request.requirement().window.is_none() => {
            Some("--misses is the share that may miss a deadline: give --deadline or --window too")
        }
        () if is_ordinary && request.priority.is_some() => {
            Some("--policy other has no priority: leave --priority out, or use fifo or rr")
        }
        () if request.loads.len() > 1 && request.loads.iter().any(|load| load == "none") => {
            Some("--load none means no load at all: do not combine it with other loads")
        }
        () if !request.on_threshold.is_empty() && request.threshold().is_none() => Some(
            "--on-threshold acts on latencies above --stop-above or --deadline: give one of them \
             too",
        ),
        () => None,
    }
}

/// Why no scenario can be made from a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The scenario does not exist, or its file is not a scenario.
    #[error("--scenario: {0}")]
    Scenario(#[from] ScenarioError),
    /// A value of `--probe` is not a valid request for a probe.
    #[error("--probe {asked}: {error}")]
    Probe {
        asked: String,
        error: Box<ProbeRequestError>,
    },
}

/// Returns the scenario of `request`.
///
/// # Errors
/// Returns a [`RequestError`] if no scenario can be made from the request.
pub fn scenario(request: &Request) -> Result<Scenario, RequestError> {
    let mut scenario = match &request.scenario {
        Some(name) => scenario::find(name)?,
        None => by_flags(request)?,
    };
    override_probes(&mut scenario, request)?;
    if request.cycles.is_some() {
        scenario
            .phases
            .iter_mut()
            .for_each(|phase| phase.cycles = request.cycles);
    }
    scenario.estimate_lengths();
    if let (Some(length), true) = (request.length, request.loads.is_empty()) {
        if scenario.counts_cycles() {
            return Err(ScenarioError::CountsCycles.into());
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

/// Returns the default probe.
fn usual_probe() -> ProbeSpec {
    ProbeSpec::usual(probe::PROBES[0])
}

fn override_probes(scenario: &mut Scenario, request: &Request) -> Result<(), RequestError> {
    if !request.probes.is_empty() {
        let like = scenario
            .probes
            .first()
            .cloned()
            .unwrap_or_else(|| ProbeRequest::new(usual_probe()));
        let probe = |text: &String| {
            let spec = ProbeSpec::parse(text).map_err(|error| RequestError::Probe {
                asked: text.clone(),
                error: Box::new(error),
            })?;
            Ok::<_, RequestError>(like.with(spec))
        };
        scenario.probes = request.probes.iter().map(probe).collect::<Result<_, _>>()?;
    }
    if !request.program.is_empty() {
        let app = ProbeRequest::new(ProbeSpec::of_program(request.program.clone()));
        // A program is measured alone, unless a scenario or `--probe` adds other probes.
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
    Ok(())
}
