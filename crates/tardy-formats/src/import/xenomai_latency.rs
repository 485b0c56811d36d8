//! Reads the output of `latency` from Xenomai's testsuite, of `latmus` from EVL, and of `latency`
//! and `preempt` from RTAI's testsuite. Each data line has the extremes and the mean of one
//! interval; the line `RTH|` names the columns. Xenomai and EVL print us with decimals, and a line
//! `RTS|` for the whole run; RTAI prints whole ns. With -h, Xenomai prints three histograms: `avg`
//! of all samples, and `min` and `max` of each second's extremes.
//!
//! Caution: RTAI has other columns, so its mean is at the position of Xenomai's maximum. The file
//! does not state the width of the buckets. The last bucket contains all larger values. Buckets
//! hold absolute values, so early wake-ups look late. Overruns are skipped periods. klatency does
//! not print one line per second. latmus with a GPIO measures a round trip. Source: Xenomai,
//! testsuite/latency/latency.c; libevl, benchmarks/latmus.c; RTAI,
//! testsuite/kern/latency/display.c.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::latency_columns::{Columns, Values};
use super::sink::{
    BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, ROUND_TRIP, Sink, UNCOUNTED_NOTE,
    hand_over_all,
};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "xenomai-latency",
    about: "the tools latency of Xenomai and latmus of EVL",
    detect: |head| {
        let lines = head_lines(head);
        lines.iter().any(|line| is_data(line)) && !is_rtai(&lines)
    },
    reader: |source, settings, sink| read(source, settings, sink, XENOMAI),
    parts: begins,
    is_binary: false,
};

pub(super) const RTAI: Format = Format {
    name: "rtai-latency",
    about: "the tools latency and preempt of RTAI",
    detect: |head| {
        let lines = head_lines(head);
        lines.iter().any(|line| is_data(line)) && is_rtai(&lines)
    },
    reader: |source, settings, sink| read(source, settings, sink, RTAI_TOOL),
    parts: |lines| parts::at(lines, |line| line.starts_with(RTAI_TITLE)),
    is_binary: false,
};

/// The differences between the tools that print such lines.
#[derive(Clone, Copy)]
struct Tool {
    name: &'static str,
    probe: &'static str,
    unit: Unit,
    /// Examples of a data line and of a line for the whole run, which error messages quote.
    examples: [&'static str; 2],
}

const XENOMAI: Tool = Tool {
    name: "latency",
    probe: "xenomai-latency",
    unit: Unit::Us,
    examples: [
        "RTD|  1.207|  1.502|  9.817|  0|  0|  1.207|  9.817",
        "RTS|  1.207|  1.504|  9.817|  0|  0|  00:00:10/00:00:10",
    ],
};

const RTAI_TOOL: Tool = Tool {
    name: "RTAI latency",
    probe: "rtai-latency",
    unit: Unit::Ns,
    examples: ["RTD|  -1571|  -1571|  1622|  8446|  8446|  0"; 2],
};

const RTAI_TITLE: &str = "RTAI Testsuite -";

fn is_data(line: &str) -> bool {
    ["RTT|", "RTH|", "RTD|", "RTS|"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Returns whether RTAI printed the text: it has a title, other names of columns, or values without
/// decimals.
fn is_rtai(lines: &[&str]) -> bool {
    let is_one = |line: &&str| {
        line.starts_with(RTAI_TITLE)
            || line.starts_with("RTH|") && (line.contains("ovl max") || line.contains("jit fast"))
            || line
                .strip_prefix("RTD|")
                .is_some_and(|rest| !rest.contains('.') && rest.split('|').count() > 2)
    };
    lines.iter().any(is_one)
}

/// Returns the lines at which runs start, which are their titles. latmus prints no title; its run
/// ends with the totals, and its clock restarts.
fn begins(lines: &[&str]) -> Vec<usize> {
    let titles = parts::at(lines, |line| line.starts_with("== Sampling period:"));
    if !titles.is_empty() {
        return titles;
    }
    let mut begins = Vec::new();
    let (mut is_over, mut before) = (true, 0);
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_data(line)) {
        let elapsed = line
            .strip_prefix("RTT|")
            .and_then(|rest| clock(rest.split('(').next()?));
        if is_over || elapsed.is_some_and(|elapsed| elapsed < before) {
            begins.push(at);
            before = 0;
        }
        is_over = line.starts_with("RTS|");
        before = elapsed.unwrap_or(before);
    }
    begins
}

const TORN_NOTE: &str = "the last line is cut off, and is left out";

/// Width of a bucket, unless the user chose another width (-B).
const BUCKET_NS: i64 = 1_000;
/// Maximum accepted difference between the stated mean and the mean of the buckets, in buckets. If
/// the difference is larger, the assumed width is rejected.
const MEAN_TOLERANCE: f64 = 0.6;

/// All that the file states.
#[derive(Default)]
struct Statements {
    head: Head,
    /// The columns, from the line that names them.
    columns: Option<Columns>,
    /// Seconds covered by a data line, if the file states them.
    line_seconds: Option<u64>,
    /// Number and totals of the data lines: minimum, maximum, sum of the means, overruns so far.
    lines: u64,
    min: Option<i64>,
    max: Option<i64>,
    mean_sum: f64,
    overruns: Option<u64>,
    /// The last data line, and whether it repeats the one before.
    last: String,
    repeated: Option<Values>,
    /// The totals from the line for the whole run.
    whole: Option<RunTotals>,
    /// Number and text of the first unreadable data line.
    damaged: Option<(u64, String)>,
    /// Number of samples, as stated in the statistics of the histogram (-s).
    counted: Option<u64>,
    buckets: Vec<(i64, u64)>,
}

/// The text in parentheses that describes a measurement.
#[derive(Default)]
pub(super) struct Head {
    pub(super) period: Option<Nanos>,
    pub(super) mode: Option<String>,
    pub(super) cpu: Option<u32>,
}

impl Head {
    /// Parses ` 00:00:01 (periodic user-mode task, 100 us period, priority 99)`, or, from latmus,
    /// `(user, 1000 us period, priority 90, CPU1-noisol)`.
    pub(super) fn parse(&mut self, rest: &str) {
        let Some((_, inside)) = rest.split_once('(') else {
            return;
        };
        for part in inside
            .trim_end()
            .trim_end_matches(')')
            .split(',')
            .map(str::trim)
        {
            if let Some(period) = part.strip_suffix("us period") {
                self.period = nanos(period.trim(), Unit::Us).map(Nanos);
            }
            self.parse_cpu(part);
        }
        self.mode = inside.split(',').next().map(|mode| mode.trim().to_owned());
    }

    /// Returns the quantity. With a GPIO, latmus measures the time from an edge to the answer.
    pub(super) fn quantity(&self) -> &'static str {
        let is_gpio = self
            .mode
            .as_deref()
            .is_some_and(|mode| mode.ends_with("gpio"));
        if is_gpio { ROUND_TRIP } else { LATENCY }
    }

    /// Returns a note about the measuring task (Xenomai, RTAI) or about the context in which it
    /// runs (EVL).
    pub(super) fn note(&self) -> Option<String> {
        let mode = self.mode.as_deref()?;
        Some(if mode.contains(' ') {
            format!("measured by the tool's {mode}")
        } else {
            format!("measured in the context `{mode}`")
        })
    }

    /// Parses `CPU1`, or `CPU1-noisol` for a CPU that is not isolated.
    pub(super) fn parse_cpu(&mut self, text: &str) {
        if let Some(cpu) = text.strip_prefix("CPU") {
            self.cpu = cpu.split('-').next().and_then(|cpu| cpu.parse().ok());
        }
    }
}

struct RunTotals {
    values: Values,
    /// Length of the measurement in seconds.
    seconds: Option<i64>,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
    tool: Tool,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut imported = ImportedRun {
        tool: tool.name.to_owned(),
        ..ImportedRun::default()
    };
    let mut found = Statements::default();
    let is_torn = !text.ends_with('\n');
    let last_line = text.lines().count() as u64;
    // Collections of RTAI's results start with a table of all runs. This table is skipped.
    let title = text.lines().position(|line| line.starts_with(RTAI_TITLE));
    let above = title.map_or(0, |at| at as u64);
    for (line, text) in lines(&text).filter(|(line, text)| *line > above || !is_data(text)) {
        let is_torn = is_torn && line == last_line && found.lines > 0;
        if !found.line(source, &tool, line, &text, is_torn)? {
            imported.notes.push(TORN_NOTE.to_owned());
        }
    }
    if let Some((line, text)) = &found.damaged {
        if found.whole.is_none() {
            return Err(source.expected(*line, format!("data as in `{}`", tool.examples[0]), text));
        }
        imported.notes.push(format!(
            "line {line} is damaged, and is left out: the line for the whole run includes its \
             values"
        ));
    }
    if found.whole.is_none() && found.lines == 0 {
        let expected = format!("lines of data, as `{}`", tool.examples[0]);
        return Err(source.expected(last_line.max(1), expected, "the end of the file"));
    }
    let period = settings.period.or(found.head.period);
    let period = period.filter(|period| *period > Nanos::ZERO);
    if period.is_none() && found.is_periodic() {
        let flag = "--period, as in --period 100us";
        return Err(source.ask("this output", "its period", flag));
    }
    imported.notes.extend(found.head.note());
    found.forget_repeated(&tool);
    let mut counted = counted(&found, &tool, period, &mut imported);
    if counted.buckets.is_empty() {
        imported.notes.push(EXTREMES_NOTE.to_owned());
    }
    imported.length = found.length();
    imported.notes.extend(found.length_note());
    hand_over_all(
        std::slice::from_mut(&mut counted),
        &mut imported,
        source,
        sink,
    )?;
    Ok(imported)
}

fn counted(
    found: &Statements,
    tool: &Tool,
    period: Option<Nanos>,
    imported: &mut ImportedRun,
) -> BucketSeries {
    let mut counted = BucketSeries::new(tool.probe, found.head.quantity(), found.head.cpu);
    counted.period = period;
    let whole = found.whole.as_ref().map(|whole| whole.values);
    let max = whole.map(|whole| whole.max).max(found.max);
    let mean = whole
        .map(|whole| whole.mean as f64)
        .or((found.lines > 0).then(|| found.mean_sum / found.lines as f64));
    let samples = period
        .zip(found.counted_seconds())
        .map(|(period, seconds)| {
            let a_second = (1_000_000_000 / period.get()).max(0) as u64;
            (seconds.max(0) as u64).saturating_mul(a_second)
        });
    let samples = found.counted.or(samples);
    if samples.is_none() {
        imported.notes.push(UNCOUNTED_NOTE.to_owned());
    }
    counted.stated = StatedTotals {
        samples: samples.or(Some(2)),
        min_ns: whole.map(|whole| whole.min).or(found.min).map(Nanos),
        max_ns: max.map(Nanos),
        mean_ns: mean.filter(|mean| mean.is_finite()),
        resolution_ns: Nanos(1),
        skipped: whole.and_then(|whole| whole.overruns).or(found.overruns),
        ..StatedTotals::default()
    };
    if whole.is_none() && tool.unit == Unit::Us {
        imported.maximum_unsure = Some("the line `RTS|` for the whole run is missing".to_owned());
    }
    if found.is_periodic()
        && whole.is_none()
        && tool.unit == Unit::Ns
        && found.line_seconds.is_none()
    {
        imported.notes.push(
            "tardy computes the number of samples from the number of lines, at one second \
             per line"
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
    counted.stated.samples = found.counted.or(Some(counted.in_buckets()));
    // The maximum lies beyond the last bucket, which contains all larger values.
    if max.is_some_and(|max| max / BUCKET_NS > last) {
        counted.buckets.pop();
        counted.overflow(beyond, last.saturating_mul(BUCKET_NS));
    }
    counted
}

impl Statements {
    /// Parses a line. Returns false if the line is a truncated data line.
    fn line(
        &mut self,
        source: &Source,
        tool: &Tool,
        line: u64,
        text: &str,
        is_torn: bool,
    ) -> Result<bool, ImportError> {
        let bad = |expected: String| source.expected(line, expected, text);
        if let Some(rest) = text.strip_prefix("== Sampling period:") {
            let period = rest.trim().strip_suffix("us").map(str::trim);
            self.head.period = period.and_then(|period| nanos(period, Unit::Us)).map(Nanos);
        } else if let Some(rest) = text.strip_prefix("== Test mode:") {
            self.head.mode = Some(rest.trim().to_owned());
        } else if let Some(rest) = text.strip_prefix(RTAI_TITLE) {
            let mode = rest.split('(').next().unwrap_or_default();
            self.head.mode = Some(mode.trim().to_owned());
        } else if let Some(rest) = text.strip_prefix("RTT|") {
            self.head.parse(rest);
        } else if let Some(rest) = text.strip_prefix("RTH|") {
            let names = "known columns with `lat min`, `lat avg` and `lat max`";
            match Columns::of(rest) {
                None if is_torn => {}
                columns => self.columns = Some(columns.ok_or_else(|| bad(names.to_owned()))?),
            }
        } else if let Some(rest) = text.strip_prefix("RTD|") {
            let usual = (tool.unit == Unit::Us).then(Columns::default);
            let columns = self.columns.clone().or(usual);
            let columns = columns.ok_or_else(|| {
                bad("an earlier line `RTH|...` with the names of the columns".to_owned())
            })?;
            match columns.values(rest, tool.unit) {
                Some(values) => self.data(rest, values),
                None if is_torn => return Ok(false),
                None if self.damaged.is_none() => self.damaged = Some((line, text.to_owned())),
                None => {}
            }
        } else if let Some(rest) = text.strip_prefix("RTS|") {
            let whole = whole(rest, tool.unit);
            let example = || bad(format!("the whole run as in `{}`", tool.examples[1]));
            self.whole = Some(whole.ok_or_else(example)?);
        } else if let Some((kind, bucket)) = text
            .strip_prefix("HSD|")
            .and_then(|rest| rest.split_once('|'))
        {
            let example = || bad("a bucket as in `HSD|    avg|  12 - 13 |     9876`".to_owned());
            let bucket = bucket_of(bucket).ok_or_else(example)?;
            if kind.trim() == "avg" {
                self.buckets.push(bucket);
            }
        } else if let Some(rest) = text.strip_prefix("HSS|") {
            let mut fields = rest.split('|').map(str::trim);
            if fields.next() == Some("avg") {
                self.counted = fields.next().and_then(|samples| samples.parse().ok());
            }
        } else if tool.unit == Unit::Ns {
            self.head.period = setting(text, "period").map(Nanos).or(self.head.period);
            let seconds = setting(text, "avrgtime").or_else(|| setting(text, "average time"));
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            self.line_seconds = seconds.or(self.line_seconds);
        }
        Ok(true)
    }

    fn data(&mut self, text: &str, values: Values) {
        self.lines += 1;
        self.min = Some(self.min.map_or(values.min, |known| known.min(values.min)));
        self.max = self.max.max(Some(values.max));
        self.mean_sum += values.mean as f64;
        self.overruns = values.overruns;
        self.repeated = (self.last == text).then_some(values);
        text.clone_into(&mut self.last);
    }

    /// Discards a repeated last line: RTAI's display prints it twice when stopped.
    fn forget_repeated(&mut self, tool: &Tool) {
        if let Some(values) = self.repeated.take().filter(|_| tool.unit == Unit::Ns) {
            self.lines -= 1;
            self.mean_sum -= values.mean as f64;
        }
    }

    /// Returns whether data lines come at fixed times. The data lines of RTAI's `preempt` do not
    /// come at fixed times, and `preempt` counts no overruns.
    fn is_periodic(&self) -> bool {
        self.whole.is_some() || self.columns.as_ref().is_none_or(Columns::counts_overruns)
    }

    /// Returns the seconds that the data lines cover, if they come at fixed times.
    fn printed_seconds(&self) -> Option<i64> {
        let seconds = self.lines.saturating_mul(self.line_seconds.unwrap_or(1));
        let is_known = self.lines > 0 && self.is_periodic();
        is_known.then(|| i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    fn stated_seconds(&self) -> Option<i64> {
        let seconds = self.whole.as_ref().and_then(|whole| whole.seconds);
        seconds.filter(|seconds| *seconds > 0)
    }

    /// Returns the length of the measurement.
    fn length(&self) -> Option<Nanos> {
        let seconds = self.stated_seconds().or(self.printed_seconds())?;
        seconds.checked_mul(1_000_000_000).map(Nanos)
    }

    /// Returns the seconds in which samples were taken: the smaller of the stated and the printed
    /// number. The stated time includes the start-up, and lines may come more often than once a
    /// second.
    fn counted_seconds(&self) -> Option<i64> {
        let (stated, printed) = (self.stated_seconds(), self.printed_seconds());
        stated.into_iter().chain(printed).min()
    }

    fn length_note(&self) -> Option<String> {
        let (stated, printed) = self.stated_seconds().zip(self.printed_seconds())?;
        let counted = stated.min(printed);
        (stated != printed && self.counted.is_none()).then(|| {
            format!(
                "the file states {stated} s, and has {printed} lines of data: tardy computes the \
                 number of samples for {counted} s"
            )
        })
    }

    /// Returns whether the mean of the buckets, computed with a width of 1 us, is close to the
    /// stated mean.
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
            .map(|whole| whole.values.mean as f64 / BUCKET_NS as f64);
        // Samples beyond the last bucket raise the stated mean above that of the buckets, and early
        // wake-ups lower it.
        stated.is_some_and(|stated| {
            (stated - sum / samples).abs() <= MEAN_TOLERANCE + 0.1 * stated.abs()
        })
    }
}

fn whole(rest: &str, unit: Unit) -> Option<RunTotals> {
    let clock_text = rest.rsplit('|').next()?.split('/').next()?;
    Some(RunTotals {
        values: Columns::default().values(rest, unit)?,
        seconds: clock(clock_text),
    })
}

/// Returns the seconds of a time such as ` 00:01:10`.
pub(super) fn clock(text: &str) -> Option<i64> {
    let parts: Option<Vec<i64>> = text
        .trim()
        .split(':')
        .map(|part| part.parse().ok())
        .collect();
    match parts?[..] {
        [hours, minutes, seconds] => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?
            .checked_add(seconds),
        _ => None,
    }
}

/// Returns the number of the setting `name` in a line such as `# period = 1000000 (ns)`, which may
/// have two settings.
fn setting(text: &str, name: &str) -> Option<i64> {
    let (_, behind) = text.split_once(name)?;
    let number = behind.trim_start().strip_prefix('=')?;
    number.split_whitespace().next()?.parse().ok()
}

/// Parses a row such as ` 12 - 13 | 9876`.
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
        found
            .head
            .parse("  00:00:01  (periodic user-mode task, 100 us period, priority 99)");
        assert_eq!(
            (
                found.head.period,
                found.head.mode.as_deref(),
                found.head.cpu
            ),
            (Some(Nanos(100_000)), Some("periodic user-mode task"), None)
        );
        found
            .head
            .parse("  00:00:01  (oob-gpio, 1000 us period, priority 90, CPU3-noisol)");
        assert_eq!(
            (found.head.mode.as_deref(), found.head.cpu),
            (Some("oob-gpio"), Some(3))
        );
        let line = "      1.207|      1.504|      9.817|       4|     0|    00:01:10/00:01:10";
        let all = whole(line, Unit::Us).unwrap();
        assert_eq!((all.values.mean, all.seconds), (1_504, Some(70)));
        assert_eq!(bucket_of("  12 -13 |     9876"), Some((12, 9_876)));
        let both = "***    period = 100000 (ns),  avrgtime = 1 (s)    ***";
        let of = |name: &str| setting(both, name);
        assert_eq!(
            (of("period"), of("avrgtime"), of("time")),
            (Some(100_000), Some(1), Some(1))
        );
    }

    #[test]
    fn a_run_ends_with_its_totals_or_where_its_clock_starts_again() {
        let lines = [
            "RTT|  00:00:01  (user, 1000 us period, priority 90, CPU1)",
            "RTD|1.2|1.5|9.8|3|0|1.2|9.8",
            "RTT|  00:00:22  (user, 1000 us period, priority 90, CPU1)",
            "RTD|1.2|1.5|9.8|3|0|1.2|9.8",
            "RTT|  00:00:01  (user, 1000 us period, priority 90, CPU1)",
            "RTS|1.2|1.5|9.8|3|0|00:00:10/00:00:10",
            "RTD|1.2|1.5|9.8|3|0|1.2|9.8",
        ];
        assert_eq!(begins(&lines), [0, 4, 6]);
        assert_eq!(
            begins(&["== Sampling period: 100 us", lines[0], lines[5]]),
            [0]
        );
    }
}
