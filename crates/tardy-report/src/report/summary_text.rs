//! The summary as text: verdict and warnings first, then the numbers, worst first, within a screen.

use std::fmt::Write as _;

use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::Nanos;
use tardy_core::verdict::{Outcome, Verdict, significant};
use tardy_results::summary::model::{LoadShare, LoadSummary, ProbeSummary, SeriesSummary, Summary};
use tardy_run::record::State;

use super::ladder_text;
use super::table::Table;

/// Series shown one by one; the worst come first, and the others are in the row of all.
const SERIES_SHOWN: usize = 6;
/// An effective number of samples below this share of all is told: independent ones come near it by chance.
const WORTH_A_WORD: f64 = 0.6;
const PHASES_SHOWN: usize = 10;
const WARNINGS_SHOWN: usize = 6;

/// Lines of a terminal; what can be left out is left out where there would be more.
const SCREEN_LINES: usize = 24;
/// Lines of a histogram, without its axis.
const HISTOGRAM_LINES: std::ops::RangeInclusive<usize> = 2..=5;

/// The text; `is_colored` for terminals. `histogram` draws that of a probe in so many lines and one for its axis, if there is room.
#[must_use]
pub fn text(summary: &Summary, is_colored: bool, histogram: impl Fn(&ProbeSummary, usize) -> String) -> String {
    let mut out = String::new();
    head(&mut out, summary, is_colored);
    let mut rest = String::new();
    phases(&mut rest, summary);
    blind_spot(&mut rest, summary);
    foot(&mut rest, summary);
    let tables: Vec<String> = summary.probes.iter().map(|probe| table_of(summary, probe)).collect();
    let taken: usize = [&out, &rest].into_iter().chain(&tables).map(|text| text.lines().count()).sum();
    let room = SCREEN_LINES.saturating_sub(taken) / tables.len().max(1);
    for (probe, table) in summary.probes.iter().zip(&tables) {
        out.push_str(table);
        if room > *HISTOGRAM_LINES.start() {
            out.push_str(&histogram(probe, (room - 1).min(*HISTOGRAM_LINES.end())));
        }
    }
    out + &rest
}

fn table_of(summary: &Summary, probe: &ProbeSummary) -> String {
    let series: Vec<&SeriesSummary> = summary.series.iter().filter(|series| series.probe == probe.probe).collect();
    let mut out = String::new();
    latencies(&mut out, summary, probe, &series);
    for series in series.iter().take(SERIES_SHOWN) {
        fitted(&mut out, series);
        gaps(&mut out, series);
    }
    out + &probe.ladder.as_ref().map_or_else(String::new, |ladder| ladder_text::text(ladder, &probe.probe, summary.probes.len() > 1))
}

fn head(out: &mut String, summary: &Summary, is_colored: bool) {
    let probes: Vec<String> = summary.probes.iter().map(|probe| named(summary, probe)).collect();
    let _ = writeln!(
        out,
        "{}: {}{}, {}{}",
        summary.run,
        probes.join(", "),
        if summary.measured_cpus.is_empty() { String::new() } else { format!(" on cpus {}", summary.measured_cpus) },
        if summary.measured_ns > Nanos::ZERO {
            format!("{} measured", seconds(summary.measured_ns))
        } else {
            "length not known".to_owned()
        },
        match summary.state {
            State::Finished => "",
            State::Running => ", CUT OFF",
            State::Interrupted => ", interrupted",
            State::Stopped => ", stopped by --stop-above",
            State::EndedByWatchdog => ", ended by the watchdog",
        }
    );
    for (outcome, sentence) in verdict_lines(summary) {
        let color = match outcome {
            Outcome::Passed => "32",
            Outcome::Failed => "31",
            Outcome::Inconclusive => "33",
        };
        let word = word(outcome);
        let word = if is_colored { format!("\x1b[1;{color}m{word}\x1b[0m") } else { word.to_owned() };
        let _ = writeln!(out, "{word}: {sentence}");
    }
    for warning in summary.warnings.iter().take(WARNINGS_SHOWN) {
        let _ = writeln!(out, "! {warning}");
    }
    if summary.warnings.len() > WARNINGS_SHOWN {
        let _ = writeln!(out, "! and {} more warnings: see --json", summary.warnings.len() - WARNINGS_SHOWN);
    }
}

/// What stands first: the verdict on the run, or that on each probe where several are judged, the worst first.
#[must_use]
pub fn verdict_lines(summary: &Summary) -> Vec<(Outcome, String)> {
    let of_probes = summary.verdicts_of_probes();
    if of_probes.is_empty() {
        return summary.verdict.iter().map(|verdict| (verdict.outcome, verdict.sentence.clone())).collect();
    }
    let worded = |(probe, verdict): &(&str, &Verdict)| (verdict.outcome, format!("{probe}: {}", verdict.sentence));
    let of = |outcome| of_probes.iter().filter(move |(_, verdict)| verdict.outcome == outcome).map(worded);
    [Outcome::Failed, Outcome::Inconclusive, Outcome::Passed].into_iter().flat_map(of).collect()
}

/// An outcome in one word.
#[must_use]
pub fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "PASSED",
        Outcome::Failed => "FAILED",
        Outcome::Inconclusive => "INCONCLUSIVE",
    }
}

/// A probe with its period, or periods, where it has one.
pub(super) fn named(summary: &Summary, probe: &ProbeSummary) -> String {
    let of_series = || summary.series.iter().filter(|series| series.probe == probe.probe).map(|series| series.schedule.period());
    let (shortest, longest) = (of_series().min().unwrap_or(probe.period_ns), of_series().max().unwrap_or(probe.period_ns));
    // The period of an import may not be known.
    match () {
        () if probe.has_no_period || shortest <= Nanos::ZERO => probe.probe.clone(),
        () if shortest < longest => format!("{} every {} to {}", probe.probe, shortest.exact(), longest.exact()),
        () => format!("{} every {}", probe.probe, longest.exact()),
    }
}

/// The columns: smaller percentiles are left out where they say nothing about lateness.
fn latencies(out: &mut String, summary: &Summary, probe: &ProbeSummary, series: &[&SeriesSummary]) {
    let Some(all) = &probe.numbers else {
        let _ = writeln!(out, "{}: no sample", probe.probe);
        return;
    };
    let has_misses = all.misses.is_some();
    let mut head = vec![title(probe, summary), "samples".into(), "skipped".into(), "min".into(), "median".into(), "mean".into()];
    head.extend(all.percentiles.iter().skip(1).map(|percentile| percent(percentile.probability)));
    head.extend(["max", "at", "jitter 99.9 %"].map(str::to_owned));
    if has_misses {
        head.extend(["misses", "longest burst"].map(str::to_owned));
    }
    let mut table = Table::new(head);
    for series in series.iter().take(SERIES_SHOWN) {
        let label = place(series);
        let Some(numbers) = &series.numbers else { continue };
        let jitter = series.jitter.get(2).map_or_else(|| "-".to_owned(), |percentile| micros(percentile.value_ns));
        table.row(row(label, numbers, series.is_missed_unknown, jitter, has_misses.then(|| in_a_row(&[series]))));
    }
    if series.len() > SERIES_SHOWN {
        table.row([format!("{} more below", series.len() - SERIES_SHOWN)]);
    }
    if series.len() > 1 {
        let jitter = series.iter().filter_map(|series| series.jitter_max_ns).max();
        let jitter = jitter.map_or_else(|| "-".to_owned(), |jitter| format!("max {}", micros(jitter)));
        table.row(row("all".into(), all, probe.is_missed_unknown, jitter, has_misses.then(|| in_a_row(series))));
    }
    if !all.percentiles.is_empty() {
        table.row(bounds("  upper bound (95 %)", &all.percentiles));
    }
    if let Some(corrected) = &all.percentiles_corrected {
        let mut cells = vec!["with skipped due times".to_owned(), (all.samples + all.missed).to_string(), String::new(), String::new()];
        cells.push(corrected.first().map_or_else(String::new, |median| micros(median.value_ns)));
        cells.push(String::new());
        cells.extend(corrected.iter().skip(1).map(value));
        table.row(cells);
    }
    out.push_str(&table.text());
    notes(out, all);
}

/// What the values are; of which probe, where there are several.
fn title(probe: &ProbeSummary, summary: &Summary) -> String {
    if summary.probes.len() > 1 { format!("{} {} us", probe.probe, probe.quantity) } else { format!("{} us", probe.quantity) }
}

/// The gaps of a series together.
fn gaps(out: &mut String, series: &SeriesSummary) {
    let Some(gaps) = &series.gaps else { return };
    let share = match (gaps.share, gaps.observed_ns) {
        (Some(share), Some(observed)) => format!(", {:.4} % of the {} observed", share * 100.0, seconds(observed)),
        _ => String::new(),
    };
    let (probe, place) = (&series.probe, place(series));
    let _ = writeln!(
        out,
        "  {probe} {place}: {} gaps of at least {}, {:.1} us in all{share}",
        gaps.count,
        gaps.least_ns.exact(),
        gaps.length_ns.as_micros_f64()
    );
}

/// Where a series was taken.
fn place(series: &SeriesSummary) -> String {
    match (series.cpu, series.copy) {
        (Some(cpu), _) => format!("cpu {cpu}"),
        (None, Some(copy)) => format!("copy {copy}"),
        (None, None) => series.probe.clone(),
    }
}

/// What interval errors are as latenesses.
fn fitted(out: &mut String, series: &SeriesSummary) {
    let Some(fitted) = &series.fitted else { return };
    let Some(lateness) = &fitted.lateness else { return };
    let quantiles: Vec<String> =
        lateness.percentiles.iter().map(|percentile| format!("{} {}", percent(percentile.probability), value(percentile))).collect();
    let _ = writeln!(
        out,
        "  {} lateness against the fitted grid of expiries, us: {}, max {}; what all are late by does not show",
        series.probe,
        quantiles.join(", "),
        micros(lateness.max_ns)
    );
    let without =
        if fitted.without_event > 0 { format!(", {} of them without an activation", fitted.without_event) } else { String::new() };
    let _ = writeln!(out, "  grid: {} expiries{without}, every {:.3} us", fitted.expiries, fitted.period_ns / 1e3);
}

/// The longest run of misses of any of them; of samples without their order it is not known.
fn in_a_row(series: &[&SeriesSummary]) -> String {
    let longest = series.iter().filter_map(|series| series.misses_longest_run).map(|run| run.length).max();
    let is_known = series.iter().all(|series| !series.from_histogram && series.counts.unstored == 0);
    longest.or(is_known.then_some(0)).map_or_else(|| "-".to_owned(), |length| length.to_string())
}

fn row(label: String, numbers: &Numbers, is_missed_unknown: bool, jitter: String, in_a_row: Option<String>) -> Vec<String> {
    let missed = if is_missed_unknown { "-".to_owned() } else { numbers.missed.to_string() };
    let mut cells = vec![label, numbers.samples.to_string(), missed, micros(numbers.min_ns)];
    cells.push(numbers.percentiles.first().map_or_else(String::new, |median| micros(median.value_ns)));
    cells.push(format!("{:.1}", numbers.mean_ns / 1e3));
    cells.extend(numbers.percentiles.iter().skip(1).map(value));
    // The maximum of an import may have no time.
    let at = if numbers.max_at_ns == 0 { "-".to_owned() } else { seconds(Nanos(numbers.max_at_ns)) };
    cells.extend([micros(numbers.max_ns), at, jitter]);
    if let Some(in_a_row) = in_a_row {
        cells.extend([numbers.misses.unwrap_or(0).to_string(), in_a_row]);
    }
    cells
}

/// A percentile that the samples do not bound is a sample like any other, and is marked so.
fn value(percentile: &Percentile) -> String {
    format!("{}{}", if percentile.is_bounded() { "" } else { "~" }, micros(percentile.value_ns))
}

fn bounds(label: &str, percentiles: &[Percentile]) -> Vec<String> {
    let mut cells = vec![label.to_owned(), String::new(), String::new(), String::new()];
    let bound = |percentile: &Percentile| match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => micros(upper),
        (None, Some(needed)) => format!("n>={}", count(needed)),
        (None, None) => "-".to_owned(),
    };
    cells.push(percentiles.first().map_or_else(String::new, bound));
    cells.push(String::new());
    cells.extend(percentiles.iter().skip(1).map(bound));
    cells
}

fn notes(out: &mut String, all: &Numbers) {
    let independence = if all.extremal_index.is_none() && !all.percentiles.is_empty() {
        "bounds assume independent samples: too few to tell".to_owned()
    } else {
        effective(all).unwrap_or_default()
    };
    let unbounded = if all.percentiles.iter().any(|percentile| !percentile.is_bounded()) {
        if all.percentiles.iter().any(|percentile| percentile.samples_needed.is_some()) {
            "~ not bounded: needs as many samples as stated below it"
        } else {
            "~ not bounded"
        }
    } else {
        ""
    };
    let coarse = if all.coarse > 0 { format!("{} samples are known to 1/64 only", all.coarse) } else { String::new() };
    let notes: Vec<&str> = [unbounded, &independence, &coarse].into_iter().filter(|note| !note.is_empty()).collect();
    if !notes.is_empty() {
        let _ = writeln!(out, "  {}", notes.join("; "));
    }
}

/// How many independent samples all of them count for, where that makes bounds clearly wider.
fn effective(all: &Numbers) -> Option<String> {
    let of = |probability: f64| all.percentiles.iter().find(|percentile| percentile.probability == probability)?.effective_samples;
    let (median, tail) = (of(0.5)?, of(0.999)?);
    // Where too few are independent their number is not known either, and n>= would be a guess.
    if median <= 0.0 && tail <= 0.0 {
        return Some("too few samples are independent of each other for a bound".to_owned());
    }
    let is_less = median.min(tail) < all.samples as f64 * WORTH_A_WORD;
    is_less.then(|| {
        let count = |effective: f64| if effective > 0.0 { format!("as {effective:.0}") } else { "as too few".to_owned() };
        format!(
            "samples depend on each other: for bounds {} count {} at the median and {} at 99.9 %",
            all.samples,
            count(median),
            count(tail)
        )
    })
}

fn phases(out: &mut String, summary: &Summary) {
    if summary.phases.len() < 2 {
        return;
    }
    let has_misses = summary.verdict.is_some();
    let verdict = |load: &LoadSummary, probe: &str| {
        let Some(verdict) = load.verdict_of(probe) else { return Vec::new() };
        let an_hour = verdict.misses_an_hour_at_most().map_or_else(|| "-".to_owned(), |an_hour| format!("< {}", significant(an_hour)));
        vec![an_hour, word(verdict.outcome).to_lowercase()]
    };
    let title = if summary.is_ranked { "load, worst first" } else { "phase" };
    let mut head = vec![title, "times", "length", "samples", "median", "99.9 %", "99.999 %", "max us"];
    if has_misses {
        head.push("misses");
    }
    if summary.loads.iter().any(|load| !load.verdicts.is_empty()) {
        head.extend(["an hour, 95 %", "verdict"]);
    }
    let mut table = Table::new(head);
    for load in summary.loads.iter().take(PHASES_SHOWN) {
        for (probe, numbers) in &load.probes {
            let mut label = if summary.probes.len() > 1 { format!("{} ({probe})", load.name) } else { load.name.clone() };
            if !load.not_stressed.is_empty() {
                label.push_str(&format!(" (load not active on CPUs {})", load.not_stressed));
            }
            let Some(numbers) = numbers else {
                table.row([label, load.phases.to_string(), seconds(load.length_ns), "-".to_owned()]);
                continue;
            };
            let at = |index: usize| numbers.percentiles.get(index).map_or_else(String::new, value);
            let mut cells = vec![label, load.phases.to_string(), seconds(load.length_ns), numbers.samples.to_string()];
            cells.extend([at(0), at(2), at(4), micros(numbers.max_ns)]);
            if has_misses {
                cells.push(numbers.misses.map_or_else(|| "-".to_owned(), |misses| misses.to_string()));
                cells.extend(verdict(load, probe));
            }
            table.row(cells);
        }
    }
    out.push_str(&table.text());
    shares(out, summary);
    if summary.loads.len() > PHASES_SHOWN {
        let _ = writeln!(out, "  and {} more: see --json", summary.loads.len() - PHASES_SHOWN);
    }
    if summary.loads.len() > 2 {
        let latest = summary.phases.iter().map(|phase| phase.deviation_ns.0).max().unwrap_or_default();
        let order = if summary.is_ranked {
            "worst first: repeated in a drawn order"
        } else {
            "each once, in this order: no ranking (repeat them shuffled for one)"
        };
        let _ = writeln!(out, "  {order}; begun up to {:.1} s after plan", latest.as_secs_f64());
    }
}

/// What loads that ran together got of the CPUs, largest first.
fn shares(out: &mut String, summary: &Summary) {
    for line in summary.loads.iter().filter_map(shares_of) {
        let _ = writeln!(out, "  {line}");
    }
}

/// What each of several loads got of the CPUs, in a line; none where there is one load.
pub(crate) fn shares_of(load: &LoadSummary) -> Option<String> {
    if load.shares.is_empty() {
        return None;
    }
    let mut shares: Vec<&LoadShare> = load.shares.iter().collect();
    shares.sort_by(|one, other| other.share.total_cmp(&one.share));
    let text = |share: &&LoadShare| format!("{} {:.1}{}", share.load, share.share * 100.0, if share.is_small { "!" } else { "" });
    let small = if shares.iter().any(|share| share.is_small) { " (! less than half of an equal share)" } else { "" };
    Some(format!("{}, CPU time by load in %: {}{small}", load.name, shares.iter().map(text).collect::<Vec<_>>().join(", ")))
}

fn blind_spot(out: &mut String, summary: &Summary) {
    if let Some(period) =
        summary.probes.iter().filter(|probe| !probe.has_no_period && probe.period_ns.get() > 0).map(|probe| probe.period_ns).min()
    {
        let period = period.exact();
        let _ = writeln!(
            out,
            "blind spot: a section that delayed a wake-up may be up to {period} longer than the latency seen; one shorter than {period} may not be seen at all"
        );
    }
}

fn foot(out: &mut String, summary: &Summary) {
    for line in summary.machine.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "{line}");
    }
    let touching: Vec<String> = summary.interrupts.iter().take(4).map(|line| format!("{} {}", line.label, line.count)).collect();
    if !touching.is_empty() {
        let _ = writeln!(out, "interrupts on the measured cpus: {}", touching.join(", "));
    }
    if let Some(overhead) = &summary.overhead {
        let samples: u64 = summary.series.iter().map(|series| series.counts.recorded).sum();
        let a_sample = |time: Nanos| format!("{:.1} us", time.as_micros_f64() / samples.max(1) as f64);
        let threads = overhead.threads.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.cpu_time_ns);
        let _ = writeln!(
            out,
            "tool: clock read {} ns, loop {} of CPU time a sample, whole process {}, {:.1} MiB",
            overhead.clock_read_ns.get(),
            a_sample(threads),
            a_sample(overhead.process_cpu_time_ns),
            overhead.resident_bytes_max as f64 / f64::from(1 << 20)
        );
    }
}

/// A count in three digits, rounded up: it says how many are needed.
fn count(count: u64) -> String {
    let (divisor, unit) = match count {
        0..10_000 => return count.to_string(),
        10_000..1_000_000 => (1_000, "k"),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    // Two digits at least, rounded up: fewer samples would not do.
    let tenths = count.div_ceil(divisor / 10);
    if tenths < 100 { format!("{}.{}{unit}", tenths / 10, tenths % 10) } else { format!("{}{unit}", count.div_ceil(divisor)) }
}

fn micros(nanos: i64) -> String {
    format!("{:.1}", nanos as f64 / 1e3)
}

fn seconds(time: Nanos) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn percent(probability: f64) -> String {
    format!("{} %", (probability * 1e9).round() / 1e7)
}
