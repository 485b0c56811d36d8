//! Flags whose value is from a short list. Each value has a name and a line of help. The types of
//! the values are in crates that know no command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tardy_chart::model::Kind;
use tardy_formats::import::Unit;
use tardy_machine::checks::{Importance, Profile};
use tardy_results::cost::reference::Reference;
use tardy_results::statistics::preset::Preset;
use tardy_run::work_kind::WorkKind;

/// A value from a short list, for a flag.
pub trait Choice: Copy + Send + Sync + 'static {
    /// All values, in the order of the help.
    const ALL: &'static [Self];

    /// Returns the value's name on the command line.
    fn name(self) -> &'static str;

    /// Returns the value's line of help.
    fn about(self) -> &'static str;

    /// Returns the value with this name, ignoring case.
    ///
    /// # Errors
    /// Returns a sentence with the existing names.
    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .iter()
            .copied()
            .find(|choice| choice.name().eq_ignore_ascii_case(text));
        let names = || {
            Self::ALL
                .iter()
                .map(|choice| choice.name())
                .collect::<Vec<_>>()
                .join(", ")
        };
        found.ok_or_else(|| format!("`{text}` is not one of {}", names()))
    }
}

/// Returns the parser of a flag with such a value.
pub fn parser<T: Choice>() -> impl TypedValueParser<Value = T> {
    let possible = T::ALL
        .iter()
        .map(|choice| PossibleValue::new(choice.name()).help(choice.about()));
    PossibleValuesParser::new(possible).try_map(|name| T::parse(&name))
}

impl Choice for Profile {
    const ALL: &'static [Self] = &Profile::ALL;

    fn name(self) -> &'static str {
        Profile::name(self)
    }

    fn about(self) -> &'static str {
        match self {
            Self::Periodic => "Tasks that sleep until they are due: control loops",
            Self::Polling => "Tasks that run alone on a CPU and make no system calls",
            Self::Audio => "Audio on a desktop machine",
            Self::VmGuest => "Work inside a virtual machine",
            Self::VmHost => "The host of virtual machines that must be on time",
        }
    }
}

impl Choice for Importance {
    const ALL: &'static [Self] = &[Self::Fatal, Self::High, Self::Medium, Self::Low];

    fn name(self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Fatal => "Without this setting, latency has no bound",
            Self::High => "Without this setting, delays last milliseconds, or are frequent",
            Self::Medium => {
                "Without this setting, delays last tens or hundreds of microseconds, or are rare"
            }
            Self::Low => "Worth knowing",
        }
    }
}

impl Choice for WorkKind {
    const ALL: &'static [Self] = &WorkKind::ALL;

    fn name(self) -> &'static str {
        WorkKind::name(self)
    }

    fn about(self) -> &'static str {
        match self {
            Self::Compute => "Arithmetic in registers, in user space only",
            Self::Syscalls => {
                "System calls that send a byte through a pipe, or get the attributes of a file by \
                 path"
            }
            Self::Memory => "Reads that wait for memory, each dependent on the previous read",
        }
    }
}

impl Choice for Unit {
    const ALL: &'static [Self] = &Unit::ALL;

    fn name(self) -> &'static str {
        self.word()
    }

    fn about(self) -> &'static str {
        match self {
            Self::Ns => "Nanoseconds",
            Self::Us => "Microseconds",
            Self::Ms => "Milliseconds",
            Self::S => "Seconds",
        }
    }
}

impl Choice for Reference {
    const ALL: &'static [Self] = &Reference::ALL;

    fn name(self) -> &'static str {
        Reference::name(self)
    }

    fn about(self) -> &'static str {
        match self {
            Self::Koolwal2009 => "LMbench on a 500 MHz AMD Geode LX, three kernels of 2009",
            Self::Mckenney2009 => "Kernel builds on two kernels, 2008 and 2009",
        }
    }
}

impl Choice for Preset {
    const ALL: &'static [Self] = &Preset::ALL;

    fn name(self) -> &'static str {
        Preset::name(self)
    }

    fn about(self) -> &'static str {
        "Buckets of 100 us; limits of 0.1, 0.2, 0.5, 0.7, 1, 5, 10, 50 and 100 ms"
    }
}

impl Choice for Kind {
    const ALL: &'static [Self] = &Kind::OF_RUNS;

    fn name(self) -> &'static str {
        Kind::name(self)
    }

    fn about(self) -> &'static str {
        match self {
            Self::Timeline => "Smallest and largest latency over time, with the phases",
            Self::Hist => "Number of samples by latency, both scales logarithmic",
            Self::Cdf => "Share of samples at or below a latency, with its 95 % band",
            Self::Ccdf => "Share of samples at or above a latency, with its 95 % band",
            Self::Percentiles => "Latency of each percentile, with its 95 % interval",
            Self::RunningMax => "Largest latency so far against the number of samples",
            Self::Heatmap => "Number of samples by latency and time",
            Self::CpuMap => "Largest latency of each CPU over time, for machines with many CPUs",
            Self::Scatter => "Samples over time, drawn one by one if there are few",
            Self::Bars => "Smallest, median and largest latency of each run and load",
            Self::TotalDelay => "Time from due time to end of work, for each length of work",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_one_name_on_the_command_line_and_in_files() {
        assert_eq!(
            WorkKind::ALL.map(|kind| serde_json::to_value(kind).unwrap()),
            WorkKind::ALL.map(Choice::name)
        );
    }

    #[test]
    fn what_cannot_be_chosen_is_answered_with_what_can() {
        assert_eq!(WorkKind::parse("Memory"), Ok(WorkKind::Memory));
        assert_eq!(
            WorkKind::parse("disk").unwrap_err(),
            "`disk` is not one of compute, syscalls, memory"
        );
    }
}
