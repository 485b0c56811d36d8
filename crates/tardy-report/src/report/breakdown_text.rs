//! Shows the three sources of latency side by side, each with the phase of the run that isolated
//! it.

use std::fmt::Write as _;

use tardy_core::series::ClockKind;
use tardy_results::summary::breakdown::{Breakdown, IsolatedSource, Source};

use super::table::Table;

const SOURCES: [(Source, &str); 3] = [
    (
        Source::TimerResolution,
        "timer resolution (the timer fires late): idle, highest priority",
    ),
    (
        Source::SchedulingJitter,
        "scheduling jitter (a higher-priority task runs): with a competitor and nothing else",
    ),
    (
        Source::NonPreemptableSections,
        "non-preemptible sections (the kernel cannot switch): under load, highest priority",
    ),
];

/// Returns the breakdown as text, at most `columns` wide. Table columns that do not fit are
/// omitted.
#[must_use]
pub fn text(breakdown: &Breakdown, columns: usize) -> String {
    let mut out = String::from(
        "Sources of latency (abeni2002, section 2), in us. Each source was measured in a run that \
         isolated it.\n",
    );
    for (run, warning) in &breakdown.warnings {
        let mark = if warning.is_note() { "note:" } else { "!" };
        let _ = writeln!(out, "{mark} {run}: {warning}");
    }
    for (source, title) in SOURCES {
        let _ = writeln!(out, "\n{title}");
        let rows: Vec<&IsolatedSource> = breakdown
            .isolated
            .iter()
            .filter(|isolated| isolated.source == source)
            .collect();
        if !rows.is_empty() {
            out.push_str(&table(&rows, columns));
        }
        match source {
            Source::TimerResolution => without_high_resolution(&mut out, &rows),
            Source::SchedulingJitter => excluded(&mut out, breakdown),
            Source::NonPreemptableSections if rows.is_empty() => {
                out.push_str("  not measured: use `tardy run --scenario abeni2002-split`\n")
            }
            Source::NonPreemptableSections => {}
        }
    }
    if !breakdown.mixed.is_empty() {
        out.push_str("\nPhases left out of all tables\n");
    }
    for mixed in &breakdown.mixed {
        let _ = writeln!(
            out,
            "  {}, {}, phase {}: {}",
            mixed.run, mixed.probe, mixed.phase, mixed.reason
        );
    }
    out.push_str(
        "\nSources are not computed as differences, because quantiles and maxima cannot be \
         subtracted.\n",
    );
    out
}

fn table(rows: &[&IsolatedSource], columns: usize) -> String {
    let mut table = Table::new([
        "  phase", "probe", "by", "samples", "p50", "p99", "p99.9", "max", "run",
    ]);
    for row in rows {
        // All summaries have the same percentiles in the same order: 50, 99, 99.9 % and beyond.
        let percentile = |place: usize| {
            row.numbers
                .percentiles
                .get(place)
                .map_or_else(String::new, |percentile| micros(percentile.value_ns))
        };
        let clock = if row.clock == ClockKind::Virtual {
            " (virtual time)"
        } else {
            ""
        };
        table.row([
            format!("  {}", row.phase),
            row.probe.clone(),
            row.by.clone(),
            row.numbers.samples.to_string(),
            percentile(0),
            percentile(1),
            percentile(2),
            micros(row.numbers.max_ns),
            format!("{}{clock}", row.run),
        ]);
    }
    table.chosen(
        columns,
        &["max", "p99.9", "probe", "samples", "p50", "p99", "by"],
    )
}

fn without_high_resolution(out: &mut String, rows: &[&IsolatedSource]) {
    let has = |text: &str| rows.iter().any(|row| row.by.contains(text));
    if rows.is_empty() {
        out.push_str("  not measured: use `tardy run --scenario abeni2002-split`\n");
    } else if !has("ticks of") {
        out.push_str(
            "  without high-resolution timers: not measured; boot with highres=off nohz=off, here \
             or in `tardy lab`, measure again, and add that run to the command (see `tardy \
             breakdown --help`)\n",
        );
    } else if !has("high-resolution") {
        out.push_str(
            "  with high-resolution timers: not measured; boot with highres=on, here or in `tardy \
             lab`, measure again, and add that run to the command (see `tardy breakdown \
             --help`)\n",
        );
    }
}

fn excluded(out: &mut String, breakdown: &Breakdown) {
    for excluded in &breakdown.excluded {
        let _ = writeln!(
            out,
            "  {}, {}: the probe's priority rules out scheduling jitter",
            excluded.run, excluded.probe
        );
    }
    if !breakdown
        .isolated
        .iter()
        .any(|isolated| isolated.source == Source::SchedulingJitter)
    {
        out.push_str(
            "  with a competitor: not measured; use `tardy run --scenario abeni2002-split`\n",
        );
    }
}

fn micros(nanos: i64) -> String {
    format!("{:.1}", nanos as f64 / 1e3)
}
