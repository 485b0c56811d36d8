//! cyclictest's summary lines, as it prints them with -q, or over and over without:
//! `T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44`. Only extremes and the mean
//! are known; of lines that come again the last one counts.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, is_near, lines, nanos};
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

/// A line about a thread, as cyclictest, cyclicdeadline, signaltest and jitterdebugger print it.
#[derive(Debug, Clone)]
pub(super) struct ThreadLine {
    pub(super) thread: u32,
    /// Number of the thread in the kernel; equal in all lines of a run.
    process: String,
    /// Whether it has `P:`.
    pub(super) has_priority: bool,
    /// Of `A:`, which jitterdebugger alone prints.
    pub(super) affinity: Option<u32>,
    /// Of `I:`, in us whatever the unit of the others.
    pub(super) interval: Option<Nanos>,
    pub(super) cycles: u64,
    pub(super) min: i64,
    /// In ns.
    pub(super) avg: f64,
    pub(super) max: i64,
}

/// Characters that a tool pads a maximum to.
const MAX_WIDTH: usize = 8;

impl ThreadLine {
    /// `None` where the line is something else.
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

    /// A line of signaltest, whose threads have no interval.
    pub(super) fn of_signaltest(line: &str, unit: Unit) -> Option<Self> {
        Self::parse(line, unit).filter(|found| found.interval.is_none() && found.affinity.is_none())
    }

    /// A line of cyclictest.
    pub(super) fn of_cyclictest(line: &str, unit: Unit) -> Option<Self> {
        Self::parse(line, unit).filter(|found| found.interval.is_some() && found.has_priority)
    }

    /// What tells the runs of a log apart: thread, process and count.
    pub(super) fn identity(self) -> (u32, String, u64) {
        (self.thread, self.process, self.cycles)
    }

    /// Puts the extremes and the mean into `stated`. Without a cycle the least value is the tool's
    /// starting value.
    pub(super) fn state_extremes(&self, stated: &mut StatedTotals) {
        if self.cycles > 0 {
            stated.min_ns = Some(Nanos(self.min));
            stated.max_ns = Some(Nanos(self.max));
            stated.mean_ns = Some(self.avg);
        }
    }
}

/// Whether the text ends amid the maximum of its last line: 217 would be read as 21.
pub(super) fn is_torn(text: &str) -> bool {
    if text.ends_with('\n') {
        return false;
    }
    let last = text.lines().next_back().unwrap_or_default();
    last.starts_with("T:")
        && last
            .rsplit_once("Max:")
            .is_none_or(|(_, max)| max.len() < MAX_WIDTH)
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let mut text = source.text()?;
    if is_torn(&text) {
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text.truncate(whole);
    }
    let mut last = 0;
    let mut of_unit = |unit| {
        let mut threads = BTreeMap::new();
        for (line, text) in lines(&text) {
            last = line;
            if let Some(found) = ThreadLine::of_cyclictest(&text, unit) {
                threads.insert(found.thread, found);
            }
        }
        threads
    };
    let as_written = of_unit(Unit::Ns);
    let measured = as_written.values().filter(|line| line.cycles > 0);
    let typical = |line: &ThreadLine| {
        let interval = settings.period.or(line.interval).unwrap_or_default().get() / 1_000;
        TypicalValue {
            value: line.avg as i64,
            interval_us: Some(interval).filter(|&interval| interval > 0),
        }
    };
    let told = unit_told::unit(source, settings, &measured.map(typical).collect::<Vec<_>>())?;
    let unit = told.unit;
    let threads = of_unit(unit);
    if threads.is_empty() {
        let expected =
            "a line such as `T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44`";
        return Err(source.expected(last.max(1), expected, "the end of the file"));
    }
    let mut imported = ImportedRun {
        tool: "cyclictest".into(),
        ..ImportedRun::default()
    };
    imported
        .notes
        .push("only extremes and mean are known: there are no percentiles".into());
    imported.notes.push(THREAD_NOTE.into());
    imported.notes.extend(told.note);
    let mut series: Vec<BucketSeries> = threads
        .values()
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
        assert!(!is_torn("# Max Latencies: 00217"));
    }
}
