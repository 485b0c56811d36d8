//! Describes an option of `tardy run`, and converts its value from and to words. The options
//! themselves are in [`crate::plan::request`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tardy_core::bytes::{format_bytes, parse_bytes};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;

use crate::keep::KeptSamples;
use crate::plan::request::Request;
use crate::plan::{Plan, PolicyName};
use crate::system_clock::SystemClock;
use crate::threshold::ThresholdAction;
use crate::tracing::ExplainLevel;

/// An option: its definition, and functions that read its value from words and plans.
pub struct RunOption {
    /// Lines of help, from the documentation of the option's field.
    pub help: &'static [&'static str],
    /// Syntax of the option.
    pub definition: Definition,
    /// How often the option can be given, and whether it has a value.
    pub kind: Kind,
    /// Whether the option's value is a path, which need not be UTF-8.
    pub is_path: bool,
    /// The allowed values, each with a line of help; empty if there is no list of allowed values.
    pub choices: fn() -> Vec<(&'static str, &'static str)>,
    /// Where in a plan the option's value is.
    pub part: Part,
    pub(crate) take: fn(&mut Request, &OsStr) -> Result<(), String>,
    pub(crate) values: fn(&Request) -> Vec<String>,
    pub(crate) copy: fn(&Request, &mut Request),
}

/// Whether an option is part of the experiment.
pub enum Part {
    /// The option is part of the experiment. This function sets the request's value from the fields
    /// of the plan.
    Plan(fn(&Plan, &mut Request)),
    /// The option is part of the experiment, but its value is only in [`Plan::asked`].
    Asked,
    /// The option is not part of the experiment; this text states why.
    No(&'static str),
}

/// How often an option can be given, and whether it has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Once, without a value.
    Flag,
    /// Once, with a value.
    One,
    /// Several times, each with a value.
    Many,
}

/// Where an option can be given on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The flag `--name`, and also the short flag `-n` with this letter.
    Long(Option<char>),
    /// Only the short flag `-n` with this letter.
    Short(char),
    /// The words after `--`.
    Trailing,
}

/// The syntax of an option.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Name of the flag, of the key in files, and of the key in a plan.
    pub name: &'static str,
    /// Where the option can be given.
    pub form: Form,
    /// Another accepted name.
    pub alias: Option<&'static str>,
    /// Name of the option's value in help; empty for a flag.
    pub value: &'static str,
    /// Heading in help; empty for the first heading.
    pub group: &'static str,
    /// The value that is used if the option is not given. The `Default` of the request must contain
    /// the same value.
    pub default: Option<&'static str>,
    /// The value that is used if `--name` is given without a value. An option with such a value
    /// accepts both `--name` and `--name=VALUE`.
    pub bare: Option<&'static str>,
    /// Minimum and maximum, if the value is a number.
    pub range: Option<(u64, u64)>,
    /// Separator between values, if one word can contain several.
    pub separator: Option<char>,
    /// Whether a value may start with `-`.
    pub can_begin_with_dash: bool,
    /// Names of the options that cannot be combined with this one.
    pub conflicts: &'static [&'static str],
    /// Names of options that this one requires.
    pub needs: &'static [&'static str],
    /// Whether a file can contain a default of the option.
    pub is_in_files: bool,
    /// Whether [`Plan::asked`] stores the user's value if the value in the plan's fields differs
    /// from it.
    pub is_kept: bool,
    /// Whether the text of a plan shows the option.
    pub is_shown: bool,
}

impl Definition {
    pub(crate) const PLAIN: Self = Self {
        name: "",
        form: Form::Long(None),
        alias: None,
        value: "",
        group: "",
        default: None,
        bare: None,
        range: None,
        separator: None,
        can_begin_with_dash: false,
        conflicts: &[],
        needs: &[],
        is_in_files: false,
        is_kept: false,
        is_shown: false,
    };
}

impl RunOption {
    /// Sets the option in `request`. `value` is `None` for a flag, or if the user omitted the
    /// value.
    ///
    /// # Errors
    /// Returns an error message if the value is not allowed.
    pub fn take(&self, request: &mut Request, value: Option<&OsStr>) -> Result<(), String> {
        let value = value.unwrap_or(OsStr::new(self.definition.bare.unwrap_or_default()));
        if let Some((least, most)) = self.definition.range
            && let Some(number) = value.to_str().and_then(|text| text.parse::<u64>().ok())
            && !(least..=most).contains(&number)
        {
            return Err(format!("{number} is not in {least}..={most}"));
        }
        (self.take)(request, value)
    }

    /// Returns the option's values in `request`: one for each time that the option must be given on
    /// a command line. Returns no values if the option has its default value.
    #[must_use]
    pub fn values(&self, request: &Request) -> Vec<String> {
        (self.values)(request)
    }

    /// Returns the words that give the option these values on a command line.
    pub(crate) fn words(&self, request: &Request) -> Vec<String> {
        let values = self.values(request);
        let (name, bare) = (self.definition.name, self.definition.bare);
        if self.definition.form == Form::Trailing {
            let dashes = (!values.is_empty()).then(|| "--".to_owned());
            return dashes.into_iter().chain(values).collect();
        }
        let flag = match self.definition.form {
            Form::Short(letter) => format!("-{letter}"),
            Form::Long(_) | Form::Trailing => format!("--{name}"),
        };
        values
            .into_iter()
            .flat_map(|value| match self.kind {
                Kind::Flag => vec![flag.clone()],
                _ if bare == Some(&value) => vec![flag.clone()],
                _ if bare.is_some() => vec![format!("{flag}={value}")],
                Kind::One | Kind::Many => vec![flag.clone(), value],
            })
            .collect()
    }
}

/// A type whose values can each be written as one word of a command line.
pub trait Word: Sized {
    /// Whether the value is a path.
    const IS_PATH: bool = false;

    /// Returns the allowed values, each with a line of help.
    fn choices() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Parses the value.
    ///
    /// # Errors
    /// Returns an error message if `text` is not a valid value.
    fn read(text: &str) -> Result<Self, String>;

    /// Parses a word that need not be UTF-8.
    ///
    /// # Errors
    /// Returns an error message if `word` is not a valid value.
    fn read_os(word: &OsStr) -> Result<Self, String> {
        let text = word
            .to_str()
            .ok_or_else(|| format!("`{}` is not UTF-8", word.display()))?;
        Self::read(text)
    }

    /// Returns the value as a word. Parsing the word gives the same value.
    fn word(&self) -> String;
}

/// A type that a request uses for the value of an option.
pub trait OptionValue: Default {
    /// How often the option can be given.
    const KIND: Kind;
    /// Whether the value is a path.
    const IS_PATH: bool;

    /// Returns the allowed values, each with a line of help.
    fn choices() -> Vec<(&'static str, &'static str)>;

    /// Adds the next word to the value.
    ///
    /// # Errors
    /// Returns an error message if the word is not allowed.
    fn set(&mut self, word: &OsStr) -> Result<(), String>;

    /// Returns the words, one for each time that the option must be given.
    fn values(&self) -> Vec<String>;
}

impl OptionValue for bool {
    const KIND: Kind = Kind::Flag;
    const IS_PATH: bool = false;

    fn choices() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn set(&mut self, _: &OsStr) -> Result<(), String> {
        *self = true;
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.then(String::new).into_iter().collect()
    }
}

impl<T: Word> OptionValue for Option<T> {
    const KIND: Kind = Kind::One;
    const IS_PATH: bool = T::IS_PATH;

    fn choices() -> Vec<(&'static str, &'static str)> {
        T::choices()
    }

    fn set(&mut self, word: &OsStr) -> Result<(), String> {
        *self = Some(T::read_os(word)?);
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.iter().map(T::word).collect()
    }
}

impl<T: Word> OptionValue for Vec<T> {
    const KIND: Kind = Kind::Many;
    const IS_PATH: bool = T::IS_PATH;

    fn choices() -> Vec<(&'static str, &'static str)> {
        T::choices()
    }

    fn set(&mut self, word: &OsStr) -> Result<(), String> {
        self.push(T::read_os(word)?);
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        self.iter().map(T::word).collect()
    }
}

/// Implements [`OptionValue`] for a type that has a default.
macro_rules! with_default {
    ($($type:ty),+) => { $(
        impl OptionValue for $type {
            const KIND: Kind = Kind::One;
            const IS_PATH: bool = false;

            fn choices() -> Vec<(&'static str, &'static str)> {
                <$type as Word>::choices()
            }

            fn set(&mut self, word: &OsStr) -> Result<(), String> {
                *self = Word::read_os(word)?;
                Ok(())
            }

            fn values(&self) -> Vec<String> {
                let is_default = *self == Self::default();
                (!is_default).then(|| self.word()).into_iter().collect()
            }
        }
    )+ };
}

with_default!(
    KeptSamples,
    ExplainLevel,
    crate::plan::request::CpuDmaLatency
);

/// Implements [`Word`] for a type that can parse and print itself.
macro_rules! plain {
    ($($type:ty),+) => { $(
        impl Word for $type {
            fn read(text: &str) -> Result<Self, String> {
                text.parse::<Self>().map_err(|error| error.to_string())
            }

            fn word(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

plain!(
    String,
    u32,
    u64,
    KeptSamples,
    ThresholdAction,
    crate::plan::request::CpuDmaLatency,
    crate::plan::request::Label,
    crate::plan::request::LoadCpus,
    crate::plan::request::MeasuredCpus
);

/// Implements [`Word`] for a choice of values, with a line of help for each.
macro_rules! choice {
    ($type:ty, $($about:literal),+) => {
        impl Word for $type {
            fn choices() -> Vec<(&'static str, &'static str)> {
                Self::ALL.iter().map(|choice| choice.name()).zip([$($about),+]).collect()
            }

            fn read(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
                found.ok_or_else(|| {
                    let names = Self::ALL.map(|choice| choice.name());
                    format!("`{text}` is not one of {}", names.join(", "))
                })
            }

            fn word(&self) -> String {
                self.name().to_owned()
            }
        }
    };
}

choice!(
    PolicyName,
    "First in, first out, at the priority given",
    "Like fifo, but tasks of equal priority share the CPU in time slices",
    "An ordinary task"
);

choice!(
    SystemClock,
    "CLOCK_MONOTONIC, the clock of all stored times",
    "CLOCK_REALTIME: UTC, which an administrator or time synchronisation can set",
    "CLOCK_TAI: like CLOCK_REALTIME, but without leap seconds; the time scale of TSN and PTP"
);

choice!(
    ExplainLevel,
    "Record nothing",
    "Record about 9 trace events per wake-up, which every stock kernel has; each event takes a \
     quarter of a microsecond",
    "Also record kernel stacks; each stack takes tens of microseconds, so the run is unfit for \
     comparisons",
    "Also run the kernel's timerlat tracer, as a second opinion; the run is unfit for comparisons"
);

impl Word for PathBuf {
    const IS_PATH: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        Ok(Self::from(text))
    }

    fn read_os(word: &OsStr) -> Result<Self, String> {
        Ok(Self::from(word))
    }

    fn word(&self) -> String {
        self.display().to_string()
    }
}

/// A time above zero as the value of an option.
impl Word for Nanos {
    fn read(text: &str) -> Result<Self, String> {
        positive_duration(text)
    }

    fn word(&self) -> String {
        self.exact()
    }
}

impl Word for Window {
    fn read(text: &str) -> Result<Self, String> {
        text.parse::<Self>().map_err(|error| error.to_string())
    }

    fn word(&self) -> String {
        let earliest = self.earliest.unwrap_or(Nanos(i64::MIN));
        format!("{}..{}", earliest.exact(), self.latest.exact())
    }
}

/// A share from 0 to 1.
impl Word for f64 {
    fn read(text: &str) -> Result<Self, String> {
        share(text)
    }

    fn word(&self) -> String {
        format!("{self:e}")
    }
}

/// A size in bytes, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Word for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        parse_bytes(text)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a size: write it with its unit, as in 2GiB"))
    }

    fn word(&self) -> String {
        let text = format_bytes(self.0);
        match parse_bytes(&text) {
            Some(bytes) if bytes == self.0 => text,
            _ => format!("{}B", self.0),
        }
    }
}

/// The settings that `--tune` applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tuning {
    /// The settings that `tardy tune --plan` prints.
    Planned,
    /// The settings in a file.
    File(PathBuf),
}

impl Tuning {
    /// Returns the path of the file, if the settings are in a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Planned => None,
            Self::File(file) => Some(file),
        }
    }
}

impl Word for Tuning {
    const IS_PATH: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        Self::read_os(OsStr::new(text))
    }

    fn read_os(word: &OsStr) -> Result<Self, String> {
        Ok(if word.is_empty() {
            Self::Planned
        } else {
            Self::File(PathBuf::from(word))
        })
    }

    fn word(&self) -> String {
        self.file()
            .map_or_else(String::new, |file| file.display().to_string())
    }
}

/// Parses a duration above zero.
///
/// # Errors
/// Returns an error message with an example of a valid value.
pub fn positive_duration(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(duration) if duration > Nanos::ZERO => Ok(duration),
        Ok(_) => Err(format!(
            "`{text}` is not above zero: write a time such as 200us"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a share from 0 to 1, which may be written in percent.
///
/// # Errors
/// Returns an error message with an example of a valid value.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text
        .trim()
        .strip_suffix('%')
        .map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    number
        .parse::<f64>()
        .ok()
        .map(|number| number / scale)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| {
            format!("`{text}` is not a share from 0 to 1: write a number such as 1e-6, or 0.1%")
        })
}
