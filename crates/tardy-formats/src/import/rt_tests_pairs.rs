//! Reads the JSON and the text of pmqtest, ptsematest, svsematest and sigwaittest (rt-tests), which
//! measure pairs of threads in which one wakes the other. Only extremes and mean of a pair are
//! known. Source: rt-tests, src/pmqtest/pmqtest.c and the sources of the others.
//!
//! Caution: a pair rests for its interval after each wake-up, so there is no schedule and nothing
//! can be skipped. The tools ignore whole seconds of a latency and count only the rest (`tv_usec`).
//! Only two things in the text reveal which tool wrote it: a command line above it, and the `TO` of
//! pmqtest's time-outs. Older versions do not print `TO`.

use std::collections::BTreeMap;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{NEAR_TIME, head_lines, is_cut_off, is_near, lines, nanos};
use super::tool_json::Document;
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const JSON: Format = Format {
    name: "rt-tests-pairs-json",
    about: "pmqtest, ptsematest, svsematest or sigwaittest with --json",
    detect: |head| {
        let text = String::from_utf8_lossy(head);
        text.trim_start().starts_with('{')
            && text.contains("\"file_version\"")
            && text.contains("\"receiver\"")
    },
    reader: read_json,
    parts: parts::documents,
    is_binary: false,
};

pub(super) const TEXT: Format = Format {
    name: "rt-tests-pairs",
    about: "text of pmqtest, ptsematest, svsematest, sigwaittest",
    detect: |head| head_lines(head).iter().any(|line| pair(line).is_some()),
    reader: read_text,
    parts: parts::one,
    is_binary: false,
};

/// Width to which the text pads a maximum, with the space before it, in characters.
const MAX_WIDTH: usize = 5;
const SECOND_NOTE: &str =
    "the tool drops the whole seconds of a latency: a stall of one second or more looks shorter";
/// Name of a series whose tool is unknown.
const UNNAMED: &str = "thread-pair";
const TOOLS: [&str; 4] = ["pmqtest", "ptsematest", "svsematest", "sigwaittest"];

/// The state of a pair.
struct Pair {
    cpu: Option<u32>,
    interval: Option<Nanos>,
    samples: Option<u64>,
    min: Option<i64>,
    /// Mean, in ns.
    mean: Option<f64>,
    max: Option<i64>,
}

impl Pair {
    fn counted(self, probe: &'static str, settings: &Settings, unit: Unit) -> BucketSeries {
        let mut counted = BucketSeries::new(probe, LATENCY, self.cpu);
        counted.period = settings
            .period
            .or(self.interval.filter(|interval| *interval > Nanos::ZERO));
        counted.is_event = true;
        counted.stated = StatedTotals {
            samples: self.samples,
            resolution_ns: Nanos(unit.nanos()),
            skipped: Some(0),
            ..StatedTotals::default()
        };
        // If there is no sample, the minimum is the initial value of the tool's variable.
        if self.samples != Some(0) {
            counted.stated = StatedTotals {
                min_ns: self.min.map(Nanos),
                max_ns: self.max.map(Nanos),
                mean_ns: self.mean,
                ..counted.stated
            };
        }
        counted
    }
}

fn read_json(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, UNNAMED);
    let probe = TOOLS
        .into_iter()
        .find(|tool| imported.tool.starts_with(tool))
        .unwrap_or(UNNAMED);
    let unit = settings.unit.unwrap_or(Unit::Us);
    let mut series = Vec::new();
    let mut timeouts = 0_u64;
    for (number, thread) in tool_json::numbered(source, &document, "thread")? {
        let keys = ["thread", &number.to_string()];
        let (pair, out_of_time) = pair_of_json((source, &document), keys, thread, unit)?;
        timeouts = timeouts.saturating_add(out_of_time);
        series.push(pair.counted(probe, settings, unit));
    }
    note(&mut imported, timeouts);
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn note(imported: &mut ImportedRun, timeouts: u64) {
    imported
        .notes
        .extend([EXTREMES_NOTE.to_owned(), SECOND_NOTE.to_owned()]);
    if timeouts > 0 {
        imported.notes.push(format!(
            "{timeouts} messages had not arrived by the tool's time-out: the numbers leave them out"
        ));
    }
}

fn pair_of_json(
    (source, document): (&Source, &Document),
    keys: [&str; 2],
    thread: &Value,
    unit: Unit,
) -> Result<(Pair, u64), ImportError> {
    let part = |name: &str| {
        let found = thread.get(name).filter(|part| part.is_object());
        found.ok_or_else(|| {
            document.expected(
                source,
                &keys,
                format!("an object `{name}` in thread {}", keys[1]),
                &thread.to_string(),
            )
        })
    };
    let (sender, receiver) = (part("sender")?, part("receiver")?);
    let whole = |part: &Value, key: &str| part.get(key).and_then(Value::as_u64);
    let samples = whole(sender, "samples");
    let samples = samples.ok_or_else(|| {
        document.expected(
            source,
            &keys,
            format!("`samples` in thread {}", keys[1]),
            &sender.to_string(),
        )
    })?;
    let time = |(name, part): (&str, &Value), key: &str, unit: Unit| {
        let Some(value) = part.get(key).and_then(Value::as_f64) else {
            return Ok(None);
        };
        let nanos = value * unit.nanos() as f64;
        let far = || {
            document.expected(
                source,
                &[keys[0], keys[1], name, key],
                NEAR_TIME,
                &value.to_string(),
            )
        };
        is_near(nanos).then_some(Some(nanos)).ok_or_else(far)
    };
    let of_receiver = |key: &str| time(("receiver", receiver), key, unit);
    let pair = Pair {
        cpu: whole(receiver, "cpu")
            .and_then(|cpu| u32::try_from(cpu).ok())
            .or_else(|| keys[1].parse().ok()),
        interval: time(("sender", sender), "interval", Unit::Us)?
            .map(|interval| Nanos(interval as i64)),
        samples: Some(samples),
        min: of_receiver("min")?.map(|min| min as i64),
        mean: of_receiver("avg")?,
        max: of_receiver("max")?.map(|max| max as i64),
    };
    Ok((pair, whole(receiver, "timeoutcount").unwrap_or(0)))
}

fn read_text(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let (mut heads, mut pairs) = (BTreeMap::new(), BTreeMap::new());
    let mut last_line = 1;
    let is_torn = is_cut_off(&text, "Max", MAX_WIDTH);
    let whole = text.lines().count() as u64 - u64::from(is_torn);
    // If lines repeat, the last one counts.
    for (line, text) in lines(&text) {
        last_line = line;
        if let Some(head) = head(&text) {
            heads.insert(head.receiver, (line, head));
        } else if line <= whole
            && let Some((receiver, values)) = pair(&text)
        {
            pairs.insert(receiver, (line, values));
        }
    }
    if pairs.is_empty() {
        let expected = "a line such as `#1 -> #0, Min    2, Cur    4, Avg    4, Max   56`";
        return Err(source.expected(last_line, expected, "the end of the file"));
    }
    if let Some(receiver) = heads.keys().find(|number| !pairs.contains_key(number)) {
        let expected = format!("a whole line with the values of #{receiver}");
        return Err(source.expected(last_line, expected, "the end of the file"));
    }
    let has_timeouts = heads.values().any(|(_, head)| head.timeouts.is_some());
    let named = has_timeouts.then_some(TOOLS[0]).or_else(|| named(&text));
    let probe = named.unwrap_or(UNNAMED);
    let mut imported = ImportedRun {
        tool: probe.to_owned(),
        ..ImportedRun::default()
    };
    if named.is_none() {
        imported.notes.push(
            "the text comes from pmqtest, ptsematest, svsematest or sigwaittest: it does not show \
             which"
                .to_owned(),
        );
    }
    let timeouts = heads
        .values()
        .filter_map(|(_, head)| head.timeouts)
        .fold(0, u64::saturating_add);
    note(&mut imported, timeouts);
    let mut series = Vec::new();
    for (receiver, (line, [min, mean, max])) in pairs {
        let time = |line: u64, value: &str, unit: Unit| {
            nanos(value, unit).ok_or_else(|| source.expected(line, NEAR_TIME, value))
        };
        let head = heads.get(&receiver);
        let interval = head.and_then(|(line, head)| Some((*line, head.interval_us?.to_string())));
        let head = head.map(|(_, head)| head);
        let pair = Pair {
            cpu: head.and_then(|head| head.cpu),
            interval: interval
                .map(|(line, micros)| time(line, &micros, Unit::Us))
                .transpose()?
                .map(Nanos),
            samples: head.and_then(|head| head.samples),
            min: Some(time(line, &min, unit)?),
            mean: Some(time(line, &mean, unit)? as f64),
            max: Some(time(line, &max, unit)?),
        };
        series.push(pair.counted(probe, settings, unit));
    }
    if series
        .iter()
        .any(|counted| counted.stated.samples.is_none())
    {
        return Err(source.expected(
            last_line,
            "a line with the cycles of each pair, as in `#0: ..., I1000; #1: ..., Cycles 1000`",
            "none",
        ));
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// Returns the tool, if the lines above the first pair name exactly one.
fn named(text: &str) -> Option<&'static str> {
    let above = text.lines().take_while(|line| head(line).is_none());
    let words: Vec<&str> = above.flat_map(str::split_whitespace).collect();
    let is_named = |tool: &&str| {
        words
            .iter()
            .any(|word| word.rsplit('/').next() == Some(tool))
    };
    let mut found = TOOLS.into_iter().filter(is_named);
    found.next().filter(|_| found.next().is_none())
}

/// The line that describes a pair.
struct Head {
    receiver: u32,
    cpu: Option<u32>,
    interval_us: Option<u64>,
    timeouts: Option<u64>,
    samples: Option<u64>,
}

/// Parses lines such as `#0: ID18803, P80, CPU0, I1000; #1: ID18804, P80, CPU0, TO 0, Cycles 1000`.
fn head(line: &str) -> Option<Head> {
    let (receiver, sender) = line.strip_prefix('#')?.split_once(';')?;
    let (number, receiver) = receiver.split_once(':')?;
    let of = |part: &str, key: &str| {
        part.split(',')
            .find_map(|word| word.trim().strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    Some(Head {
        receiver: number.trim().parse().ok()?,
        cpu: of(receiver, "CPU").and_then(|cpu| u32::try_from(cpu).ok()),
        interval_us: of(receiver, "I"),
        timeouts: of(sender, "TO"),
        samples: of(sender, "Cycles"),
    })
}

/// Parses receiver, minimum, mean and maximum of `#1 -> #0, Min 2, Cur 4, Avg 4, Max 56`.
fn pair(line: &str) -> Option<(u32, [String; 3])> {
    let (_, rest) = line.strip_prefix('#')?.split_once("->")?;
    let (receiver, rest) = rest.trim().strip_prefix('#')?.split_once(',')?;
    let of = |key: &str| {
        rest.split(',')
            .find_map(|word| Some(word.trim().strip_prefix(key)?.trim().to_owned()))
    };
    let values = [of("Min")?, of("Avg")?, of("Max")?];
    values
        .iter()
        .all(|value| value.parse::<i64>().is_ok())
        .then_some((receiver.trim().parse().ok()?, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_pair_are_known() {
        let found = head("#2: ID18805, P79, CPU1, I1500; #3: ID18806, P79, CPU1, TO 2, Cycles 680")
            .unwrap();
        assert_eq!(
            (found.receiver, found.cpu, found.interval_us),
            (2, Some(1), Some(1_500))
        );
        assert_eq!((found.timeouts, found.samples), (Some(2), Some(680)));
        let values = ["2", "4", "56"].map(str::to_owned);
        assert_eq!(
            pair("#1 -> #0, Min    2, Cur    4, Avg    4, Max   56"),
            Some((0, values))
        );
        for other in [
            "#1 -> #0, Min x, Cur 4, Avg 4, Max 5",
            "#1: a",
            "# a -> b",
            "#1 -> #0",
        ] {
            assert!(pair(other).is_none() && head(other).is_none(), "{other}");
        }
    }
}
