//! Metrics as Prometheus and node_exporter's textfile collector read them (OpenMetrics 1.0 text; with --output the file is replaced at once,
//! so that no half of it is ever collected).
//!
//! Seconds as the base unit, `_total` for counters, buckets with fixed 1-2-5 edges, so that those of different machines add up. The name of
//! a histogram is that of its quantity: interval errors and latencies are never in one metric. `tardy_run_info` is typed as a gauge, because
//! collectors of the older text format refuse the type `info`.

use std::fmt::Write as _;
use std::io::Write;

use tardy_core::histogram::Histogram;

use super::run::{ExportedRun, ExportedSeries};
use super::{ExportError, Exporter, Options};

/// Edges in ns, and as the label `le` has them, in s.
const EDGES: [(i64, &str); 19] = [
    (1_000, "1e-06"),
    (2_000, "2e-06"),
    (5_000, "5e-06"),
    (10_000, "1e-05"),
    (20_000, "2e-05"),
    (50_000, "5e-05"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
];

/// `--format openmetrics`.
pub(super) struct OpenMetrics;

impl Exporter for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn about(&self) -> &'static str {
        "metrics for Prometheus and node_exporter's textfile collector"
    }

    fn write(&self, run: &ExportedRun, _: &Options, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut text = String::new();
        let mut quantities: Vec<&str> = run.series.iter().map(|series| series.descriptor.quantity.as_str()).collect();
        quantities.sort_unstable();
        quantities.dedup();
        for quantity in quantities {
            let of_quantity: Vec<&ExportedSeries> = run.series.iter().filter(|series| series.descriptor.quantity == quantity).collect();
            histograms(&mut text, &metric(quantity), quantity, &of_quantity)?;
            let name = metric(quantity).replace("_seconds", "_max_seconds");
            let maxima = of_quantity.iter().filter_map(|series| {
                let max = run.summary_of(series)?.numbers.as_ref()?.max_ns;
                Some((labels(series), seconds(max)))
            });
            family(&mut text, &name, ("gauge", ""), &format!("Largest {quantity} seen, in seconds."), maxima);
        }
        counters(&mut text, run);
        text.push_str("# EOF\n");
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn histograms(text: &mut String, name: &str, quantity: &str, series: &[&ExportedSeries]) -> Result<(), ExportError> {
    let _ = writeln!(text, "# TYPE {name} histogram\n# UNIT {name} seconds\n# HELP {name} Distribution of the {quantity}, in seconds.");
    for series in series {
        let histogram = series.histogram()?;
        let labels = labels(series);
        for ((_, edge), count) in EDGES.iter().zip(cumulative(&histogram)) {
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{edge}\"}} {count}");
        }
        let mut sum = 0_i128;
        histogram.for_each(|value, count| sum += i128::from(value) * i128::from(count));
        let count = histogram.count();
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n{name}_count{{{labels}}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", sum as f64 / 1e9);
    }
    Ok(())
}

/// How many values are at or below each edge.
fn cumulative(histogram: &Histogram) -> [u64; EDGES.len()] {
    let mut counts = [0; EDGES.len()];
    histogram.for_each(|value, count| {
        let first = EDGES.partition_point(|&(edge, _)| edge < value);
        counts[first..].iter_mut().for_each(|total| *total += count);
    });
    counts
}

fn counters(text: &mut String, run: &ExportedRun) {
    let of_series = |value: &dyn Fn(&tardy_results::summary::model::SeriesSummary) -> Option<u64>| -> Vec<(String, String)> {
        run.series.iter().filter_map(|series| Some((labels(series), value(run.summary_of(series)?)?.to_string()))).collect()
    };
    // The tool of an import need not count them: a collector takes what is left out for unknown, and 0 for none.
    let skipped = of_series(&|series| (!series.is_skipped_unknown).then_some(series.counts.skipped));
    if !skipped.is_empty() {
        family(
            text,
            "tardy_skipped_due_times",
            ("counter", "_total"),
            "Due times that passed unused because a wake-up came too late.",
            skipped,
        );
    }
    let lost = of_series(&|series| Some(series.counts.lost));
    family(text, "tardy_lost_samples", ("counter", "_total"), "Samples taken and lost before they were recorded.", lost);
    let late = of_series(&|series| series.numbers.as_ref()?.misses);
    if !late.is_empty() {
        family(text, "tardy_deadline_misses", ("counter", "_total"), "Due times that missed the deadline.", late);
    }
    let machine = &run.record.machine;
    let pairs = [
        ("host", machine.host_name.as_deref().unwrap_or("").to_owned()),
        ("kernel", machine.kernel.release.as_deref().unwrap_or("").to_owned()),
        ("machine", machine.one_line()),
        ("scenario", run.record.plan.scenario.clone()),
        ("clock", format!("{:?}", run.record.clock).to_lowercase()),
        ("version", run.record.tool.version.clone()),
    ];
    let labels: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
    family(text, "tardy_run_info", ("gauge", ""), "What was measured, and where.", [(labels.join(","), "1".to_owned())]);
    let started = seconds(run.record.started.realtime_ns.get());
    family(text, "tardy_run_started_timestamp_seconds", ("gauge", ""), "When the run started, since 1970.", [(String::new(), started)]);
}

pub(super) fn family(
    text: &mut String,
    name: &str,
    (kind, suffix): (&str, &str),
    help: &str,
    values: impl IntoIterator<Item = (String, String)>,
) {
    let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {help}");
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "{name}{suffix}{labels} {value}");
    }
}

/// `interval error` becomes `tardy_interval_error_seconds`.
fn metric(quantity: &str) -> String {
    let words: String = quantity.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    format!("tardy_{words}_seconds")
}

fn labels(series: &ExportedSeries) -> String {
    let copy = series.descriptor.copy.map_or_else(String::new, |copy| format!(",copy=\"{copy}\""));
    format!("probe=\"{}\",cpu=\"{}\"{copy}", escape(&series.descriptor.probe), series.cpu_text())
}

/// ns as s, to the last digit.
fn seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    format!("{sign}{}.{:09}", magnitude / 1_000_000_000, magnitude % 1_000_000_000)
}

pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::Budget;

    #[test]
    fn a_value_at_an_edge_is_below_it_and_early_ones_are_in_the_first_bucket() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        [-5, 1_000, 1_001, 2_000_000_000].iter().for_each(|&value| histogram.record(value));
        let counts = cumulative(&histogram);
        assert_eq!((counts[0], counts[1], counts[EDGES.len() - 1]), (2, 3, 3));
    }

    #[test]
    fn edges_and_their_labels_are_the_same_numbers() {
        for (edge, label) in EDGES {
            assert!((label.parse::<f64>().unwrap() * 1e9 - edge as f64).abs() < 1e-6, "{label}");
        }
    }

    #[test]
    fn labels_cannot_end_early_and_seconds_keep_their_digits() {
        assert_eq!(escape("a\"\\\n"), "a\\\"\\\\\\n");
        assert_eq!((seconds(-1), seconds(1_700_000_000_000_000_007)), ("-0.000000001".to_owned(), "1700000000.000000007".to_owned()));
    }
}
