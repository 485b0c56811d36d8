//! Reads rteval's report as text, which has the statistics of the system and of each core, without
//! histograms.
//!
//! Caution: the system's numbers cover all cores, even cores whose lines were removed from the
//! text. As in summary.xml, the numbers of old versions leave out latencies beyond the last bucket.
//! Source: rteval, rteval/rteval_text.xsl.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::rteval::{TIMERLAT_NOTE, UNSURE, has_true_maxima};
use super::sink::{
    BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all, missing_from_rows,
};
use super::text::{NEAR_TIME, head_lines, is_near, lines};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "rteval-text",
    about: "text report of rteval: extremes and mean of each core",
    detect: |head| {
        let lines = head_lines(head);
        let has_block = lines.iter().any(|line| owner(line).is_some());
        has_block && lines.iter().any(|line| line.trim_end() == "Statistics:")
    },
    reader: read,
    parts: |lines| parts::at(lines, |line| matches!(owner(line), Some(Owner::System))),
    is_binary: false,
};

/// The system or the core to which the following statistics belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    System,
    Core(u32),
}

/// Parses `System:` and `CPU core 3       Priority: 95`.
fn owner(line: &str) -> Option<Owner> {
    if line.trim_end() == "System:" {
        return Some(Owner::System);
    }
    let mut words = line.strip_prefix("CPU core ")?.split_whitespace();
    let core = words.next()?.parse().ok()?;
    (words.next()? == "Priority:").then_some(Owner::Core(core))
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.unwrap_or(Unit::Us).nanos();
    let mut imported = ImportedRun {
        tool: "rteval".to_owned(),
        notes: vec![EXTREMES_NOTE.to_owned()],
        ..ImportedRun::default()
    };
    let mut has_true_maximum = false;
    let mut blocks: Vec<(Owner, StatedTotals)> = Vec::new();
    for (line, text) in lines(&text) {
        if let Some(owner) = owner(&text) {
            let stated = StatedTotals {
                resolution_ns: Nanos(unit),
                ..StatedTotals::default()
            };
            blocks.push((owner, stated));
            continue;
        }
        let Some((name, value)) = text.split_once(':') else {
            let title = text.strip_prefix("rteval (v");
            if let Some((version, _)) = title.and_then(|rest| rest.split_once(')')) {
                imported.tool = format!("rteval {version}");
                has_true_maximum = has_true_maxima(version);
            }
            continue;
        };
        let value = value.trim();
        match (name, blocks.last_mut()) {
            ("Run time", _) => imported.length = run_time(value),
            ("Command", _) => imported.command_line = Some(value.to_owned()),
            (_, None) => {}
            ("Samples", Some((_, stated))) => {
                let samples = value.parse();
                let bad = |_| source.expected(line, "a number after `Samples:`", &text);
                stated.samples = Some(samples.map_err(bad)?);
            }
            ("Min" | "Mean" | "Max", Some((_, stated))) => {
                let number = value
                    .strip_suffix("us")
                    .and_then(|us| us.parse::<f64>().ok());
                let time = number.map(|us| us * unit as f64).filter(|&ns| is_near(ns));
                let time = time.ok_or_else(|| {
                    source.expected(line, format!("{NEAR_TIME}, as in `Max: 56us`"), &text)
                })?;
                match name {
                    "Mean" => stated.mean_ns = Some(time),
                    "Min" => stated.min_ns = Some(Nanos(time as i64)),
                    _ => stated.max_ns = Some(Nanos(time as i64)),
                }
            }
            _ => {}
        }
    }
    let last_line = text.lines().count() as u64;
    let is_whole = |stated: &StatedTotals| stated.samples == Some(0) || stated.max_ns.is_some();
    if let Some((owner, _)) = blocks.iter().find(|(_, stated)| !is_whole(stated)) {
        let expected = format!("a line `Max:` of {owner:?}");
        return Err(source.expected(last_line, expected, "the end of the file"));
    }
    let is_timerlat = imported.command_line.as_ref();
    let is_timerlat = is_timerlat.is_some_and(|command| command.contains("timerlat"));
    let probe = if is_timerlat {
        "timerlat"
    } else {
        "cyclictest"
    };
    let of = |cpu: Option<u32>, stated: StatedTotals| {
        let mut counted = BucketSeries::new(probe, LATENCY, cpu);
        counted.period = settings.period;
        counted.stated = stated;
        counted
    };
    let cores = blocks.iter().filter_map(|(owner, stated)| match owner {
        Owner::Core(core) => Some(of(Some(*core), *stated)),
        Owner::System => None,
    });
    let mut series: Vec<BucketSeries> = cores.collect();
    let system = blocks.iter().find(|(owner, _)| *owner == Owner::System);
    imported.maximum_unsure = match system {
        None => Some("the statistics of the whole system are missing".to_owned()),
        Some(_) if is_timerlat || !has_true_maximum => Some(UNSURE.to_owned()),
        Some(_) => None,
    };
    if let Some((_, system)) = system {
        let parts: Vec<StatedTotals> = series.iter().map(|counted| counted.stated).collect();
        if let Some(others) = missing_from_rows(system, &parts) {
            if !parts.is_empty() {
                imported.notes.push(format!(
                    "the file counts {} more samples for the whole system than for its cores: \
                     these samples form a series without a CPU",
                    others.samples.unwrap_or_default()
                ));
            }
            series.push(of(None, others));
        }
    }
    if is_timerlat {
        imported.notes.push(TIMERLAT_NOTE.to_owned());
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// Parses `0 days 0h 10m 4s`.
fn run_time(text: &str) -> Option<Nanos> {
    let (days, clock) = text.split_once(" days ")?;
    let mut seconds: i64 = days.parse().ok()?;
    for ((unit, factor), word) in [("h", 24), ("m", 60), ("s", 60)]
        .into_iter()
        .zip(clock.split_whitespace())
    {
        let part: i64 = word.strip_suffix(unit)?.parse().ok()?;
        seconds = seconds.checked_mul(factor)?.checked_add(part)?;
    }
    seconds.checked_mul(1_000_000_000).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_run_times_are_known() {
        assert_eq!(owner("System:  "), Some(Owner::System));
        assert_eq!(owner("CPU core 3       Priority: 95"), Some(Owner::Core(3)));
        for other in [
            "System load:",
            "CPU cores:    8 (online: 8)",
            "CPU core x Priority: 1",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
        assert_eq!(run_time("1 days 2h 10m 4s"), Some(Nanos::from_secs(94_204)));
        assert_eq!(run_time("0 days 0h x"), None);
    }
}
