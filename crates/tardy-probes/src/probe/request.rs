//! A user's request for a probe: `cyclic`, `usleep:period=100us`, `cyclic:priority=80`.

use std::collections::BTreeMap;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_run::nearest::did_you_mean;
use tardy_run::parameter::{self, Kind, Parameter, ParameterError, Value, ValueError, Values};
use tardy_run::plan::PolicyName;
use tardy_run::system_clock::SystemClock;

use super::{PROBES, ProbeInfo, app, find};

/// Default real-time priority.
pub const PRIORITY: u32 = 95;

/// Parameters that every probe has.
pub const COMMON: &[Parameter] = &[
    own(
        "period",
        "time between two wake-ups, or requested sleep time",
        Kind::Duration {
            min: Nanos(1),
            max: Nanos::from_secs(86_400),
        },
    ),
    own(
        "policy",
        "scheduling policy",
        Kind::Choice(&["fifo", "rr", "other"]),
    ),
    own(
        "priority",
        "real-time priority; 99 is reserved for the watchdog and needs --force",
        Kind::Count { min: 1, max: 99 },
    ),
    own(
        "dither",
        "largest random shift of a due time",
        Kind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
    ),
    own(
        "offset",
        "first due time, counted from the start of the run; if unset, drawn at random",
        Kind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
    ),
    own(
        "name",
        "name of the probe's series; distinguishes several probes of the same kind",
        Kind::Name,
    ),
    own(
        "clock",
        "clock of the probe's timer; only for cyclic, nanosleep, timerfd and posix-timer",
        Kind::Choice(SystemClock::NAMES),
    ),
    own(
        "align",
        "clock on which due times are whole multiples of the period, plus the offset; only for \
         probes with a grid",
        Kind::Choice(SystemClock::NAMES),
    ),
    own(
        "cpus",
        "measured CPUs that the probe runs on; if unset, all measured CPUs",
        Kind::Cpus,
    ),
];

const fn own(name: &'static str, means: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        means,
        kind,
        default: None,
        needed: false,
    }
}

/// One requested probe, with the values that the user gave.
#[derive(Debug, Clone)]
pub struct ProbeSpec {
    pub info: &'static ProbeInfo,
    /// The values that the user gave, by parameter.
    pub given: BTreeMap<&'static str, Value>,
    /// The text that the user wrote.
    text: String,
}

impl PartialEq for ProbeSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.info.name, &self.given) == (other.info.name, &other.given)
    }
}

/// Writes the text that the user wrote, or an equivalent text.
impl std::fmt::Display for ProbeSpec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&self.text)
    }
}

/// Why a text is not a valid request for a probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeRequestError {
    /// The probe is unknown.
    #[error(
        "there is no probe `{0}`{meant}: `tardy list probes` lists them",
        meant = did_you_mean(.0, PROBES.iter().map(|probe| probe.name))
    )]
    UnknownProbe(String),
    /// The probe has no such parameter.
    #[error("probe `{probe}` has no parameter `{name}`{}: it has {}", did_you_mean(name, known.iter().copied()), known.join(", "))]
    UnknownParameter {
        probe: &'static str,
        /// The name that the user wrote.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// There are more values than parameters.
    #[error("probe `{probe}`: `{value}` is one value too many; the probe takes {count}")]
    TooMany {
        probe: &'static str,
        /// The first value without a parameter.
        value: String,
        /// Number of parameters.
        count: usize,
    },
    /// A parameter was given twice.
    #[error("probe `{probe}`: `{name}` is given twice; give it once")]
    Twice {
        probe: &'static str,
        name: &'static str,
    },
    /// A parameter without a default has no value.
    #[error("probe `{probe}` needs `{name}`: write {probe}:{name}=...")]
    Needed {
        probe: &'static str,
        name: &'static str,
    },
    /// A value is wrong.
    #[error("probe `{probe}`: {source}")]
    Value {
        probe: &'static str,
        /// Why the value is wrong.
        source: ValueError,
    },
}

impl ProbeSpec {
    /// Parses one request.
    ///
    /// # Errors
    /// Returns a [`ProbeRequestError`] if the text is not a valid request.
    pub fn parse(text: &str) -> Result<Self, ProbeRequestError> {
        let (name, rest) = text
            .trim()
            .split_once(':')
            .map_or((text.trim(), None), |(name, rest)| (name, Some(rest)));
        let info = find(name).ok_or_else(|| ProbeRequestError::UnknownProbe(name.to_owned()))?;
        let parameters: Vec<&'static Parameter> = info.parameters.iter().chain(COMMON).collect();
        let probe = info.name;
        let given = rest
            .map_or_else(
                || Ok(BTreeMap::new()),
                |rest| parameter::parse_values(&parameters, rest),
            )
            .map_err(|refused| match refused {
                ParameterError::Unknown { name, known } => {
                    ProbeRequestError::UnknownParameter { probe, name, known }
                }
                ParameterError::TooMany { value, count } => ProbeRequestError::TooMany {
                    probe,
                    value,
                    count,
                },
                ParameterError::Twice(name) => ProbeRequestError::Twice { probe, name },
                ParameterError::Value(source) => ProbeRequestError::Value { probe, source },
            })?;
        match parameters
            .iter()
            .find(|parameter| parameter.needed && !given.contains_key(parameter.name))
        {
            Some(parameter) => Err(ProbeRequestError::Needed {
                probe,
                name: parameter.name,
            }),
            None => Ok(Self {
                info,
                given,
                text: text.to_owned(),
            }),
        }
    }

    /// Returns a request for the probe `info`, in which all parameters have their default values.
    #[must_use]
    pub fn usual(info: &'static ProbeInfo) -> Self {
        Self {
            info,
            given: BTreeMap::new(),
            text: info.name.to_owned(),
        }
    }

    /// Returns the probe that measures the loop of a program. `words` are the program and its
    /// arguments.
    #[must_use]
    pub fn of_program(words: Vec<String>) -> Self {
        let (info, command) = (&app::INFO, app::COMMAND);
        let text = format!("{}:{command}={}", info.name, tardy_run::shell::line(&words));
        Self {
            info,
            given: BTreeMap::from([(command, Value::Words(words))]),
            text,
        }
    }

    /// Returns the probe's own parameters, given or by default. Leaves out parameters without a
    /// value.
    #[must_use]
    pub fn parameters(&self) -> Values {
        let value = |parameter: &Parameter| {
            // Every default is within the limits of its parameter; a test checks this.
            let default = || {
                parameter
                    .default
                    .and_then(|text| parameter.parse(text).ok())
            };
            Some((
                parameter.name.to_owned(),
                self.given.get(parameter.name).cloned().or_else(default)?,
            ))
        };
        self.info.parameters.iter().filter_map(value).collect()
    }

    /// Returns a time that was given in the request itself.
    #[must_use]
    pub fn duration(&self, name: &str) -> Option<Nanos> {
        match self.given.get(name) {
            Some(Value::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// Returns the CPUs that were given in the request itself.
    #[must_use]
    pub fn cpus(&self) -> Option<CpuList> {
        match self.given.get("cpus") {
            Some(Value::Word(text)) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the name that was given in the request itself.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self.given.get("name") {
            Some(Value::Word(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns the clock that was given in the request itself, by the parameter `name` (`clock` or
    /// `align`).
    #[must_use]
    pub fn clock(&self, name: &str) -> Option<SystemClock> {
        match self.given.get(name) {
            Some(Value::Word(text)) => SystemClock::find(text),
            _ => None,
        }
    }

    /// Returns the policy that was given in the request itself.
    #[must_use]
    pub fn policy(&self) -> Option<PolicyName> {
        match self.given.get("policy") {
            Some(Value::Word(text)) if text == "fifo" => Some(PolicyName::Fifo),
            Some(Value::Word(text)) if text == "rr" => Some(PolicyName::Rr),
            Some(Value::Word(_)) => Some(PolicyName::Other),
            _ => None,
        }
    }

    /// Returns the priority that was given in the request itself.
    #[must_use]
    pub fn priority(&self) -> Option<u32> {
        match self.given.get("priority") {
            Some(Value::Count(priority)) => u32::try_from(*priority).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_a_name_with_values_by_name_or_in_order() {
        let asked = ProbeSpec::parse("usleep:period=100us:priority=80").unwrap();
        assert_eq!(
            (asked.info.name, asked.duration("period"), asked.priority()),
            ("usleep", Some(Nanos::from_micros(100)), Some(80))
        );
        assert_eq!(
            ProbeSpec::parse("usleep:100us").unwrap().duration("period"),
            Some(Nanos::from_micros(100))
        );
        assert_eq!(
            ProbeSpec::parse("cyclic:policy=other").unwrap().policy(),
            Some(PolicyName::Other)
        );
        assert_eq!(ProbeSpec::parse("cyclic").unwrap().policy(), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let error = |text: &str| ProbeSpec::parse(text).unwrap_err().to_string();
        assert!(
            error("cyclik:1ms")
                .contains("no probe `cyclik` (did you mean `cyclic`?): `tardy list probes`")
        );
        assert!(
            error("cyclic:colour=red").contains("has no parameter `colour`: it has period, policy"),
            "{}",
            error("cyclic:colour=red")
        );
        assert!(error("cyclic:1ms:period=2ms").contains("`period` is given twice"));
        assert!(
            error("cyclic:priority=100").contains("`priority` is 100: give a value from 1 to 99")
        );
        assert!(
            error("cyclic:cpus=3-").contains("`cpus`: `3-` is not a list of CPUs"),
            "{}",
            error("cyclic:cpus=3-")
        );
        assert!(
            error("cyclic:name=a.b").contains("`a.b` is not a name"),
            "{}",
            error("cyclic:name=a.b")
        );
        assert!(error("cyclic:1ms:fifo:3:0ns:0ns:a:tai:tai:0-1:6").contains("one value too many"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(cyclic|usleep|itimer)?[:=a-z0-9µ ,]{0,30}") {
            let _ = ProbeSpec::parse(&text);
        }
    }
}
