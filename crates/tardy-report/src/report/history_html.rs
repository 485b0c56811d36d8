//! Builds of boards over time as one self-contained HTML file: the verdict, a map of boards and
//! builds, and each change with its numbers.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use tardy_chart::build::history::chart;
use tardy_chart::draw::{Frame, draw};
use tardy_chart::model::{Chart, HEAT_LEVELS, Tone};
use tardy_chart::palette::variable;
use tardy_chart::svg;
use tardy_results::compare::model::Outcome;
use tardy_results::history::{Build, History, LastingChange};

use super::compare::history::{extent, facts, sentence, state};
use super::page::{Page, maker, themed};

const STYLE: &str = include_str!("atlas_html/style.css");
const OWN_STYLE: &str = "figure{margin:1rem 0 2rem}figcaption p{margin:.2rem \
                         0}svg{width:100%;max-width:68rem;height:auto;font-family:inherit}.\
                         swatch{display:inline-block;width:1.1rem;height:.28rem;border-radius:2px;\
                         margin-right:.4rem;vertical-align:middle}.legend span{white-space:normal}";
/// Three limits: how many boards the map shows (the worst), how many builds it shows (the last),
/// and how many changes are drawn.
const BOARDS_SHOWN: usize = 50;
const BUILDS_SHOWN: usize = 40;
const CHANGES_SHOWN: usize = 20;
/// Number of values at the start of each series that serve as the reference for later values.
const FIRST: usize = 8;
/// The smallest increase for which each colour of a cell is used, from the second colour on.
const LEVELS: [f64; HEAT_LEVELS - 1] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0];
/// Width and height of a chart in px.
const SIZE: (f64, f64) = (1080.0, 320.0);

/// Returns the complete HTML file.
#[must_use]
pub fn page(found: &History) -> String {
    let mut changes: Vec<&LastingChange> = found.changes.iter().collect();
    changes.sort_by_key(|change| (!change.is_open, std::cmp::Reverse(change.from)));
    let body = html! {
        main {
            h1 { "Regressions over builds: " (word(found.verdict)) }
            p { (extent(found)) ". " (found.reason) " (margin " (found.margin) ")." }
            (map(found))
            h2 { "Changes" }
            @if changes.is_empty() { p { "None." } }
            @for (index, change) in changes.iter().take(CHANGES_SHOWN).enumerate() { (told(found, change, index)) }
            @if changes.len() > CHANGES_SHOWN { p.note { (changes.len() - CHANGES_SHOWN) " more: `tardy history --format json` lists all." } }
            footer { "Made by " (maker()) ". This file is self-contained." }
        }
    };
    Page {
        title: "Regressions over builds",
        style: &style(),
        scripts: "",
    }
    .around(&body)
}

fn word(verdict: Outcome) -> &'static str {
    match verdict {
        Outcome::Equivalent => "none",
        other => other.word(),
    }
}

fn style() -> String {
    let levels = |level: usize| {
        let ink = if level >= HEAT_LEVELS / 2 {
            "--surface"
        } else {
            "--ink"
        };
        format!(
            ".h{level}{{background:var({});color:var({ink})}}",
            variable(Tone::Heat(level))
        )
    };
    let levels: String = (0..HEAT_LEVELS).map(levels).collect();
    themed(&format!("{STYLE}{OWN_STYLE}{levels}"))
}

/// Returns the map. The map shows how much higher the numbers of each board are, on average, than
/// in the board's first builds.
fn map(found: &History) -> Markup {
    let left = found.builds.len().saturating_sub(BUILDS_SHOWN);
    let shown: Vec<(usize, &Build)> = found.builds.iter().enumerate().skip(left).collect();
    let mut rows = rows(found, left);
    let boards_left = rows.len().saturating_sub(BOARDS_SHOWN);
    if boards_left > 0 {
        rows.sort_by(|a, b| b.last().total_cmp(&a.last()));
        rows.truncate(BOARDS_SHOWN);
    }
    html! {
        h2 { "Boards and builds" }
        p.note {
            "Geometric mean of all numbers of a board, relative to the board's first " (FIRST) " builds, in per cent. Darker is worse."
            @if left > 0 { " Only the last " (BUILDS_SHOWN) " builds are shown." }
            @if boards_left > 0 { " Only the " (BOARDS_SHOWN) " boards that are worst in their last build are shown; " (boards_left) " others are not." }
        }
        div.wide tabindex="0" role="group" aria-label="Boards and builds" {
            table.map {
                thead { tr { td {} @for (_, build) in &shown { th scope="col" { (build.name) @if build.is_accepted { " (accepted)" } } } } }
                tbody { @for row in &rows { tr { th scope="row" { (row.board) } @for share in &row.shares { (cell(*share)) } } } }
            }
        }
    }
}

/// A row of the map: for each shown build, by which fraction the board's numbers are higher than in
/// its first builds; `None` if the board did not run the build.
struct Row<'a> {
    board: &'a str,
    shares: Vec<Option<f64>>,
}

impl Row<'_> {
    /// Returns the increase in the last build that the board ran.
    fn last(&self) -> f64 {
        self.shares
            .iter()
            .flatten()
            .last()
            .copied()
            .unwrap_or(f64::NEG_INFINITY)
    }
}

/// Returns the rows of all boards, with the builds starting at `from`.
fn rows(found: &History, from: usize) -> Vec<Row<'_>> {
    let mut sums: BTreeMap<&str, Vec<(f64, u32)>> = BTreeMap::new();
    for series in &found.series {
        let logarithms: Vec<Option<f64>> = series
            .values_ns
            .iter()
            .map(|value| value.map(|value| value.max(1.0).ln()))
            .collect();
        let first: Vec<f64> = logarithms.iter().flatten().take(FIRST).copied().collect();
        let level = first.iter().sum::<f64>() / first.len() as f64;
        let of_board = sums
            .entry(&series.board)
            .or_insert_with(|| vec![(0.0, 0); logarithms.len() - from]);
        for ((sum, count), logarithm) in of_board.iter_mut().zip(&logarithms[from..]) {
            if let Some(logarithm) = logarithm {
                *sum += logarithm - level;
                *count += 1;
            }
        }
    }
    let share = |(sum, count): (f64, u32)| (count > 0).then(|| (sum / f64::from(count)).exp_m1());
    sums.into_iter()
        .map(|(board, sums)| Row {
            board,
            shares: sums.into_iter().map(share).collect(),
        })
        .collect()
}

fn cell(difference: Option<f64>) -> Markup {
    let Some(difference) = difference else {
        return html! { td { "-" } };
    };
    let level = LEVELS.iter().filter(|from| difference >= **from).count();
    let whole = (difference * 100.0).round();
    html! { td class=(format!("h{level}")) { @if whole == 0.0 { "0" } @else { (format!("{whole:+}")) } } }
}

fn told(found: &History, change: &LastingChange, index: usize) -> Markup {
    html! {
        figure {
            figcaption {
                h3 { (state(change)) ": " (sentence(found, change)) }
                @for fact in facts(found, change) { p { (fact) } }
            }
            @if let Some(chart) = chart(found, change) { (drawn(&chart, index)) }
        }
    }
}

/// Draws a chart with its legend and its numbers. `index` is a number that no other drawing on the
/// page has.
pub(super) fn drawn(chart: &Chart, index: usize) -> Markup {
    let (scene, _) = draw(chart, SIZE, Frame::Plot);
    html! {
        p.note { (chart.note) }
        p.legend {
            @for layer in chart.layers.iter().filter(|layer| !layer.is_companion) {
                span { i.swatch style={ "background:var(" (variable(layer.tone)) ")" } {} (layer.name) } " "
            }
        }
        svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(format!("{}. {}", chart.title, chart.note)) {
            (PreEscaped(svg::fragment(&scene, &format!("change{index}"))))
        }
        details {
            summary { "Numbers (" (chart.table.rows.len()) " rows)" }
            div.wide tabindex="0" role="group" aria-label="Numbers" {
                table {
                    thead { tr { @for cell in &chart.table.head { th scope="col" { (cell) } } } }
                    tbody { @for row in &chart.table.rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}
