//! Formats costs with a suitable unit and number of digits.

use tardy_run::cost::Group;

use super::summary::{CostSummary, MetricSummary};

/// The unit in which the values of a metric are shown, and the conversion to this unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DisplayUnit {
    /// `us`, `MB/s` (10^6 bytes per second), `s`, `ms`, or `instructions`.
    pub unit: &'static str,
    bytes: u64,
}

impl DisplayUnit {
    /// Chooses the unit for a metric of a run. If all programs of the run take less than a second,
    /// they are shown in `ms`.
    #[must_use]
    pub fn new(summary: &CostSummary, metric: &MetricSummary) -> Self {
        let is_program = |metric: &MetricSummary| metric.group == Group::Program;
        let shown = Self::of(summary.how.unit, metric.bytes, is_program(metric));
        let mut programs = summary.metrics.iter().filter(|metric| is_program(metric));
        if shown.unit == "s" && programs.all(|program| program.max < 1e9) {
            return Self {
                unit: "ms",
                ..shown
            };
        }
        shown
    }

    /// Chooses the unit for values whose unit in the summary is `unit`: `ns` or `instructions`.
    #[must_use]
    pub fn of(unit: &str, bytes: Option<u64>, is_program: bool) -> Self {
        let unit = match (unit, bytes) {
            ("ns", Some(_)) => "MB/s",
            ("ns", None) if is_program => "s",
            ("ns", None) => "us",
            _ => "instructions",
        };
        Self {
            unit,
            bytes: bytes.unwrap_or(0),
        }
    }

    /// Returns whether the values are times.
    #[must_use]
    pub fn is_time(&self) -> bool {
        ["us", "ms", "s"].contains(&self.unit)
    }

    /// Converts a value of the summary (ns or instructions, per operation) to the unit in which it
    /// is shown.
    #[must_use]
    pub fn value(&self, value: f64) -> f64 {
        match self.unit {
            "MB/s" => self.bytes as f64 * 1e3 / value,
            "s" => value / 1e9,
            "ms" => value / 1e6,
            "us" => value / 1e3,
            _ => value,
        }
    }

    /// Formats a value of the summary in the unit in which it is shown.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        match self.unit {
            "s" => format!("{:.3}", self.value(value)),
            "instructions" => format!("{value:.0}"),
            _ => number(self.value(value)),
        }
    }
}

/// Formats a number; small numbers have three decimals, larger ones have fewer.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        below if below < 10.0 => format!("{value:.3}"),
        below if below < 100.0 => format!("{value:.2}"),
        below if below < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_or_more() {
        assert_eq!(
            [0.0612, 12.345, 107.26, 3194.4].map(number),
            ["0.061", "12.35", "107.3", "3194"]
        );
    }

    #[test]
    fn the_unit_is_that_of_what_was_measured() {
        let text = |unit, bytes, is_program, value| {
            let shown = DisplayUnit::of(unit, bytes, is_program);
            format!("{} {}", shown.text(value), shown.unit)
        };
        assert_eq!(text("ns", None, false, 1234.0), "1.234 us");
        assert_eq!(text("ns", Some(65536), false, 65536.0), "1000 MB/s");
        assert_eq!(text("ns", None, true, 1.5e9), "1.500 s");
        assert_eq!(
            text("instructions", Some(65536), false, 65536.4),
            "65536 instructions"
        );
    }
}
