//! Writes a scene as SVG 1.1: with its own colours for papers, or with colours from the style sheet
//! of a page.

use std::fmt::Write as _;

use super::model::Tone;
use super::palette::{LIGHT, variable};
use super::scene::{Anchor, Group, Item, Scene, Step, Stroke, Text};
use crate::xml::escape;

/// Preferred fonts, best first. The last font always exists.
const FONTS: &str =
    "Roboto, Inter, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// Where the colours of an SVG are defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// The SVG file itself defines the colours, as in [`LIGHT`].
    Own,
    /// The style sheet of the page defines the colours, as variables.
    OfPage,
}

/// Returns a complete SVG file.
#[must_use]
pub fn file(scene: &Scene) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (width, height) = (number(scene.width), number(scene.height));
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONTS}\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&scene.description));
    let _ = writeln!(
        out,
        "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
        LIGHT.color(Tone::Surface)
    );
    let mut writer = Writer {
        out,
        colors: Colors::Own,
        clips: 0,
        prefix: String::new(),
    };
    scene.items.iter().for_each(|item| writer.item(item));
    writer.out + "</svg>\n"
}

/// Returns only the items of a scene, for a page. `prefix` keeps identifiers unique if the page has
/// several scenes.
#[must_use]
pub fn fragment(scene: &Scene, prefix: &str) -> String {
    let mut writer = Writer {
        out: String::new(),
        colors: Colors::OfPage,
        clips: 0,
        prefix: prefix.to_owned(),
    };
    scene.items.iter().for_each(|item| writer.item(item));
    writer.out
}

struct Writer {
    out: String,
    colors: Colors,
    clips: usize,
    prefix: String,
}

impl Writer {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Path {
                steps,
                fill,
                stroke,
            } => {
                let fill = fill.map_or_else(
                    || " fill=\"none\"".to_owned(),
                    |(tone, opacity)| self.fill(tone, opacity),
                );
                let stroke = stroke
                    .as_ref()
                    .map_or_else(String::new, |stroke| self.stroke(stroke));
                let _ = writeln!(self.out, "<path d=\"{}\"{fill}{stroke}/>", path(steps));
            }
            Item::Circle {
                at,
                radius,
                fill,
                stroke,
            } => {
                let fill =
                    fill.map_or_else(|| " fill=\"none\"".to_owned(), |tone| self.fill(tone, 1.0));
                let stroke = stroke
                    .as_ref()
                    .map_or_else(String::new, |stroke| self.stroke(stroke));
                let (x, y, radius) = (number(at.0), number(at.1), number(*radius));
                let _ = writeln!(
                    self.out,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{fill}{stroke}/>"
                );
            }
            Item::Text(text) => self.text(text),
            Item::Group(group) => self.group(group),
        }
    }

    fn group(&mut self, group: &Group) {
        let class = if group.class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{}\"", group.class)
        };
        let layer = group
            .layer
            .map_or_else(String::new, |layer| format!(" data-layer=\"{layer}\""));
        let hidden = if group.is_hidden {
            " display=\"none\""
        } else {
            ""
        };
        let clip = group
            .clip
            .map_or_else(String::new, |(left, top, width, height)| {
                let name = format!("{}clip{}", self.prefix, self.clips);
                self.clips += 1;
                let (left, top, width, height) =
                    (number(left), number(top), number(width), number(height));
                let _ = writeln!(
                    self.out,
                    "<clipPath id=\"{name}\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" \
                     height=\"{height}\"/></clipPath>"
                );
                format!(" clip-path=\"url(#{name})\"")
            });
        let _ = writeln!(self.out, "<g{class}{layer}{clip}{hidden}>");
        group.items.iter().for_each(|item| self.item(item));
        self.out.push_str("</g>\n");
    }

    fn text(&mut self, text: &Text) {
        let anchor = match text.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let bold = if text.is_bold {
            " font-weight=\"600\""
        } else {
            ""
        };
        let halo = if text.has_halo {
            format!(
                " paint-order=\"stroke\" stroke=\"{}\" stroke-width=\"3.5\" \
                 stroke-linejoin=\"round\"",
                self.color(Tone::Surface)
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            self.out,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{anchor}{bold}{halo}>{}</text>",
            number(text.at.0),
            number(text.at.1),
            number(text.size),
            self.color(text.tone),
            escape(&text.text)
        );
    }

    fn fill(&self, tone: Tone, opacity: f64) -> String {
        let opacity = if opacity < 1.0 {
            format!(" fill-opacity=\"{}\"", fine(opacity))
        } else {
            String::new()
        };
        format!(" fill=\"{}\"{opacity}", self.color(tone))
    }

    fn stroke(&self, stroke: &Stroke) -> String {
        let dashes = if stroke.is_dashed {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        let opacity = if stroke.opacity < 1.0 {
            format!(" stroke-opacity=\"{}\"", fine(stroke.opacity))
        } else {
            String::new()
        };
        format!(
            " stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dashes}{opacity}",
            self.color(stroke.tone),
            fine(stroke.width)
        )
    }

    fn color(&self, tone: Tone) -> String {
        match self.colors {
            Colors::Own => LIGHT.color(tone).to_owned(),
            Colors::OfPage => format!("var({})", variable(tone)),
        }
    }
}

fn path(steps: &[Step]) -> String {
    let mut out = String::with_capacity(steps.len() * 12);
    let mut point = (f64::NAN, f64::NAN);
    for step in steps {
        match *step {
            Step::Move(x, y) => {
                let _ = write!(out, "M{} {}", number(x), number(y));
                point = (x, y);
            }
            // Most lines of charts are horizontal or vertical and have a shorter notation.
            Step::Line(x, y) if number(y) == number(point.1) => {
                let _ = write!(out, "H{}", number(x));
                point = (x, y);
            }
            Step::Line(x, y) if number(x) == number(point.0) => {
                let _ = write!(out, "V{}", number(y));
                point = (x, y);
            }
            Step::Line(x, y) => {
                let _ = write!(out, "L{} {}", number(x), number(y));
                point = (x, y);
            }
            Step::Close => out.push('Z'),
        }
    }
    out
}

/// Formats a coordinate in px, rounded to a tenth.
fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Turns minus zero into zero.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

fn fine(value: f64) -> String {
    format!("{}", (value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_paths_are_short() {
        let text = Text {
            at: (1.0, 2.04),
            anchor: Anchor::End,
            size: 12.0,
            tone: Tone::Ink,
            is_bold: false,
            has_halo: false,
            text: "</text><script>alert(1)</script>".into(),
        };
        let steps = vec![
            Step::Move(0.0, 0.0),
            Step::Line(10.0, 0.0),
            Step::Line(10.0, 5.25),
            Step::Line(-0.01, 7.0),
            Step::Close,
        ];
        let items = vec![
            Item::Text(text),
            Item::Path {
                steps,
                fill: Some((Tone::Series(1), 0.5)),
                stroke: None,
            },
        ];
        let svg = file(&Scene {
            width: 20.0,
            height: 10.0,
            description: "a & b".into(),
            items,
        });
        assert!(
            !svg.contains("<script") && svg.contains("&lt;script&gt;") && svg.contains("a &amp; b"),
            "{svg}"
        );
        assert!(
            svg.contains("d=\"M0 0H10V5.3L0 7Z\"") && svg.contains("fill-opacity=\"0.5\""),
            "{svg}"
        );
        assert!(roxmltree::Document::parse(&svg).is_ok());
    }
}
