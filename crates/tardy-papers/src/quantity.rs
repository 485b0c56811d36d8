//! Quantities in claims: one number of one experiment on one kernel, and the published cell to
//! compare it with.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

use crate::experiment::Place;
use crate::published;

/// Stands for every kernel of the experiment.
pub const EACH: &str = "each";

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// A share, as a fraction of 1.
    Share,
    /// Executed instructions.
    Instructions,
    /// Anything else.
    Number,
}

impl Unit {
    /// Formats a number for readers.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            // This conversion is exact, because the largest time shown is far below 2^53 ns.
            Self::Time => Nanos(value.round() as i64).to_string(),
            Self::Share => format!("{:.4} %", value * 100.0),
            Self::Instructions => format!("{value:.0} instructions"),
            Self::Number if value.abs() >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
            Self::Number => format!("{value:.2}"),
        }
    }
}

/// Why a text does not name a quantity or a published cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {what}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
}

/// A statistic of the samples of a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    Max,
    Min,
    Mean,
    StandardDeviation,
    /// The value that this fraction of samples does not exceed (a quantile).
    Quantile(f64),
    /// Share of samples that are below a limit in ns.
    Below(i64),
    /// Number of samples.
    Samples,
    /// Difference between the largest and the smallest value.
    Range,
    /// The largest absolute value.
    Magnitude,
    /// The middle of that bucket of 100 us that contains the median, as williams2002 prints it.
    BucketMedian,
    /// The middle of that bucket of 100 us that contains most samples, as williams2002 prints it.
    BucketMode,
}

impl Statistic {
    /// Returns the unit of the statistic's numbers.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Below(_) => Unit::Share,
            Self::Samples => Unit::Number,
            _ => Unit::Time,
        }
    }
}

impl FromStr for Statistic {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "max" => return Ok(Self::Max),
            "min" => return Ok(Self::Min),
            "mean" => return Ok(Self::Mean),
            "sd" => return Ok(Self::StandardDeviation),
            "samples" => return Ok(Self::Samples),
            "range" => return Ok(Self::Range),
            "magnitude" => return Ok(Self::Magnitude),
            "bucket-median" => return Ok(Self::BucketMedian),
            "bucket-mode" => return Ok(Self::BucketMode),
            _ => {}
        }
        if let Some(limit) = text.strip_prefix('<') {
            return limit
                .parse::<Nanos>()
                .map(|limit| Self::Below(limit.get()))
                .map_err(|_| "write a time after <, as in <10us");
        }
        let percent: Option<f64> = text
            .strip_prefix('p')
            .and_then(|percent| percent.parse().ok());
        let share = percent
            .map(|percent| percent / 100.0)
            .filter(|share| (0.0..=1.0).contains(share));
        share.map(Self::Quantile).ok_or(
            "a statistic is max, min, mean, sd, samples, range, magnitude, bucket-median, \
                 bucket-mode, p99.9 or <10us",
        )
    }
}

/// One number of one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The experiment; absent if it is the claim's.
    pub experiment: Option<String>,
    /// The kernel: `none`, `voluntary`, `full`, `lazy`, `rt`, with the suffix `+ticks` if timers
    /// fire on ticks only, and the prefix `older-` for Linux 5; or [`EACH`].
    pub kernel: String,
    /// How the value is obtained.
    pub of: QuantitySource,
}

/// How a value is obtained from an experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum QuantitySource {
    /// From the samples of `probe` in a phase. If `probe` is absent, the phase must have only one
    /// probe, and its samples are used.
    Phase {
        phase: String,
        probe: Option<String>,
        statistic: Statistic,
    },
    /// The cost of one operation of a service.
    Cost { metric: String },
    /// The fraction of services whose cost is at most `percent` % higher than their cost on the
    /// kernel `than`.
    CostsWithin { percent: f64, than: String },
    /// How late the wake-ups in a phase of cyclictest are, on a kernel in which timers fire only on
    /// ticks: see `tardy_samples::backlog`.
    Backlog { phase: String, statistic: Statistic },
    /// The largest latency that a tenth of the run typically finds: the median of the largest
    /// latencies of the ten equal parts of a phase.
    Tenths { phase: String },
    /// The nominal time between the events of `probe`, whose samples are interval errors.
    Period { probe: String },
    /// Times between the events of `probe` in a phase: the period plus the interval errors.
    Interval {
        phase: String,
        probe: String,
        statistic: Statistic,
    },
    /// The length of work that this kernel and the kernel `fast` finish at the same time, if this
    /// kernel starts the work sooner but does it `percent` % more slowly (see
    /// `tardy_core::total_delay`). For each of the two kernels, the statistic of the phase serves
    /// as the latency.
    Crossover {
        percent: f64,
        fast: String,
        phase: String,
        statistic: Statistic,
    },
}

impl Quantity {
    /// Returns the unit of the quantity's numbers. For a service's cost, the unit depends on the
    /// place, because the lab counts instructions and a real machine measures time.
    #[must_use]
    pub fn unit(&self, place: Place) -> Unit {
        match (&self.of, place) {
            (
                QuantitySource::Phase { statistic, .. }
                | QuantitySource::Backlog { statistic, .. }
                | QuantitySource::Interval { statistic, .. },
                _,
            ) => statistic.unit(),
            (
                QuantitySource::Tenths { .. }
                | QuantitySource::Period { .. }
                | QuantitySource::Crossover { .. },
                _,
            ) => Unit::Time,
            (QuantitySource::CostsWithin { .. }, _) => Unit::Share,
            (QuantitySource::Cost { .. }, Place::Lab) => Unit::Instructions,
            (QuantitySource::Cost { .. }, Place::Local) => Unit::Time,
        }
    }
}

/// `[EXPERIMENT:]KERNEL`, followed by `PHASE STATISTIC [PROBE]`, `cost METRIC`, `costs-within
/// PERCENT% KERNEL`, `backlog PHASE STATISTIC`, `tenths PHASE`, `period PROBE`, `interval PHASE
/// STATISTIC PROBE`, or `crossover PERCENT% KERNEL PHASE STATISTIC`.
impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |what| QuantityError {
            text: text.to_owned(),
            what,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (experiment, kernel) = match words
            .first()
            .ok_or_else(|| refuse("the text is empty"))?
            .split_once(':')
        {
            Some((experiment, kernel)) => (Some(experiment.to_owned()), kernel),
            None => (None, words[0]),
        };
        let of = match words[1..] {
            ["cost", metric] => QuantitySource::Cost {
                metric: metric.to_owned(),
            },
            ["costs-within", percent, than] => QuantitySource::CostsWithin {
                percent: percent_of(percent).ok_or_else(|| {
                    refuse("write a percentage, as in `rt costs-within 10% full`")
                })?,
                than: than.to_owned(),
            },
            ["backlog", phase, statistic] => QuantitySource::Backlog {
                phase: phase.to_owned(),
                statistic: statistic.parse().map_err(refuse)?,
            },
            ["tenths", phase] => QuantitySource::Tenths {
                phase: phase.to_owned(),
            },
            ["period", probe] => QuantitySource::Period {
                probe: probe.to_owned(),
            },
            ["interval", phase, statistic, probe] => QuantitySource::Interval {
                phase: phase.to_owned(),
                probe: probe.to_owned(),
                statistic: statistic.parse().map_err(refuse)?,
            },
            ["crossover", percent, fast, phase, statistic] => QuantitySource::Crossover {
                percent: percent_of(percent).ok_or_else(|| {
                    refuse("write a percentage, as in `rt crossover 10% none idle max`")
                })?,
                fast: fast.to_owned(),
                phase: phase.to_owned(),
                statistic: statistic.parse().map_err(refuse)?,
            },
            [phase, statistic] => QuantitySource::Phase {
                phase: phase.to_owned(),
                probe: None,
                statistic: statistic.parse().map_err(refuse)?,
            },
            [phase, statistic, probe] => QuantitySource::Phase {
                phase: phase.to_owned(),
                probe: Some(probe.to_owned()),
                statistic: statistic.parse().map_err(refuse)?,
            },
            _ => {
                return Err(refuse(
                    "write KERNEL PHASE STATISTIC, as in `none procfs max`",
                ));
            }
        };
        Ok(Self {
            experiment,
            kernel: kernel.to_owned(),
            of,
        })
    }
}

fn percent_of(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.parse().ok()
}

/// A cell of a published table: `TABLE KEY... COLUMN UNIT`; in a key, an underscore may replace a
/// space.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedCell {
    /// The number: in ns for a time, and as a fraction of 1 for a share. For a bandwidth, this is
    /// the reciprocal, which grows with the cost.
    pub value: f64,
    pub unit: Unit,
    /// The number and its unit, as the paper printed them.
    pub printed: String,
}

impl FromStr for PublishedCell {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |what| QuantityError {
            text: text.to_owned(),
            what,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [table, keys @ .., column, unit] = words.as_slice() else {
            return Err(refuse(
                "write TABLE KEY... COLUMN UNIT, as in `abeni2002_table1 monolithic procfs us`",
            ));
        };
        let (factor, kind) = match *unit {
            "us" => (1e3, Unit::Time),
            "ms" => (1e6, Unit::Time),
            "s" => (1e9, Unit::Time),
            "%" => (0.01, Unit::Share),
            "share" => (1.0, Unit::Share),
            "number" | "MB/s" => (1.0, Unit::Number),
            _ => return Err(refuse("the unit is us, ms, s, %, share, MB/s or number")),
        };
        let table = published::find(table).ok_or_else(|| refuse("there is no such table"))?;
        let printed = table
            .cell(keys, column)
            .ok_or_else(|| refuse("the table has no such cell"))?;
        let number: f64 = printed
            .parse()
            .map_err(|_| refuse("the paper has no number in this cell"))?;
        let value = if *unit == "MB/s" {
            1.0 / number
        } else {
            number * factor
        };
        let shown_unit = if matches!(*unit, "number" | "share") {
            String::new()
        } else {
            format!(" {unit}")
        };
        Ok(Self {
            value,
            unit: kind,
            printed: format!("{printed}{shown_unit}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_names_kernel_phase_and_statistic_and_may_name_experiment_and_probe() {
        let found: Quantity = "sweep:rt idle p99.999 parallel".parse().unwrap();
        assert_eq!(
            (
                found.experiment.as_deref(),
                &*found.kernel,
                found.unit(Place::Lab)
            ),
            (Some("sweep"), "rt", Unit::Time)
        );
        let QuantitySource::Phase {
            phase,
            probe,
            statistic,
        } = found.of
        else {
            panic!()
        };
        assert_eq!((&*phase, probe.as_deref()), ("idle", Some("parallel")));
        assert!(
            matches!(statistic, Statistic::Quantile(share) if (share - 0.99999).abs() < 1e-12),
            "{statistic:?}"
        );
        assert_eq!(
            "none io <10us"
                .parse::<Quantity>()
                .unwrap()
                .unit(Place::Lab),
            Unit::Share
        );
        assert_eq!(
            "rt tenths load".parse::<Quantity>().unwrap().of,
            QuantitySource::Tenths {
                phase: "load".into()
            }
        );
        assert_eq!(
            "rt cost fork".parse::<Quantity>().unwrap().of,
            QuantitySource::Cost {
                metric: "fork".into()
            }
        );
        let within: Quantity = "rt costs-within 10% full".parse().unwrap();
        let expected = QuantitySource::CostsWithin {
            percent: 10.0,
            than: "full".into(),
        };
        assert_eq!(
            (within.unit(Place::Lab), within.of),
            (Unit::Share, expected)
        );
        assert_eq!(
            "none+ticks interval load max media.frame"
                .parse::<Quantity>()
                .unwrap()
                .of,
            QuantitySource::Interval {
                phase: "load".into(),
                probe: "media.frame".into(),
                statistic: Statistic::Max,
            }
        );
        assert_eq!(
            "rt crossover 16.78% none idle max"
                .parse::<Quantity>()
                .unwrap()
                .of,
            QuantitySource::Crossover {
                percent: 16.78,
                fast: "none".into(),
                phase: "idle".into(),
                statistic: Statistic::Max,
            }
        );
        for wrong in [
            "",
            "none",
            "rt crossover 10 none idle max",
            "rt backlog no-load largest",
            "none io",
            "none io largest",
            "none io p101",
            "none io <ten",
            "rt costs-within 10 full",
            "rt costs-within x% full",
        ] {
            assert!(wrong.parse::<Quantity>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_published_cell_is_read_in_its_unit() {
        let cell = |text: &str| text.parse::<PublishedCell>().unwrap();
        let procfs = PublishedCell {
            value: 3_084_000.0,
            unit: Unit::Time,
            printed: "3084 us".into(),
        };
        assert_eq!(cell("abeni2002_table1 monolithic procfs us"), procfs);
        assert_eq!(
            cell("koolwal2009_lmbench TCP_bandwidth 2.6.26-rt1 MB/s").value,
            1.0 / 1.46
        );
        assert_eq!(
            cell("abeni2002_cdf preemptible below_10us share").value,
            0.99466
        );
        for wrong in [
            "mckenney2009_jitter real-fast idle p99_999_us us",
            "abeni2002_table1 monolithic disk us",
            "abeni2002_table9 monolithic procfs us",
            "abeni2002_table1 monolithic procfs m",
            "us",
        ] {
            assert!(wrong.parse::<PublishedCell>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        assert_eq!(Unit::Share.show(0.99466), "99.4660 %");
        assert_eq!(
            (Unit::Number.show(2.5), Unit::Number.show(37671.2)),
            ("2.50".to_owned(), "37671".to_owned())
        );
    }
}
