//! `rtla timerlat top`: a row per CPU with the extremes and the mean of the timer's interrupt, the
//! kernel's thread, and the return to user space. Each is a probe of its own, as in `timerlat
//! hist`. The table is printed again and again; the last one counts.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::rtla_hist::duration;
use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, rtla_end};

pub(super) const FORMAT: Format = Format {
    name: "rtla-timerlat-top",
    about: "rtla timerlat top: extremes and mean of each CPU",
    detect: |head| head_lines(head).iter().any(|line| header(line).is_some()),
    reader: read,
    parts: begins,
    is_binary: false,
};

/// A run begins where the duration in the table's header falls.
fn begins(lines: &[&str]) -> Vec<usize> {
    let tables = lines.iter().enumerate().filter_map(|(at, line)| {
        header(line)?;
        Some((at, line.split('|').next().and_then(duration)?))
    });
    let mut begins: Vec<usize> = Vec::new();
    let mut before = None;
    for (at, elapsed) in tables {
        if before.is_none_or(|before| elapsed < before) {
            begins.push(at);
        }
        before = Some(elapsed);
    }
    begins
}

/// Columns of a part: current, least, mean, largest value.
const COLUMNS: usize = 4;

/// Probes and unit of the line that names the parts; `None` for other lines. `0 00:00:12   |
/// IRQ Timer Latency (us)        |         Thread Timer Latency (us)`.
fn header(line: &str) -> Option<(Vec<&'static str>, Unit)> {
    let (_, names) = line.split_once('|')?;
    let mut probes = Vec::new();
    let mut unit = None;
    for name in names.split('|').map(str::trim) {
        let (what, of) = name.split_once(" Timer Latency (")?;
        probes.push(match what {
            "IRQ" => "timerlat-irq",
            "Thread" => "timerlat-thread",
            "Ret user" => "timerlat-user",
            _ => return None,
        });
        unit = Some(match of.strip_suffix(')')? {
            "us" => Unit::Us,
            "ns" => Unit::Ns,
            _ => return None,
        });
    }
    Some((probes, unit?))
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut imported = ImportedRun {
        tool: "rtla timerlat top".into(),
        notes: vec![EXTREMES_NOTE.into()],
        ..ImportedRun::default()
    };
    let (mut probes, mut unit) = (Vec::new(), Unit::Us);
    let mut rows: BTreeMap<(&str, u32), StatedTotals> = BTreeMap::new();
    let mut last_line = 1;
    for (line, text) in lines(&text) {
        last_line = line;
        if let Some((found, of)) = header(&text) {
            (probes, unit) = (found, settings.unit.unwrap_or(of));
            imported.length = text.split('|').next().and_then(duration);
            continue;
        }
        let Some((cpu, count, values)) = row(&text) else {
            continue;
        };
        if values.len() != probes.len() {
            return Err(source.expected(
                line,
                format!("{} groups of four values", probes.len()),
                &text,
            ));
        }
        for (probe, values) in probes.iter().zip(values) {
            let [_, min, mean, max] = values.map(|value| nanos(value, unit).map(Nanos));
            let stated = StatedTotals {
                samples: Some(count),
                min_ns: min,
                max_ns: max,
                mean_ns: mean.map(|mean| mean.get() as f64),
                resolution_ns: Nanos(unit.nanos()),
                ..StatedTotals::default()
            };
            rows.insert((probe, cpu), stated);
        }
    }
    if rows.is_empty() {
        let expected = "a row such as `0 #12322 | 0 0 1 15 | 10 3 9 31` below its header";
        return Err(source.expected(last_line, expected, "the end of the file"));
    }
    imported
        .notes
        .push(format!("values are whole {}, rounded down", unit.word()));
    let mut series: Vec<BucketSeries> = rows
        .into_iter()
        // A part without a value was not measured.
        .filter(|(_, stated)| stated.max_ns.is_some())
        .map(|((probe, cpu), stated)| {
            let mut counted = BucketSeries::new(probe, LATENCY, Some(cpu));
            counted.period = settings.period;
            counted.stated = stated;
            counted
        })
        .collect();
    imported.maximum_unsure = rtla_end::maximum_unsure(&text);
    imported.notes.extend(rtla_end::apply(&text, &mut series));
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// CPU, count and the values of each part of `1 #12322 | 0 0 1 15 | 10 3 9 31`.
fn row(line: &str) -> Option<(u32, u64, Vec<[&str; COLUMNS]>)> {
    let mut fields = line.split('|');
    let mut head = fields.next()?.split_whitespace();
    let cpu = head.next()?.parse().ok()?;
    let count = head.next()?.strip_prefix('#')?.parse().ok()?;
    let values: Option<Vec<[&str; COLUMNS]>> = fields
        .map(|part| part.split_whitespace().collect::<Vec<_>>().try_into().ok())
        .collect();
    Some((cpu, count, values.filter(|values| !values.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_headers_are_known() {
        assert_eq!(
            header(
                "0 00:00:12   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)"
            ),
            Some((vec!["timerlat-irq", "timerlat-thread"], Unit::Us))
        );
        assert_eq!(
            header("CPU COUNT      |      cur       min       avg       max"),
            None
        );
        assert_eq!(
            row(
                "1 #12322     |        0         0         1        15 |       10         3         9        31"
            ),
            Some((
                1,
                12_322,
                vec![["0", "0", "1", "15"], ["10", "3", "9", "31"]]
            ))
        );
        assert_eq!(
            (
                row("ALL #12 e0 | 1 2 3 4"),
                row("rtla timerlat hit stop tracing")
            ),
            (None, None)
        );
    }
}
