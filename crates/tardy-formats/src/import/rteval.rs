//! Reads rteval's summary.xml, which has the results of rteval's cyclictest or timerlat, one series
//! per core. rteval 1 has cyclictest's element below the root, with cyclictest's command line as
//! text; later versions have it below `Measurements`.
//!
//! Caution: rteval states the highest non-empty bucket as the maximum, even if larger samples lie
//! beyond the histogram. These larger samples appear in no number, or only in the count of samples.
//! If cyclictest stopped at a latency (-b), that latency is listed next to the cores. For timerlat,
//! rteval merges interrupt, thread and user latencies into one distribution. Source: rteval,
//! rteval/modules/measurement/cyclictest.py and timerlat.py; for rteval 1, rteval/cyclictest.py.

use roxmltree::{Document, Node, ParsingOptions};
use tardy_core::units::Nanos;
use tardy_machine::facts::{CompiledPreemption, KernelFacts, MachineFacts, Preemption};
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{NEAR_TIME, is_near, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "rteval",
    about: "summary.xml of rteval",
    detect: |head| String::from_utf8_lossy(head).contains("<rteval"),
    reader: read,
    parts: |lines| parts::at(lines, |line| line.contains("<rteval")),
    is_binary: false,
};

/// Maximum number of XML nodes; summaries of thousands of cores have fewer.
const NODES_MAX: u32 = 50_000_000;
pub(super) const TIMERLAT_NOTE: &str =
    "rteval puts timerlat's interrupt, thread and user latencies into one distribution";
pub(super) const UNSURE: &str =
    "this version of rteval omits latencies beyond its last bucket from all numbers";
/// Maximum number of attributes; elements of a summary have fewer.
const ATTRIBUTES_MAX: usize = 1_000;

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    if let Some((line, attributes)) = crowded_tag(&text) {
        let expected = format!("at most {ATTRIBUTES_MAX} attributes per element");
        return Err(source.expected(line, expected, &attributes.to_string()));
    }
    let document = Document::parse_with_options(&text, options).map_err(|error| {
        let line = error.pos().row;
        let found = text.lines().nth(line.saturating_sub(1) as usize);
        source.expected(
            u64::from(line),
            format!("XML ({error})"),
            found.unwrap_or("the end of the file"),
        )
    })?;
    let root = document.root_element();
    let line = |node: Node<'_, '_>| u64::from(document.text_pos_at(node.range().start).row);
    let mut imported = head(root);
    let mut series = Vec::new();
    let groups = root
        .children()
        .filter(|node| node.has_tag_name("Measurements"))
        .chain([root]);
    let has_true_maxima = root.attribute("version").is_some_and(has_true_maxima);
    let (mut is_maximum_unsure, mut broken_by) = (false, None);
    for measured in groups.flat_map(|group| group.children()) {
        let probe = match measured.tag_name().name() {
            "cyclictest" => "cyclictest",
            "timerlat" => "timerlat",
            _ => continue,
        };
        if probe == "timerlat" {
            imported.notes.push(TIMERLAT_NOTE.into());
        }
        is_maximum_unsure |= probe == "timerlat" || !has_true_maxima;
        let child = |name: &str| measured.children().find(|node| node.has_tag_name(name));
        let command = child("command_line").and_then(|node| node.text());
        imported.command_line = measured
            .attribute("command_line")
            .or(command.map(str::trim))
            .map(str::to_owned)
            .or(imported.command_line);
        let broken = child("abort_report")
            .and_then(|report| {
                report
                    .children()
                    .find(|node| node.has_tag_name("breaktrace"))
            })
            .and_then(|node| node.attribute("measured_latency"))
            .and_then(|latency| nanos(latency, settings.unit.unwrap_or(Unit::Us)));
        broken_by = broken_by.max(broken);
        let cores: Vec<Node<'_, '_>> = measured
            .children()
            .filter(|node| node.has_tag_name("core"))
            .collect();
        let whole = measured
            .children()
            .filter(|node| node.has_tag_name("system"));
        // The element of the whole system covers all cores, so it is used only if there is none for
        // a core.
        for node in if cores.is_empty() {
            whole.collect()
        } else {
            cores
        } {
            let cpu = node.attribute("id").and_then(|id| id.parse().ok());
            let wrong =
                |wrong: Wrong<'_, '_>| source.expected(line(wrong.at), wrong.expected, wrong.found);
            series.push(counted(probe, cpu, settings, node).map_err(wrong)?);
        }
    }
    if series.is_empty() {
        return Err(source.expected(
            line(root),
            "statistics of cyclictest or timerlat (rteval leaves them out if the tool stopped at a \
             latency, or if a latency was beyond the histogram)",
            root.tag_name().name(),
        ));
    }
    let largest = series
        .iter()
        .filter_map(|counted| counted.stated.max_ns)
        .max();
    if let Some(latency) = broken_by.map(Nanos)
        && largest.is_some_and(|largest| largest < latency)
    {
        imported.notes.push(format!(
            "cyclictest stopped at a latency of {latency}; the file does not state on which core, \
             so tardy adds the latency to the first core"
        ));
        let first = &mut series[0];
        first.stated.max_ns = Some(latency);
        first.stated.samples = first
            .stated
            .samples
            .map(|samples| samples.saturating_add(1));
        first.overflow(1, latency.get());
    }
    if is_maximum_unsure {
        imported.maximum_unsure = Some(UNSURE.into());
    }
    imported.notes.push(
        "values are whole us, rounded down; the maximum is the highest bucket that is not empty"
            .into(),
    );
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// Returns whether the file contains cyclictest's own maxima. This is so since rteval 3.8, which
/// omits all statistics if a sample lies beyond the histogram.
pub(super) fn has_true_maxima(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(3), Some(8))
}

/// Describes a series that cannot be imported.
struct Wrong<'a, 'input> {
    at: Node<'a, 'input>,
    expected: &'static str,
    found: &'a str,
}

fn counted<'a, 'input>(
    probe: &'static str,
    cpu: Option<u32>,
    settings: &Settings,
    node: Node<'a, 'input>,
) -> Result<BucketSeries, Wrong<'a, 'input>> {
    let no_numbers = || Wrong {
        at: node,
        expected: "statistics and a histogram of numbers",
        found: node.tag_name().name(),
    };
    let statistics = node
        .children()
        .find(|node| node.has_tag_name("statistics"))
        .ok_or_else(no_numbers)?;
    let stated = |name: &str| {
        let node = statistics.children().find(|node| node.has_tag_name(name))?;
        Some((node, node.text()?.trim()))
    };
    let unit = settings.unit.unwrap_or(Unit::Us).nanos();
    let mut counted = BucketSeries::new(probe, LATENCY, cpu);
    counted.period = settings.period;
    if let Some(histogram) = node.children().find(|node| node.has_tag_name("histogram")) {
        for bucket in histogram
            .children()
            .filter(|node| node.has_tag_name("bucket"))
        {
            let index = bucket.attribute("index").unwrap_or_default();
            let at: i64 = index.parse().map_err(|_| no_numbers())?;
            let at = at.checked_mul(unit).filter(|&at| is_near(at as f64));
            let at = at.ok_or(Wrong {
                at: bucket,
                expected: NEAR_TIME,
                found: index,
            })?;
            let count = bucket
                .attribute("value")
                .and_then(|count| count.parse().ok())
                .ok_or_else(no_numbers)?;
            // rteval 1 lists empty buckets too.
            if count > 0 {
                counted.buckets.push((at, count));
            }
        }
        counted.buckets.sort_unstable();
    }
    let samples: Option<u64> = stated("samples").and_then(|(_, text)| text.parse().ok());
    let time = |name: &str| {
        let Some((at, found)) = stated(name) else {
            return Ok(None);
        };
        let nanos = found
            .parse::<f64>()
            .ok()
            .filter(|value| !value.is_nan())
            .map(|value| value * unit as f64);
        if nanos.is_none_or(is_near) {
            Ok(nanos)
        } else {
            Err(Wrong {
                at,
                expected: NEAR_TIME,
                found,
            })
        }
    };
    let samples = samples.unwrap_or(counted.in_buckets());
    counted.stated = StatedTotals {
        samples: Some(samples),
        resolution_ns: Nanos(unit),
        ..StatedTotals::default()
    };
    if samples > 0 {
        counted.stated.min_ns = time("minimum")?.map(|value| Nanos(value as i64));
        counted.stated.max_ns = time("maximum")?.map(|value| Nanos(value as i64));
        counted.stated.mean_ns = time("mean")?;
    }
    place_beyond(&mut counted, samples, unit);
    Ok(counted)
}

/// Counts the samples beyond the highest bucket at the stated maximum. If the maximum is the
/// highest bucket itself, only a lower bound of the latencies of these samples is known.
fn place_beyond(counted: &mut BucketSeries, samples: u64, unit: i64) {
    let (beyond, max) = (
        samples.saturating_sub(counted.in_buckets()),
        counted.stated.max_ns,
    );
    let Some(highest) = counted.buckets.last_mut() else {
        return;
    };
    match max.filter(|max| max.get() > highest.0) {
        None if beyond > 0 => {
            let from = highest.0.saturating_add(unit);
            // The stated maximum and mean exclude samples that are in no bucket.
            (counted.stated.max_ns, counted.stated.mean_ns) = (None, None);
            counted.overflow(beyond, from);
        }
        None => {}
        Some(max) if beyond > 0 => {
            let from = highest.0.saturating_add(unit);
            counted.overflow(beyond, from.min(max.get()));
        }
        // The buckets contain every sample, but none is as large as the stated maximum.
        Some(max) if highest.1 > 0 => {
            highest.1 -= 1;
            counted.buckets.push((max.get(), 1));
        }
        Some(_) => {}
    }
}

fn head(root: Node<'_, '_>) -> ImportedRun {
    let find = |name: &str| root.descendants().find(|node| node.has_tag_name(name));
    let text = |name: &str| {
        find(name)
            .and_then(|node| node.text())
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let is_real_time = find("kernel").and_then(|node| node.attribute("is_RT")) == Some("1");
    let clocksource = root
        .descendants()
        .find(|node| node.has_tag_name("source") && node.attribute("current") == Some("1"));
    let kernel = KernelFacts {
        release: text("kernel"),
        architecture: text("arch"),
        clocksource: clocksource
            .and_then(|node| node.text())
            .map(str::to_owned)
            .or_else(|| text("current")),
        preemption: is_real_time.then(|| Preemption {
            compiled: CompiledPreemption::RealTime,
            ..Preemption::default()
        }),
        ..KernelFacts::default()
    };
    let seconds = |name: &str| {
        find(name)
            .and_then(|node| node.text())
            .and_then(|text| text.trim().parse::<f64>().ok())
    };
    let moment = |name: &str| {
        seconds(name)
            .filter(|seconds| (0.0..4e9).contains(seconds))
            .map(|seconds| Nanos((seconds * 1e9) as i64))
    };
    let (start, stop) = (moment("runloop_start"), moment("runloop_stop"));
    let part = |name: &str| -> Option<i64> {
        let seconds = find("run_info")?.attribute(name)?.parse().ok()?;
        Some(seconds).filter(|seconds| (0..1 << 20).contains(seconds))
    };
    let stated = ["days", "hours", "minutes", "seconds"].map(part);
    let stated = match stated {
        [Some(days), Some(hours), Some(minutes), Some(seconds)] => Some(Nanos::from_secs(
            ((days * 24 + hours) * 60 + minutes) * 60 + seconds,
        )),
        _ => None,
    };
    let loads: Vec<&str> = root
        .descendants()
        .filter(|node| node.has_tag_name("command_line"))
        .filter_map(|node| node.attribute("name"))
        .collect();
    let notes = if loads.is_empty() {
        Vec::new()
    } else {
        vec![format!("loads that rteval ran: {}", loads.join(", "))]
    };
    ImportedRun {
        tool: format!("rteval {}", root.attribute("version").unwrap_or_default())
            .trim()
            .to_owned(),
        command_line: None,
        started: start,
        length: start
            .zip(stop)
            .map(|(start, stop)| stop - start)
            .or(stated)
            .filter(|length| length.get() > 0),
        machine: MachineFacts {
            host_name: text("node"),
            distribution: text("baseos"),
            kernel,
            ..MachineFacts::default()
        },
        notes,
        ..ImportedRun::default()
    }
}

/// Returns the line of the first tag with more than [`ATTRIBUTES_MAX`] attributes, and their
/// number. The parser compares each attribute of an element with all others, so 30,000 attributes
/// would take half a minute.
fn crowded_tag(text: &str) -> Option<(u64, usize)> {
    let mut line = 1;
    for part in text.split('<') {
        let (mut open, mut attributes) = (None, 0);
        for byte in part.bytes() {
            match (open, byte) {
                (Some(quote), _) if byte == quote => {
                    open = None;
                    attributes += 1;
                }
                (None, b'"' | b'\'') => open = Some(byte),
                (None, b'>') => break,
                _ => {}
            }
        }
        if attributes > ATTRIBUTES_MAX {
            return Some((line, attributes));
        }
        line += part.matches('\n').count() as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io;

    use tardy_core::histogram::Histogram;
    use tardy_core::sample::Record;
    use tardy_core::series::Descriptor;
    use tardy_core::verdict::Window;

    use super::*;

    fn placed(samples: u64, max: i64) -> BucketSeries {
        let mut counted = BucketSeries::new("cyclictest", LATENCY, Some(0));
        counted.buckets = vec![(18_000, 40), (20_000, 60)];
        counted.stated.max_ns = Some(Nanos(max));
        place_beyond(&mut counted, samples, 1_000);
        counted
    }

    #[test]
    fn an_element_with_thousands_of_attributes_is_refused_at_once() {
        let attributes: String = (0..200_000).map(|index| format!(" a{index}='>'")).collect();
        let text = format!("<rteval version='3.9'>\n<x{attributes}/>\n</rteval>\n");
        let refused = FORMAT
            .read(
                &mut Source::of_bytes(text.into()),
                &Settings::default(),
                &mut StatedSink(Vec::new()),
            )
            .err()
            .unwrap();
        assert!(
            refused
                .to_string()
                .contains("at most 1000 attributes per element, found `200000`"),
            "{refused}"
        );
        assert_eq!(crowded_tag("<a>it's x='1'</a>\n<b/>"), None);
    }

    #[test]
    fn a_maximum_above_the_highest_bucket_is_kept() {
        assert_eq!(
            placed(100, 40_000).buckets,
            [(18_000, 40), (20_000, 59), (40_000, 1)]
        );
        let beyond = placed(103, 40_000);
        assert_eq!(
            (
                beyond
                    .stated
                    .overflow
                    .map(|found| (found.samples, found.from_ns)),
                beyond.stated.lost
            ),
            (Some((3, Nanos(21_000))), 0)
        );
        let unknown = placed(103, 20_000);
        let open = unknown
            .stated
            .overflow
            .map(|found| (found.samples, found.from_ns));
        assert_eq!(
            (open, unknown.stated.max_ns, unknown.stated.lost),
            (Some((3, Nanos(21_000))), None, 0)
        );
        let note = "3 samples of CPU 0 have no bucket in the file: they lie at or above 21.0 us \
                    (how far above is unknown); charts show them at 21.0 us";
        assert_eq!(unknown.overflow_note(false).unwrap(), note);
    }

    /// The stated totals and the histogram of each series.
    struct StatedSink(Vec<(StatedTotals, Histogram)>);

    impl Sink for StatedSink {
        fn open(&mut self, _: Descriptor) -> io::Result<usize> {
            Ok(0)
        }

        fn push(&mut self, _: usize, _: Record) -> io::Result<()> {
            Ok(())
        }

        fn state(&mut self, _: usize, _: StatedTotals) {}

        fn whole(
            &mut self,
            _: Descriptor,
            values: &Histogram,
            stated: StatedTotals,
        ) -> io::Result<()> {
            self.0.push((stated, values.clone()));
            Ok(())
        }
    }

    #[test]
    fn samples_beyond_the_highest_bucket_of_a_summary_are_late_by_an_unknown_time_and_not_lost() {
        let whole = include_str!("../../../tardy/tests/data/import/rteval-summary.synth.xml");
        let core = r#"<samples>100</samples><minimum unit="us">17</minimum><maximum unit="us">40</maximum>"#;
        assert!(whole.contains(core));
        // The text that rteval writes if three of 103 samples lie beyond the histogram's limit
        // (-h).
        let beyond = whole.replace(core, r#"<samples>103</samples><minimum unit="us">20</minimum><maximum unit="us">20</maximum>"#);
        let mut sink = StatedSink(Vec::new());
        let imported = FORMAT
            .read(
                &mut Source::of_bytes(beyond.into()),
                &Settings::default(),
                &mut sink,
            )
            .unwrap();
        let [(stated, values)] = &sink.0[..] else {
            panic!("{} series", sink.0.len())
        };
        let misses = [20_999, 21_000, 5_000_000]
            .map(|latest| stated.misses_in_buckets(values, Window::deadline(Nanos(latest))));
        assert_eq!(
            (misses, stated.lost, stated.samples),
            ([(3, 3), (0, 3), (0, 3)], 0, Some(103))
        );
        assert!(
            imported
                .notes
                .iter()
                .any(|note| note.contains("3 samples of CPU 0 have no bucket")),
            "{:?}",
            imported.notes
        );
    }
}
