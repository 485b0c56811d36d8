//! Reads OSADL's RT Dataset: the JSON behind a latency plot of OSADL's QA farm, made from the
//! histogram and the maxima of one run of cyclictest.
//!
//! The first row lists the buckets; each further row lists the counts of a core. Rows omit samples
//! beyond the last bucket; only a maximum beyond it reveals that there were any. The stated number
//! of cycles is the requested one; a thread may have run fewer. Source:
//! github.com/osadl/Latencyplot, README.md and src/mk-rtdataset.py.

use serde_json::Value;
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_machine::facts::{KernelFacts, MachineFacts};
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::THREAD_NOTE;
use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::tool_json::Document;
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const FORMAT: Format = Format {
    name: "osadl-dataset",
    about: "RT Dataset of OSADL: the JSON behind a latency plot",
    detect: |head| {
        let text = String::from_utf8_lossy(head);
        text.trim_start().starts_with('{') && text.contains("\"RT Dataset\"")
    },
    reader: read,
    parts: parts::documents,
    is_binary: false,
};

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let at = |path: [&str; 2]| document.value.get(path[0])?.get(path[1]);
    let text = |path| at(path).and_then(Value::as_str).map(str::to_owned);
    let wrong =
        |expected: &str| document.expected(source, &["latency"], expected.to_owned(), "the file");
    let named = text(["latency", "granularity"]).and_then(|name| match name.as_str() {
        "microseconds" => Some(Unit::Us),
        "nanoseconds" => Some(Unit::Ns),
        _ => None,
    });
    let unit = settings.unit.or(named).ok_or_else(|| {
        source.ask(
            "this file",
            "the unit of its values (`granularity`)",
            "--unit us",
        )
    })?;
    let rows = rows(&document).ok_or_else(|| wrong("rows of whole numbers in `cores`"))?;
    let (buckets, cores) = rows.split_first().ok_or_else(|| wrong("rows in `cores`"))?;
    let is_equal = |core: &Vec<u64>| core.len() == buckets.len();
    if !cores.iter().all(is_equal) || !buckets.is_sorted_by(|a, b| a < b) {
        return Err(wrong(
            "ascending buckets in the first row, and equally many counts in each other row",
        ));
    }
    let maxima: Vec<Option<i64>> = at(["latency", "maxima"])
        .and_then(Value::as_array)
        .map(|maxima| maxima.iter().map(Value::as_i64).collect())
        .unwrap_or_default();
    let command_line = text(["condition", "cyclictest"]);
    let cpus = command_line
        .as_deref()
        .and_then(cpus)
        .filter(|cpus| cpus.len() == cores.len());
    let mut imported = ImportedRun {
        tool: "cyclictest".into(),
        machine: MachineFacts {
            host_name: text(["system", "hostname"]),
            kernel: KernelFacts {
                release: text(["kernel", "version"]),
                ..KernelFacts::default()
            },
            ..MachineFacts::default()
        },
        notes: vec![format!("values are whole {}, rounded down", unit.word())],
        command_line,
        ..ImportedRun::default()
    };
    if cpus.is_none() {
        imported.notes.push(THREAD_NOTE.into());
    }
    let interval = at(["condition", "interval"]).and_then(Value::as_i64);
    let interval = interval
        .and_then(|us| us.checked_mul(Unit::Us.nanos()))
        .filter(|&us| us > 0);
    let cycles = at(["condition", "cycles"]).and_then(Value::as_u64);
    let in_unit = |value: i64| value.saturating_mul(unit.nanos());
    let end = buckets.last().map_or(0, |&last| in_unit(last as i64 + 1));
    let mut series = Vec::new();
    for (index, counts) in cores.iter().enumerate() {
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        let cpu = cpus.as_ref().map_or(id, |cpus| cpus[index]);
        let mut counted = BucketSeries::new("cyclictest", LATENCY, Some(cpu));
        counted.period = settings.period.or(interval.map(Nanos));
        let filled = buckets.iter().zip(counts).filter(|(_, count)| **count > 0);
        counted.buckets = filled
            .map(|(&at, &count)| (in_unit(at as i64), count))
            .collect();
        let in_rows = counted.in_buckets();
        let max = maxima.get(index).copied().flatten().map(in_unit);
        let missing = cycles.unwrap_or(0).saturating_sub(in_rows);
        // If no maximum is stated, all missing samples may lie beyond the rows.
        let is_beyond = max.is_none_or(|max| max >= end);
        let beyond = if is_beyond { missing } else { 0 };
        if missing > 0 && !is_beyond {
            imported.notes.push(format!(
                "CPU {cpu}: {missing} of the {} requested cycles were not measured: they are in no \
                 row, and no value lies beyond the rows",
                cycles.unwrap_or(0)
            ));
        }
        counted.stated = StatedTotals {
            samples: Some(in_rows.saturating_add(beyond)),
            max_ns: max.map(Nanos),
            resolution_ns: Nanos(unit.nanos()),
            ..StatedTotals::default()
        };
        counted.overflow(beyond, end);
        series.push(counted);
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn rows(document: &Document) -> Option<Vec<Vec<u64>>> {
    let rows = document.value.get("latency")?.get("cores")?.as_array()?;
    let number = |value: &Value| value.as_u64().filter(|&value| value < 1 << 53);
    rows.iter()
        .map(|row| row.as_array()?.iter().map(number).collect())
        .collect()
}

/// Returns the CPUs of cyclictest's option -a in `command_line`.
fn cpus(command_line: &str) -> Option<Vec<u32>> {
    let mut words = command_line.split_whitespace();
    let list = words.find_map(|word| word.strip_prefix("-a").filter(|list| !list.is_empty()))?;
    let list: CpuList = list.parse().ok()?;
    Some(list.iter().map(|cpu| cpu.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_of_the_command_line() {
        assert_eq!(
            cpus("cyclictest -l10 -m -a0,2-3 -t3 -p99"),
            Some(vec![0, 2, 3])
        );
        assert_eq!(cpus("cyclictest -l100000000 -m -Up99 -i200 -h400 -q"), None);
        assert_eq!(cpus("cyclictest -a -t"), None);
    }
}
