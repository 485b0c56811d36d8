//! Reads cyclictest's summary lines, which are printed once with -q, and repeatedly without it:
//! `T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44`. Only extremes and the mean
//! are known; if a line is repeated, the last one counts.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, is_cut_off, is_near, lines, nanos};
use super::unit_told::{self, TypicalValue};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "cyclictest-summary",
    about: "summary lines of cyclictest -q: extremes and mean of each thread",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| ThreadLine::of_cyclictest(line, Unit::Us).is_some())
    },
    reader: read,
    parts: |lines| {
        parts::summaries(lines, |line| {
            ThreadLine::of_cyclictest(line, Unit::Us).map(ThreadLine::identity)
        })
    },
    is_binary: false,
};

/// cyclictest numbers its threads, not the CPUs that they ran on.
pub(super) const THREAD_NOTE: &str =
    "CPU numbers are the tool's thread numbers; the threads may have run on other CPUs";

/// A line about a thread, in the format shared by cyclictest, cyclicdeadline, signaltest and
/// jitterdebugger.
#[derive(Debug, Clone)]
pub(super) struct ThreadLine {
    pub(super) thread: u32,
    /// The kernel's ID of the thread, which stays the same in all lines of a run.
    process: String,
    /// Whether the line has `P:`.
    pub(super) has_priority: bool,
    /// Value of `A:`. Only jitterdebugger prints this value.
    pub(super) affinity: Option<u32>,
    /// Value of `I:`, always in us.
    pub(super) interval: Option<Nanos>,
    pub(super) cycles: u64,
    pub(super) min: i64,
    /// Average latency, in ns.
    pub(super) avg: f64,
    pub(super) max: i64,
}

/// Width to which cyclictest, cyclicdeadline and signaltest pad a maximum, in characters.
const MAX_WIDTH: usize = 8;
/// Width to which jitterdebugger pads a maximum, in characters.
const MAX_WIDTH_OF_JITTERDEBUGGER: usize = 10;

impl ThreadLine {
    /// Parses a line; `None` if it has another form.
    pub(super) fn parse(line: &str, unit: Unit) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("T:")?;
        let (thread, rest) = rest.split_once('(')?;
        let (process, rest) = rest.split_once(')')?;
        let spaced = rest.replace(':', " ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let value = |key: &str| {
            words
                .iter()
                .position(|word| *word == key)
                .and_then(|at| words.get(at + 1))
                .copied()
        };
        let mean: f64 = value("Avg")?.parse().ok()?;
        Some(Self {
            thread: thread.trim().parse().ok()?,
            process: process.trim().to_owned(),
            has_priority: value("P").is_some(),
            affinity: match value("A") {
                Some(cpu) => Some(cpu.parse().ok()?),
                None => None,
            },
            interval: match value("I") {
                Some(interval) => Some(nanos(interval, Unit::Us).map(Nanos)?),
                None => None,
            },
            cycles: value("C")?.parse().ok()?,
            min: nanos(value("Min")?, unit)?,
            avg: Some(mean * unit.nanos() as f64).filter(|mean| is_near(*mean))?,
            max: nanos(value("Max")?, unit)?,
        })
    }

    /// Parses a line of signaltest. The threads of signaltest have no interval.
    pub(super) fn of_signaltest(line: &str, unit: Unit) -> Option<Self> {
        Self::parse(line, unit).filter(|found| found.interval.is_none() && found.affinity.is_none())
    }

    /// Parses a line of cyclictest.
    pub(super) fn of_cyclictest(line: &str, unit: Unit) -> Option<Self> {
        Self::parse(line, unit).filter(|found| found.interval.is_some() && found.has_priority)
    }

    /// Returns the thread, the process and the count, which distinguish the runs in a log.
    pub(super) fn identity(self) -> (u32, String, u64) {
        (self.thread, self.process, self.cycles)
    }

    /// Copies the extremes and the mean into `stated`. If the thread made no cycle, the extremes
    /// and the mean are left out, because the minimum is then the initial value of the tool's
    /// variable.
    pub(super) fn state_extremes(&self, stated: &mut StatedTotals) {
        if self.cycles > 0 {
            stated.min_ns = Some(Nanos(self.min));
            stated.max_ns = Some(Nanos(self.max));
            stated.mean_ns = Some(self.avg);
        }
    }
}

const TORN_NOTE: &str = "the last line is cut off: the previous line of the same thread is used";

/// Returns the text of `source` without a truncated last line, in which a maximum of 217 could be
/// read as 21. The second value is a note about the removed line.
///
/// # Errors
/// Returns an error if the truncated line is the only one about its thread.
pub(super) fn whole_lines(
    source: &mut Source,
) -> Result<(String, Option<&'static str>), ImportError> {
    let mut text = source.text()?;
    if !is_torn(&text) {
        return Ok((text, None));
    }
    let torn = text.split_off(text.rfind('\n').map_or(0, |end| end + 1));
    let thread = torn.split_once('(').map(|(thread, _)| thread);
    if thread.is_none_or(|thread| !text.lines().any(|line| line.starts_with(thread))) {
        let line = text.lines().count() as u64 + 1;
        return Err(source.expected(line, "a last line that is not cut off", &torn));
    }
    Ok((text, Some(TORN_NOTE)))
}

fn is_torn(text: &str) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    let width = if last.contains(" A:") {
        MAX_WIDTH_OF_JITTERDEBUGGER
    } else {
        MAX_WIDTH
    };
    let is_begin = last == "T" || last.starts_with("T:");
    let is_cut = is_begin && !last.contains("Max:") || last.starts_with("# B");
    is_cut_off(text, "Max:", width) || is_cut && !text.ends_with('\n')
}

/// Returns the last line about each thread that `parse` recognises. Includes the latency at which
/// the tool stopped (-b). The summary lines of cyclicdeadline omit this latency.
///
/// # Errors
/// Returns an error if no line is recognised, or if the latency at which the tool stopped is
/// missing. `example` shows the expected form of a line in the message.
pub(super) fn last_of_each_thread(
    source: &Source,
    text: &str,
    example: &str,
    unit: Unit,
    parse: impl Fn(&str) -> Option<ThreadLine>,
) -> Result<Vec<ThreadLine>, ImportError> {
    let mut threads = BTreeMap::new();
    let mut last = 1;
    for (line, text) in lines(text) {
        last = line;
        if let Some(found) = parse(&text) {
            threads.insert(found.thread, found);
        }
    }
    if threads.is_empty() {
        let expected = format!("a line such as `{example}`");
        return Err(source.expected(last, expected, "the end of the file"));
    }
    let stated = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    if let Some(process) = stated(BREAK_THREAD) {
        let value = stated(BREAK_VALUE).and_then(|value| nanos(value.trim(), unit));
        let value = value.ok_or_else(|| {
            source.expected(last, "a line `# Break value: ...`", "the end of the file")
        })?;
        let is_it = |thread: &&mut ThreadLine| thread.process == process.trim();
        if let Some(thread) = threads.values_mut().find(is_it) {
            thread.max = thread.max.max(value);
        }
    }
    Ok(threads.into_values().collect())
}

/// Text before the number of the thread that stopped the tool.
pub(super) const BREAK_THREAD: &str = "# Break thread:";
pub(super) const BREAK_VALUE: &str = "# Break value:";

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let (text, torn) = whole_lines(source)?;
    let example = "T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44";
    let of_unit = |source: &Source, unit| {
        last_of_each_thread(source, &text, example, unit, |line| {
            ThreadLine::of_cyclictest(line, unit)
        })
    };
    let as_written = of_unit(source, Unit::Ns)?;
    let measured = as_written.iter().filter(|line| line.cycles > 0);
    let typical = |line: &ThreadLine| {
        let interval = settings.period.or(line.interval).unwrap_or_default().get() / 1_000;
        TypicalValue {
            value: line.avg as i64,
            interval_us: Some(interval).filter(|&interval| interval > 0),
        }
    };
    let told = unit_told::unit(source, settings, &measured.map(typical).collect::<Vec<_>>())?;
    let unit = told.unit;
    let threads = of_unit(source, unit)?;
    let mut imported = ImportedRun {
        tool: "cyclictest".into(),
        ..ImportedRun::default()
    };
    imported.notes.push(EXTREMES_NOTE.into());
    imported.notes.push(THREAD_NOTE.into());
    imported.notes.extend(told.note);
    imported.notes.extend(torn.map(str::to_owned));
    let mut series: Vec<BucketSeries> = threads
        .iter()
        .map(|line| {
            let mut counted = BucketSeries::new("cyclictest", LATENCY, Some(line.thread));
            counted.period = settings
                .period
                .or(line.interval.filter(|interval| interval.get() > 0));
            counted.stated = StatedTotals {
                samples: Some(line.cycles),
                resolution_ns: Nanos(unit.nanos()),
                ..StatedTotals::default()
            };
            line.state_extremes(&mut counted.stated);
            counted
        })
        .collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tools_that_look_alike_are_told_apart() {
        let cyclictest = "T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44";
        let deadline = "T: 0 ( 1234) I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44";
        let signaltest = "T: 0 ( 1234) P:80 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44";
        let jitterdebugger = "T: 0 ( 1601) A: 3 C: 500 Min: 19 Avg: 2.97 Max: 44";
        let of = |line: &str| {
            (
                ThreadLine::of_cyclictest(line, Unit::Us).is_some(),
                ThreadLine::of_signaltest(line, Unit::Us).is_some(),
                ThreadLine::parse(line, Unit::Us).unwrap().affinity,
            )
        };
        assert_eq!(of(cyclictest), (true, false, None));
        assert_eq!(of(deadline), (false, false, None));
        assert_eq!(of(signaltest), (false, true, None));
        assert_eq!(of(jitterdebugger), (false, false, Some(3)));
    }

    #[test]
    fn a_maximum_that_was_cut_off_is_noticed() {
        let line =
            "T: 0 (  437) P:48 I:1000 C: 540000 Min:      4 Act:    5 Avg:   18 Max:     217";
        assert!(!is_torn(line) && !is_torn(&format!("{line}\n")));
        for cut in 1..20 {
            assert!(is_torn(&line[..line.len() - cut]), "{cut}");
        }
        let jitterdebugger =
            "T: 2 ( 1603) A: 2 C:    593432 Min:         1 Avg:    2.07 Max:      4911";
        assert!(!is_torn(jitterdebugger));
        assert!(is_torn(&jitterdebugger[..jitterdebugger.len() - 1]));
        assert!(!is_torn("# Max Latencies: 00217"));
    }
}
