//! Drawing by few primitives, which SVG and PNG both have.

use super::model::Tone;

/// Height of small text, in px.
pub(super) const SMALL: f64 = 12.0;

/// A step of a path; coordinates in px, to the right and downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Go there.
    Move(f64, f64),
    /// Draw a straight line there.
    Line(f64, f64),
    /// Draw a line back to the last move.
    Close,
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    pub tone: Tone,
    /// Its width in px.
    pub width: f64,
    /// Whether it is dashed.
    pub is_dashed: bool,
    /// Between 0 and 1.
    pub opacity: f64,
}

/// The alignment of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It starts there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Position in px; the base line for y.
    pub at: (f64, f64),
    /// Against that point.
    pub anchor: Anchor,
    /// Height in px.
    pub size: f64,
    pub tone: Tone,
    /// Whether it is set in bold.
    pub is_bold: bool,
    /// Whether the paper's colour surrounds it, so that it can be read above lines.
    pub has_halo: bool,
    /// Its text.
    pub text: String,
}

/// An element of the drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An area, a line, or both.
    Path {
        steps: Vec<Step>,
        /// The area's colour and opacity.
        fill: Option<(Tone, f64)>,
        /// Its outline; `None` draws none.
        stroke: Option<Stroke>,
    },
    Circle {
        at: (f64, f64),
        /// Its radius in px.
        radius: f64,
        /// The area's colour.
        fill: Option<Tone>,
        /// Its outline; `None` draws none.
        stroke: Option<Stroke>,
    },
    Text(Text),
    /// Items that belong together.
    Group(Group),
}

/// Items that belong together, and are cut off at the edge of `clip`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Its class, for scripts and style sheets.
    pub class: &'static str,
    /// Index of the layer that it draws.
    pub layer: Option<usize>,
    /// Whether it is not shown at first.
    pub is_hidden: bool,
    /// Left, top, width, height in px.
    pub clip: Option<(f64, f64, f64, f64)>,
    pub items: Vec<Item>,
}

/// Everything that is drawn, and how large the picture is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scene {
    /// In px.
    pub width: f64,
    /// In px.
    pub height: f64,
    /// A description for readers who cannot see it.
    pub description: String,
    /// The items, in drawing order.
    pub items: Vec<Item>,
}

/// Returns the steps of a rectangle.
#[must_use]
pub fn rectangle(left: f64, top: f64, width: f64, height: f64) -> Vec<Step> {
    vec![
        Step::Move(left, top),
        Step::Line(left + width, top),
        Step::Line(left + width, top + height),
        Step::Line(left, top + height),
        Step::Close,
    ]
}

/// About how wide a text is, in px: the mean width of the letters of common fonts for screens.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    let units = |c: char| match c {
        'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.29,
        'm' | 'w' | 'M' | 'W' | '%' => 0.85,
        'A'..='Z' => 0.66,
        _ => 0.56,
    };
    text.chars().map(units).sum::<f64>() * size
}

impl Text {
    /// About how wide it is, in px: bold letters are wider.
    pub(super) fn width(&self) -> f64 {
        text_width(&self.text, self.size) * if self.is_bold { 1.16 } else { 1.0 }
    }
}

/// Small text in the ordinary weight.
pub(super) fn text(at: (f64, f64), anchor: Anchor, tone: Tone, text: impl Into<String>) -> Text {
    Text {
        at,
        anchor,
        size: SMALL,
        tone,
        is_bold: false,
        has_halo: false,
        text: text.into(),
    }
}
