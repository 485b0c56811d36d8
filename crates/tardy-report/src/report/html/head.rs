//! What is read first: the verdict, the warnings, the figures that matter most, and the numbers of each CPU and load.

use maud::{Markup, html};
use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::Nanos;
use tardy_core::verdict::significant;
use tardy_results::summary::model::{Ladder, LoadSummary, ProbeSummary, Rung, Summary};
use tardy_run::record::State;

use super::figure;
use crate::chart::data::RunData;
use crate::chart::model::Table;
use crate::chart::words::{micros, whole};
use crate::report::date::date_and_time;
use crate::report::{ladder_text, summary_text};

pub(super) fn head(runs: &[RunData], title: &str) -> Markup {
    html! {
        header {
            h1 { "Latency report: " (title) }
            nav aria-label="Contents" {
                a href="#verdict" { "Verdict" }
                a href="#numbers" { "Numbers" }
                @for probe in runs.first().map(|run| run.probes.as_slice()).unwrap_or_default() {
                    a href={ "#probe-" (probe.probe) } { "Charts of " (probe.probe) }
                }
                a href="#statistics" { "Statistics" }
                a href="#machine" { "Machine" }
                a href="#repeat" { "How to repeat it" }
            }
        }
        section {
            h2 id="verdict" { "Verdict" }
            div class="columns" { @for run in runs { div { (first(run)) } } }
        }
        section {
            h2 id="numbers" { "Numbers" }
            div class="columns" { @for run in runs { div { (tables(run, runs.len() > 1)) } } }
        }
    }
}

fn first(run: &RunData) -> Markup {
    let summary = &run.summary;
    let verdicts = summary_text::verdict_lines(summary);
    let state = match summary.state {
        State::Finished => "",
        State::Running => ", CUT OFF",
        State::Interrupted => ", interrupted",
        State::Stopped => ", stopped by --stop-above",
        State::EndedByWatchdog => ", ended by the watchdog",
    };
    let probes: Vec<String> = summary.probes.iter().map(|probe| summary_text::named(summary, probe)).collect();
    html! {
        p class="run-name" { (run.name) }
        p class="quiet" {
            (probes.join(", "))
            @if !summary.measured_cpus.is_empty() { " on cpus " (summary.measured_cpus.to_string()) }
            ", "
            @if summary.measured_ns > Nanos::ZERO { (format!("{:.1} s", summary.measured_ns.as_secs_f64())) " measured" } @else { "length not known" }
            (state) ", "
            (date_and_time(summary.started_realtime_ns)) " UTC"
        }
        @for (outcome, sentence) in &verdicts {
            div class={ "verdict " (summary_text::word(*outcome).to_lowercase()) } { b { (summary_text::word(*outcome)) } p { (sentence) } }
        }
        @if verdicts.is_empty() {
            div class="verdict " { b { "NO DEADLINE ASKED FOR" } p { "Give --deadline for a verdict; below is what these samples say about common ones." } }
        }
        @if !summary.warnings.is_empty() {
            ul class="warnings" aria-label="Warnings" { @for warning in &summary.warnings { li { (warning.to_string()) } } }
        }
        @for probe in &summary.probes {
            @if let Some(numbers) = &probe.numbers { (key_figures(probe, numbers, summary.probes.len() > 1)) }
            @if let Some(ladder) = &probe.ladder { (rungs(ladder)) }
        }
        (blind_spot(summary))
    }
}

/// How often common deadlines were missed.
fn rungs(ladder: &Ladder) -> Markup {
    let row = |name: &str, of: &dyn Fn(&Rung) -> String| {
        std::iter::once(name.to_owned()).chain(ladder.rungs.iter().map(of)).collect::<Vec<String>>()
    };
    let an_hour = |rung: &Rung| rung.misses_an_hour_at_most.map_or_else(|| "–".to_owned(), significant);
    let rows = vec![row("misses", &|rung| whole(rung.misses)), row("an hour, upper bound (95 %)", &an_hour)];
    html! {
        (figure::table(&Table { head: row("deadline", &|rung| rung.deadline_ns.exact()), rows }, ""))
        p class="note" { (ladder_text::smallest(ladder)) }
    }
}

fn key_figures(probe: &ProbeSummary, numbers: &Numbers, is_named: bool) -> Markup {
    let tail = numbers.percentiles.iter().rev().find(|percentile| percentile.is_bounded());
    let figure = |name: String, value: String| html! { div { dt { (name) } dd { (value) } } };
    html! {
        @if is_named { p class="quiet" { (probe.probe) } }
        dl class="key" {
            (figure("largest".to_owned(), format!("{} µs", one_decimal(numbers.max_ns))))
            @if let Some(tail) = tail {
                (figure(format!("{} of samples at most, at 95 % confidence", percent(tail.probability)), format!("{} µs", one_decimal(tail.upper_ns.unwrap_or(tail.value_ns)))))
            }
            @if let Some(median) = numbers.percentiles.first() { (figure("median".to_owned(), format!("{} µs", one_decimal(median.value_ns)))) }
            (figure("samples".to_owned(), whole(numbers.samples)))
            @if !probe.is_missed_unknown { (figure("due times skipped".to_owned(), whole(numbers.missed))) }
        }
    }
}

fn blind_spot(summary: &Summary) -> Markup {
    let period =
        summary.probes.iter().filter(|probe| !probe.has_no_period && probe.period_ns > Nanos::ZERO).map(|probe| probe.period_ns).min();
    html! {
        @if let Some(period) = period {
            p class="note" {
                "Blind spot: a section that delayed a wake-up may be up to " (period.exact()) " longer than the latency seen; one shorter than "
                (period.exact()) " may not be seen at all."
            }
        }
    }
}

fn tables(run: &RunData, is_named: bool) -> Markup {
    html! {
        @if is_named { p class="run-name" { (run.name) } }
        @for probe in &run.summary.probes {
            h3 { (probe.quantity) " of " (probe.probe) ", µs" }
            (figure::table(&of_processors(run, &probe.probe), ""))
            @if run.summary.loads.len() > 1 {
                h3 { "by load" @if run.summary.is_ranked { ", worst first" } }
                (figure::table(&of_loads(run, &probe.probe), ""))
            }
        }
        @for line in run.summary.loads.iter().filter_map(summary_text::shares_of) { p class="note" { (line) } }
        p class="note" { "≤ is the upper end of a two-sided 95 % interval, whatever the distribution: by itself it holds in 97.5 % of runs. ~ marks a percentile that so few samples cannot bound." }
    }
}

const COLUMNS: [&str; 13] =
    ["", "samples", "skipped", "lost", "min", "median", "mean", "99 %", "99.9 %", "99.99 %", "99.999 %", "max", "misses"];

/// CPUs in a table, the worst; the others are in the row of all.
const PROCESSORS_SHOWN: usize = 16;

fn of_processors(run: &RunData, probe: &str) -> Table {
    let mut rows = Vec::new();
    let of_probe = || run.summary.series.iter().filter(|series| series.probe == probe);
    // Worst first: a table of a thousand rows is read by nobody.
    for series in of_probe().take(PROCESSORS_SHOWN) {
        let name = match (series.cpu, series.copy) {
            (Some(cpu), _) => format!("cpu {cpu}"),
            (None, Some(copy)) => format!("copy {copy}"),
            (None, None) => "no fixed cpu".to_owned(),
        };
        if let Some(numbers) = &series.numbers {
            rows.push(row(name, numbers, series.is_missed_unknown, series.counts.lost));
        }
    }
    if let Some(all) = run.summary.probes.iter().find(|summary| summary.probe == probe)
        && let Some(numbers) = &all.numbers
    {
        let left_out = of_probe().count().saturating_sub(PROCESSORS_SHOWN);
        if left_out > 0 {
            rows.push(vec![format!("{left_out} more below (tardy show --json has all)")]);
        }
        if rows.len() > 1 {
            rows.push(row("all".to_owned(), numbers, all.is_missed_unknown, all.counts.lost));
        }
        let mut bounds = vec!["≤ at 95 %".to_owned(), String::new(), String::new(), String::new(), String::new()];
        bounds.extend(numbers.percentiles.first().map(bound));
        bounds.push(String::new());
        bounds.extend(numbers.percentiles.iter().skip(1).map(bound));
        rows.push(bounds);
    }
    Table { head: COLUMNS.map(str::to_owned).to_vec(), rows }
}

fn of_loads(run: &RunData, probe: &str) -> Table {
    let mut rows = Vec::new();
    let is_judged = run.summary.loads.iter().any(|load| load.verdict_of(probe).is_some());
    for load in &run.summary.loads {
        let numbers = load.probes.iter().find(|(name, _)| name == probe).and_then(|(_, numbers)| numbers.as_ref());
        let skipped =
            if load.not_stressed.is_empty() { String::new() } else { format!(" (load not active on CPUs {})", load.not_stressed) };
        let name = format!("{}{skipped}", load.name);
        match numbers {
            Some(numbers) => {
                let mut cells = row(name, numbers, false, 0);
                cells[3] = format!("{:.1} s", load.length_ns.as_secs_f64());
                cells.insert(1, load.phases.to_string());
                if is_judged {
                    cells.extend(judged(load, probe));
                }
                rows.push(cells);
            }
            None => rows.push(vec![name]),
        }
    }
    let mut head = COLUMNS.map(str::to_owned).to_vec();
    head[3] = "length".to_owned();
    head.insert(1, "times".to_owned());
    if is_judged {
        head.extend(["misses an hour, upper bound (95 %)", "verdict"].map(str::to_owned));
    }
    Table { head, rows }
}

fn row(name: String, numbers: &Numbers, is_missed_unknown: bool, lost: u64) -> Vec<String> {
    let value = |percentile: &Percentile| format!("{}{}", if percentile.is_bounded() { "" } else { "~" }, one_decimal(percentile.value_ns));
    let missed = if is_missed_unknown { "–".to_owned() } else { whole(numbers.missed) };
    let mut cells = vec![name, whole(numbers.samples), missed, whole(lost), one_decimal(numbers.min_ns)];
    cells.push(numbers.percentiles.first().map_or_else(String::new, value));
    cells.push(format!("{:.1}", numbers.mean_ns / 1e3));
    cells.extend(numbers.percentiles.iter().skip(1).map(value));
    cells.push(one_decimal(numbers.max_ns));
    cells.push(numbers.misses.map_or_else(|| "–".to_owned(), whole));
    cells
}

/// Misses an hour at most, and the verdict, of a load.
fn judged(load: &LoadSummary, probe: &str) -> [String; 2] {
    let none = || "–".to_owned();
    let verdict = load.verdict_of(probe);
    let an_hour = verdict.and_then(tardy_core::verdict::Verdict::misses_an_hour_at_most);
    let word = verdict.map(|verdict| summary_text::word(verdict.outcome).to_lowercase());
    [an_hour.map_or_else(none, significant), word.unwrap_or_else(none)]
}

fn bound(percentile: &Percentile) -> String {
    match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => one_decimal(upper),
        (None, Some(needed)) => format!("needs {}", whole(needed)),
        (None, None) => "–".to_owned(),
    }
}

fn one_decimal(nanos: i64) -> String {
    let text = micros(nanos);
    // Three decimals are ns; a summary has no use for them.
    format!("{:.1}", text.parse::<f64>().unwrap_or(0.0))
}

fn percent(probability: f64) -> String {
    format!("{} %", (probability * 1e9).round() / 1e7)
}
