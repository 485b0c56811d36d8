//! Draws a chart for the page in three widths, with its legend, its tools, and its numbers as a
//! table.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use tardy_chart::draw::{Frame, draw};
use tardy_chart::json;
use tardy_chart::model::{Chart, HEAT_LEVELS, Kind, Layer, Table, Tone};
use tardy_chart::palette::variable;
use tardy_chart::svg;
use tardy_chart::words;

/// Widths and heights in px: for a screen, for one of two columns, and for a phone. The style sheet
/// shows the drawing that fits the width best, so the size of its text changes little.
const SIZES: [(&str, (f64, f64)); 3] = [
    ("wide", (1080.0, 400.0)),
    ("middle", (640.0, 360.0)),
    ("narrow", (350.0, 300.0)),
];

/// The charts of a page, and their data for its script.
#[derive(Debug)]
pub(super) struct Figures {
    data: Vec<Value>,
    /// Whether charts are drawn side by side. Charts side by side all have a legend, so they stay
    /// aligned.
    is_in_columns: bool,
}

impl Figures {
    /// Creates an empty list for a page of `runs` runs.
    pub(super) fn new(runs: usize) -> Self {
        Self {
            data: Vec::new(),
            is_in_columns: runs > 1,
        }
    }

    /// Returns the input of the page's script.
    pub(super) fn data(self) -> Value {
        Value::Array(self.data)
    }

    /// Adds a chart and returns its figure.
    pub(super) fn add(&mut self, chart: Chart) -> Markup {
        let index = self.data.len();
        let figure = figure(&chart, index, self.is_in_columns);
        self.data.push(json::chart(&chart));
        figure
    }
}

fn figure(chart: &Chart, index: usize, is_in_columns: bool) -> Markup {
    let legend: Vec<(usize, &Layer)> = chart
        .layers
        .iter()
        .enumerate()
        .filter(|(_, layer)| !layer.is_companion)
        .collect();
    let is_of_heat = matches!(chart.kind, Kind::Heatmap | Kind::CpuMap);
    let (least, most) = words::heat_ends(chart).unwrap_or_default();
    let label = format!(
        "{}. {} Use the arrow keys to read values.",
        chart.title, chart.note
    );
    html! {
        figure data-chart=(index) class=(chart.kind.name()) {
            figcaption { h3 { (chart.title) } p class="note" { (chart.note) } }
            @if (legend.len() > 1 || is_in_columns) && !is_of_heat {
                div class="legend" role="group" aria-label="Series" {
                    @for (place, layer) in legend {
                        button type="button" data-layer=(place) aria-pressed=(!layer.is_hidden) {
                            span class={ "swatch" @if layer.is_dashed { " dashed" } } style={ "--c:var(" (variable(layer.tone)) ")" } {}
                            (layer.name)
                        }
                    }
                }
            }
            @if is_of_heat {
                p class="heat" {
                    (least)
                    span { @for level in 0..HEAT_LEVELS { i style={ "--c:var(" (variable(Tone::Heat(level))) ")" } {} } }
                    (most)
                }
            }
            @if chart.kind == Kind::Timeline {
                div class="tools" role="group" aria-label="Time shown" {
                    button type="button" data-do="in" { "Closer" }
                    button type="button" data-do="out" { "Wider" }
                    button type="button" data-do="left" { "Earlier" }
                    button type="button" data-do="right" { "Later" }
                    button type="button" data-do="all" { "Whole run" }
                    small { "or drag across an interval, pinch, or press + − 0" }
                }
            }
            div class="frame" { div class="plot" tabindex="0" role="group" aria-label=(label) {
                @for (class, size) in SIZES { (drawing(chart, class, size, &format!("{class}{index}"))) }
                div class="tip" hidden {}
            } }
            (numbers(&chart.table))
        }
    }
}

fn drawing(chart: &Chart, class: &str, size: (f64, f64), prefix: &str) -> Markup {
    let (scene, area) = draw(chart, size, Frame::Plot);
    html! {
        svg class=(class) viewBox={ "0 0 " (size.0) " " (size.1) } data-area=(json::area(&area)) aria-hidden="true" {
            (PreEscaped(svg::fragment(&scene, prefix)))
        }
    }
}

/// Returns the numbers of a chart, folded at first.
fn numbers(table: &Table) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            details {
                summary { "Numbers (" (table.rows.len()) " rows)" }
                (self::table(table, ""))
            }
        }
    }
}

/// Returns a table that scrolls if it is too wide. The table can be focused, so keys can scroll it.
pub(super) fn table(table: &Table, class: &str) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Table" {
            table class=(class) {
                thead { tr { @for cell in &table.head { @if cell.is_empty() { td {} } @else { th scope="col" { (cell) } } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}
