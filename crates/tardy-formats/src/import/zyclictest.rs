//! Reads the output of Zephyr's zyclictest, as the shell prints it: latencies of the timer's
//! interrupt and of the thread that it wakes, in whole us, each with a histogram unless -q stopped
//! the tool. The import makes a separate probe of each of the two latencies. Source: Zephyr,
//! subsys/debug, zyclictest.c, as described in its manual.
//!
//! Caution: samples beyond the last bucket are counted as overflow. After a wake-up that is late
//! by more than one interval, the tool advances its due time by a single interval, so all later
//! latencies contain that delay.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "zyclictest",
    about: "zyclictest of Zephyr",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| line.starts_with("Max-Latency:\t"))
    },
    reader: read,
    parts: parts::one,
    is_binary: false,
};

const PROBES: [&str; 2] = ["zyclictest-irq", "zyclictest-thread"];

#[derive(Default)]
struct Statements {
    interval: Option<Nanos>,
    count: Option<u64>,
    min: Option<[i64; 2]>,
    mean: Option<[i64; 2]>,
    max: Option<[i64; 2]>,
    overflow: Option<[i64; 2]>,
    rows: Vec<(i64, [i64; 2])>,
    /// Line number of the last bucket.
    last_line: u64,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let mut found = Statements {
        last_line: 1,
        ..Statements::default()
    };
    for (line, text) in lines(&text) {
        found.line(source, line, &text)?;
    }
    let max = found.max.ok_or_else(|| {
        source.expected(
            found.last_line,
            "a line `Max-Latency:` with two numbers",
            "the end of the file",
        )
    })?;
    let mut imported = ImportedRun {
        tool: "zyclictest".to_owned(),
        ..ImportedRun::default()
    };
    imported
        .notes
        .push(format!("values are whole {}, rounded down", unit.word()));
    let period = settings.period.or(found.interval);
    if period.is_some_and(|period| {
        max.iter()
            .any(|&max| max.saturating_mul(unit.nanos()) > period.get())
    }) {
        imported.notes.push(
            "a latency is longer than the interval: all later latencies are too large by that \
             interval"
                .to_owned(),
        );
    }
    let mut series = Vec::new();
    for (place, probe) in PROBES.into_iter().enumerate() {
        series.push(counted(
            &found,
            source,
            place,
            BucketSeries {
                period,
                ..BucketSeries::new(probe, LATENCY, None)
            },
            unit,
        )?);
    }
    if series.iter().all(|counted| counted.buckets.is_empty()) {
        imported.notes.push(EXTREMES_NOTE.to_owned());
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn counted(
    found: &Statements,
    source: &Source,
    place: usize,
    mut counted: BucketSeries,
    unit: Unit,
) -> Result<BucketSeries, ImportError> {
    let in_unit = |value: i64| value.saturating_mul(unit.nanos());
    let whole = |count: i64| {
        u64::try_from(count)
            .map_err(|_| source.expected(found.last_line, "counts from 0 on", &count.to_string()))
    };
    for &(bucket, counts) in &found.rows {
        let count = whole(counts[place])?;
        if count > 0 {
            counted.buckets.push((in_unit(bucket), count));
        }
    }
    let overflow = whole(found.overflow.map_or(0, |overflow| overflow[place]))?;
    let in_all = counted.in_buckets().saturating_add(overflow);
    let samples = if counted.buckets.is_empty() {
        found.count.unwrap_or(in_all)
    } else {
        in_all
    };
    counted.stated = StatedTotals {
        samples: Some(samples),
        resolution_ns: Nanos(unit.nanos()),
        ..StatedTotals::default()
    };
    let of = |values: Option<[i64; 2]>| values.map(|values| in_unit(values[place]));
    // If a wake-up precedes its due time, the tool's subtraction wraps, and its maximum is invalid.
    let max = of(found.max).filter(|&max| max >= 0);
    if samples > 0 {
        let least = counted.buckets.first().map(|&(least, _)| least);
        counted.stated.min_ns = of(found.min).or(least).map(Nanos);
        counted.stated.max_ns = max.map(Nanos);
        // The tool's mean excludes samples that are in no bucket.
        counted.stated.mean_ns = of(found.mean)
            .filter(|_| overflow == 0)
            .map(|mean| mean as f64);
    }
    match max {
        None => counted.stated.lost = overflow,
        Some(_) if counted.buckets.is_empty() => {}
        Some(_) => counted.overflow(
            overflow,
            in_unit(
                found
                    .rows
                    .last()
                    .map_or(0, |&(bucket, _)| bucket.saturating_add(1)),
            ),
        ),
    }
    Ok(counted)
}

impl Statements {
    fn line(&mut self, source: &Source, line: u64, text: &str) -> Result<(), ImportError> {
        if let Some(interval) = text
            .split_once("Cycle interval:")
            .and_then(|(_, rest)| rest.trim().strip_suffix("us"))
        {
            self.interval = nanos(interval.trim(), Unit::Us)
                .filter(|&interval| interval > 0)
                .map(Nanos);
        }
        let count = text
            .strip_prefix("Count:")
            .or_else(|| text.strip_prefix("Finished thread with count:"));
        self.count = count
            .and_then(|count| count.trim().parse().ok())
            .or(self.count);
        let Some((name, values)) = text.split_once('\t') else {
            return Ok(());
        };
        let name = name.trim();
        let values = || {
            let numbers: Vec<i64> = values
                .split_whitespace()
                .filter(|word| *word != "us")
                .map_while(|word| word.parse().ok())
                .collect();
            let pair: Option<[i64; 2]> = numbers.try_into().ok();
            pair.ok_or_else(|| {
                source.expected(
                    line,
                    "two numbers, one for the interrupt and one for the thread",
                    text,
                )
            })
        };
        match name {
            "Min-Latency:" => self.min = Some(values()?),
            "Avg-Latency:" => self.mean = Some(values()?),
            "Max-Latency:" => self.max = Some(values()?),
            "Overflow:" => self.overflow = Some(values()?),
            bucket => {
                let Ok(bucket) = bucket.parse::<u32>() else {
                    return Ok(());
                };
                let bucket = i64::from(bucket);
                if self
                    .rows
                    .last()
                    .is_some_and(|&(before, _)| bucket <= before)
                {
                    return Err(source.expected(
                        line,
                        "a bucket of larger latencies than in the line before",
                        text,
                    ));
                }
                self.rows.push((bucket, values()?));
            }
        }
        self.last_line = line;
        Ok(())
    }
}
