//! An atlas as one self-contained HTML file, with one heat map of the largest latency and one of
//! the 99.9th percentile. The file contains no time and no path, so equal atlases give equal files.

use maud::{Markup, html};
use tardy_core::units::Nanos;
use tardy_results::atlas::{Atlas, AtlasCell};

use super::atlas_text::{
    CellStatistic, change_head, change_row, changes_title, kernel_head, kernel_row, notes, remarks,
    summary, word,
};
use super::page::{Page, maker, themed};
use tardy_chart::model::{HEAT_LEVELS, Tone};
use tardy_chart::palette::variable;

const STYLE: &str = include_str!("atlas_html/style.css");

/// Returns the complete HTML file.
#[must_use]
pub fn page(atlas: &Atlas) -> String {
    let body = html! {
        main {
            h1 { "Atlas of kernels" }
            p { (summary(atlas)) "." }
            @for note in notes(atlas) { p.note { (note) } }
            @for shown in CellStatistic::ALL { (heat_map(atlas, shown)) }
            h2 { "From release to release" }
            p { (changes_title(atlas)) "." }
            @if !atlas.changes.is_empty() {
                (table(&change_head(), atlas.changes.iter().map(change_row)))
            }
            h2 { "Kernels" }
            (table(&kernel_head(), atlas.kernels.iter().map(kernel_row)))
            @let remarks = remarks(atlas);
            @if !remarks.is_empty() {
                h2 { "Deviations from the plan" }
                ul { @for remark in &remarks { li { (remark) } } }
            }
            footer { "Made by " (maker()) ". This file is self-contained." }
        }
    };
    Page {
        title: "Atlas of kernels",
        style: &style(),
        scripts: "",
    }
    .around(&body)
}

fn style() -> String {
    // The colours of the lower levels are close to the background colour, and the colours of the
    // upper levels are close to the text colour. On the upper levels, text is therefore drawn in
    // the background colour.
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
    themed(&format!("{STYLE}{levels}"))
}

fn heat_map(atlas: &Atlas, shown: CellStatistic) -> Markup {
    let values = atlas
        .cells
        .iter()
        .flatten()
        .filter_map(|cell| cell.numbers.as_ref())
        .map(|numbers| shown.of(numbers));
    let scale = LogScale::of(values);
    html! {
        h2 { (capital(shown.title())) }
        div.wide {
            table.map {
                thead { tr { th {} @for load in &atlas.loads { th scope="col" { (load) } } } }
                tbody {
                    @for (kernel, cells) in atlas.kernels.iter().zip(&atlas.cells) {
                        tr {
                            th scope="row" { (kernel.name) }
                            @for (cell, load) in cells.iter().zip(&atlas.loads) { (heat_cell(cell, shown, scale, &kernel.name, load)) }
                        }
                    }
                }
            }
        }
        @if let Some(scale) = scale {
            p.legend {
                "lowest value of each colour: "
                @for level in 0..HEAT_LEVELS { span class=(format!("h{level}")) { (scale.from(level)) } }
            }
        }
    }
}

fn heat_cell(
    cell: &AtlasCell,
    shown: CellStatistic,
    scale: Option<LogScale>,
    kernel: &str,
    load: &str,
) -> Markup {
    let class = cell
        .numbers
        .as_ref()
        .zip(scale)
        .map(|(numbers, scale)| format!("h{}", scale.level(shown.of(numbers))));
    html! { td class=[class] title=(told(cell, kernel, load)) { (word(cell, shown)) } }
}

/// Returns everything that is known about a cell.
fn told(cell: &AtlasCell, kernel: &str, load: &str) -> String {
    let Some(numbers) = &cell.numbers else {
        return format!("{kernel} under {load}: no samples");
    };
    format!(
        "{kernel} under {load}: {} wake-ups in {} replicas; median {}, 99 % {}, 99.9 % {}, max {}",
        numbers.samples,
        cell.runs,
        numbers.median_ns,
        numbers.p99_ns,
        numbers.p999_ns,
        numbers.max_ns
    )
}

fn table(head: &[String], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for cell in head { th { (cell) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// A scale from the smallest to the largest value. The levels of the scale differ by a constant
/// factor.
#[derive(Debug, Clone, Copy)]
struct LogScale {
    least: f64,
    /// The factor between two levels.
    step: f64,
}

impl LogScale {
    /// Returns the scale of `values`; `None` if there are none.
    fn of(values: impl Iterator<Item = Nanos> + Clone) -> Option<Self> {
        let positive = values.map(|value| value.get().max(1) as f64);
        let least = positive.clone().reduce(f64::min)?;
        let most = positive.reduce(f64::max)?;
        Some(Self {
            least,
            step: (most / least)
                .powf(1.0 / HEAT_LEVELS as f64)
                .max(1.0 + 1e-9),
        })
    }

    fn level(self, value: Nanos) -> usize {
        let steps = (value.get().max(1) as f64 / self.least).ln() / self.step.ln();
        (steps.max(0.0) as usize).min(HEAT_LEVELS - 1)
    }

    /// Returns the smallest value that belongs to a level.
    fn from(self, level: usize) -> String {
        tardy_core::units::three_digits((self.least * self.step.powi(level as i32)).round())
    }
}

#[cfg(test)]
mod tests {
    use super::super::atlas_text::tests::atlas;
    use super::*;

    #[test]
    fn levels_are_equal_factors_from_the_least_to_the_largest() {
        let scale = LogScale::of([1_000, 256_000].map(Nanos).into_iter()).unwrap();
        assert_eq!(
            [1_000, 1_999, 2_001, 127_000, 129_000, 256_000].map(|value| scale.level(Nanos(value))),
            [0, 0, 1, 6, 7, 7]
        );
        assert_eq!(
            (scale.from(0), scale.from(7)),
            ("1.00 us".to_owned(), "128 us".to_owned())
        );
        let one = LogScale::of([Nanos(5)].into_iter()).unwrap();
        assert_eq!(one.level(Nanos(5)), 0);
        assert!(LogScale::of([].into_iter()).is_none());
    }

    #[test]
    fn the_page_colours_cells_and_names_are_inert() {
        let page = page(&atlas());
        assert!(
            page.contains("class=\"h7\"") && page.contains("class=\"h0\""),
            "{page}"
        );
        assert!(page.contains("6.1.0&lt;b&gt;") && !page.contains("<b>"));
        assert!(page.contains("max 11.3 ms") && page.contains("failed"));
        assert!(!page.contains("<script"));
    }
}
