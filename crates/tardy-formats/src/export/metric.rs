//! Splits the numbers of a run into single metrics, each with a name, a value and a unit.

use super::run::ExportedRun;

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// The name: parts made of letters, digits, `.` and `_`, joined by `-`. Every test system
    /// accepts such names.
    pub(super) name: String,
    /// The value of the metric, in `unit`.
    pub(super) value: f64,
    /// Unit of the value: `us` or `count`.
    pub(super) unit: &'static str,
    /// Whether the metric is a maximum, which the verdict on the deadline judges.
    pub(super) is_max: bool,
}

/// Returns the metrics of each series: extremes, mean, counts, and the percentiles that have a
/// bound.
pub(super) fn metrics(run: &ExportedRun) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for series in &run.series {
        let Some(summary) = run.summary_of(series) else {
            continue;
        };
        let cpu = series
            .descriptor
            .cpu
            .map_or_else(String::new, |cpu| format!("-cpu{cpu}"));
        let copy = series
            .descriptor
            .copy
            .map_or_else(String::new, |copy| format!("-copy{copy}"));
        let prefix = name(&format!("{}{cpu}{copy}", series.descriptor.probe));
        let mut push = |what: &str, value: f64, unit, is_max| {
            metrics.push(Metric {
                name: format!("{prefix}-{what}"),
                value,
                unit,
                is_max,
            })
        };
        if let Some(numbers) = &summary.numbers {
            push("min", numbers.min_ns as f64 / 1e3, "us", false);
            push("mean", numbers.mean_ns / 1e3, "us", false);
            push("max", numbers.max_ns as f64 / 1e3, "us", true);
            // Percentiles without an upper bound are left out.
            for percentile in numbers
                .percentiles
                .iter()
                .filter(|percentile| percentile.is_bounded())
            {
                let label = format!("p{}", (percentile.probability * 1e9).round() / 1e7);
                push(&label, percentile.value_ns as f64 / 1e3, "us", false);
            }
            push("samples", numbers.samples as f64, "count", false);
            if let Some(misses) = numbers.misses {
                push("misses", misses as f64, "count", false);
            }
        }
        // An unknown count is left out; 0 would be wrong.
        if !summary.is_skipped_unknown {
            push("skipped", summary.counts.skipped as f64, "count", false);
        }
        push("lost", summary.counts.lost as f64, "count", false);
    }
    metrics
}

/// Replaces all characters of `text` except ASCII letters, digits, `-`, `_` and `.`. LAVA forbids
/// some of the others in names of tests, such as white space and ``$& "'()<>/\|;``.
pub(super) fn name(text: &str) -> String {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    text.chars()
        .map(|character| if allowed(character) { character } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_nothing_that_a_shell_or_lava_acts_on() {
        assert_eq!(name("io: $(rm) <x>"), "io____rm___x_");
    }
}
