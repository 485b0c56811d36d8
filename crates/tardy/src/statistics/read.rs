//! All three layers of a run, of each series and of each probe's series together.

use std::path::Path;

use serde::Serialize;
use tardy_core::cpu::CpuId;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;

use super::bounds::{Bounds, bounds};
use super::observed::{Observed, observed};
use super::tail::{TailModel, tail};
use crate::export::ExportError;
use crate::export::run::{ExportedRun, ExportedSeries};

/// Clock cycles of the worst case by OSADL's rule of thumb (koolwal2009, section 6).
const OSADL_CYCLES: f64 = 1e5;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Limits, ascending; chosen from the samples where empty.
    pub limits: Vec<Nanos>,
    /// Width of the buckets that are counted.
    pub bucket: Nanos,
    /// How far the model is asked to reach.
    pub horizon: Nanos,
    /// Clock rate of the processors in MHz, where the machine's facts do not have it.
    pub mhz: Option<f64>,
}

/// Statistics of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Of each series, and behind those of a probe of all of them together.
    pub groups: Vec<Group>,
    /// The worst case by OSADL's rule of thumb, and the clock rate in MHz that it is for.
    pub rule_of_thumb_ns: Option<(f64, f64)>,
}

/// Of one series, or of all of a probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Its probe.
    pub probe: String,
    /// What a value is.
    pub quantity: String,
    /// Its processor; absent for all together, and where it was not bound.
    pub cpu: Option<CpuId>,
    /// Whether it is all series of the probe together.
    pub is_together: bool,
    /// What was seen.
    pub observed: Observed,
    /// What holds whatever the distribution.
    pub bounds: Bounds,
    /// The model; absent for several series together, whose mixture no model describes.
    pub tail: Option<TailModel>,
}

/// Reads the run.
///
/// # Errors
/// [`ExportError`] where it cannot be read, or holds costs.
pub fn statistics(path: &Path, question: &Question) -> Result<Statistics, ExportError> {
    let run = ExportedRun::open(path, None, None, None)?;
    let mut groups = Vec::new();
    let mut rest = run.series.as_slice();
    while let Some(first) = rest.first() {
        let of_probe = rest.iter().take_while(|series| series.descriptor.probe == first.descriptor.probe).count();
        let (series, after) = rest.split_at(of_probe);
        groups.extend(of_series(&run, series, question)?);
        rest = after;
    }
    let mhz = question.mhz.or_else(|| clock_rate(run.record.machine.processors.model.as_deref()?));
    Ok(Statistics { groups, rule_of_thumb_ns: mhz.map(|mhz| (OSADL_CYCLES / mhz * 1e3, mhz)) })
}

/// Series of one probe.
fn of_series(run: &ExportedRun, series: &[ExportedSeries], question: &Question) -> Result<Vec<Group>, ExportError> {
    // Each is read whole, twice: as many at a time as there are series of a probe, or processors.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut read = Vec::new();
    for some in series.chunks(threads) {
        let results: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|series| scope.spawn(|| read_series(run, series, question))).collect();
            running.into_iter().map(|thread| thread.join().expect("reading a series does not panic")).collect()
        });
        for result in results {
            read.push(result?);
        }
    }
    let mut together = Histogram::new(Budget::ANALYSIS);
    read.iter().for_each(|(histogram, _)| together.merge(histogram));
    let limits = if question.limits.is_empty() { round_limits(&together) } else { question.limits.clone() };
    let group = |histogram: &Histogram, index: Option<f64>, cpu: Option<CpuId>, is_together: bool, tail: Option<TailModel>| {
        Some(Group {
            probe: series[0].descriptor.probe.clone(),
            quantity: series[0].descriptor.quantity.clone(),
            cpu,
            is_together,
            observed: observed(histogram, question.bucket, &limits)?,
            bounds: bounds(histogram, index, run.summary.measured_ns, &limits)?,
            tail,
        })
    };
    let mut groups = Vec::new();
    for (series, (histogram, tail)) in series.iter().zip(read) {
        let index = run.summary_of(series).and_then(|summary| summary.numbers.as_ref()?.extremal_index);
        groups.extend(group(&histogram, index, series.descriptor.cpu, false, tail));
    }
    // Worst first, as in the summary.
    groups.sort_by_key(|group| std::cmp::Reverse(group.observed.max_ns));
    if series.len() > 1 {
        let probe = run.summary.probes.iter().find(|probe| probe.probe == series[0].descriptor.probe);
        let index = probe.and_then(|probe| probe.numbers.as_ref()?.extremal_index);
        groups.extend(group(&together, index, None, true, None));
    }
    Ok(groups)
}

fn read_series(run: &ExportedRun, series: &ExportedSeries, question: &Question) -> Result<(Histogram, Option<TailModel>), ExportError> {
    let histogram = series.histogram()?;
    let index = run.summary_of(series).and_then(|summary| summary.numbers.as_ref()?.extremal_index);
    let tail = tail(series, &histogram, index, run.resolution_of(series), question.horizon)?;
    Ok((histogram, tail))
}

/// 1, 2 and 5 times powers of ten, from the last one below the median to the first above the maximum.
fn round_limits(histogram: &Histogram) -> Vec<Nanos> {
    let Some(max) = histogram.max() else { return Vec::new() };
    let median = histogram.values_at(&[histogram.count().div_ceil(2)])[0].unwrap_or(0);
    let round = (2..18).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power)));
    let mut limits: Vec<i64> = Vec::new();
    for limit in round {
        if limit <= median {
            limits.clear();
        }
        limits.push(limit);
        if limit > max {
            break;
        }
    }
    limits.into_iter().map(Nanos).collect()
}

/// From a processor's name, as in `Intel(R) Xeon(R) CPU @ 2.30GHz`, in MHz.
fn clock_rate(model: &str) -> Option<f64> {
    let text = model.rsplit_once('@')?.1.trim();
    let (number, factor) = match text.strip_suffix("GHz") {
        Some(number) => (number, 1e3),
        None => (text.strip_suffix("MHz")?, 1.0),
    };
    number.trim().parse::<f64>().ok().map(|number| number * factor).filter(|mhz| (1.0..100_000.0).contains(mhz))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reach_from_below_the_median_to_above_the_maximum() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        [13_000, 14_000, 15_000, 230_000].iter().for_each(|&value| histogram.record(value));
        assert_eq!(round_limits(&histogram), [10_000, 20_000, 50_000, 100_000, 200_000, 500_000].map(Nanos));
        assert!(round_limits(&Histogram::new(Budget::ANALYSIS)).is_empty());
    }

    #[test]
    fn a_clock_rate_stands_behind_the_name() {
        assert_eq!(clock_rate("Intel(R) Xeon(R) CPU @ 2.30GHz"), Some(2_300.0));
        assert_eq!((clock_rate("AMD EPYC"), clock_rate("x @ fast")), (None, None));
    }
}
