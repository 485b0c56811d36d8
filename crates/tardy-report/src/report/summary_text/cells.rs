//! Formats the contents of cells: names, times, percentiles and counts.

use tardy_core::summary::numbers::Percentile;
use tardy_core::units::Nanos;
use tardy_results::summary::model::SeriesSummary;

/// Returns the name of a series: its CPU, its copy, or its probe.
pub(super) fn place(series: &SeriesSummary) -> String {
    match (series.cpu, series.copy) {
        (Some(cpu), _) => format!("CPU {cpu}"),
        (None, Some(copy)) => format!("copy {copy}"),
        (None, None) => series.probe.clone(),
    }
}

/// Formats a percentile, with a mark if the samples do not bound it.
pub(super) fn value(percentile: &Percentile) -> String {
    format!(
        "{}{}",
        if percentile.is_bounded() { "" } else { "~" },
        time(percentile.value_ns)
    )
}

/// Formats a required number of samples with three digits, rounded up.
pub(in crate::report) fn count(count: u64) -> String {
    let (divisor, unit) = match count {
        0..10_000 => return count.to_string(),
        10_000..1_000_000 => (1_000, "k"),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    // The number is rounded up, because fewer samples would not suffice.
    let tenths = count.div_ceil(divisor / 10);
    if tenths < 100 {
        format!("{}.{}{unit}", tenths / 10, tenths % 10)
    } else {
        format!("{}{unit}", count.div_ceil(divisor))
    }
}

pub(super) fn time(nanos: i64) -> String {
    Nanos(nanos).to_string()
}

pub(super) fn percent(probability: f64) -> String {
    format!("{} %", (probability * 1e9).round() / 1e7)
}
