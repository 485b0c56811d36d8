//! A drawing made of a few primitives that both SVG and PNG support.

use super::model::Tone;

/// Font size of small text, in px.
pub(super) const SMALL: f64 = 12.0;

/// A step of a path. Coordinates are in px and increase to the right and downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Moves to the point without drawing.
    Move(f64, f64),
    /// Draws a straight line to the point.
    Line(f64, f64),
    /// Draws a straight line back to the point of the last `Move`.
    Close,
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    pub tone: Tone,
    /// Width of the line in px.
    pub width: f64,
    pub is_dashed: bool,
    /// Opacity between 0 and 1.
    pub opacity: f64,
}

/// How a text is aligned to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Point to which the text is aligned, in px; y is the base line.
    pub at: (f64, f64),
    pub anchor: Anchor,
    /// Font size in px.
    pub size: f64,
    pub tone: Tone,
    pub is_bold: bool,
    /// Whether the text has an outline in the background colour, which keeps it readable on top of
    /// lines.
    pub has_halo: bool,
    pub text: String,
}

/// An element of the drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An area, a line, or both.
    Path {
        steps: Vec<Step>,
        /// Colour and opacity of the area; `None` does not fill it.
        fill: Option<(Tone, f64)>,
        /// Style of the outline; `None` draws none.
        stroke: Option<Stroke>,
    },
    Circle {
        at: (f64, f64),
        /// Radius in px.
        radius: f64,
        /// Colour of the area; `None` does not fill it.
        fill: Option<Tone>,
        /// Style of the outline; `None` draws none.
        stroke: Option<Stroke>,
    },
    Text(Text),
    /// Items that belong together.
    Group(Group),
}

/// Items that belong together. Parts outside `clip` are not drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// CSS class, for scripts and style sheets.
    pub class: &'static str,
    /// Index of the chart's layer that the group draws.
    pub layer: Option<usize>,
    /// Whether the group is hidden at first.
    pub is_hidden: bool,
    /// Left, top, width and height of the visible rectangle, in px.
    pub clip: Option<(f64, f64, f64, f64)>,
    pub items: Vec<Item>,
}

/// A whole drawing and its size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scene {
    /// Width in px.
    pub width: f64,
    /// Height in px.
    pub height: f64,
    /// A description for readers who cannot see the picture.
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

/// Returns the approximate width of a text in px, from the mean width of letters in common screen
/// fonts.
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
    /// Returns the approximate width in px; bold letters are wider.
    pub(super) fn width(&self) -> f64 {
        text_width(&self.text, self.size) * if self.is_bold { 1.16 } else { 1.0 }
    }
}

/// Returns a small text in regular weight.
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
