//! Parameters of loads and probes: their types, defaults and limits, and the values given in
//! requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::bytes::{format_bytes, parse_bytes};
use tardy_core::cpu::{CpuList, ParseCpuListError};
use tardy_core::units::Nanos;

/// The type of a parameter's value, with its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A size within the limits, such as `64MiB`.
    Bytes {
        /// Minimum in bytes.
        min: u64,
        /// Maximum in bytes.
        max: u64,
    },
    /// A number within the limits.
    Count {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// A time within the limits, such as `1ms`.
    Duration {
        /// Minimum.
        min: Nanos,
        /// Maximum.
        max: Nanos,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A file or folder.
    Path,
    /// A name of lower-case letters, digits and dashes that starts with a letter.
    Name,
    /// A list of CPUs, as in `1-3,6`.
    Cpus,
    /// Any text; it takes the whole rest of the request, including colons.
    Text,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes { min, max } => write!(
                formatter,
                "{} to {}",
                format_bytes(*min),
                format_bytes(*max)
            ),
            Self::Count { min, max } => write!(formatter, "{min} to {max}"),
            Self::Duration { min, max } => write!(formatter, "{min} to {max}"),
            Self::Choice(choices) => formatter.write_str(&choices.join("|")),
            Self::Path => formatter.write_str("path"),
            Self::Name => formatter.write_str("name"),
            Self::Cpus => formatter.write_str("CPUs"),
            Self::Text => formatter.write_str("rest of the text"),
        }
    }
}

/// One parameter of a load or a probe.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name of the parameter in a request.
    pub name: &'static str,
    /// What the parameter does, in one line.
    pub means: &'static str,
    /// Type of the parameter's value.
    pub kind: Kind,
    /// The value that is used if the request gives none, in the syntax of a request. Without a
    /// default, the parameter may stay unset.
    pub default: Option<&'static str>,
    /// Whether a request must give the parameter, because there is no sensible default.
    pub needed: bool,
}

impl Parameter {
    /// Describes a parameter that has a default, or may stay unset.
    const fn new(
        name: &'static str,
        means: &'static str,
        kind: Kind,
        default: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            means,
            kind,
            default,
            needed: false,
        }
    }

    /// Describes a parameter that is a size in bytes.
    #[must_use]
    pub const fn bytes(
        name: &'static str,
        means: &'static str,
        default: &'static str,
        min: u64,
        max: u64,
    ) -> Self {
        Self::new(name, means, Kind::Bytes { min, max }, Some(default))
    }

    /// Describes a parameter that is a number from `min` to `max`.
    #[must_use]
    pub const fn count(
        name: &'static str,
        means: &'static str,
        default: &'static str,
        min: u64,
        max: u64,
    ) -> Self {
        Self::new(name, means, Kind::Count { min, max }, Some(default))
    }

    /// Describes a parameter that is a time from `min` to `max`.
    #[must_use]
    pub const fn duration(
        name: &'static str,
        means: &'static str,
        default: &'static str,
        min: Nanos,
        max: Nanos,
    ) -> Self {
        Self::new(name, means, Kind::Duration { min, max }, Some(default))
    }

    /// Describes a parameter that is one of several words; the first is the default.
    #[must_use]
    pub const fn choice(
        name: &'static str,
        means: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self::new(name, means, Kind::Choice(words), Some(words[0]))
    }

    /// Describes a parameter that is a path and may stay unset.
    #[must_use]
    pub const fn path(name: &'static str, means: &'static str) -> Self {
        Self::new(name, means, Kind::Path, None)
    }
}

/// Returns whether a text is a valid name. Names occur in file names and tables.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(is_plain)
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// A size in bytes.
    Bytes(u64),
    /// A count.
    Count(u64),
    /// A time in ns.
    Duration(Nanos),
    /// One of the parameter's words.
    Word(String),
    /// Any text; it takes the whole rest of a request, so no other value can follow.
    Text(String),
    /// A file or folder.
    Path(PathBuf),
    /// A program and its arguments, each passed unchanged. The text of a request cannot express
    /// this value.
    Words(Vec<String>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => formatter.pad(&format_bytes(*bytes)),
            Self::Count(count) => count.fmt(formatter),
            Self::Duration(nanos) => nanos.fmt(formatter),
            Self::Word(text) | Self::Text(text) => formatter.pad(text),
            Self::Path(path) => formatter.pad(&path.display().to_string()),
            Self::Words(words) => formatter.pad(&crate::shell::line(words)),
        }
    }
}

/// The values of the parameters of one load or probe, by name.
///
/// The text of the request was checked with the table of the parameters of this load or probe,
/// which also supplied the defaults. The methods below expect names from that table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, Value>);

impl Values {
    /// Returns the value of a parameter that is a size or a number. Returns 0 if it has no value,
    /// which cannot happen for parameters with a default.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Bytes(number) | Value::Count(number)) => *number,
            _ => 0,
        }
    }

    /// Returns the value of a parameter that is a time; zero if it has none.
    #[must_use]
    pub fn duration(&self, name: &str) -> Nanos {
        match self.0.get(name) {
            Some(Value::Duration(duration)) => *duration,
            _ => Nanos::ZERO,
        }
    }

    /// Returns the value of a parameter that is a word or a text; empty if it has none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Word(text) | Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the value of a parameter that is a path.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<&std::path::Path> {
        match self.0.get(name) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// Returns the value of a parameter that is a program and its arguments.
    #[must_use]
    pub fn words(&self, name: &str) -> Option<&[String]> {
        match self.0.get(name) {
            Some(Value::Words(words)) => Some(words),
            _ => None,
        }
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::ops::Deref for Values {
    type Target = BTreeMap<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Why a value is refused. `parameter` is the parameter's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not a size.
    #[error(
        "`{text}` is not a size for `{parameter}`: write a number and B, KiB, MiB or GiB, as in \
         64MiB"
    )]
    NotBytes {
        /// The parameter's name.
        parameter: &'static str,
        /// The refused text.
        text: String,
    },
    /// The text is not a number.
    #[error("`{text}` is not a number for `{parameter}`: write digits only")]
    NotCount {
        /// The parameter's name.
        parameter: &'static str,
        /// The refused text.
        text: String,
    },
    /// The text is not a time.
    #[error("`{parameter}`: {source}")]
    NotDuration {
        /// The parameter's name.
        parameter: &'static str,
        /// The parse error.
        source: tardy_core::units::ParseNanosError,
    },
    /// The text is not one of the words.
    #[error("`{text}` is not one of the values of `{parameter}`: {}", choices.join(", "))]
    NotAChoice {
        /// The parameter's name.
        parameter: &'static str,
        /// The refused text.
        text: String,
        /// The valid choices.
        choices: &'static [&'static str],
    },
    /// The text is not a valid name.
    #[error(
        "`{text}` is not a name for `{parameter}`: use at most 32 lower-case letters, digits and \
         dashes, starting with a letter"
    )]
    NotAName {
        /// The parameter's name.
        parameter: &'static str,
        /// The refused text.
        text: String,
    },
    /// The text is not a list of CPUs.
    #[error("`{parameter}`: {source}")]
    NotCpus {
        /// The parameter's name.
        parameter: &'static str,
        /// The parse error.
        source: ParseCpuListError,
    },
    /// The value is beyond a limit.
    #[error("`{parameter}` is {text}: give a value from {min} to {max}")]
    OutOfRange {
        /// The parameter's name.
        parameter: &'static str,
        /// The refused text.
        text: String,
        /// The minimum, in the syntax of a request.
        min: String,
        /// The maximum, in the syntax of a request.
        max: String,
    },
    /// The value is empty.
    #[error("`{parameter}` is empty: give it a value")]
    Empty {
        /// The parameter's name.
        parameter: &'static str,
    },
}

impl Parameter {
    /// Parses a value in the syntax of a request.
    ///
    /// # Errors
    /// Returns a [`ValueError`] with the name of the parameter.
    pub fn parse(&self, text: &str) -> Result<Value, ValueError> {
        let parameter = self.name;
        let owned = || text.to_owned();
        match self.kind {
            Kind::Bytes { min, max } => {
                let bytes = parse_bytes(text).ok_or_else(|| ValueError::NotBytes {
                    parameter,
                    text: owned(),
                })?;
                self.within(bytes, min, max, text, format_bytes)
                    .map(Value::Bytes)
            }
            Kind::Count { min, max } => {
                let count = text.parse().map_err(|_| ValueError::NotCount {
                    parameter,
                    text: owned(),
                })?;
                self.within(count, min, max, text, |count| count.to_string())
                    .map(Value::Count)
            }
            Kind::Duration { min, max } => {
                let duration = text
                    .parse()
                    .map_err(|source| ValueError::NotDuration { parameter, source })?;
                self.within(duration, min, max, text, |duration| duration.to_string())
                    .map(Value::Duration)
            }
            Kind::Choice(choices) if choices.contains(&text) => Ok(Value::Word(owned())),
            Kind::Choice(choices) => Err(ValueError::NotAChoice {
                parameter,
                text: owned(),
                choices,
            }),
            Kind::Name if !is_name(text) => Err(ValueError::NotAName {
                parameter,
                text: text.to_owned(),
            }),
            Kind::Name => Ok(Value::Word(text.to_owned())),
            Kind::Cpus => match text.parse::<CpuList>() {
                Ok(cpus) if cpus.is_empty() => Err(ValueError::Empty { parameter }),
                Ok(cpus) => Ok(Value::Word(cpus.to_string())),
                Err(source) => Err(ValueError::NotCpus { parameter, source }),
            },
            Kind::Path | Kind::Text if text.trim().is_empty() => {
                Err(ValueError::Empty { parameter })
            }
            Kind::Path => Ok(Value::Path(PathBuf::from(text))),
            Kind::Text => Ok(Value::Text(owned())),
        }
    }

    fn within<T: PartialOrd + Copy>(
        &self,
        value: T,
        min: T,
        max: T,
        text: &str,
        print: impl Fn(T) -> String,
    ) -> Result<T, ValueError> {
        if min <= value && value <= max {
            return Ok(value);
        }
        Err(ValueError::OutOfRange {
            parameter: self.name,
            text: text.to_owned(),
            min: print(min),
            max: print(max),
        })
    }
}

/// Why the parameters in a request for a load or a probe are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterError {
    /// The parameter is unknown.
    Unknown {
        /// The name in the request.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// There are more values than parameters.
    TooMany {
        /// The first value without a parameter.
        value: String,
        /// Number of parameters.
        count: usize,
    },
    /// The same parameter was given twice.
    Twice(&'static str),
    /// A value is wrong.
    Value(ValueError),
}

/// Parses the parameters in a request for a load or a probe: the part after the name, such as
/// `64MiB:block=1MiB`. Values without a name are assigned in the order of `parameters`.
///
/// # Errors
/// Returns a [`ParameterError`] if the text is not valid.
pub fn parse_values(
    parameters: &[&'static Parameter],
    text: &str,
) -> Result<BTreeMap<&'static str, Value>, ParameterError> {
    let takes_text = parameters
        .iter()
        .any(|parameter| parameter.kind == Kind::Text);
    let mut given = BTreeMap::new();
    let mut positional = parameters.iter();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (part, tail) = text
            .split_once(':')
            .map_or((text, None), |(part, tail)| (part, Some(tail)));
        let named = part.split_once('=').filter(|(name, _)| {
            name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !name.is_empty()
        });
        let (parameter, value) = match named {
            // The value of a parameter that takes a text, such as a command, may contain `a=b`. If
            // there is such a parameter, `a` counts as a name only if a parameter has this name.
            Some((name, value))
                if !takes_text || parameters.iter().any(|parameter| parameter.name == name) =>
            {
                let parameter = parameters
                    .iter()
                    .find(|parameter| parameter.name == name)
                    .ok_or_else(|| ParameterError::Unknown {
                        name: name.to_owned(),
                        known: parameters.iter().map(|parameter| parameter.name).collect(),
                    })?;
                (parameter, value)
            }
            _ => {
                let too_many = || ParameterError::TooMany {
                    value: part.to_owned(),
                    count: parameters.len(),
                };
                (positional.next().ok_or_else(too_many)?, part)
            }
        };
        // A text extends to the end of the request.
        let (value, tail) = match parameter.kind {
            Kind::Text => (
                &text[text.len() - value.len() - tail.map_or(0, |tail| tail.len() + 1)..],
                None,
            ),
            _ => (value, tail),
        };
        let value = parameter.parse(value).map_err(ParameterError::Value)?;
        if given.insert(parameter.name, value).is_some() {
            return Err(ParameterError::Twice(parameter.name));
        }
        rest = tail;
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_limits_are_refused_with_the_limits() {
        let size = Parameter {
            name: "size",
            means: "",
            kind: Kind::Bytes {
                min: 4096,
                max: 1 << 30,
            },
            default: None,
            needed: false,
        };
        assert_eq!(size.parse("1MiB"), Ok(Value::Bytes(1 << 20)));
        assert_eq!(
            size.parse("2GiB").unwrap_err().to_string(),
            "`size` is 2GiB: give a value from 4KiB to 1GiB"
        );
        let count = Parameter {
            name: "groups",
            means: "",
            kind: Kind::Count { min: 1, max: 10 },
            default: None,
            needed: false,
        };
        assert!(matches!(
            count.parse("0"),
            Err(ValueError::OutOfRange { .. })
        ));
        assert!(matches!(
            count.parse("many"),
            Err(ValueError::NotCount { .. })
        ));
        let choice = Parameter {
            name: "with",
            means: "",
            kind: Kind::Choice(&["pipe", "socket"]),
            default: None,
            needed: false,
        };
        assert_eq!(
            choice.parse("tape").unwrap_err().to_string(),
            "`tape` is not one of the values of `with`: pipe, socket"
        );
    }
}
