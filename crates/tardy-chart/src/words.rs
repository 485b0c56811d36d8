//! Formats numbers for charts and their tables.

use tardy_core::units::three_digits;

use super::model::{Axis, Chart, Values};
use super::scale::latency_name;

/// Formats a value of an axis for its tick.
#[must_use]
pub fn tick(axis: &Axis, value: f64) -> String {
    match axis.values {
        Values::Latency => latency_name(value),
        Values::Seconds => time(value, axis.high),
        Values::Count => count(value),
        Values::Share => share(value),
        Values::OneIn => percentile(value),
        Values::Category => axis
            .categories
            .get(value.round() as usize)
            .cloned()
            .unwrap_or_default(),
    }
}

/// Formats a measured value of an axis; a latency has as many digits as in tables.
#[must_use]
pub fn measured(axis: &Axis, value: f64) -> String {
    match axis.values {
        Values::Latency => three_digits(value),
        _ => tick(axis, value),
    }
}

/// Formats a time since the start of a run, in s. The longest run takes `longest` s. If this is at
/// most two minutes, the text has only seconds; otherwise, it has also minutes and, in long runs,
/// hours.
#[must_use]
pub fn time(seconds: f64, longest: f64) -> String {
    if longest <= 120.0 {
        let decimals = if longest <= 2.0 { 2 } else { 1 };
        let text = format!("{seconds:.decimals$}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return format!(
            "{} s",
            if text.is_empty() || text == "-" {
                "0"
            } else {
                text
            }
        );
    }
    let whole = seconds.round() as i64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 || longest >= 7200.0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Formats a count for an axis.
#[must_use]
pub fn count(value: f64) -> String {
    let (divisor, unit) = match value {
        below if below < 1e4 => (1.0, ""),
        below if below < 1e6 => (1e3, " k"),
        below if below < 1e9 => (1e6, " M"),
        _ => (1e9, " G"),
    };
    format!("{}{unit}", (value / divisor * 100.0).round() / 100.0)
}

/// Formats a share in percent if that is readable, otherwise as a power of ten.
#[must_use]
pub fn share(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value >= 1e-6 {
        let digits = (-value.log10().floor()).max(4.0) as usize;
        let rounded = format!("{:.digits$}", value * 100.0);
        return format!("{} %", rounded.trim_end_matches('0').trim_end_matches('.'));
    }
    let exponent = value.log10().floor();
    let mantissa = (value / 10_f64.powf(exponent) * 100.0).round() / 100.0;
    if (mantissa - 1.0).abs() < 1e-9 {
        format!("10{}", superscript(exponent as i32))
    } else {
        format!("{mantissa}×10{}", superscript(exponent as i32))
    }
}

fn superscript(number: i32) -> String {
    let digit = |c: char| match c {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => char::from_u32('⁴' as u32 + other as u32 - '4' as u32).unwrap_or(other),
    };
    number.to_string().chars().map(digit).collect()
}

/// Formats the percentile that one in `one_in` samples reaches or exceeds.
#[must_use]
pub fn percentile(one_in: f64) -> String {
    if one_in <= 1.0 {
        return "min".to_owned();
    }
    // The text has enough digits to show the last nine: 1 in 1000 gives 99.9 %.
    let decimals = (one_in.log10().ceil() as usize).saturating_sub(2).min(12);
    let text = format!("{:.decimals$}", 100.0 - 100.0 / one_in);
    format!("{text} %")
}

/// Returns the texts of the first and the last colour of a chart's cells; `None` if the chart has
/// no cells.
#[must_use]
pub fn heat_ends(chart: &Chart) -> Option<(String, String)> {
    let (least, largest, are_latencies) = chart
        .layers
        .iter()
        .find_map(|layer| layer.shape.heat_range())?;
    Some(if are_latencies {
        (three_digits(least as f64), three_digits(largest as f64))
    } else {
        (least.to_string(), format!("{largest} samples"))
    })
}

/// Formats a latency in us with three decimals, for tables.
#[must_use]
pub fn micros(nanos: i64) -> String {
    format!("{:.3}", nanos as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::scale::Scale;
    use super::*;

    #[test]
    fn a_measured_latency_has_the_digits_of_tables_and_a_tick_is_short() {
        let axis = Axis::new("", Scale::Log, Values::Latency, (1e3, 1e9));
        for (nanos, in_table, on_axis) in [(12e6, "12.0 ms", "12 ms"), (1e6, "1.00 ms", "1 ms")] {
            assert_eq!(measured(&axis, nanos), in_table);
            assert_eq!(tick(&axis, nanos), on_axis);
        }
    }

    #[test]
    fn numbers_are_short_and_have_their_units() {
        assert_eq!(
            [0.0, 0.5, 51.0].map(|value| time(value, 60.0)),
            ["0 s", "0.5 s", "51 s"]
        );
        assert_eq!(
            [0.0, 61.0, 3_661.0].map(|value| time(value, 9_000.0)),
            ["0:00:00", "0:01:01", "1:01:01"]
        );
        assert_eq!(
            [1.0, 2_500.0, 1e5, 6.55e7].map(count),
            ["1", "2500", "100 k", "65.5 M"]
        );
        assert_eq!(
            [1.0, 0.25, 1e-3, 8.0128e-4, 1e-5, 2.5e-7].map(share),
            ["100 %", "25 %", "0.1 %", "0.0801 %", "0.001 %", "2.5×10⁻⁷"]
        );
        assert_eq!(
            [1.0, 10.0, 100.0, 1e3, 1e6].map(percentile),
            ["min", "90 %", "99 %", "99.9 %", "99.9999 %"]
        );
    }
}
