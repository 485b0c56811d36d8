//! Statistics as text: a table for each layer, with a column per series.

use std::fmt::Write as _;

use tardy_core::summary::numbers::Percentile;
use tardy_results::statistics::read::{Group, Statistics};
use tardy_results::statistics::rule_of_thumb::{RateSource, RuleOfThumb};
use tardy_results::statistics::tail::{CheckResult, LoadTail, Model, TailModel};
use tardy_statistics::confidence::Interval;

use super::screen::fitted;
use super::summary_text::{count, unbounded};
use super::table::Table;

/// Maximum number of series that are shown, the worst first. The JSON output has all series.
const COLUMNS_SHOWN: usize = 4;

/// Minimum number of samples for a 99.999th percentile.
const FIVE_NINES_SAMPLES: u64 = 100_000;

/// One layer of a probe's statistics, or a statement about the layer: a heading, a table, and
/// sentences below it.
#[derive(Debug)]
pub struct Section {
    /// The heading, which names the layer and what it covers.
    pub head: String,
    /// A table with a column per series.
    pub table: Option<Table>,
    /// The sentences. Sentences about failed checks start with a dash.
    pub lines: Vec<String>,
    /// Whether the section contains no model, and only states why there is none.
    pub is_without_model: bool,
}

/// Returns the statistics as text, in lines of at most `columns`. Table columns that do not fit
/// follow below.
#[must_use]
pub fn text(statistics: &Statistics, columns: usize) -> String {
    let mut out = String::new();
    for section in sections(statistics) {
        let _ = writeln!(out, "{}", section.head);
        out.extend(section.table.as_ref().map(|table| table.in_blocks(columns)));
        for line in section.lines {
            let _ = writeln!(out, "{line}");
        }
    }
    out.extend(without_rule_of_thumb(statistics).map(|words| format!("{words}\n")));
    fitted(&out, columns)
}

/// Returns the reason why the rule of thumb could not be applied; `None` if it was applied.
#[must_use]
pub fn without_rule_of_thumb(statistics: &Statistics) -> Option<String> {
    let why = match (
        statistics.rule_of_thumb.source,
        statistics.rule_of_thumb.mhz,
    ) {
        (_, Some(_)) => return None,
        (RateSource::VirtualTime, None) => "virtual time counts instructions, not cycles",
        (_, None) => "the CPU's clock rate is unknown",
    };
    Some(format!(
        "OSADL's rule of thumb (10^5 clock cycles) cannot be applied here, because {why}: give \
         --mhz"
    ))
}

/// Returns the sections of all layers, grouped by probe.
#[must_use]
pub fn sections(statistics: &Statistics) -> Vec<Section> {
    let of_probe = statistics.groups.chunk_by(|a, b| a.probe == b.probe);
    of_probe
        .flat_map(|groups| probe(groups, &statistics.rule_of_thumb))
        .collect()
}

/// Returns a sentence such as `OSADL's rule of thumb: kept. ...`
fn verdict_of_rule(rule: &RuleOfThumb, probe: &str) -> Option<String> {
    let (verdict, worst, mhz) = (rule.of(probe)?, rule.worst_case_ns?, rule.mhz?);
    let word = if verdict.is_kept { "kept" } else { "not kept" };
    let max = five_digits(verdict.max_ns as f64);
    Some(format!(
        "OSADL's rule of thumb: {word}. 10^5 clock cycles are {} us at {mhz:.0} MHz ({}); the \
         maximum of {max} us is {:.2} times that. --deadline {}ns makes this rule the run's verdict",
        five_digits(worst),
        rule.source.words(),
        verdict.of_worst_case,
        worst.round()
    ))
}

fn probe(groups: &[Group], rule_of_thumb: &RuleOfThumb) -> Vec<Section> {
    let series: Vec<&Group> = groups.iter().filter(|group| !group.is_together).collect();
    let together = groups.iter().find(|group| group.is_together);
    let shown: Vec<&Group> = series
        .iter()
        .take(COLUMNS_SHOWN)
        .copied()
        .chain(together)
        .collect();
    let Some(all) = shown.last() else {
        return Vec::new();
    };
    let left_out = all.of_series.saturating_sub(COLUMNS_SHOWN);
    let more = if left_out > 0 {
        format!(" ({left_out} more series in tardy show --statistics --json)")
    } else {
        String::new()
    };
    let name = format!("{} {}", all.probe, all.quantity);
    let bounds_head = format!(
        "{name}: bounds at {} %, for any distribution",
        all.bounds.confidence * 100.0
    );
    let of_observed = skipped(all)
        .into_iter()
        .chain(without_five_nines(&shown))
        .collect();
    let of_bounds = without_bound(&shown)
        .into_iter()
        .chain(verdict_of_rule(rule_of_thumb, &all.probe))
        .collect();
    let mut sections = vec![
        Section {
            head: format!("{name}: observed{more}"),
            table: Some(observed(&shown)),
            lines: of_observed,
            is_without_model: false,
        },
        Section {
            head: bounds_head,
            table: Some(bounds(&shown)),
            lines: of_bounds,
            is_without_model: false,
        },
    ];
    for group in series.iter().take(COLUMNS_SHOWN) {
        sections.push(match &group.tail {
            Some(tail) => model(&label(group), tail),
            None => Section {
                head: format!(
                    "{}: no model: the time between two due times is not known (see `tardy import \
                     --period`)",
                    label(group)
                ),
                table: None,
                lines: Vec::new(),
                is_without_model: true,
            },
        });
        sections.extend(
            group
                .tail_by_load
                .iter()
                .map(|of_load| of_one_load(group, of_load)),
        );
    }
    sections
}

/// Returns a note on skipped periods. Without this note, a table in which 100 % of the samples are
/// below a missed deadline would seem contradictory.
fn skipped(group: &Group) -> Option<String> {
    let words = "skipped periods have no sample, so the shares above leave them out; with a \
                 deadline, a skipped period is a miss if its wake-up came too late";
    (group.skipped > 0).then(|| format!("skipped periods: {}; {words}", group.skipped))
}

/// Returns a note if a series has too few samples for the 99.999th percentile.
fn without_five_nines(shown: &[&Group]) -> Option<String> {
    let is_short = |group: &&Group| {
        group.observed.five_nines_ns.is_none() && group.observed.samples < FIVE_NINES_SAMPLES
    };
    shown
        .iter()
        .any(is_short)
        .then(|| format!("five nines (99.999 %) need {FIVE_NINES_SAMPLES} samples"))
}

/// Returns the explanation of `~` and `n>=` in the table of bounds.
fn without_bound(shown: &[&Group]) -> Option<String> {
    let mut open = shown
        .iter()
        .flat_map(|group| &group.bounds.percentiles)
        .filter(|percentile| percentile.upper_ns.is_none())
        .peekable();
    unbounded(
        open.peek().is_some(),
        open.any(|percentile| percentile.samples_needed.is_some()),
    )
    .map(str::to_owned)
}

/// Returns the section about the model of one load's samples. If the model was refused, the section
/// lists only the first failed check, because there may be many loads.
fn of_one_load(group: &Group, of_load: &LoadTail) -> Section {
    let section = model(
        &format!(
            "{}, {} ({} samples)",
            label(group),
            of_load.load,
            of_load.samples
        ),
        &of_load.tail,
    );
    let more = section.lines.len().saturating_sub(1);
    let is_cut = of_load.tail.model.is_none() && of_load.tail.refused.is_none() && more > 0;
    if !is_cut {
        return section;
    }
    let first = section.lines[0].clone();
    Section {
        lines: vec![format!("{first}; and {more} more, see --json")],
        ..section
    }
}

fn label(group: &Group) -> String {
    match (group.cpu, group.copy) {
        _ if group.is_together => "all".to_owned(),
        (Some(cpu), _) => format!("CPU {cpu}"),
        (None, Some(copy)) => format!("copy {copy}"),
        (None, None) => group.probe.clone(),
    }
}

fn head(first: &str, shown: &[&Group]) -> Table {
    Table::new(std::iter::once(first.to_owned()).chain(shown.iter().map(|group| label(group))))
}

fn row(table: &mut Table, name: &str, shown: &[&Group], cell: impl Fn(&Group) -> String) {
    table.row(std::iter::once(name.to_owned()).chain(shown.iter().map(|group| cell(group))));
}

fn observed(shown: &[&Group]) -> Table {
    let mut table = head("us", shown);
    let width = shown[0].observed.bucket_ns.exact();
    row(&mut table, "samples", shown, |group| {
        group.observed.samples.to_string()
    });
    row(
        &mut table,
        &format!("buckets of {width} in use"),
        shown,
        |group| group.observed.buckets.to_string(),
    );
    row(&mut table, "min", shown, |group| {
        five_digits(group.observed.min_ns as f64)
    });
    row(&mut table, "median", shown, |group| {
        group
            .observed
            .median_ns
            .map_or_else(dash, |median| five_digits(median as f64))
    });
    row(
        &mut table,
        &format!("mode, middle of its {width} bucket"),
        shown,
        |group| five_digits(group.observed.mode_middle_ns as f64),
    );
    row(&mut table, "samples in this bucket", shown, |group| {
        group.observed.mode_samples.to_string()
    });
    row(&mut table, "mean", shown, |group| {
        five_digits(group.observed.mean_ns)
    });
    row(&mut table, "variance, us^2", shown, |group| {
        group
            .observed
            .variance_ns2
            .map_or_else(dash, |value| five_digits(value / 1e3))
    });
    row(&mut table, "standard deviation", shown, |group| {
        group
            .observed
            .standard_deviation_ns
            .map_or_else(dash, five_digits)
    });
    row(&mut table, "max", shown, |group| {
        five_digits(group.observed.max_ns as f64)
    });
    for index in 0..shown[0].observed.below.len() {
        let limit = shown[0].observed.below[index].limit_ns.exact();
        row(&mut table, &format!("below {limit}"), shown, |group| {
            group.observed.below.get(index).map_or_else(dash, |below| {
                percent(below.share, below.samples < group.observed.samples)
            })
        });
    }
    row(&mut table, "five nines: 99.999 % up to", shown, |group| {
        group
            .observed
            .five_nines_ns
            .map_or_else(dash, |value| five_digits(value as f64))
    });
    table
}

fn bounds(shown: &[&Group]) -> Table {
    let mut table = head("us", shown);
    let longest = shown
        .iter()
        .map(|group| group.bounds.percentiles.len())
        .max()
        .unwrap_or(0);
    for index in 0..longest {
        let Some(probability) = shown
            .iter()
            .find_map(|group| group.bounds.percentiles.get(index))
            .map(|found| found.probability)
        else {
            continue;
        };
        let name = format!("{} %", (probability * 1e9).round() / 1e7);
        row(&mut table, &name, shown, |group| {
            group
                .bounds
                .percentiles
                .get(index)
                .map_or_else(dash, interval)
        });
    }
    for index in 0..shown[0].bounds.exceedances.len() {
        let limit = shown[0].bounds.exceedances[index].limit_ns.exact();
        row(
            &mut table,
            &format!("above {limit}, at most"),
            shown,
            |group| {
                let found = group.bounds.exceedances.get(index);
                found.map_or_else(dash, |found| {
                    let an_hour = found
                        .an_hour_upper
                        .map_or_else(String::new, |rate| format!(", {}/h", significant(rate)));
                    format!(
                        "{:.2e}{an_hour} ({} seen)",
                        found.share_upper, found.samples
                    )
                })
            },
        );
    }
    row(&mut table, "the maximum covers at least", shown, |group| {
        format!("1 - {:.2e}", 1.0 - group.bounds.covered_by_max)
    });
    for index in 0..2 {
        if shown
            .iter()
            .all(|group| group.bounds.needed.get(index).is_some())
        {
            let share = shown[0].bounds.needed[index].share;
            row(
                &mut table,
                &format!("samples to cover 1 - {:.0e}", 1.0 - share),
                shown,
                |group| {
                    let needed = group
                        .bounds
                        .needed
                        .iter()
                        .find(|needed| (needed.share - share).abs() < 1e-12);
                    needed.map_or_else(|| "enough".to_owned(), |needed| needed.samples.to_string())
                },
            );
        }
    }
    row(
        &mut table,
        "effective samples at the median",
        shown,
        |group| {
            let assumed = if group.bounds.is_independence_assumed {
                " (assumed)"
            } else {
                ""
            };
            format!("{:.0}{assumed}", group.bounds.effective_samples)
        },
    );
    table
}

fn model(label: &str, tail: &TailModel) -> Section {
    let horizon = tail.horizon_ns.exact();
    if let Some(model) = &tail.model {
        let head = format!("{label}: MODEL, not measured: {}", level(model, &horizon));
        let lines = vec![format!(
            "{}; all {} checks passed",
            parameters(model),
            tail.checks.len()
        )];
        return Section {
            head,
            table: None,
            lines,
            is_without_model: false,
        };
    }
    let failed: Vec<&CheckResult> = tail
        .checks
        .iter()
        .filter(|checked| !checked.has_passed)
        .collect();
    let against = format!("{} of {} checks failed", failed.len(), tail.checks.len());
    let mut lines: Vec<String> = failed
        .iter()
        .map(|checked| format!("  - {}", checked.check))
        .collect();
    if let Some(refused) = &tail.refused {
        lines.insert(
            0,
            format!(
                "  REFUSED MODEL, shown only for its fit: {}",
                level(refused, &horizon)
            ),
        );
        lines.insert(1, parameters(refused));
    }
    Section {
        head: format!("{label}: no model for {horizon}: {against}"),
        table: None,
        lines,
        is_without_model: true,
    }
}

/// Formats the latency that, according to the model, is exceeded once in `horizon`.
fn level(model: &Model, horizon: &str) -> String {
    format!(
        "exceeded once in {horizon} if the conditions stay the same: {} us, 95 % interval {}; over \
         all accepted thresholds: {}",
        micros(model.level_ns),
        between(model.level_interval_ns),
        between(model.spread_ns)
    )
}

fn parameters(model: &Model) -> String {
    let by_blocks = model
        .level_by_blocks_ns
        .map_or_else(dash, |(level, interval)| {
            format!(
                "{} us, 95 % interval {}",
                micros(level),
                between(Some(interval))
            )
        });
    format!(
        "  generalised Pareto above {} us: shape {:.3}, scale {} us; the same level estimated from \
         block maxima: {by_blocks}",
        micros(model.threshold_ns),
        model.shape,
        micros(model.scale_ns)
    )
}

fn between(interval: Option<Interval>) -> String {
    interval.map_or_else(dash, |found| {
        format!(
            "{} to {}",
            micros(found.lower),
            if found.upper.is_finite() {
                micros(found.upper)
            } else {
                "no limit".to_owned()
            }
        )
    })
}

/// Formats a percentile with its interval, for example `23.7 [23.5, 23.9]`. A percentile that the
/// samples do not bound is marked. The mark includes the number of samples that would bound it.
fn interval(percentile: &Percentile) -> String {
    let value = micros(percentile.value_ns as f64);
    let lower = percentile
        .lower_ns
        .map_or_else(dash, |lower| rounded_micros(lower as f64, f64::floor));
    match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => format!(
            "{value} [{lower}, {}]",
            rounded_micros(upper as f64, f64::ceil)
        ),
        (None, Some(needed)) => format!("~{value} [{lower}, n>={}]", count(needed)),
        (None, None) => format!("~{value} [{lower}, -]"),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn micros(nanos: f64) -> String {
    rounded_micros(nanos, f64::round)
}

/// Formats a time in us: with whole ns below 1 us, with three digits from 1 to 10 us, and with
/// tenths of a us above 10 us. `round` rounds the ends of intervals outwards.
fn rounded_micros(nanos: f64, round: fn(f64) -> f64) -> String {
    let (step, decimals) = match nanos.abs() {
        ..1e3 => (1.0, 3),
        ..1e4 => (10.0, 2),
        _ => (100.0, 1),
    };
    format!("{:.decimals$}", round(nanos / step) * step / 1e3)
}

/// Formats a time in us with five digits, as papers print distributions, but never finer than 1 ns.
fn five_digits(nanos: f64) -> String {
    let micros = nanos / 1e3;
    let before_point = micros.abs().max(1.0).log10().floor() as usize + 1;
    format!("{micros:.*}", 5_usize.saturating_sub(before_point).min(3))
}

/// Formats a share as a percentage with as many digits as williams2002 prints, or with more if a
/// share below 1 would otherwise appear as 100 %.
fn percent(share: f64, is_partial: bool) -> String {
    let text = format!("{:.5} %", share * 100.0);
    if is_partial && text == "100.00000 %" {
        format!("100 % - {:.1e}", (1.0 - share) * 100.0)
    } else {
        text
    }
}

fn significant(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_rounded_outwards_and_keep_short_times() {
        let of = |value_ns, lower_ns, upper_ns| {
            interval(&Percentile {
                probability: 0.5,
                value_ns,
                lower_ns: Some(lower_ns),
                upper_ns: Some(upper_ns),
                samples_needed: None,
                effective_samples: None,
            })
        };
        assert_eq!(of(7_042, 6_789, 7_118), "7.04 [6.78, 7.12]");
        assert_eq!(of(7, 7, 7), "0.007 [0.007, 0.007]");
        assert_eq!(of(23_680, 23_590, 23_901), "23.7 [23.5, 24.0]");
    }

    #[test]
    fn numbers_have_the_digits_that_papers_print() {
        let of = |nanos: f64| five_digits(nanos);
        assert_eq!(
            [
                of(88_323.06),
                of(232_600_000.0),
                of(-1_600.0),
                of(13.0),
                of(99_999.96)
            ],
            ["88.323", "232600", "-1.600", "0.013", "100.000"]
        );
        assert_eq!(
            [percent(0.999_999_84, true), percent(1.0, false)],
            ["99.99998 %", "100.00000 %"]
        );
        assert_eq!(percent(0.999_999_999, true), "100 % - 1.0e-7");
    }
}
