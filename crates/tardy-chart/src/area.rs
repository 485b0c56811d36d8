//! The part of a picture in which a chart's values are drawn.

use super::model::Chart;

/// The rectangle between the axes, in px.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Distance from the left edge of the picture.
    pub left: f64,
    /// Distance from the top edge of the picture.
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    /// Returns the position of the point (`x`, `y`) of the chart, in px.
    #[must_use]
    pub fn point(&self, chart: &Chart, x: f64, y: f64) -> (f64, f64) {
        (self.x(chart, x), self.y(chart, y))
    }

    /// Returns the position of a value on the x axis, in px.
    #[must_use]
    pub fn x(&self, chart: &Chart, value: f64) -> f64 {
        self.left + self.width * chart.x.fraction(value).clamp(-0.5, 1.5)
    }

    /// Returns the position of a value on the y axis, in px.
    #[must_use]
    pub fn y(&self, chart: &Chart, value: f64) -> f64 {
        self.top + self.height * (1.0 - chart.y.fraction(value).clamp(-0.5, 1.5))
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn clip(&self) -> Option<(f64, f64, f64, f64)> {
        Some((self.left, self.top, self.width, self.height))
    }
}
