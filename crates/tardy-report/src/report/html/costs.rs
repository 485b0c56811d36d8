//! A report of costs: how they were measured, a chart and a table for each group of services, the
//! machines, and the commands that repeat the runs.

use maud::{Markup, html};
use tardy_results::cost::run::CostRun;
use tardy_run::cost::CostSet;

use super::facts;
use super::figure::Figures;
use super::unit::sentence;
use crate::report::date::date_and_time;
use crate::report::summary_text;
use tardy_chart::build::costs;
use tardy_run::shell::quoted;

/// Returns the content of the page. Tables have a column per run, charts a bar per run.
pub(super) fn content(runs: &[CostRun], figures: &mut Figures) -> Markup {
    let charts: Vec<_> = costs::charts(runs)
        .into_iter()
        .map(|(group, chart)| (group, figures.add(chart)))
        .collect();
    let title = runs
        .iter()
        .map(|run| run.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let described: Vec<_> = runs.iter().map(facts::of_costs).collect();
    html! {
        header {
            h1 { "Cost report: " (title) }
            nav aria-label="Contents" {
                a href="#measured" { "Measured" }
                @for (group, _) in &charts { a href={ "#" (group.name()) } { (capital(group.title())) } }
                a href="#machine" { "Machine" }
                a href="#repeat" { "How to repeat it" }
            }
        }
        section {
            h2 id="measured" { "Measured" }
            div class="columns" { @for run in runs { div { (first(run)) } } }
            @if runs.len() > 1 {
                p class="note" {
                    "\u{201c}costs more than\u{201d}: the percentage by which the run's costs exceed those of " (runs[0].name)
                    " (in mckenney2009: the throughput advantage of " (runs[0].name) "). To test whether a difference is due to chance, use "
                    code { "tardy compare " @for run in runs { (quoted(&run.folder)) " " } } "."
                }
            }
        }
        @if charts.is_empty() { section { p { "The run measured no service." } } }
        @for (group, figure) in charts {
            section {
                h2 id=(group.name()) { (capital(group.title())) }
                div class="span" { (figure) }
            }
        }
        (facts::section(&described))
        (repeat(runs))
    }
}

fn first(run: &CostRun) -> Markup {
    let summary = &run.summary;
    let how = &summary.how;
    let state = summary_text::ending(summary.state);
    html! {
        p class="run-name" { (run.name) }
        p class="quiet" {
            @if how.set == CostSet::Metrics {
                (summary.metrics.len()) " services"
                @if let Some(cpu) = how.cpu { " on CPU " (cpu) }
                ", " (how.rounds) " rounds of " (how.trials) " trials of " (how.trial_length_ns.exact())
                "; each cost is the smallest of the rounds' medians"
            } @else {
                (how.trials) " times: " code { (how.command.join(" ")) }
            }
            (state) ", " (date_and_time(summary.started_realtime_ns)) " UTC"
        }
        @let (notes, warnings): (Vec<_>, Vec<_>) = summary.warnings.iter().partition(|warning| warning.is_note());
        @if !warnings.is_empty() {
            ul class="warnings" aria-label="Warnings" { @for warning in warnings { li { (sentence(&warning.to_string())) } } }
        }
        @for note in notes { p class="note" { (sentence(&note.to_string())) } }
        @if how.unit == "instructions" {
            p class="note" { "Costs are counts of executed instructions: they show the length of the kernel's code, not the speed of a machine." }
        }
        @if !summary.left_out.is_empty() {
            details {
                summary { "Left out: " (summary.left_out.len()) }
                ul { @for one in &summary.left_out { li { (one.name) ": " (one.reason) } } }
            }
        }
    }
}

fn repeat(runs: &[CostRun]) -> Markup {
    html! {
        section {
            h2 id="repeat" { "How to repeat it" }
            div class="columns" {
                @for run in runs {
                    div {
                        @if runs.len() > 1 { p class="run-name" { (run.name) } }
                        pre { (command(run)) }
                        p class="note" { "Measured with tardy " (run.record.tool.version) "." }
                    }
                }
            }
        }
    }
}

/// Returns the command line that repeats a measurement.
fn command(run: &CostRun) -> String {
    let how = &run.summary.how;
    let mut words = vec!["tardy".to_owned(), "cost".to_owned()];
    let mut option =
        |name: &str, value: String| words.extend([format!("--{name}"), quoted(&value)]);
    match how.set {
        CostSet::Metrics => {
            run.summary
                .metrics
                .iter()
                .for_each(|metric| option("metric", metric.name.clone()));
            option("rounds", how.rounds.to_string());
            option("trials", how.trials.to_string());
            option("trial-length", how.trial_length_ns.exact());
            if let Some(cpu) = how.cpu {
                option("cpu", cpu.to_string());
            }
        }
        CostSet::Command => {
            option("trials", how.trials.to_string());
            words.push("--".to_owned());
            words.extend(how.command.iter().map(|word| quoted(word)));
        }
        CostSet::Build => {
            words.push("build".to_owned());
            words.extend(["--trials".to_owned(), how.trials.to_string()]);
            // The path of the source that was built is not stored, so a shell comment describes the
            // build instead.
            words.push(format!("   # {}", how.command.join(" ")));
        }
    }
    words.join(" ")
}

/// Returns `text` with a capital first letter, for headings.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}
