//! Applies OSADL's rule of thumb, by which the worst case is about 10^5 clock cycles (koolwal2009,
//! section 4.4).
//!
//! The verdict covers only the observed samples, and does not affect the exit code. The reason is
//! that the user did not state the rule as a requirement. The text shows the `--deadline` that
//! turns the rule into a requirement.

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_machine::facts::ClockRateSource;
use tardy_run::record::RunRecord;

/// Number of clock cycles that the worst case takes.
const CYCLES: f64 = 1e5;

/// The worst case for the CPU's clock rate, and its comparison with the maximum of each probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleOfThumb {
    /// The worst case according to the rule; absent if the clock rate is unknown.
    pub worst_case_ns: Option<f64>,
    /// The clock rate.
    pub mhz: Option<f64>,
    /// Where the clock rate comes from.
    pub source: RateSource,
    /// A verdict for each probe whose values are latencies, over all its series.
    pub verdicts: Vec<RuleVerdict>,
}

/// Where the clock rate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateSource {
    /// The user gave the clock rate by a flag.
    Given,
    /// The maximum that the cpufreq driver states.
    CpufreqMax,
    /// /proc/cpuinfo.
    Cpuinfo,
    /// The CPU's name, for example `@ 2.30GHz`.
    Name,
    /// There is no clock rate, because the clock of an emulated machine counts instructions and not
    /// cycles.
    VirtualTime,
    /// The clock rate is unknown.
    Unknown,
}

/// Whether a probe's maximum satisfies the rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleVerdict {
    pub probe: String,
    pub max_ns: i64,
    /// The maximum divided by the rule's worst case. The rule is satisfied if this is at most 1.
    pub of_worst_case: f64,
    pub is_kept: bool,
}

impl RuleOfThumb {
    /// Applies the rule to `maxima`, which contains pairs of a probe's name and the maximum of a
    /// series. The maxima of a probe must be adjacent.
    pub(super) fn new(record: &RunRecord, given: Option<f64>, maxima: &[(&str, i64)]) -> Self {
        let (mhz, source) = rate(record, given);
        let worst_case_ns = mhz.map(|mhz| CYCLES / mhz * 1e3);
        let of_probe = |maxima: &[(&str, i64)]| {
            let (max_ns, worst) = (maxima.iter().map(|(_, max)| *max).max()?, worst_case_ns?);
            let of_worst_case = max_ns as f64 / worst;
            Some(RuleVerdict {
                probe: maxima[0].0.to_owned(),
                max_ns,
                of_worst_case,
                is_kept: of_worst_case <= 1.0,
            })
        };
        Self {
            worst_case_ns,
            mhz,
            source,
            verdicts: maxima
                .chunk_by(|a, b| a.0 == b.0)
                .filter_map(of_probe)
                .collect(),
        }
    }

    /// Returns the verdict on a probe.
    #[must_use]
    pub fn of(&self, probe: &str) -> Option<&RuleVerdict> {
        self.verdicts.iter().find(|verdict| verdict.probe == probe)
    }
}

impl RateSource {
    /// Returns the text for the source, which follows "at 2596 MHz, ".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Given => "as given",
            Self::CpufreqMax => "the maximum of cpufreq",
            Self::Cpuinfo => "/proc/cpuinfo",
            Self::Name => "the CPU's name",
            Self::VirtualTime => "virtual time",
            Self::Unknown => "unknown",
        }
    }
}

fn rate(record: &RunRecord, given: Option<f64>) -> (Option<f64>, RateSource) {
    if given.is_some() {
        return (given, RateSource::Given);
    }
    if record.clock == ClockKind::Virtual {
        return (None, RateSource::VirtualTime);
    }
    let processors = &record.machine.processors;
    if let Some(rate) = processors.clock_rate {
        let source = if rate.source == ClockRateSource::CpufreqMax {
            RateSource::CpufreqMax
        } else {
            RateSource::Cpuinfo
        };
        return (Some(rate.khz as f64 / 1e3), source);
    }
    match processors.model.as_deref().and_then(behind_the_name) {
        Some(mhz) => (Some(mhz), RateSource::Name),
        None => (None, RateSource::Unknown),
    }
}

/// Parses the clock rate in MHz from a CPU's name, for example `Intel(R) Xeon(R) CPU @ 2.30GHz`. In
/// older runs, the name is the only source of the clock rate.
fn behind_the_name(model: &str) -> Option<f64> {
    let text = model.rsplit_once('@')?.1.trim();
    let (number, factor) = match text.strip_suffix("GHz") {
        Some(number) => (number, 1e3),
        None => (text.strip_suffix("MHz")?, 1.0),
    };
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|mhz| (1.0..100_000.0).contains(mhz))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_rate_stands_behind_the_name() {
        assert_eq!(
            behind_the_name("Intel(R) Xeon(R) CPU @ 2.30GHz"),
            Some(2_300.0)
        );
        assert_eq!(
            (behind_the_name("AMD EPYC"), behind_the_name("x @ fast")),
            (None, None)
        );
    }
}
