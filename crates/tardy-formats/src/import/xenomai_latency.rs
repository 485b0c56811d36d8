//! `latency` of Xenomai's testsuite, and `latmus` of EVL, which prints the same lines. Each line of
//! data is a second with its extremes and mean, in us to the ns; `RTS` is the whole. With -h there
//! are histograms: `avg` of all samples, `min` and `max` of the seconds' extremes.
//!
//! The traps: how wide the buckets are is not in the file, and the last one holds everything beyond
//! it too; buckets are of absolute values, so that early wake-ups look late; overruns are periods
//! that passed unused. Source: Xenomai, testsuite/latency/latency.c.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "xenomai-latency",
    about: "latency of Xenomai, latmus of EVL",
    detect: |head| {
        head_lines(head).iter().any(|line| {
            ["RTT|", "RTH|", "RTD|", "RTS|"]
                .iter()
                .any(|start| line.starts_with(start))
        })
    },
    reader: read,
    parts: |lines| parts::at(lines, |line| line.starts_with("== Sampling period:")),
    is_binary: false,
};

/// Width of a bucket, unless it was chosen (-B).
const BUCKET_NS: i64 = 1_000;
/// How far the mean of the buckets may lie from the stated one, in buckets: they are of one width
/// then.
const MEAN_TOLERANCE: f64 = 0.6;

/// What the file says.
#[derive(Default)]
struct Statements {
    period: Option<Nanos>,
    mode: Option<String>,
    /// Lines of data, and what they come to: least and largest value, sum of the means, overruns so
    /// far.
    seconds: u64,
    min: Option<i64>,
    max: Option<i64>,
    mean_sum: f64,
    overruns: u64,
    /// The line of the whole run.
    whole: Option<RunTotals>,
    buckets: Vec<(i64, u64)>,
}

struct RunTotals {
    min: i64,
    mean: f64,
    max: i64,
    overruns: u64,
    /// Seconds measured.
    seconds: Option<i64>,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut found = Statements::default();
    let mut last_line = 1;
    for (line, text) in lines(&text) {
        last_line = line;
        let bad = |expected: &str| source.expected(line, expected, &text);
        if let Some(rest) = text.strip_prefix("== Sampling period:") {
            let period = rest.trim().strip_suffix("us").map(str::trim);
            found.period = period.and_then(|period| nanos(period, Unit::Us)).map(Nanos);
        } else if let Some(rest) = text.strip_prefix("== Test mode:") {
            found.mode = Some(rest.trim().to_owned());
        } else if let Some(rest) = text.strip_prefix("RTT|") {
            found.head(rest);
        } else if let Some(rest) = text.strip_prefix("RTD|") {
            found.second(rest).ok_or_else(|| {
                bad("a second as in `RTD|  1.207|  1.502|  9.817|  0|  0|  1.207|  9.817`")
            })?;
        } else if let Some(rest) = text.strip_prefix("RTS|") {
            found.whole = Some(whole(rest).ok_or_else(|| {
                bad("the whole run as in `RTS|  1.207|  1.504|  9.817|  0|  0|  00:00:10/00:00:10`")
            })?);
        } else if let Some((kind, bucket)) = text
            .strip_prefix("HSD|")
            .and_then(|rest| rest.split_once('|'))
        {
            let bucket = bucket_of(bucket)
                .ok_or_else(|| bad("a bucket as in `HSD|    avg|  12 - 13 |     9876`"))?;
            if kind.trim() == "avg" {
                found.buckets.push(bucket);
            }
        }
    }
    let period = settings
        .period
        .or(found.period)
        .filter(|period| *period > Nanos::ZERO);
    let period = period.ok_or_else(|| {
        source.ask(
            "this output (latency -q)",
            "its period",
            "--period, as in --period 100us",
        )
    })?;
    if found.whole.is_none() && found.seconds == 0 {
        return Err(source.expected(
            last_line,
            "lines of data, `RTD|...` or `RTS|...`",
            "the end of the file",
        ));
    }
    let mut imported = ImportedRun {
        tool: "latency".to_owned(),
        ..ImportedRun::default()
    };
    imported.notes.extend(
        found
            .mode
            .clone()
            .map(|mode| format!("measured by the tool's {mode}")),
    );
    let mut counted = counted(&found, period, &mut imported);
    if counted.buckets.is_empty() {
        imported.notes.push(EXTREMES_NOTE.to_owned());
    }
    imported.length = found.length();
    hand_over_all(
        std::slice::from_mut(&mut counted),
        &mut imported,
        source,
        sink,
    )?;
    Ok(imported)
}

fn counted(found: &Statements, period: Nanos, imported: &mut ImportedRun) -> BucketSeries {
    let mut counted = BucketSeries::new("xenomai-latency", LATENCY, None);
    counted.period = Some(period);
    let a_second = (1_000_000_000 / period.get()).max(0) as u64;
    let seconds = found
        .length()
        .map_or(0, |length| (length.get() / 1_000_000_000) as u64);
    let whole = found.whole.as_ref();
    let (min, max) = (
        whole.map(|whole| whole.min).or(found.min),
        whole.map(|whole| whole.max).or(found.max),
    );
    let mean = whole
        .map(|whole| whole.mean)
        .or((found.seconds > 0).then(|| found.mean_sum / found.seconds as f64));
    counted.stated = StatedTotals {
        samples: Some(seconds.saturating_mul(a_second)),
        min_ns: min.map(Nanos),
        max_ns: max.map(Nanos),
        mean_ns: mean.filter(|mean| mean.is_finite()),
        resolution_ns: Nanos(1),
        skipped: Some(whole.map_or(found.overruns, |whole| whole.overruns)),
        ..StatedTotals::default()
    };
    if whole.is_none() {
        imported.notes.push(
            "the line for the whole run is missing because the tool was killed: the lines for its \
             seconds are used"
                .to_owned(),
        );
    }
    let Some(&(last, beyond)) = found.buckets.last() else {
        return counted;
    };
    if !found.has_usual_buckets() {
        imported.notes.push(
            "the histogram's buckets are not 1 us wide (-B), and the file does not state their \
             width: the histogram is left out"
                .to_owned(),
        );
        return counted;
    }
    imported
        .notes
        .push("buckets hold absolute values, rounded down to whole us".to_owned());
    counted.buckets = found
        .buckets
        .iter()
        .map(|&(bucket, count)| (bucket.saturating_mul(BUCKET_NS), count))
        .collect();
    counted.stated.resolution_ns = Nanos(BUCKET_NS);
    counted.stated.samples = Some(counted.in_buckets());
    // The largest value lies beyond the last bucket: that one holds whatever is longer.
    if max.is_some_and(|max| max / BUCKET_NS > last) {
        counted.buckets.pop();
        counted.overflow(beyond, last.saturating_mul(BUCKET_NS));
    }
    counted
}

impl Statements {
    /// `  00:00:01  (periodic user-mode task, 100 us period, priority 99)`.
    fn head(&mut self, rest: &str) {
        let Some((_, inside)) = rest.split_once('(') else {
            return;
        };
        for part in inside.trim_end().trim_end_matches(')').split(',') {
            if let Some(period) = part.trim().strip_suffix("us period") {
                self.period = nanos(period.trim(), Unit::Us).map(Nanos);
            }
        }
        self.mode = inside.split(',').next().map(|mode| mode.trim().to_owned());
    }

    fn second(&mut self, rest: &str) -> Option<()> {
        let fields: Vec<&str> = rest.split('|').map(str::trim).collect();
        let [min, mean, max, overruns, ..] = fields[..] else {
            return None;
        };
        let (min, mean, max) = (
            nanos(min, Unit::Us)?,
            nanos(mean, Unit::Us)?,
            nanos(max, Unit::Us)?,
        );
        self.overruns = overruns.parse().ok()?;
        self.seconds += 1;
        self.min = Some(self.min.map_or(min, |known| known.min(min)));
        self.max = Some(self.max.map_or(max, |known| known.max(max)));
        self.mean_sum += mean as f64;
        Some(())
    }

    /// How long was measured: all seconds of data, where they were printed.
    fn length(&self) -> Option<Nanos> {
        let printed = (self.seconds > 0).then(|| i64::try_from(self.seconds).unwrap_or(i64::MAX));
        let seconds = printed.or(self.whole.as_ref().and_then(|whole| whole.seconds))?;
        seconds
            .checked_mul(1_000_000_000)
            .filter(|length| *length > 0)
            .map(Nanos)
    }

    /// Whether the mean of the buckets, taken as 1 us wide, is the one stated.
    fn has_usual_buckets(&self) -> bool {
        let samples = self
            .buckets
            .iter()
            .fold(0.0, |sum, &(_, count)| sum + count as f64);
        let sum = self.buckets.iter().fold(0.0, |sum, &(bucket, count)| {
            sum + (bucket as f64 + 0.5) * count as f64
        });
        let stated = self
            .whole
            .as_ref()
            .map(|whole| whole.mean / BUCKET_NS as f64);
        // Samples beyond the last bucket make the stated mean larger, and early wake-ups make it
        // smaller.
        stated.is_some_and(|stated| {
            (stated - sum / samples).abs() <= MEAN_TOLERANCE + 0.1 * stated.abs()
        })
    }
}

fn whole(rest: &str) -> Option<RunTotals> {
    let fields: Vec<&str> = rest.split('|').map(str::trim).collect();
    let [min, mean, max, overruns, ..] = fields[..] else {
        return None;
    };
    let clock = fields.last()?.split('/').next()?.trim();
    let parts: Option<Vec<i64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let seconds = parts.and_then(|parts| match parts[..] {
        [hours, minutes, seconds] => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?
            .checked_add(seconds),
        _ => None,
    });
    Some(RunTotals {
        min: nanos(min, Unit::Us)?,
        mean: nanos(mean, Unit::Us)? as f64,
        max: nanos(max, Unit::Us)?,
        overruns: overruns.parse().ok()?,
        seconds,
    })
}

/// `  12 - 13 |     9876`.
fn bucket_of(text: &str) -> Option<(i64, u64)> {
    let (range, count) = text.split_once('|')?;
    let (from, _) = range.split_once('-')?;
    let from = from
        .trim()
        .parse()
        .ok()
        .filter(|from| (0..1 << 40).contains(from))?;
    Some((from, count.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_known() {
        let mut found = Statements::default();
        found.head("  00:00:01  (periodic user-mode task, 100 us period, priority 99)");
        assert_eq!(
            (found.period, found.mode.as_deref()),
            (Some(Nanos(100_000)), Some("periodic user-mode task"))
        );
        found
            .second("      1.207|      1.502|      9.817|       3|     0|      1.207|      9.817")
            .unwrap();
        found
            .second("     -0.300|      1.500|      2.000|       4|     0|     -0.300|      9.817")
            .unwrap();
        assert_eq!(
            (found.min, found.max, found.overruns, found.seconds),
            (Some(-300), Some(9_817), 4, 2)
        );
        assert!(found.second("  a| 1| 2| 3").is_none());
        let all =
            whole("      1.207|      1.504|      9.817|       4|     0|    00:01:10/00:01:10")
                .unwrap();
        assert_eq!((all.mean, all.seconds), (1_504.0, Some(70)));
        assert_eq!(bucket_of("  12 -13 |     9876"), Some((12, 9_876)));
    }
}
