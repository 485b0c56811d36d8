//! Reads the text that rtla prints below its tables: how many events it missed, and its analysis of
//! the latency at which it stopped. Source: Linux, tools/tracing/rtla/src/osnoise.c, timerlat_aa.c.

use tardy_core::units::Nanos;

use super::Unit;
use super::sink::BucketSeries;
use super::text::nanos;

const MISSED: &str = " events missed, ";

/// Returns whether the table ends before this line.
pub(super) fn is_end(line: &str) -> bool {
    line.starts_with("ALL:") || line.contains(" hit stop tracing")
}

/// Returns whether rtla reports in this line that it missed events.
pub(super) fn reports_missed_events(line: &str) -> bool {
    line.contains(MISSED)
}

/// If rtla reports that it missed events of the kernel, returns a text that states this as the
/// reason why the largest latency may be unknown.
pub(super) fn maximum_unsure(text: &str) -> Option<String> {
    let (share, _) = text.lines().find_map(|line| line.split_once(MISSED))?;
    let share = share.trim().trim_end_matches(" of");
    Some(format!("rtla missed events of the kernel ({share})"))
}

/// Raises the maxima of `series` to the latencies that the analysis states. Returns a note for each
/// raised maximum.
pub(super) fn apply(text: &str, series: &mut [BucketSeries]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut hit = None;
    for line in text.lines() {
        let latency = |name: &str| {
            let value = line.strip_prefix(name)?.split_whitespace().next()?;
            nanos(value, Unit::Us)
        };
        if let Some(rest) = line.strip_prefix("## CPU ") {
            hit = rest.split(' ').next().and_then(|cpu| cpu.parse().ok());
        } else if let Some(value) = latency("IRQ latency:") {
            notes.extend(raise(series, "timerlat-irq", hit, value));
        } else if let Some(value) = latency("Thread latency:") {
            notes.extend(raise(series, "timerlat-thread", hit, value));
        }
    }
    notes
}

fn raise(series: &mut [BucketSeries], probe: &str, cpu: Option<u32>, value: i64) -> Option<String> {
    let of_hit = |counted: &&mut BucketSeries| counted.probe == probe && counted.cpu == cpu;
    let stated = &mut series.iter_mut().find(of_hit)?.stated;
    // The table rounds down to whole units, so a latency less than one unit above the table's
    // maximum does not contradict the table.
    let max = stated.max_ns?;
    let is_above = value >= max.get().saturating_add(stated.resolution_ns.get());
    is_above.then(|| {
        stated.max_ns = Some(Nanos(value));
        format!(
            "CPU {}: rtla stopped at a latency of {}, but its table ends at {max}: tardy uses the \
             latency as the maximum",
            cpu.unwrap_or_default(),
            Nanos(value)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::sink::LATENCY;

    #[test]
    fn a_latency_of_the_analysis_is_never_above_the_maximum() {
        let text = "## CPU 23 hit stop tracing, analyzing it ##\nIRQ handler delay:  27.49 us (65.52 %)\n\
                    IRQ latency:    28.13 us\nThread latency:      41.96 us (100%)\n\
                    12 (0.50%) events missed, results might not be accurate\n";
        let of = |max: i64| {
            let mut series = ["timerlat-irq", "timerlat-thread"].map(|probe| {
                let mut counted = BucketSeries::new(probe, LATENCY, Some(23));
                counted.stated.max_ns = Some(Nanos(max));
                counted.stated.resolution_ns = Nanos(1_000);
                counted
            });
            let notes = apply(text, &mut series).len();
            (
                series.map(|counted| counted.stated.max_ns.unwrap().get()),
                notes,
            )
        };
        assert_eq!(of(41_000), ([41_000, 41_000], 0));
        assert_eq!(of(28_000), ([28_000, 41_960], 1));
        assert_eq!(of(20_000), ([28_130, 41_960], 2));
        assert_eq!(
            maximum_unsure(text).as_deref(),
            Some("rtla missed events of the kernel (12 (0.50%))")
        );
    }
}
