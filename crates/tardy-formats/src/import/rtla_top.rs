//! Reads the output of `rtla timerlat top`, which has a row per CPU with the extremes and the mean
//! of the timer's interrupt, the kernel's thread, and the return to user space. The interrupt, the
//! thread and the return to user space each become a separate probe, as in `timerlat hist`. The
//! table is printed repeatedly; the last one counts.
//!
//! Caution: `COUNT` counts the interrupts, so a row whose count is 0 may still have a latency of
//! the thread. The line `ALL` includes CPUs whose rows were removed, but its count is rounded and
//! wraps. Source: Linux, tools/tracing/rtla/src/timerlat_top.c.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::rtla_hist::duration;
use super::sink::{
    BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all, missing_from_rows,
};
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

/// Returns the lines at which runs start. A run starts at the header of the first table, and at
/// each header with a shorter duration than the header before it.
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

/// Columns of each part: current value, minimum, mean, maximum.
const COLUMNS: usize = 4;

/// Parses probes and unit of the line that names the parts, such as `0 00:00:12 | IRQ Timer Latency
/// (us) | Thread Timer Latency (us)`; `None` for other lines.
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
    let mut totals: BTreeMap<&str, StatedTotals> = BTreeMap::new();
    let mut has_gap = false;
    let mut last_line = 1;
    for (line, text) in lines(&text) {
        last_line = line;
        if let Some((found, of)) = header(&text) {
            (probes, unit) = (found, settings.unit.unwrap_or(of));
            imported.length = text.split('|').next().and_then(duration);
            continue;
        }
        if let Some(of_all) = totals_of_all(&text) {
            let stated = of_all.into_iter().map(|values| stated(None, values, unit));
            totals = probes.iter().copied().zip(stated).collect();
            continue;
        }
        has_gap |= text.trim() == "...";
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
        for (probe, [_, values @ ..]) in probes.iter().zip(values) {
            rows.insert((probe, cpu), stated(Some(count), values, unit));
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
    if has_gap && totals.is_empty() {
        imported.maximum_unsure = Some("rows of rtla's table are missing (`...`)".to_owned());
    }
    imported.notes.extend(rtla_end::apply(&text, &mut series));
    for (probe, total) in &totals {
        let of_probe = series.iter().filter(|counted| counted.probe == *probe);
        let parts: Vec<StatedTotals> = of_probe.map(|counted| counted.stated).collect();
        let Some((beyond, max)) = missing_from_rows(total, &parts).zip(total.max_ns) else {
            continue;
        };
        imported.notes.push(format!(
            "{probe}: the line ALL states a maximum of {max}, but no row has this value, so rows \
             are missing: tardy adds one sample with this value, without a CPU"
        ));
        let mut counted = BucketSeries::new(probe, LATENCY, None);
        counted.period = settings.period;
        counted.stated = beyond;
        series.push(counted);
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// Parses the minimum, mean and maximum of a part. If the count is 0, the number of samples is the
/// smallest that these values allow.
fn stated(count: Option<u64>, values: [&str; 3], unit: Unit) -> StatedTotals {
    let [min_ns, mean, max_ns] = values.map(|value| nanos(value, unit).map(Nanos));
    let least = u64::from(max_ns.is_some()) + u64::from(min_ns < max_ns);
    StatedTotals {
        samples: count.map(|count| if count == 0 { least } else { count }),
        min_ns,
        max_ns,
        mean_ns: mean.map(|mean| mean.get() as f64),
        resolution_ns: Nanos(unit.nanos()),
        ..StatedTotals::default()
    }
}

/// Parses minimum, mean and maximum of each part of `ALL #40011 e0 | 2 137 462 | 8 156 481`.
fn totals_of_all(line: &str) -> Option<Vec<[&str; 3]>> {
    let (_, parts) = line.strip_prefix("ALL #")?.split_once('|')?;
    parts
        .split('|')
        .map(|part| part.split_whitespace().collect::<Vec<_>>().try_into().ok())
        .collect()
}

/// Parses CPU, count and the values of each part of `1 #12322 | 0 0 1 15 | 10 3 9 31`.
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
