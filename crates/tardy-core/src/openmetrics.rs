//! Formats the results of finished and running runs as text for Prometheus and other readers of
//! OpenMetrics 1.0.
//!
//! The base unit is seconds, counters end in `_total`, and buckets have fixed 1-2-5 edges, so that
//! buckets of different machines can be added. A histogram is named after its quantity, so no
//! metric contains both interval errors and latencies.

use std::fmt::Write as _;

use crate::accounting::Counts;
use crate::histogram::Histogram;
use crate::series::Descriptor;
use crate::units::Nanos;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The mandatory end of the text.
pub const END: &str = "# EOF\n";

/// The bucket edges, each as a number of ns and as the text in s for the label `le`.
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

/// Counts of values at or below each edge, the number of values, and their sum in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    cumulative: [u64; EDGES.len()],
    count: u64,
    sum: i128,
}

/// The metrics of a series.
#[derive(Debug, Clone)]
pub struct SeriesMetrics {
    pub descriptor: Descriptor,
    pub counts: Counts,
    /// Whether it is unknown how many periods were skipped. The metric is then omitted, because 0
    /// would be wrong.
    pub is_skipped_unknown: bool,
    /// Due times that missed the deadline; absent if there is no deadline.
    pub misses: Option<u64>,
    pub max: Option<Nanos>,
    pub buckets: Buckets,
}

impl Buckets {
    /// Counts the values in `histogram`.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        let (mut cumulative, mut sum) = ([0; EDGES.len()], 0_i128);
        histogram.for_each(|value, count| {
            let first = EDGES.partition_point(|&(edge, _)| edge < value);
            cumulative[first..]
                .iter_mut()
                .for_each(|total| *total += count);
            sum += i128::from(value) * i128::from(count);
        });
        Self {
            cumulative,
            count: histogram.count(),
            sum,
        }
    }

    /// Sets the sum to `mean_ns` times the number of values.
    #[must_use]
    pub fn with_mean(self, mean_ns: f64) -> Self {
        Self {
            sum: (mean_ns * self.count as f64).round() as i128,
            ..self
        }
    }
}

/// Returns the distributions, maxima and counts of all series.
#[must_use]
pub fn series(all: &[SeriesMetrics]) -> String {
    let mut text = String::new();
    let mut quantities: Vec<&str> = all
        .iter()
        .map(|series| series.descriptor.quantity.as_str())
        .collect();
    quantities.sort_unstable();
    quantities.dedup();
    for quantity in quantities {
        let of_quantity: Vec<&SeriesMetrics> = all
            .iter()
            .filter(|series| series.descriptor.quantity == quantity)
            .collect();
        let name = metric(quantity);
        histograms(&mut text, &name, quantity, &of_quantity);
        let maxima = of_quantity
            .iter()
            .filter_map(|series| Some((labels(&series.descriptor), seconds(series.max?.get()))));
        let help = format!("Largest {quantity} seen, in seconds.");
        family(
            &mut text,
            &name.replace("_seconds", "_max_seconds"),
            ("gauge", ""),
            &help,
            maxima,
        );
    }
    counts(&mut text, all);
    text
}

fn histograms(text: &mut String, name: &str, quantity: &str, series: &[&SeriesMetrics]) {
    let _ = writeln!(
        text,
        "# TYPE {name} histogram\n# UNIT {name} seconds\n# HELP {name} Distribution of the \
         {quantity}, in seconds."
    );
    // An import that gives only the smallest and the largest value has no distribution, so it is
    // left out. A series without samples has an empty distribution.
    for series in series
        .iter()
        .filter(|series| series.buckets.count > 0 || series.max.is_none())
    {
        let labels = labels(&series.descriptor);
        let Buckets {
            cumulative,
            count,
            sum,
        } = &series.buckets;
        for ((_, edge), count) in EDGES.iter().zip(cumulative) {
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{edge}\"}} {count}");
        }
        let _ = writeln!(
            text,
            "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n{name}_count{{{labels}}} {count}"
        );
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", *sum as f64 / 1e9);
    }
}

fn counts(text: &mut String, all: &[SeriesMetrics]) {
    let of_series = |value: &dyn Fn(&SeriesMetrics) -> Option<u64>| -> Vec<(String, String)> {
        all.iter()
            .filter_map(|series| Some((labels(&series.descriptor), value(series)?.to_string())))
            .collect()
    };
    let skipped =
        of_series(&|series| (!series.is_skipped_unknown).then_some(series.counts.skipped));
    let skipped_help = "Due times skipped because of a late wake-up.";
    let lost = of_series(&|series| Some(series.counts.lost));
    let misses = of_series(&|series| series.misses);
    let counters = [
        ("tardy_skipped_due_times", skipped_help, skipped),
        (
            "tardy_lost_samples",
            "Samples taken but lost before they were recorded.",
            lost,
        ),
        (
            "tardy_deadline_misses",
            "Due times that missed the deadline.",
            misses,
        ),
    ];
    for (name, help, values) in counters
        .into_iter()
        .filter(|(_, _, values)| !values.is_empty())
    {
        family(text, name, ("counter", "_total"), help, values);
    }
}

/// Appends a family of metrics: its type and help, then one line per value. `suffix` follows the
/// name in each line that has a value.
pub fn family(
    text: &mut String,
    name: &str,
    (kind, suffix): (&str, &str),
    help: &str,
    values: impl IntoIterator<Item = (String, String)>,
) {
    let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {help}");
    for (labels, value) in values {
        let labels = if labels.is_empty() {
            labels
        } else {
            format!("{{{labels}}}")
        };
        let _ = writeln!(text, "{name}{suffix}{labels} {value}");
    }
}

/// Formats labels, in the given order.
#[must_use]
pub fn label_list(pairs: &[(&str, &str)]) -> String {
    pairs
        .iter()
        .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns the name of the metric: `interval error` becomes `tardy_interval_error_seconds`.
fn metric(quantity: &str) -> String {
    let words: String = quantity
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '_'
            }
        })
        .collect();
    format!("tardy_{words}_seconds")
}

fn labels(descriptor: &Descriptor) -> String {
    let cpu = descriptor
        .cpu
        .map_or_else(String::new, |cpu| cpu.0.to_string());
    let copy = descriptor
        .copy
        .map_or_else(String::new, |copy| format!(",copy=\"{copy}\""));
    format!(
        "{}{copy}",
        label_list(&[("probe", &descriptor.probe), ("cpu", &cpu)])
    )
}

/// Formats ns as s, with all digits.
#[must_use]
pub fn seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    format!(
        "{sign}{}.{:09}",
        magnitude / 1_000_000_000,
        magnitude % 1_000_000_000
    )
}

/// Escapes a label's value.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Budget;

    #[test]
    fn a_value_at_an_edge_is_below_it_and_early_ones_are_in_the_first_bucket() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        [-5, 1_000, 1_001, 2_000_000_000]
            .iter()
            .for_each(|&value| histogram.record(value));
        let buckets = Buckets::of(&histogram);
        assert_eq!(
            (
                buckets.cumulative[0],
                buckets.cumulative[1],
                buckets.cumulative[EDGES.len() - 1]
            ),
            (2, 3, 3)
        );
        assert_eq!((buckets.count, buckets.sum), (4, 2_000_001_996));
    }

    #[test]
    fn edges_and_their_labels_are_the_same_numbers() {
        for (edge, label) in EDGES {
            assert!(
                (label.parse::<f64>().unwrap() * 1e9 - edge as f64).abs() < 1e-6,
                "{label}"
            );
        }
    }

    #[test]
    fn labels_cannot_end_early_and_seconds_keep_their_digits() {
        assert_eq!(escape("a\"\\\n"), "a\\\"\\\\\\n");
        assert_eq!(
            (seconds(-1), seconds(1_700_000_000_000_000_007)),
            ("-0.000000001".to_owned(), "1700000000.000000007".to_owned())
        );
    }
}
