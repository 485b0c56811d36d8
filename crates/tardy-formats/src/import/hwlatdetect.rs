//! Reads the output of hwlatdetect (rt-tests). The tool looks for gaps between clock reads while
//! interrupts are off, and lists those above a threshold. The gaps are not wake-up latencies, and
//! are never compared with them.
//!
//! Each line `ts:` describes one sampling window by its two longest gaps: one within an iteration
//! of the loop, one between two iterations. Only the longer of the two counts. Gaps below the
//! threshold have no line. Source: rt-tests, src/hwlatdetect/hwlatdetect.py.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "hwlatdetect",
    about: "gaps that hwlatdetect found",
    detect: |head| {
        let lines = head_lines(head);
        lines.iter().any(|line| is_begin(line))
            || lines.iter().any(|line| line.starts_with("Max Latency: "))
                && lines
                    .iter()
                    .any(|line| line.starts_with("Samples recorded: "))
    },
    reader: read,
    parts: |lines| parts::at(lines, is_begin),
    is_binary: false,
};

const QUANTITY: &str = "gap between clock reads";

fn is_begin(line: &str) -> bool {
    line.starts_with("hwlatdetect:") && line.contains("test duration")
}

#[derive(Default)]
struct Statements {
    length: Option<Nanos>,
    threshold: Option<Nanos>,
    max: Option<Nanos>,
    recorded: Option<u64>,
    /// Gaps of each CPU, with their counts. The key is `None` if lines name no CPU.
    gaps: BTreeMap<Option<u32>, BTreeMap<i64, u64>>,
    last_line: u64,
}

fn read(
    source: &mut Source,
    _: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut found = Statements {
        last_line: 1,
        ..Statements::default()
    };
    for (line, text) in lines(&text) {
        found.last_line = line;
        found.line(source, line, text.trim())?;
    }
    let listed: u64 = found.gaps.values().flat_map(BTreeMap::values).sum();
    let unlisted = found.recorded.unwrap_or(listed).saturating_sub(listed);
    let mut imported = ImportedRun {
        tool: "hwlatdetect".into(),
        length: found.length,
        ..ImportedRun::default()
    };
    if let Some(threshold) = found.threshold.filter(|threshold| *threshold > Nanos::ZERO) {
        imported.notes.push(format!(
            "gaps up to the threshold of {threshold} are not listed"
        ));
    }
    if unlisted > 0 {
        // No line names the CPU of an unlisted gap, so these gaps belong to a series without a CPU.
        found.gaps.entry(None).or_default();
    }
    let mut series: Vec<BucketSeries> = Vec::new();
    for (cpu, gaps) in &found.gaps {
        let mut counted = BucketSeries::new("hwlatdetect", QUANTITY, *cpu);
        counted.is_event = true;
        counted.buckets = gaps.iter().map(|(&gap, &count)| (gap, count)).collect();
        let beside = if cpu.is_none() { unlisted } else { 0 };
        counted.stated = StatedTotals {
            samples: Some(counted.in_buckets().saturating_add(beside)),
            resolution_ns: Nanos(Unit::Us.nanos()),
            skipped: Some(0),
            max_ns: found
                .max
                .filter(|_| found.gaps.len() == 1 || gaps.is_empty()),
            ..StatedTotals::default()
        };
        // With --report, the gaps are listed in another file.
        if counted.buckets.is_empty() {
            counted.overflow(beside, found.threshold.unwrap_or_default().get());
        }
        series.push(counted);
    }
    if let (Some(max), false) = (found.max, series.len() == 1) {
        let top = series
            .iter()
            .flat_map(|counted| &counted.buckets)
            .map(|&(gap, _)| gap)
            .max();
        if top.is_none_or(|top| top < max.get())
            && let Some(first) = series.first_mut()
        {
            first.stated.max_ns = Some(max);
        }
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

impl Statements {
    fn line(&mut self, source: &Source, line: u64, text: &str) -> Result<(), ImportError> {
        let bad = |expected: &str| source.expected(line, expected, text);
        if is_begin(text) {
            self.length = text
                .split_whitespace()
                .rev()
                .nth(1)
                .and_then(|seconds| nanos(seconds, Unit::S))
                .map(Nanos);
        } else if let Some(threshold) = text.strip_prefix("Latency threshold:") {
            self.threshold = time(threshold);
        } else if let Some(max) = text.strip_prefix("Max Latency:") {
            // hwlatdetect prints `Below threshold` if there was no gap.
            self.max = time(max);
        } else if let Some(recorded) = text.strip_prefix("Samples recorded:") {
            let recorded = recorded.trim().parse();
            self.recorded = Some(recorded.map_err(|_| bad("a number after `Samples recorded:`"))?);
        } else if text.starts_with("ts:") {
            let (cpu, gap) =
                gap(text).ok_or_else(|| bad("a gap as in `ts: 12.345, inner:5, outer:9`"))?;
            *self.gaps.entry(cpu).or_default().entry(gap).or_default() += 1;
        }
        Ok(())
    }
}

/// Parses `48us`.
fn time(text: &str) -> Option<Nanos> {
    nanos(text.trim().strip_suffix("us")?, Unit::Us).map(Nanos)
}

/// Parses the CPU, if named, and the gap of `ts: 12.345, inner:5, outer:9, cpu:3`.
fn gap(text: &str) -> Option<(Option<u32>, i64)> {
    let (mut cpu, mut longest) = (None, None);
    for field in text.split(',') {
        let (name, value) = field.split_once(':')?;
        let value = value.trim();
        match name.trim() {
            "inner" | "outer" => {
                let gap = nanos(value.trim_end_matches("us"), Unit::Us)?;
                longest = longest.max(Some(gap));
            }
            "cpu" => cpu = Some(value.parse().ok()?),
            _ => {}
        }
    }
    Some((cpu, longest?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_gap_of_a_window_counts() {
        assert_eq!(
            gap("ts: 1700000340.346151918, inner:5, outer:9"),
            Some((None, 9_000))
        );
        assert_eq!(
            gap("ts: 1787951679.284904730, inner:17, outer:1, cpu:3"),
            Some((Some(3), 17_000))
        );
        assert_eq!(gap("ts: 1.5"), None);
        assert_eq!(
            (time(" 48us"), time(" Below threshold")),
            (Some(Nanos(48_000)), None)
        );
    }
}
