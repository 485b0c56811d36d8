//! Reads histograms for gnuplot, as `latmus -g` of EVL and `latency -g` of Xenomai write them:
//! comments with the extremes, then one row per bucket. latmus labels a bucket with its lower end
//! in us, Xenomai with its middle.
//!
//! Caution: Xenomai, and versions of latmus that do not print the time of the peak, add 1 to each
//! count, because a logarithmic axis cannot show 0. Xenomai adds a row at each end. Counts have 32
//! bits and wrap. Buckets hold absolute values. The last bucket contains all larger values. Source:
//! libevl, benchmarks/latmus.c; Xenomai, testsuite/latency/latency.c.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::latency_columns::{Columns, Values};
use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, Sink, hand_over_all, wide_note};
use super::text::{head_lines, lines, nanos};
use super::xenomai_latency::{Head, clock};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "xenomai-plot",
    about: "gnuplot histograms of latmus -g (EVL) and latency -g (Xenomai)",
    detect: |head| head_lines(head).iter().any(|line| is_begin(line)),
    reader: read,
    parts: |lines| parts::at(lines, is_begin),
    is_binary: false,
};

/// Returns whether a plot of latmus or Xenomai starts at this line.
fn is_begin(line: &str) -> bool {
    line.starts_with(PERIOD) || is_xenomai(line)
}

const PERIOD: &str = "# sampling period:";

/// Recognises a line such as `# 211:04:55 (periodic user-mode task, 100 us period, priority 99)`.
fn is_xenomai(line: &str) -> bool {
    let rest = line
        .strip_prefix("# ")
        .and_then(|rest| rest.split_once(" ("));
    rest.is_some_and(|(time, inside)| clock(time).is_some() && inside.contains(" us period"))
}

/// Minimum share of the expected samples (length divided by period) that the rows must hold. If the
/// rows hold a smaller share, a count has wrapped.
const SHARE_MIN: f64 = 0.9;

#[derive(Default)]
struct Plot {
    head: Head,
    length: Option<i64>,
    min: Option<i64>,
    mean: Option<i64>,
    max: Option<i64>,
    overruns: u64,
    samples: Option<u64>,
    /// Whether Xenomai wrote the plot.
    is_xenomai: bool,
    /// Whether each count is one too high.
    is_raised: bool,
    /// The name of each row, converted to ns, and its count.
    rows: Vec<(i64, i64)>,
    is_open: bool,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut plot = Plot {
        is_raised: !text
            .lines()
            .any(|line| line.starts_with("# peak (hhmmss):")),
        ..Plot::default()
    };
    let mut last_line = 1;
    for (line, text) in lines(&text) {
        last_line = line;
        plot.line(source, line, text.trim_end())?;
    }
    let (Some(max), false) = (plot.max, plot.rows.is_empty()) else {
        let expected = "a comment with the largest latency, and a row of the histogram";
        return Err(source.expected(last_line, expected, "the end of the file"));
    };
    let end = plot
        .rows
        .last()
        .map_or(0, |row| row.0.saturating_add(plot.width() - plot.half()));
    if !text.ends_with('\n') && end <= max && !plot.is_open {
        let last = text.lines().next_back().unwrap_or_default();
        return Err(source.expected(last_line, "a last row that is not cut off", last));
    }
    let mut imported = ImportedRun {
        tool: if plot.is_xenomai { "latency" } else { "latmus" }.to_owned(),
        length: plot
            .length
            .map(|seconds| Nanos(seconds.saturating_mul(1_000_000_000))),
        ..ImportedRun::default()
    };
    imported.notes.extend(plot.head.note());
    let mut counted = BucketSeries::new("xenomai-latency", plot.head.quantity(), plot.head.cpu);
    let period = settings.period.or(plot.head.period);
    counted.period = period.filter(|period| *period > Nanos::ZERO);
    counted.stated = StatedTotals {
        samples: plot.samples,
        min_ns: plot.min.map(Nanos),
        max_ns: Some(Nanos(max)),
        mean_ns: plot.mean.map(|mean| mean as f64),
        resolution_ns: Nanos(1),
        skipped: Some(plot.overruns),
        ..StatedTotals::default()
    };
    let width = plot.width();
    let expected = counted
        .period
        .zip(imported.length)
        .map(|(period, length)| length.get().checked_div(period.get()).unwrap_or(0).max(0) as u64);
    let expected = plot.samples.or(expected).unwrap_or(0);
    let rows = plot.counts();
    let in_rows = rows
        .iter()
        .flatten()
        .fold(0_u64, |sum, row| sum.saturating_add(row.1));
    if rows.is_none() || (in_rows as f64) < expected as f64 * SHARE_MIN {
        imported.notes.push(format!(
            "the rows hold {in_rows} samples, but the run had about {expected}: the tool's 32-bit \
             counts overflowed, so the histogram is left out"
        ));
        imported.notes.push(EXTREMES_NOTE.to_owned());
        counted.stated.samples = Some(expected);
    } else {
        counted.buckets = rows.unwrap_or_default();
        counted.stated.resolution_ns = Nanos(width);
        counted.stated.samples = plot.samples.or(Some(in_rows));
        let last = counted.buckets.last().copied();
        // The maximum lies beyond the last bucket, which contains all larger values.
        if let Some((from, beyond)) = last
            && (plot.is_open || max >= from.saturating_add(width))
        {
            counted.buckets.pop();
            counted.overflow(beyond, from);
        }
        imported.notes.push(if width > Unit::Us.nanos() {
            counted.count_at_ends(width, 1);
            wide_note(width)
        } else {
            let width = Nanos(width);
            format!("buckets hold absolute values, rounded down to multiples of {width}")
        });
    }
    let series = std::slice::from_mut(&mut counted);
    hand_over_all(series, &mut imported, source, sink)?;
    Ok(imported)
}

impl Plot {
    fn line(&mut self, source: &Source, line: u64, text: &str) -> Result<(), ImportError> {
        let bad = |expected: &str| source.expected(line, expected, text);
        let Some(comment) = text.strip_prefix('#') else {
            let (row, is_open) = match row(text) {
                Some(row) => row,
                // Data lines and messages of latmus are skipped.
                None if !text.starts_with(|sign: char| sign.is_ascii_digit()) => return Ok(()),
                None => return Err(bad("a bucket and its count, as in `12 9876`")),
            };
            if self.rows.last().is_some_and(|before| row.0 <= before.0) {
                return Err(bad("a bucket of larger latencies than in the line before"));
            }
            self.rows.push(row);
            self.is_open |= is_open;
            return Ok(());
        };
        if is_xenomai(text) {
            (self.is_xenomai, self.is_raised) = (true, true);
            self.length = clock(comment.split('(').next().unwrap_or_default());
            self.head.parse(comment);
        } else if let (true, Some(values)) = (
            self.is_xenomai,
            Columns::default().values(comment, Unit::Us),
        ) {
            let Values {
                min,
                mean,
                max,
                overruns,
            } = values;
            (self.min, self.mean, self.max) = (Some(min), Some(mean), Some(max));
            self.overruns = overruns.unwrap_or(0);
        } else if let Some((name, value)) = comment.split_once(':') {
            let value = value.trim();
            let micros = || {
                let nanos = nanos(value, Unit::Us);
                nanos.map(Some).ok_or_else(|| bad("a time in us"))
            };
            let number = || value.parse().map_err(|_| bad("a count"));
            match name.trim() {
                "sampling period" => {
                    let period = value.trim_end_matches(" microseconds");
                    self.head.period = nanos(period, Unit::Us).map(Nanos);
                }
                "context" => self.head.mode = Some(value.to_owned()),
                "thread affinity" => self.head.parse_cpu(value),
                "duration (hhmmss)" => self.length = clock(value),
                "OVERRUNS" => self.overruns = number()?,
                "min latency" => self.min = micros()?,
                "avg latency" => self.mean = micros()?,
                "max latency" => self.max = micros()?,
                "sample count" => self.samples = Some(number()?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the width of a bucket in ns. The distance of Xenomai's first and last rows from
    /// their neighbours is half a bucket.
    fn width(&self) -> i64 {
        let distances = self.rows.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let usual = Unit::Us.nanos();
        if self.is_xenomai {
            distances.max().unwrap_or(usual)
        } else {
            usual
        }
    }

    /// Returns the distance from a bucket's lower end to its label, the number in the first column.
    fn half(&self) -> i64 {
        if self.is_xenomai { self.width() / 2 } else { 0 }
    }

    /// Returns lower end and count of each bucket that has samples; `None` if a count is negative.
    fn counts(&self) -> Option<Vec<(i64, u64)>> {
        let half = self.half();
        let raised = i64::from(self.is_raised);
        let counts = self.rows.iter().map(|&(name, count)| {
            let count = u64::try_from(count.saturating_sub(raised)).ok()?;
            Some((name.saturating_sub(half).max(0), count))
        });
        let mut counts = counts.collect::<Option<Vec<_>>>()?;
        counts.retain(|&(_, count)| count > 0);
        Some(counts)
    }
}

/// Parses a line such as `12 9876` or `199+ 3`. Returns the bucket's name, converted to ns; its
/// count; and whether a `+` follows the name.
fn row(text: &str) -> Option<((i64, i64), bool)> {
    let (name, count) = text.split_once(' ')?;
    let is_open = name.ends_with('+');
    let name = nanos(name.trim_end_matches('+'), Unit::Us)?;
    Some(((name, count.trim().parse().ok()?), is_open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lose_what_the_plot_added_to_them() {
        assert_eq!(row("199+ 3"), Some(((199_000, 3), true)));
        assert_eq!(row("0.5 1599357037"), Some(((500, 1_599_357_037), false)));
        assert_eq!(row("12"), None);
        let plot = |is_xenomai, is_raised, rows: &[(i64, i64)]| {
            let plot = Plot {
                is_xenomai,
                is_raised,
                rows: rows.to_vec(),
                ..Plot::default()
            };
            (plot.width(), plot.counts())
        };
        let rows = [(1_000, 1), (1_500, 8), (2_500, 1), (3_500, 3), (4_000, 1)];
        let expected = vec![(1_000, 7), (3_000, 2)];
        assert_eq!(plot(true, true, &rows), (1_000, Some(expected)));
        let rows = [(1_000, 7), (2_000, 0), (3_000, 2)];
        let expected = vec![(1_000, 7), (3_000, 2)];
        assert_eq!(plot(false, false, &rows), (1_000, Some(expected)));
        assert_eq!(plot(false, false, &[(0, -5)]).1, None);
        assert!(is_xenomai(
            "# 211:04:55 (periodic user-mode task, 100 us period, priority 99)"
        ));
        assert!(!is_xenomai("# 1 (2 us period)"));
    }
}
