//! Reads the output of LinuxCNC's `latency-histogram --nox`, which repeatedly prints a line per
//! thread, with the extremes since the start. `latency-test` and the graphical histogram write no
//! text.
//!
//! A value is the time between two wake-ups minus the period, not the latency of a wake-up, so a
//! constant latency is invisible. The lines state neither the period nor the number of samples.
//! Source: LinuxCNC, scripts/latency-histogram, src/hal/components/latencybinstream.comp.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{
    BucketSeries, EXTREMES_NOTE, INTERVAL_ERROR, ImportedRun, Sink, UNCOUNTED_NOTE, hand_over_all,
};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "linuxcnc-latency",
    about: "lines of LinuxCNC's latency-histogram --nox: extremes of each thread",
    detect: |head| head_lines(head).iter().any(|line| parse(line).is_some()),
    reader: read,
    parts: |lines| {
        parts::summaries(lines, |line| {
            let found = parse(line)?;
            Some((found.thread as u32, String::new(), found.elapsed))
        })
    },
    is_binary: false,
};

/// LinuxCNC's threads, and the probe of each.
const THREADS: [(&str, &str); 2] = [("base", "linuxcnc-base"), ("servo", "linuxcnc-servo")];
/// Resolution of the printed values in ns.
const STEP_NS: i64 = 100;

/// The values of a line such as ` 12 s servo min: -4.300 us max: 5.100 us sdev: 0.600 us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    /// Seconds since the tool started.
    elapsed: u64,
    /// Index in [`THREADS`].
    thread: usize,
    /// Smallest value, in ns.
    min: i64,
    max: i64,
}

fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [elapsed, second, thread, rest @ ..] = &words[..] else {
        return None;
    };
    let rest = rest.concat();
    let [min, max, _] = ["min:", "max:", "sdev:"].map(|key| value(&rest, key));
    Some(Line {
        elapsed: elapsed.parse().ok().filter(|_| second.starts_with('s'))?,
        thread: THREADS.iter().position(|(name, _)| name == thread)?,
        min: min?,
        max: max?,
    })
    .filter(|_| is_whole(&rest))
}

/// Returns the number after `key`, in ns. Different versions write the unit as us, uS or µs.
fn value(text: &str, key: &str) -> Option<i64> {
    let (_, behind) = text.split_once(key)?;
    let end = behind.find(['u', 'µ'])?;
    nanos(&behind[..end], Unit::Us)
}

/// Returns whether the line is complete, which means that a unit follows its last value.
fn is_whole(text: &str) -> bool {
    text.contains("sdev:") && text.ends_with(['s', 'S'])
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut threads = [None::<Line>; THREADS.len()];
    let mut last_line = 1;
    let mut is_ordinary = false;
    for (line, text) in lines(&text) {
        last_line = line;
        is_ordinary |= text.contains("non-realtime");
        if let Some(found) = parse(&text) {
            let known = threads[found.thread].get_or_insert(found);
            known.elapsed = found.elapsed;
            known.min = known.min.min(found.min);
            known.max = known.max.max(found.max);
        }
    }
    let mut imported = ImportedRun {
        tool: "latency-histogram of LinuxCNC".into(),
        notes: vec![
            EXTREMES_NOTE.into(),
            "each value is the time between two wake-ups minus the period, so the mean is 0 and a \
             constant latency is invisible; values are rounded to 0.1 us"
                .into(),
            UNCOUNTED_NOTE.into(),
        ],
        ..ImportedRun::default()
    };
    if is_ordinary {
        let note = "LinuxCNC ran without real-time priority: latencies are larger than with it";
        imported.notes.push(note.into());
    }
    let elapsed = threads.iter().flatten().map(|line| line.elapsed).max();
    let Some(elapsed) = elapsed else {
        let example = "   12 s  servo min:  -4.300 us max:   5.100 us sdev:   0.600 us";
        let expected = format!("a whole line such as `{example}`");
        return Err(source.expected(last_line, expected, "the end of the file"));
    };
    let seconds = i64::try_from(elapsed).unwrap_or(i64::MAX);
    imported.length = Some(Nanos(seconds.saturating_mul(Unit::S.nanos())));
    let of_thread = |(line, (_, probe)): (&Option<Line>, &(&str, &'static str))| {
        let line = line.as_ref()?;
        let mut counted = BucketSeries::new(probe, INTERVAL_ERROR, None);
        counted.period = settings.period;
        counted.stated = StatedTotals {
            samples: Some(2),
            min_ns: Some(Nanos(line.min)),
            max_ns: Some(Nanos(line.max)),
            mean_ns: Some(0.0),
            resolution_ns: Nanos(STEP_NS),
            ..StatedTotals::default()
        };
        Some(counted)
    };
    let mut series: Vec<_> = threads.iter().zip(&THREADS).filter_map(of_thread).collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_are_known() {
        let line = "   12 s  servo min:  -4.300 us max:   5.100 us sdev:   0.600 us";
        let servo = Line {
            elapsed: 12,
            thread: 1,
            min: -4_300,
            max: 5_100,
        };
        assert_eq!(parse(line), Some(servo));
        for unit in ["uS", "µs"] {
            assert_eq!(parse(&line.replace("us", unit)), Some(servo));
        }
        assert_eq!(parse(&line.replace(" s ", " secs ")), Some(servo));
        for cut in 1..line.len() {
            assert_eq!(parse(&line[..line.len() - cut]), None, "{cut}");
        }
        assert_eq!(parse("servo: stream timeout (depth 2002 < 2003)"), None);
    }
}
