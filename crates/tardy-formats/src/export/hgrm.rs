//! Writes percentiles in the format of HdrHistogram's plotters: value in us, share of samples at or
//! below the value, their number, and 1/(1-share).
//!
//! The share rises in steps. Five equal steps cover half of the remaining distance to 100 %, and
//! the next five are half as large. This format has exact values, while HdrHistogram writes the
//! ends of its buckets. The last line states the buckets that HdrHistogram needs for three
//! significant digits. Source: HdrHistogram, `outputPercentileDistribution`.

use std::io::Write;

use tardy_core::histogram::{Budget, Histogram};
use tardy_statistics::moments::Moments;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// Number of steps in which the remaining distance to 100 % halves
/// (`percentileTicksPerHalfDistance` of HdrHistogram).
const STEPS_A_HALF: f64 = 5.0;
const SUB_BUCKETS: i64 = 2048;

/// `--format hgrm`.
pub(super) struct Hgrm;

impl Exporter for Hgrm {
    fn name(&self) -> &'static str {
        "hgrm"
    }

    fn about(&self) -> &'static str {
        "percentiles of one probe in us, all CPUs together, for HdrHistogram's plotters"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        run.one_probe("hgrm")?;
        let mut together = Histogram::new(Budget::ANALYSIS);
        for series in &run.series {
            together.merge(&series.histogram()?);
        }
        out.write_all(text(&together).as_bytes())?;
        Ok(())
    }
}

fn text(histogram: &Histogram) -> String {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let total = histogram.count();
    let mut moments = Moments::default();
    let (mut seen, mut next) = (0_u64, 0.0_f64);
    histogram.for_each(|value, count| {
        moments.push_many(value as f64, count);
        seen += count;
        let share = seen as f64 / total as f64;
        if seen == total {
            out.push_str(&format!(
                "{:12.3} {:2.12} {seen:10}\n",
                value as f64 / 1e3,
                1.0
            ));
        } else if share >= next {
            out.push_str(&format!(
                "{:12.3} {share:2.12} {seen:10} {:14.2}\n",
                value as f64 / 1e3,
                1.0 / (1.0 - share)
            ));
            while next <= share {
                next += half_distance(next) / STEPS_A_HALF;
            }
        }
    });
    let (mean, deviation) = (
        moments.mean().unwrap_or_default(),
        moments.variance().unwrap_or_default().sqrt(),
    );
    let max = histogram.max().unwrap_or_default();
    out.push_str(&format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n",
        mean / 1e3,
        deviation / 1e3
    ));
    out.push_str(&format!(
        "#[Max     = {:12.3}, Total count    = {total:12}]\n",
        max as f64 / 1e3
    ));
    out.push_str(&format!(
        "#[Buckets = {:12}, SubBuckets     = {SUB_BUCKETS:12}]\n",
        buckets(max)
    ));
    out
}

/// Returns half of the distance to 1 at the start of the interval that contains `share`: 0.5 for
/// shares from 0 to 0.5, 0.25 from 0.5 to 0.75, 0.125 from 0.75 to 0.875, and so on.
fn half_distance(share: f64) -> f64 {
    0.5_f64.powi((-(1.0 - share).log2()).floor() as i32 + 1)
}

fn buckets(max: i64) -> u32 {
    let mut buckets = 1;
    let mut end = SUB_BUCKETS;
    while end <= max {
        end = end.saturating_mul(2);
        buckets += 1;
        if end == i64::MAX {
            break;
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_in_steps_that_shrink_and_end_at_the_maximum() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        (1..=100_000_i64).for_each(|value| histogram.record(value * 1000));
        let text = text(&histogram);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                line.split_whitespace()
                    .map(|word| word.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(
            rows.windows(2)
                .all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1])
        );
        assert_eq!(rows.last().unwrap(), &[100_000.0, 1.0, 100_000.0]);
        // Five steps lead from 0 to 50 %, and five from there to 75 %.
        let below = |share: f64| rows.iter().filter(|row| row[1] < share).count();
        assert_eq!((below(0.5), below(0.75) - below(0.5)), (5, 5), "{text}");
        assert!(
            text.contains("#[Max     =   100000.000, Total count    =       100000]"),
            "{text}"
        );
    }

    #[test]
    fn nothing_recorded_is_no_division_by_zero() {
        assert!(!text(&Histogram::new(Budget::ANALYSIS)).contains("NaN"));
    }
}
