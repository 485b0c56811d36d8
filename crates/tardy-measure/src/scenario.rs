//! Scenarios: the probes, phases and lengths of a run. A scenario is a TOML file. Built-in
//! scenarios are part of the binary, and have the same form.
//!
//! ```toml
//! name = "mine"
//! about = "what it is for"
//! order = "shuffled"          # or "fixed"
//! repeats = 3                 # how often all phases run
//! warm_up = "500ms"           # probes run, but their samples belong to no phase
//!
//! [[probe]]
//! name = "cyclic"             # or with more values, as for --probe: "usleep:period=200us"
//! period = "100us"
//! policy = "fifo"             # or "rr", "other"
//! priority = 95
//! clock = "tai"               # the clock of its timer; "monotonic" if absent
//! align = "tai"               # due times are whole multiples of the period on this clock
//!
//! [[phase]]
//! name = "memory"
//! length = "4s"               # or in cycles of each probe: cycles = 50_000
//! loads = ["memory:size=128MiB"]
//! ```
//! Values are checked while they are read, so that an error names its line and key.

pub mod built_in;
pub mod order;
mod values;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_run::nearest::did_you_mean;
use tardy_run::plan::{Origin, PolicyName, ProbePlan};
use tardy_run::system_clock::{ProbeClocks, SystemClock};
use tardy_sys::regular_file;

use tardy_probes::probe::request::PRIORITY;
use tardy_probes::probe::{ProbeInfo, ProbeSpec};

/// Maximum size of a file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of phases of a run, including repeats.
pub const PHASES_MAX: usize = 10_000;

/// The probes of a run and its phases with their loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario in reports.
    pub name: String,
    /// Purpose and source of the scenario.
    #[serde(default)]
    pub about: String,
    /// Where the scenario comes from.
    #[serde(skip, default = "built_in_origin")]
    pub origin: Origin,
    /// Path of the scenario's file; absent for built-in scenarios, and those made from flags.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// The order of the phases.
    #[serde(default)]
    pub order: Order,
    /// How often the whole sequence of phases runs.
    #[serde(default = "one", deserialize_with = "values::repeats")]
    pub repeats: u32,
    /// How long probes run before the first phase.
    #[serde(default, with = "values::duration")]
    pub warm_up: Nanos,
    /// The probes, which all run at the same time.
    #[serde(rename = "probe")]
    pub probes: Vec<ProbeRequest>,
    /// The phases, which run one after another.
    #[serde(rename = "phase")]
    pub phases: Vec<PhaseRequest>,
}

/// The order of phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The order in which the phases are written.
    #[default]
    Fixed,
    /// In each repeat, a random order from the run's seed, so that the effect of a load can be
    /// distinguished from the effect of its position.
    Shuffled,
}

/// A probe as requested by a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// The key `name`: the probe's name, which can be followed by values, as for `--probe`. These
    /// values override the keys of this table and the flags.
    #[serde(rename = "name", with = "values::probe")]
    pub spec: ProbeSpec,
    /// Time between two wake-ups, or requested sleep time; by default the probe's own.
    #[serde(
        default,
        with = "values::positive_duration_if_given",
        skip_serializing_if = "Option::is_none"
    )]
    pub period: Option<Nanos>,
    /// Scheduling policy; absent for the probe's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// Real-time priority; by default 95.
    #[serde(
        default,
        deserialize_with = "values::priority",
        skip_serializing_if = "Option::is_none"
    )]
    pub priority: Option<u32>,
    /// Maximum random shift of a due time; by default none.
    #[serde(
        default,
        with = "values::duration_if_given",
        skip_serializing_if = "Option::is_none"
    )]
    pub dither: Option<Nanos>,
    /// Clock of the probe's timer; by default CLOCK_MONOTONIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<SystemClock>,
    /// Clock on which due times are whole multiples of the period; if absent, due times are
    /// relative to the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<SystemClock>,
}

/// A phase as requested by a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRequest {
    /// Name of the phase. Several phases can have the same name; they are then repetitions of one
    /// phase.
    pub name: String,
    /// Length of the phase. If the phase is counted in cycles, this length is an estimate.
    #[serde(
        default,
        with = "values::positive_duration",
        skip_serializing_if = "is_zero"
    )]
    pub length: Nanos,
    /// Number of cycles of each probe, instead of a length.
    #[serde(
        default,
        deserialize_with = "values::cycles",
        skip_serializing_if = "Option::is_none"
    )]
    pub cycles: Option<u64>,
    /// Loads of the phase, as for `--load`.
    #[serde(default, deserialize_with = "values::loads")]
    pub loads: Vec<String>,
}

impl ProbeRequest {
    /// Returns a request for `spec` with the default values.
    #[must_use]
    pub fn new(spec: ProbeSpec) -> Self {
        Self {
            spec,
            period: None,
            policy: None,
            priority: None,
            dither: None,
            clock: None,
            align: None,
        }
    }

    /// Returns a copy of this request for the probe `spec`. Leaves out the policy if the probe has
    /// no real-time policy.
    #[must_use]
    pub fn with(&self, spec: ProbeSpec) -> Self {
        let is_ordinary = spec.info.policy == PolicyName::Other;
        Self {
            spec,
            policy: self.policy.filter(|_| !is_ordinary),
            ..self.clone()
        }
    }

    /// Returns the description of the probe, and its plan.
    #[must_use]
    pub fn plan(&self) -> (&'static ProbeInfo, ProbePlan) {
        let asked = &self.spec;
        let policy = asked.policy().or(self.policy).unwrap_or(asked.info.policy);
        let priority = asked.priority().or(self.priority).unwrap_or(PRIORITY);
        let parameters = asked.parameters();
        let plan = ProbePlan {
            name: asked.name().unwrap_or(asked.info.name).to_owned(),
            kind: asked
                .name()
                .filter(|name| *name != asked.info.name)
                .map(|_| asked.info.name.to_owned()),
            offset: asked.duration("offset"),
            cpus: asked.cpus(),
            clocks: ProbeClocks {
                timer: asked.clock("clock").or(self.clock).unwrap_or_default(),
                align: asked.clock("align").or(self.align),
            },
            period: (asked.info.period_of)(&parameters)
                .or(asked.duration("period"))
                .or(self.period)
                .unwrap_or(asked.info.period),
            dither: asked.duration("dither").or(self.dither).unwrap_or_default(),
            policy,
            waits_for: asked.info.waits_for,
            priority: (policy != PolicyName::Other).then_some(priority),
            parameters,
        };
        (asked.info, plan)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(length: &Nanos) -> bool {
    *length == Nanos::ZERO
}

fn one() -> u32 {
    1
}

/// Returns the origin of a scenario that was parsed from text. For a file, [`read`] replaces this
/// origin.
fn built_in_origin() -> Origin {
    Origin::BuiltIn
}

/// Why a scenario cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The name is neither that of a built-in scenario nor of a file.
    #[error(
        "there is no scenario `{name}`, and no file of that name{}: `tardy scenarios` lists the \
         built-in ones",
        did_you_mean(name, built_in::names())
    )]
    Unknown {
        /// The name that the user gave.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        path: PathBuf,
        /// The error that the system reported.
        error: std::io::Error,
    },
    /// A length is given, but the scenario's phases are counted in cycles.
    #[error(
        "the scenario counts its phases in cycles, so their length cannot be set: leave --for out, \
         or give --cycles"
    )]
    CountsCycles,
    /// The file is not a scenario.
    #[error("{path}: {error}")]
    Malformed {
        path: PathBuf,
        /// The parse error, with line and key.
        error: ParseError,
    },
}

/// An error in the text of a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not TOML, or has an unknown key or a wrong value.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// The scenario has no probe.
    #[error("the scenario has no [[probe]]: add one, as in name = \"cyclic\"")]
    NoProbe,
    /// The scenario has no phase.
    #[error("the scenario has no [[phase]]: add one, with a name and a length")]
    NoPhase,
    /// A phase has both a length and a number of cycles, or neither of them.
    #[error(
        "the phase `{0}` needs either a length or cycles: write one of them, as in length = \"4s\""
    )]
    PhaseWithoutEnd(String),
    /// The run would have too many phases.
    #[error("{0} phases are too many: use at most {PHASES_MAX}, repeats included")]
    TooManyPhases(usize),
}

/// Parses the text of a scenario.
///
/// # Errors
/// Returns a [`ParseError`] with the line and the key if the text is not a valid scenario.
pub fn parse(text: &str) -> Result<Scenario, ParseError> {
    let mut scenario: Scenario = toml::from_str(text)?;
    if let Some(phase) = scenario
        .phases
        .iter()
        .find(|phase| (phase.length > Nanos::ZERO) == phase.cycles.is_some())
    {
        return Err(ParseError::PhaseWithoutEnd(phase.name.clone()));
    }
    scenario.estimate_lengths();
    let phases = scenario
        .phases
        .len()
        .saturating_mul(scenario.repeats as usize);
    match () {
        () if scenario.probes.is_empty() => Err(ParseError::NoProbe),
        () if scenario.phases.is_empty() => Err(ParseError::NoPhase),
        () if phases > PHASES_MAX => Err(ParseError::TooManyPhases(phases)),
        () => Ok(scenario),
    }
}

/// Returns the scenario as text; [`parse`] makes the same scenario from this text.
#[must_use]
pub fn to_text(scenario: &Scenario) -> String {
    let mut scenario = scenario.clone();
    scenario
        .phases
        .iter_mut()
        .filter(|phase| phase.cycles.is_some())
        .for_each(|phase| phase.length = Nanos::ZERO);
    toml::to_string(&scenario).expect("a scenario has text keys and values that TOML knows")
}

/// Returns the built-in scenario with this name, or reads the scenario from the file with this
/// name.
///
/// # Errors
/// Returns a [`ScenarioError`] if the scenario cannot be read.
pub fn find(name_or_file: &str) -> Result<Scenario, ScenarioError> {
    match built_in::find(name_or_file) {
        Some(built_in) => Ok(built_in.scenario()),
        None if Path::new(name_or_file).exists() => read(Path::new(name_or_file)),
        None => Err(ScenarioError::Unknown {
            name: name_or_file.to_owned(),
        }),
    }
}

/// Reads the scenario in `path`.
///
/// # Errors
/// Returns a [`ScenarioError`] if the scenario cannot be read.
pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
    let unreadable = |error| ScenarioError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let text = regular_file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
    let text = String::from_utf8(text)
        .map_err(|error| unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))?;
    let scenario = parse(&text).map_err(|error| ScenarioError::Malformed {
        path: path.to_owned(),
        error,
    })?;
    Ok(Scenario {
        origin: Origin::File,
        file: Some(path.to_owned()),
        ..scenario
    })
}

impl Scenario {
    /// Returns the length of all phases, including repeats and warm-up, without the time that loads
    /// take to stop.
    #[must_use]
    pub fn length(&self) -> Nanos {
        let once = self
            .phases
            .iter()
            .fold(Nanos::ZERO, |sum, phase| sum.saturating_add(phase.length));
        Nanos(once.get().saturating_mul(i64::from(self.repeats))).saturating_add(self.warm_up)
    }

    /// Returns whether a phase of the scenario is counted in cycles.
    #[must_use]
    pub fn counts_cycles(&self) -> bool {
        self.phases.iter().any(|phase| phase.cycles.is_some())
    }

    /// Returns the number of cycles after which each probe ends by itself, if the scenario has a
    /// single phase without repeats, no load and no warm-up; otherwise `None`. Such probes may end
    /// at different times.
    #[must_use]
    pub fn only_cycles(&self) -> Option<u64> {
        match self.phases.as_slice() {
            [only] if self.repeats == 1 && only.loads.is_empty() && self.warm_up == Nanos::ZERO => {
                only.cycles
            }
            _ => None,
        }
    }

    /// Estimates the length of phases that are counted in cycles: as many periods of the slowest
    /// probe as the phase has cycles.
    pub fn estimate_lengths(&mut self) {
        let cycles = self
            .probes
            .iter()
            .map(ProbeRequest::plan)
            .map(|(info, plan)| info.cycle(plan.period));
        let longest = cycles.max().unwrap_or_default();
        for phase in &mut self.phases {
            if let Some(cycles) = phase.cycles {
                phase.length = Nanos(
                    longest
                        .get()
                        .saturating_mul(i64::try_from(cycles).unwrap_or(i64::MAX)),
                );
            }
        }
    }

    /// Returns the scenario with all phases scaled by the same factor, so that the whole scenario
    /// has the length `length`.
    #[must_use]
    pub fn stretched_to(mut self, length: Nanos) -> Self {
        let phases = (self.length() - self.warm_up).get().max(1);
        let wanted = (length - self.warm_up).get().max(1);
        for phase in &mut self.phases {
            phase.length = Nanos(
                (i128::from(phase.length.get()) * i128::from(wanted) / i128::from(phases)).max(1)
                    as i64,
            );
        }
        // Adds the rounding error to the last phase, so that the run has the requested length to
        // the ns.
        let rest = (length - self.length()).get().max(0) / i64::from(self.repeats.max(1));
        if let Some(last) = self.phases.last_mut() {
            last.length += Nanos(rest);
        }
        self
    }
}

#[cfg(test)]
mod tests;
