//! Reproduced papers as one self-contained HTML file. The file contains no time and no path, so
//! equal runs give equal files.

use maud::{Markup, html};
use tardy_papers::experiment::Place;
use tardy_results::reproduce::{
    ClaimResult, ExperimentResult, Outcome, PaperResult, Reproduction, TableResult,
};

use super::page::{Page, maker, themed};
use super::reproduce_figures::{FigureCharts, of_figure};
use super::reproduce_text::{
    VIRTUAL, cells, late, loads, not_measured, note, outcome, summary, times, value, why,
};

const STYLE: &str = include_str!("reproduce_html/style.css");

/// Returns the complete HTML file.
#[must_use]
pub fn page(found: &Reproduction, figures: &[FigureCharts]) -> String {
    let body = html! {
        main {
            h1 { "Papers reproduced" }
            p { (summary(found)) ". " (cells(found)) "." }
            @if found.place == Place::Lab { p { (VIRTUAL) } }
            @for paper in &found.papers { (of_paper(paper, figures)) }
            footer { "Made by " (maker()) ". This file is self-contained." }
        }
    };
    Page {
        title: "Papers reproduced",
        style: &themed(STYLE),
        scripts: "",
    }
    .around(&body)
}

fn of_paper(paper: &PaperResult, figures: &[FigureCharts]) -> Markup {
    html! {
        section {
            h2 id=(paper.name) { (paper.name) }
            p { (paper.title) }
            div.wide {
                table {
                    thead { tr { th { "claim" } th { "place" } th { "rule, and values" } th { "outcome" } } }
                    tbody { @for claim in &paper.claims { (of_claim(claim)) } }
                }
            }
            @for table in &paper.tables { (of_table(table)) }
            @for (index, figure) in figures.iter().enumerate().filter(|(_, figure)| figure.paper == paper.name) { (of_figure(figure, index)) }
            h3 { "Experiments" }
            dl { @for experiment in &paper.experiments { (of_experiment(experiment)) } }
        }
    }
}

fn of_claim(claim: &ClaimResult) -> Markup {
    let class = match claim.outcome {
        Outcome::Holds => "holds",
        Outcome::DoesNotHold => "fails",
        Outcome::NotTested { .. } => "open",
    };
    html! {
        tr id=(claim.id) {
            td { (claim.words) @if let Some(note) = note(claim) { p.note { (note) } } }
            td { (claim.place) }
            td {
                code { (claim.rule) }
                @for found in &claim.values { br; (value(found)) }
            }
            td class=(class) {
                strong { (outcome(&claim.outcome)) } (times(claim))
                @if let Outcome::NotTested { why } = &claim.outcome { p.note { (why) } }
                @if let Some(reason) = &claim.reason { p.note { (why(reason)) } }
            }
        }
    }
}

fn of_table(found: &TableResult) -> Markup {
    let dash = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "-".to_owned());
    html! {
        h3 { (found.source) }
        div.wide {
            table.numbers {
                thead {
                    tr { th rowspan="2" {} @for column in &found.columns { th colspan="2" { (column) } } }
                    tr { @for _ in &found.columns { th { "paper" } th { "ours" } } }
                }
                tbody {
                    @for row in &found.rows {
                        tr {
                            th scope="row" { (row.published_name) " (" (row.our_name) ")" }
                            @for (published, ours) in &row.cells { td { (dash(published)) } td { (dash(ours)) } }
                        }
                    }
                }
            }
        }
        @if let Some(note) = &found.note { p.note { (note) } }
        @for why in &found.missing { p.note { (not_measured(why)) } }
    }
}

fn of_experiment(found: &ExperimentResult) -> Markup {
    html! {
        dt { (found.name) }
        dd {
            (found.about)
            @if let Some(command) = &found.command { pre { (command) } }
            @if found.kernels.is_empty() { p { "no run" } } @else {
                p { @for (kernel, replicas) in &found.kernels { span.kernel { (kernel) " x " (replicas) } " " } }
            }
            @if let Some(text) = loads(found) { p { (text) } }
            @for remark in &found.remarks { p.note { (remark) } }
            @if !found.culprits.is_empty() {
                p { "Causes of late samples:" }
                ul { @for culprit in &found.culprits { li { (late(culprit)) } } }
            }
        }
    }
}
