//! The top of the page: the verdict, one chart, the warnings, the most important numbers, and the
//! numbers of each CPU and load.

use maud::{Markup, html};
use tardy_core::summary::numbers::{Numbers, PERCENTILES, Percentile};
use tardy_core::units::{Nanos, three_digits};
use tardy_core::verdict::significant;
use tardy_results::compare::model::Comparison;
use tardy_results::summary::model::{Ladder, LoadSummary, ProbeSummary, Rung};

use super::unit::{sentence, time};
use super::{comparison, figure, side_by_side};
use crate::report::date::date_and_time;
use crate::report::explain_text;
use crate::report::{ladder_text, summary_text};
use tardy_chart::data::RunData;
use tardy_chart::model::Table;

/// Returns the top of the page. `lead` is the chart that stands next to the verdict.
pub(super) fn head(
    runs: &[RunData],
    title: &str,
    comparison: Option<&Result<Comparison, String>>,
    lead: Option<&Markup>,
) -> Markup {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let in_verdict = lead.filter(|_| comparison.is_none());
    let probes = runs
        .first()
        .map(|run| run.probes.as_slice())
        .unwrap_or_default();
    let mut with_charts: Vec<&str> = probes
        .iter()
        .map(|probe| probe.probe.as_str())
        .filter(|name| !name.contains('.'))
        .collect();
    with_charts.dedup();
    html! {
        header {
            h1 { "Latency report: " (title) }
            @if let [run] = runs { (machine(run)) }
        }
        nav aria-label="Contents" {
            @if comparison.is_some() { a href="#comparison" { "Comparison" } }
            a href="#verdict" { "Verdict" }
            a href="#numbers" { "Numbers" }
            // If a probe has several series, each has its own charts, and the links lead to the
            // first ones.
            @for name in &with_charts {
                a href={ "#probe-" (name) } { "Charts of " (name) }
            }
            @if runs.iter().any(|run| run.explanation.is_some()) { a href="#explained" { "Causes of late samples" } }
            @if runs.iter().any(|run| run.cycles.is_some()) { a href="#cycles" { "Cycles" } }
            @if runs.iter().any(|run| !run.watched.is_empty()) { a href="#sections" { "Sections of the kernel" } }
            a href="#statistics" { "Statistics" }
            a href="#machine" { "Machine" }
            a href="#words" { "Words" }
            a href="#repeat" { "How to repeat it" }
        }
        @if let Some(comparison) = comparison { (comparison::section(comparison, &names, lead)) }
        section {
            h2 id="verdict" { "Verdict" }
            @if let [run] = runs { (first(run, false, in_verdict)) }
            @else {
                @if let Some(lead) = in_verdict { (lead) }
                div class="columns" { @for run in runs { div { (first(run, true, None)) } } }
            }
        }
        section {
            h2 id="numbers" { "Numbers" }
            @match runs {
                [run] => (tables(run)),
                runs => {
                    (side_by_side::tables(runs))
                    @for run in runs { details { summary { "Every number of " (run.name) } (tables(run)) } }
                }
            }
        }
    }
}

/// Returns the known facts about the machine, one per line.
fn machine(run: &RunData) -> Markup {
    html! { @for line in run.summary.machine.iter().filter(|line| !line.is_empty()) { p class="quiet" { (line) } }
        @if let Some(line) = summary_text::grave_settings(&run.summary) { p class="quiet" { (line) } }
    }
}

/// Returns a sentence about the main cause of the latency; `None` if the run was not explained.
fn blamed(run: &RunData) -> Option<String> {
    let explanation = run.explanation.as_ref()?;
    let cause = explain_text::largest_cause(&explanation.holders, explanation.lateness)?;
    let what = explain_text::ranked(explanation.samples.ranked, "sample", explanation.threshold);
    Some(format!("{what}. {cause}"))
}

fn first(run: &RunData, is_named: bool, lead: Option<&Markup>) -> Markup {
    let summary = &run.summary;
    let verdicts = summary_text::verdict_lines(summary);
    let state = summary_text::ending_of(summary);
    let probes: Vec<String> = summary
        .probes
        .iter()
        .map(|probe| summary_text::named(summary, probe))
        .collect();
    html! {
        @if is_named { p class="run-name" { (run.name) } (machine(run)) }
        p class="quiet" {
            (probes.join(", "))
            @if !summary.measured_cpus.is_empty() { " on " (summary.measured_cpus.named()) }
            ", "
            @if summary.measured_ns > Nanos::ZERO { (summary.measured_ns) " measured" } @else { "length not known" }
            (state) ", "
            (date_and_time(summary.started_realtime_ns)) " UTC"
        }
        @for sentence in summary_text::labels_and_defaults(summary) { p class="quiet" { (sentence) } }
        @for (outcome, sentence) in &verdicts {
            div class={ "verdict " (summary_text::word(*outcome).to_lowercase()) } { b { (summary_text::word(*outcome)) } p { (sentence) } }
        }
        @if verdicts.is_empty() {
            div class="verdict " {
                @for probe in &summary.probes {
                    @if let Some(largest) = summary_text::largest(summary, probe) {
                        p { b { @if summary.probes.len() > 1 { (probe.probe) ": " } (largest) } }
                    }
                }
                p {
                    "Without a deadline, there is no verdict."
                    @if summary.probes.iter().any(|probe| probe.ladder.is_some()) { " The misses of common deadlines are below." }
                }
            }
        }
        @for probe in &summary.probes {
            @if let Some(worst) = summary_text::worst_load(summary, &probe.probe) {
                p class="worst" { @if summary.probes.len() > 1 { (probe.probe) ", " } (worst) }
            }
        }
        @if let Some(decision) = &summary.decision { p class="worst" { (sentence(&decision.text)) } }
        @if let Some(marks) = summary_text::marks(summary) { p class="worst" { (marks) } }
        @if let Some(blamed) = blamed(run) { p class="worst" { a href="#explained" { (blamed) } } }
        @if let Some(lead) = lead { div class="lead" { (lead) } }
        @let (notes, warnings): (Vec<_>, Vec<_>) = summary.warnings.iter().partition(|warning| warning.is_note());
        @if !warnings.is_empty() {
            ul class="warnings" aria-label="Warnings" { @for warning in warnings { li { (sentence(&warning.to_string())) } } }
        }
        @for note in notes { p class="note" { (sentence(&note.to_string())) } }
        @for probe in &summary.probes {
            @if let Some(numbers) = &probe.numbers { (key_figures(probe, numbers, share_lost(run, &probe.probe), summary.probes.len() > 1)) }
            @if let Some(ladder) = &probe.ladder { (rungs(ladder)) }
        }
        @if let Some(words) = summary_text::sampling_gap(summary) { p class="note" { (words) } }
    }
}

/// Returns a table of common deadlines and how often each was missed.
fn rungs(ladder: &Ladder) -> Markup {
    let row = |name: &str, of: &dyn Fn(&Rung) -> String| {
        std::iter::once(name.to_owned())
            .chain(ladder.rungs.iter().map(of))
            .collect::<Vec<String>>()
    };
    let an_hour = |rung: &Rung| {
        rung.misses_an_hour_at_most
            .map_or_else(|| "–".to_owned(), significant)
    };
    let rows = vec![
        row("misses", &Rung::misses_in_words),
        row("an hour, upper bound (95 %)", &an_hour),
    ];
    html! {
        @if !ladder.rungs.is_empty() { (figure::table(&Table { head: row("deadline", &|rung| rung.deadline_ns.exact()), rows }, "")) }
        p class="note" { (ladder_text::smallest(ladder).join(" ")) }
    }
}

/// Returns the fraction of time that gaps took on the worst CPU; `None` if the probe did not look
/// for gaps all the time.
fn share_lost(run: &RunData, probe: &str) -> Option<f64> {
    let series = run
        .summary
        .series
        .iter()
        .filter(|series| series.probe == probe);
    series
        .filter_map(|series| series.gaps.as_ref()?.share)
        .max_by(f64::total_cmp)
}

fn key_figures(
    probe: &ProbeSummary,
    numbers: &Numbers,
    share_lost: Option<f64>,
    is_named: bool,
) -> Markup {
    let tail = numbers
        .percentiles
        .iter()
        .rev()
        .find(|percentile| percentile.is_bounded());
    let figure = |name: String, value: String| html! { div { dt { (name) } dd { (value) } } };
    html! {
        @if is_named { p class="quiet" { (probe.probe) } }
        dl class="key" {
            @if let Some(share) = share_lost { (figure("CPU time taken away, on the worst CPU".to_owned(), format!("{:.4} %", share * 100.0))) }
            (figure("largest".to_owned(), time(numbers.max_ns)))
            @if let Some(tail) = tail {
                (figure(format!("{} of samples within, at 95 % confidence", percent(tail.probability)), time(tail.upper_ns.unwrap_or(tail.value_ns))))
            }
            @if let Some(median) = numbers.percentiles.first() { (figure("median".to_owned(), time(median.value_ns))) }
            (figure("samples".to_owned(), numbers.samples.to_string()))
            @if !probe.is_skipped_unknown { (figure("due times skipped".to_owned(), numbers.skipped.to_string())) }
        }
    }
}

fn tables(run: &RunData) -> Markup {
    html! {
        @for probe in &run.summary.probes {
            h3 { (probe.quantity) " of " (probe.probe) }
            (figure::table(&of_processors(run, &probe.probe), ""))
            @if run.summary.loads.len() > 1 {
                h3 { "by load, worst first" }
                (figure::table(&of_loads(run, &probe.probe), ""))
            }
        }
        @for line in run.summary.series.iter().filter_map(summary_text::gaps) { p class="note" { (line) } }
        @for line in run.summary.loads.iter().filter_map(summary_text::shares_of) { p class="note" { (line) } }
        p class="note" { "An upper bound (95 %) is the upper end of a two-sided 95 % interval that \
                          holds for any distribution; as a one-sided bound, it holds in 97.5 % of \
                          runs. ~ marks a percentile with too few samples for a bound." }
    }
}

const COLUMNS: [&str; 13] = [
    "", "samples", "skipped", "lost", "min", "median", "mean", "99 %", "99.9 %", "99.99 %",
    "99.999 %", "max", "misses",
];

/// Maximum number of CPUs in a table. The worst are listed, and the row of all CPUs includes the
/// others.
const PROCESSORS_SHOWN: usize = 16;

fn of_processors(run: &RunData, probe: &str) -> Table {
    let mut rows = Vec::new();
    let of_probe = || {
        run.summary
            .series
            .iter()
            .filter(|series| series.probe == probe)
    };
    // The series are sorted worst first. The number of series is limited, because a table of a
    // thousand rows is unreadable.
    for series in of_probe().take(PROCESSORS_SHOWN) {
        let name = match (series.cpu, series.copy) {
            (Some(cpu), _) => format!("CPU {cpu}"),
            (None, Some(copy)) => format!("copy {copy}"),
            (None, None) => "no fixed CPU".to_owned(),
        };
        if let Some(numbers) = &series.numbers {
            rows.push(row(
                name,
                numbers,
                series.is_skipped_unknown,
                series.counts.lost,
            ));
        }
    }
    if let Some(all) = run
        .summary
        .probes
        .iter()
        .find(|summary| summary.probe == probe)
        && let Some(numbers) = &all.numbers
    {
        let left_out = of_probe().count().saturating_sub(PROCESSORS_SHOWN);
        if left_out > 0 {
            rows.push(vec![format!(
                "{left_out} more, with lower maxima (tardy show --json has all)"
            )]);
        }
        if rows.len() > 1 {
            rows.push(row(
                "all".to_owned(),
                numbers,
                all.is_skipped_unknown,
                all.counts.lost,
            ));
        }
        let mut bounds = vec![
            "upper bound (95 %)".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ];
        bounds.extend(known(numbers, &PERCENTILES[..1], bound));
        bounds.push(String::new());
        bounds.extend(known(numbers, &PERCENTILES[1..], bound));
        rows.push(bounds);
    }
    Table {
        head: COLUMNS.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Returns a table of the loads, worst first. If no load has a verdict, the columns for verdicts
/// are omitted.
fn of_loads(run: &RunData, probe: &str) -> Table {
    let of_probe = |load: &'_ LoadSummary| load.probes.iter().position(|(name, _)| name == probe);
    let is_judged = run
        .summary
        .loads
        .iter()
        .any(|load| load.verdict_of(probe).is_some());
    let mut loads: Vec<(&LoadSummary, Option<&Numbers>)> = run
        .summary
        .loads
        .iter()
        .map(|load| {
            (
                load,
                of_probe(load).and_then(|place| load.probes[place].1.as_ref()),
            )
        })
        .collect();
    loads.sort_by_key(|(_, numbers)| std::cmp::Reverse(numbers.map(|numbers| numbers.max_ns)));
    let row = |(load, numbers): (&LoadSummary, Option<&Numbers>)| {
        let skipped = if load.not_stressed.is_empty() {
            String::new()
        } else {
            format!(" (load not active on {})", load.not_stressed.named())
        };
        let mut cells = vec![
            format!("{}{skipped}", load.name),
            load.phases.to_string(),
            load.length_ns.to_string(),
        ];
        let Some(numbers) = numbers else { return cells };
        cells.extend([numbers.samples.to_string(), numbers.skipped.to_string()]);
        cells.extend(known(numbers, &LOAD_PERCENTILES, value));
        cells.extend([
            time(numbers.max_ns),
            numbers.misses_text().unwrap_or_else(|| "–".to_owned()),
        ]);
        if is_judged {
            cells.extend(judged(load, probe));
        }
        cells
    };
    let mut head = ["", "times", "length", "samples", "skipped"]
        .map(str::to_owned)
        .to_vec();
    head.extend(LOAD_PERCENTILES.map(percent).map(|name| {
        if name == "50 %" {
            "median".to_owned()
        } else {
            name
        }
    }));
    head.extend(["max", "misses"].map(str::to_owned));
    if is_judged {
        head.extend(["misses an hour, upper bound (95 %)", "verdict"].map(str::to_owned));
    }
    Table {
        head,
        rows: loads.into_iter().map(row).collect(),
    }
}

/// Percentiles in the table of loads.
const LOAD_PERCENTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.999_99];

/// Returns a cell for each of the `wanted` percentiles, with a dash for an unknown percentile.
fn known(numbers: &Numbers, wanted: &[f64], cell: impl Fn(&Percentile) -> String) -> Vec<String> {
    let of = |probability: &f64| {
        numbers
            .percentiles
            .iter()
            .find(|percentile| percentile.probability == *probability)
    };
    wanted
        .iter()
        .map(|probability| of(probability).map_or_else(|| "–".to_owned(), &cell))
        .collect()
}

/// Formats a percentile, with a mark if the samples do not bound it.
fn value(percentile: &Percentile) -> String {
    format!(
        "{}{}",
        if percentile.is_bounded() { "" } else { "~" },
        time(percentile.value_ns)
    )
}

fn row(name: String, numbers: &Numbers, is_skipped_unknown: bool, lost: u64) -> Vec<String> {
    let skipped = if is_skipped_unknown {
        "–".to_owned()
    } else {
        numbers.skipped.to_string()
    };
    let mut cells = vec![
        name,
        numbers.samples.to_string(),
        skipped,
        lost.to_string(),
        time(numbers.min_ns),
    ];
    cells.extend(known(numbers, &PERCENTILES[..1], value));
    cells.push(three_digits(numbers.mean_ns.round()));
    cells.extend(known(numbers, &PERCENTILES[1..], value));
    cells.push(time(numbers.max_ns));
    cells.push(numbers.misses_text().unwrap_or_else(|| "–".to_owned()));
    cells
}

/// Returns a load's upper bound of misses per hour, and its verdict.
fn judged(load: &LoadSummary, probe: &str) -> [String; 2] {
    let none = || "–".to_owned();
    let verdict = load.verdict_of(probe);
    let an_hour = verdict.and_then(tardy_core::verdict::Verdict::misses_an_hour_at_most);
    let word = verdict.map(|verdict| summary_text::word(verdict.outcome).to_lowercase());
    [
        an_hour.map_or_else(none, significant),
        word.unwrap_or_else(none),
    ]
}

fn bound(percentile: &Percentile) -> String {
    match (percentile.upper_ns, percentile.samples_needed) {
        (Some(upper), _) => time(upper),
        (None, Some(needed)) => format!("needs {needed}"),
        (None, None) => "–".to_owned(),
    }
}

fn percent(probability: f64) -> String {
    format!("{} %", (probability * 1e9).round() / 1e7)
}
