//! Writes the sentences of a summary.

use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::{Nanos, three_digits};
use tardy_core::verdict::Outcome;
use tardy_core::warning::Warning;
use tardy_results::summary::model::{
    LoadShare, LoadSummary, MarkSummary, ProbeSummary, SeriesSummary, Summary, outside_of_loads,
};

use super::cells::{percent, place, value};

/// The effective number of samples is printed if it is below this fraction of all samples. With
/// independent samples, the fraction can be slightly below 1 by chance.
const WORTH_A_WORD: f64 = 0.6;

/// Returns the outcome as one word in capital letters.
#[must_use]
pub fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "PASSED",
        Outcome::Failed => "FAILED",
        Outcome::Inconclusive => "INCONCLUSIVE",
    }
}

/// Returns the name of a probe, with its period or periods if it has any.
pub(in crate::report) fn named(summary: &Summary, probe: &ProbeSummary) -> String {
    let of_series = || {
        summary
            .series
            .iter()
            .filter(|series| series.probe == probe.probe)
            .map(|series| series.schedule.period())
    };
    let (shortest, longest) = (
        of_series().min().unwrap_or(probe.period_ns),
        of_series().max().unwrap_or(probe.period_ns),
    );
    // The period of an imported run may be unknown.
    match () {
        () if probe.has_no_period || shortest <= Nanos::ZERO => probe.probe.clone(),
        () if shortest < longest => format!(
            "{} every {} to {}",
            probe.probe,
            shortest.exact(),
            longest.exact()
        ),
        () => format!("{} every {}", probe.probe, longest.exact()),
    }
}

/// Returns a sentence with the largest value of a probe, its CPU and load, and with the median and
/// the 99th percentile. This text is for runs without a deadline.
pub fn largest(summary: &Summary, probe: &ProbeSummary) -> Option<String> {
    let numbers = probe.numbers.as_ref()?;
    let of_probe = || {
        summary
            .series
            .iter()
            .filter(|series| series.probe == probe.probe)
    };
    let cpu = of_probe()
        .filter(|series| {
            series
                .numbers
                .as_ref()
                .is_some_and(|of_series| of_series.max_ns == numbers.max_ns)
        })
        .find_map(|series| series.cpu)
        .filter(|_| of_probe().count() > 1)
        .map(|cpu| format!("CPU {cpu}"));
    let load = probe
        .ladder
        .as_ref()
        .and_then(|ladder| ladder.worst_load.as_ref())
        .map(|load| {
            if load.max_ns == Nanos(numbers.max_ns) {
                format!("under {}", load.name)
            } else {
                outside_of_loads(&summary.phases, numbers) + on_other_cpus(summary)
            }
        });
    let place: Vec<String> = cpu.into_iter().chain(load).collect();
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" ({})", place.join(", "))
    };
    let within = |probability: f64| {
        let percentile = numbers
            .percentiles
            .iter()
            .find(|percentile| percentile.probability == probability)?;
        Some(Nanos(percentile.value_ns))
    };
    let most = within(0.5)
        .zip(within(0.99))
        .map_or_else(String::new, |(half, most)| {
            let what = if probe.quantity == "latency" {
                "wake-ups"
            } else {
                "values"
            };
            format!(" Half of all {what} within {half}, 99 % within {most}.")
        });
    Some(format!(
        "Largest {}: {}{place}.{most}",
        probe.quantity,
        Nanos(numbers.max_ns)
    ))
}

/// Returns a sentence with the load under which the largest value occurred, and the largest value
/// while idle. If a larger value occurred while no load was active, for example while a load was
/// starting, the sentence contains it, too. Returns `None` if there was only one load.
#[must_use]
pub fn worst_load(summary: &Summary, probe: &str) -> Option<String> {
    if summary.loads.len() < 2 {
        return None;
    }
    let max = |load: &LoadSummary| {
        let numbers = load
            .probes
            .iter()
            .find(|(name, _)| name == probe)?
            .1
            .as_ref()?;
        Some(Nanos(numbers.max_ns))
    };
    let (worst, largest) = summary
        .loads
        .iter()
        .filter_map(|load| Some((load, max(load)?)))
        .max_by_key(|(_, max)| *max)?;
    let idle = summary
        .loads
        .iter()
        .find(|load| load.loads.is_empty() && load.name != worst.name);
    let idle = idle
        .and_then(|load| Some((load, max(load)?)))
        .map_or_else(String::new, |(load, max)| format!("; {}, {max}", load.name));
    let of_run = summary
        .probes
        .iter()
        .find(|found| found.probe == probe)
        .and_then(|found| found.numbers.as_ref())
        .filter(|of_run| Nanos(of_run.max_ns) > largest)
        .map_or_else(String::new, |of_run| {
            let place = outside_of_loads(&summary.phases, of_run);
            format!(
                "; {} {place}{}",
                Nanos(of_run.max_ns),
                on_other_cpus(summary)
            )
        });
    Some(format!(
        "worst load: {}, {largest}{idle}{of_run}",
        worst.name
    ))
}

/// If the largest value lies outside of all loads, it may have occurred on a CPU on which the load
/// did not run. Returns words that explain this if a load ran only on some CPUs; otherwise empty.
fn on_other_cpus(summary: &Summary) -> &'static str {
    let is_partial = |load: &LoadSummary| !load.not_stressed.is_empty();
    if summary.loads.iter().any(is_partial) {
        " or on a CPU without the load"
    } else {
        ""
    }
}

/// Returns the labels that the user gave the run, and the settings that came from files of
/// defaults.
#[must_use]
pub fn labels_and_defaults(summary: &Summary) -> Vec<String> {
    let labels: Vec<String> = summary
        .labels
        .iter()
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    let labels = (!labels.is_empty()).then(|| format!("labels: {}", labels.join(", ")));
    labels
        .into_iter()
        .chain(summary.defaults.iter().cloned())
        .collect()
}

/// Returns the marked times, each with its phase if there were several phases.
#[must_use]
pub fn marks(summary: &Summary) -> Option<String> {
    let has_phases = summary.phases.len() > 1;
    let mark = |(place, mark): (usize, &MarkSummary)| {
        let phase = mark
            .phase
            .as_ref()
            .filter(|_| has_phases)
            .map_or_else(String::new, |phase| format!(" ({phase})"));
        format!("{} at {}{phase}", place + 1, mark.at_ns)
    };
    let marks: Vec<String> = summary.marks.iter().enumerate().map(mark).collect();
    (!marks.is_empty()).then(|| format!("marked during the run: {}", marks.join(", ")))
}

/// Returns the sentence of a verdict, without those reasons that are already shown as warnings.
pub(super) fn without_warnings(sentence: &str, warnings: &[Warning]) -> String {
    let Some((said, because)) = sentence
        .split_once(" (inconclusive ")
        .and_then(|(said, tail)| Some((said, tail.split_once("because ")?)))
    else {
        return sentence.to_owned();
    };
    let mut reasons = because.1.to_owned();
    warnings
        .iter()
        .for_each(|warning| reasons = reasons.replacen(&warning.to_string(), "", 1));
    let is_all_told = reasons.chars().all(|character| ";) ".contains(character));
    if is_all_told {
        format!(
            "{said} (inconclusive {}because of the warnings below)",
            because.0
        )
    } else {
        sentence.to_owned()
    }
}

/// Returns the explanation of `~` and of bounds. On a small screen, the dependence of samples is
/// mentioned only if nothing else explains missing bounds.
pub(super) fn notes(all: &Numbers, is_full: bool) -> Option<String> {
    let is_unbounded = all
        .percentiles
        .iter()
        .any(|percentile| !percentile.is_bounded());
    let is_told = all
        .percentiles
        .iter()
        .any(|percentile| percentile.samples_needed.is_some());
    let unbounded = unbounded(is_unbounded, is_told).unwrap_or_default();
    let dependence = if all.extremal_index.is_none() && !all.percentiles.is_empty() {
        "bounds assume independent samples, because too few samples exist to check this".to_owned()
    } else {
        effective(all).unwrap_or_default()
    };
    let dependence = if is_full || (is_unbounded && !is_told) {
        dependence
    } else {
        String::new()
    };
    let coarse = if all.coarse > 0 {
        format!(
            "{} samples are known only to within 1/64 of their value",
            all.coarse
        )
    } else {
        String::new()
    };
    let notes: Vec<&str> = [unbounded, &dependence, &coarse]
        .into_iter()
        .filter(|note| !note.is_empty())
        .collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Returns the explanation of `~`, which marks a percentile without an upper bound, and of `n>=`,
/// if a required number of samples is printed.
pub(in crate::report) fn unbounded(is_unbounded: bool, is_told: bool) -> Option<&'static str> {
    let words = if is_told {
        "~ no upper bound yet; n>= is the number of samples that a bound needs"
    } else {
        "~ no upper bound"
    };
    is_unbounded.then_some(words)
}

/// If the dependence of the samples makes the bounds clearly wider, returns how many independent
/// samples would give the same information.
fn effective(all: &Numbers) -> Option<String> {
    let of = |probability: f64| {
        all.percentiles
            .iter()
            .find(|percentile| percentile.probability == probability)?
            .effective_samples
    };
    let (median, tail) = (of(0.5)?, of(0.999)?);
    // If there are too few independent samples, their number is unknown as well, and `n>=` would be
    // a guess.
    if median <= 0.0 && tail <= 0.0 {
        return Some("too few samples are independent of each other for a bound".to_owned());
    }
    let is_less = median.min(tail) < all.samples as f64 * WORTH_A_WORD;
    is_less.then(|| {
        let count = |effective: f64| {
            if effective > 0.0 {
                format!("{effective:.0}")
            } else {
                "too few".to_owned()
            }
        };
        format!(
            "samples depend on each other: for bounds, {} samples are worth {} independent samples \
             at the median and {} at 99.9 %",
            all.samples,
            count(median),
            count(tail)
        )
    })
}

/// Returns a sentence about all gaps of a series.
pub(crate) fn gaps(series: &SeriesSummary) -> Option<String> {
    let gaps = series.gaps.as_ref()?;
    let share = match (gaps.share, gaps.observed_ns) {
        (Some(share), Some(observed)) => {
            format!(", {:.4} % of the {observed} observed", share * 100.0)
        }
        _ => String::new(),
    };
    let (probe, place, least) = (&series.probe, place(series), gaps.least_ns.exact());
    Some(format!(
        "{probe} {place}: {} gaps of at least {least}, {} in all{share}",
        gaps.count, gaps.length_ns
    ))
}

/// Returns sentences with the interval errors of a series, converted to latencies.
pub(super) fn fitted(series: &SeriesSummary) -> Vec<String> {
    let Some((fitted, lateness)) = series
        .fitted
        .as_ref()
        .and_then(|fitted| Some((fitted, fitted.lateness.as_ref()?)))
    else {
        return Vec::new();
    };
    let quantile = |percentile: &Percentile| {
        format!("{} {}", percent(percentile.probability), value(percentile))
    };
    let quantiles: Vec<String> = lateness.percentiles.iter().map(quantile).collect();
    let without = if fitted.without_event > 0 {
        format!(", {} of them without an activation", fitted.without_event)
    } else {
        String::new()
    };
    vec![
        format!(
            "{} latency against the fitted grid of expiries: {}, max {}; a delay common to all \
             expiries does not show",
            series.probe,
            quantiles.join(", "),
            Nanos(lateness.max_ns)
        ),
        format!(
            "grid: {} expiries{without}, every {}",
            fitted.expiries,
            three_digits(fitted.period_ns)
        ),
    ]
}

/// Returns a line that states how several loads shared the CPU time; `None` for a single load.
pub(crate) fn shares_of(load: &LoadSummary) -> Option<String> {
    if load.shares.is_empty() {
        return None;
    }
    let mut shares: Vec<&LoadShare> = load.shares.iter().collect();
    shares.sort_by(|one, other| other.share.total_cmp(&one.share));
    let text = |share: &&LoadShare| {
        format!(
            "{} {:.1}{}",
            share.load,
            share.share * 100.0,
            if share.is_small { "!" } else { "" }
        )
    };
    let small = if shares.iter().any(|share| share.is_small) {
        " (! less than half of an equal share)"
    } else {
        ""
    };
    Some(format!(
        "{}, CPU time by load in %: {}{small}",
        load.name,
        shares.iter().map(text).collect::<Vec<_>>().join(", ")
    ))
}

/// Returns the loads that got much less CPU time than the others.
pub(super) fn small_shares(load: &LoadSummary) -> Option<String> {
    let small: Vec<&str> = load
        .shares
        .iter()
        .filter(|share| share.is_small)
        .map(|share| share.load.as_str())
        .collect();
    (!small.is_empty()).then(|| {
        format!(
            "{}: {} got less than half of an equal share of CPU time",
            load.name,
            small.join(", ")
        )
    })
}

/// Returns a sentence that states whether the loads were repeated in random order, so that they can
/// be compared, and how late the latest phase started. Returns `None` if there are at most two
/// loads.
pub(super) fn order_of_loads(summary: &Summary) -> Option<String> {
    if summary.loads.len() <= 2 {
        return None;
    }
    let latest = summary
        .phases
        .iter()
        .map(|phase| phase.deviation_ns.0)
        .max()
        .unwrap_or_default();
    let order = if summary.is_ranked {
        "loads were repeated in random order"
    } else {
        "each load ran once: differences between loads may be due to chance (a scenario can repeat \
         loads in random order)"
    };
    Some(format!("{order}; phases started up to {latest} late"))
}

pub(super) fn interrupts(summary: &Summary) -> Option<String> {
    let touching: Vec<String> = summary
        .interrupts
        .iter()
        .take(4)
        .map(|line| format!("{} {}", line.label, line.count))
        .collect();
    (!touching.is_empty())
        .then(|| format!("interrupts on the measured CPUs: {}", touching.join(", ")))
}

pub(super) fn overhead(summary: &Summary) -> Option<String> {
    let overhead = summary.overhead.as_ref()?;
    let samples: u64 = summary
        .series
        .iter()
        .map(|series| series.counts.recorded)
        .sum();
    let a_sample = |time: Nanos| three_digits(time.get() as f64 / samples.max(1) as f64);
    let threads = overhead
        .threads
        .iter()
        .fold(Nanos::ZERO, |sum, thread| sum + thread.cpu_time_ns);
    Some(format!(
        "tool: clock read {}, loop {} of CPU time per sample, whole process {}, {:.1} MiB",
        overhead.clock_read_ns,
        a_sample(threads),
        a_sample(overhead.process_cpu_time_ns),
        overhead.resident_bytes_max as f64 / f64::from(1 << 20)
    ))
}

/// Returns the findings of `tardy doctor` that can cost milliseconds; `None` if there are none.
#[must_use]
pub fn grave_settings(summary: &Summary) -> Option<String> {
    (!summary.grave_settings.is_empty()).then(|| grave_line(&summary.grave_settings, usize::MAX))
}

/// Returns as many findings as fit a line, and the number of omitted ones.
pub(super) fn grave_line(rows: &[String], columns: usize) -> String {
    let line = |shown: usize| {
        let more = if shown < rows.len() {
            format!(", and {} more", rows.len() - shown)
        } else {
            String::new()
        };
        format!(
            "bad for real time (fatal or high in tardy doctor): {}{more}",
            rows[..shown].join(", ")
        )
    };
    (1..=rows.len())
        .rev()
        .map(line)
        .find(|line| line.chars().count() <= columns)
        .unwrap_or_else(|| {
            let plural = if rows.len() == 1 { "" } else { "s" };
            format!(
                "bad for real time (fatal or high in tardy doctor): {} check{plural}",
                rows.len()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_room_on_a_line_are_counted() {
        let rows = ["real-time-kernel", "preemption-mode", "power-saving"].map(str::to_owned);
        let line = |columns| grave_line(&rows, columns);
        assert_eq!(
            line(80),
            "bad for real time (fatal or high in tardy doctor): real-time-kernel, and 2 more"
        );
        assert_eq!(
            line(60),
            "bad for real time (fatal or high in tardy doctor): 3 checks"
        );
        assert_eq!(
            line(96),
            "bad for real time (fatal or high in tardy doctor): real-time-kernel, preemption-mode, \
             and 1 more"
        );
        assert!(
            line(100).ends_with(": real-time-kernel, preemption-mode, power-saving"),
            "{}",
            line(100)
        );
    }
}
