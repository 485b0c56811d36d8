//! The content of a chart: axes, layers, marks, and the same numbers as a table. [`super::draw`]
//! draws it, and [`super::json`] embeds it in reports.

use std::collections::BTreeSet;

use tardy_samples::sweep::Columns;

use super::scale::{Scale, Tick, time_ticks, whole_ticks};

/// The kinds of charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Smallest and largest latency over time, with the phases.
    Timeline,
    /// Number of samples by latency, both scales logarithmic.
    Hist,
    /// Share of samples at or below a latency, with its 95 % band.
    Cdf,
    /// Share of samples at or above a latency, with its 95 % band.
    Ccdf,
    /// Latency of each percentile, with its 95 % interval.
    Percentiles,
    /// Largest latency so far against the number of samples.
    RunningMax,
    /// Number of samples by time and latency.
    Heatmap,
    /// Largest latency of each CPU over time, for machines with many CPUs.
    CpuMap,
    /// Samples over time, drawn one by one if there are few.
    Scatter,
    /// Smallest, median and largest latency of each run and load.
    Bars,
    /// Time from due to done against the length of the work. Only `tardy advise` and
    /// `tardy reproduce` draw it, because it needs a model. The charts of `build::curves` also have
    /// this kind.
    TotalDelay,
}

impl Kind {
    /// The kinds that show runs.
    pub const OF_RUNS: [Self; 10] = [
        Self::Timeline,
        Self::Hist,
        Self::Cdf,
        Self::Ccdf,
        Self::Percentiles,
        Self::RunningMax,
        Self::Heatmap,
        Self::CpuMap,
        Self::Scatter,
        Self::Bars,
    ];

    /// Returns the name of the kind on the command line and in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::Hist => "hist",
            Self::Cdf => "cdf",
            Self::Ccdf => "ccdf",
            Self::Percentiles => "percentiles",
            Self::RunningMax => "running-max",
            Self::Heatmap => "heatmap",
            Self::CpuMap => "cpu-map",
            Self::Scatter => "scatter",
            Self::Bars => "bars",
            Self::TotalDelay => "total-delay",
        }
    }
}

/// The kind of values on an axis, which determines how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Latencies in ns.
    Latency,
    /// Seconds since the start of the run.
    Seconds,
    Count,
    /// Shares from 0 to 1.
    Share,
    /// A value n stands for the percentile that one in n samples reaches or exceeds; 1000 is
    /// written as 99.9 %.
    OneIn,
    /// Indices of [`Axis::categories`].
    Category,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity on the axis, with the unit if the ticks do not contain it.
    pub title: String,
    /// The mapping from values to positions.
    pub scale: Scale,
    pub values: Values,
    /// Smallest value that the axis shows.
    pub low: f64,
    /// Largest value that the axis shows.
    pub high: f64,
    /// Names of the categories; empty for other axes.
    pub categories: Vec<String>,
}

impl Axis {
    /// Creates an axis without categories.
    #[must_use]
    pub fn new(
        title: impl Into<String>,
        scale: Scale,
        values: Values,
        (low, high): (f64, f64),
    ) -> Self {
        // If all values are equal, the axis still needs some length.
        let (low, high) = match scale {
            Scale::Log => (
                low.max(f64::MIN_POSITIVE),
                high.max(low.max(f64::MIN_POSITIVE) * 1.25),
            ),
            _ if high > low => (low, high),
            _ => (low, low + 1.0),
        };
        Self {
            title: title.into(),
            scale,
            values,
            low,
            high,
            categories: Vec::new(),
        }
    }

    /// Returns the values to mark on the axis; about `wanted` of them have labels.
    #[must_use]
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        match self.values {
            Values::Seconds => time_ticks(self.low, self.high, wanted),
            // Counts and CPU numbers are whole, so their ticks are too.
            Values::Count if self.scale == Scale::Linear => {
                whole_ticks(self.low, self.high, wanted)
            }
            _ => self.scale.ticks(self.low, self.high, wanted),
        }
    }

    /// Returns the relative position of `value` on the axis: 0 at the low end, 1 at the high end.
    /// Values beyond the ends have positions outside this range.
    #[must_use]
    pub fn fraction(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.place(self.low), self.scale.place(self.high));
        (self.scale.place(value) - low) / (high - low)
    }
}

/// The colours of a chart, named by their roles. Each renderer chooses the shades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// All samples together.
    All,
    /// The colour of one of several series.
    Series(usize),
    /// A level in a heat map, from 0 for the fewest samples to [`HEAT_LEVELS`] - 1 for the most.
    Heat(usize),
    /// Text.
    Ink,
    /// The colour of axes and of less important text.
    Muted,
    /// Grid lines.
    Grid,
    /// The colour that shades every other phase.
    Shade,
    /// The background.
    Surface,
    /// The colour of deadlines and worst values.
    Alarm,
}

/// Number of different colours for series. Further series repeat these colours.
pub const SERIES_TONES: usize = 7;
/// Number of different colours of a heat map.
pub const HEAT_LEVELS: usize = 8;

/// A cell of a heat map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Range on the x axis.
    pub x: (f64, f64),
    /// Range on the y axis.
    pub y: (f64, f64),
    /// Number of samples in the cell, or a latency in ns if [`Shape::Cells`] shows latencies.
    pub count: u64,
}

/// A bar with the smallest value, the largest value, and statistics in between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Position on the axis of categories. Fractions place several bars of a category side by side.
    pub x: f64,
    /// Width on the axis of categories.
    pub width: f64,
    /// Smallest value.
    pub min: f64,
    pub median: f64,
    /// Average, if the bar shows it in addition to the median.
    pub average: Option<f64>,
    /// The 99.9th percentile; absent if the bar has no separate tail.
    pub tail: Option<f64>,
    /// Largest value.
    pub max: f64,
    /// The number that is written at the bar.
    pub figure: f64,
}

/// The shape of a layer.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Straight lines between points.
    Line(Vec<(f64, f64)>),
    /// Each value holds from its point to the next point.
    Steps(Vec<(f64, f64)>),
    /// Each value holds from its point back to the previous point.
    StepsBefore(Vec<(f64, f64)>),
    /// Counts, each drawn between two successive edges. There is one more edge than there are
    /// counts.
    Bins { edges: Vec<f64>, counts: Vec<u64> },
    /// A band, given by points (x, lower, upper).
    Band(Vec<(f64, f64, f64)>),
    /// The smallest and the largest value of each time interval.
    Columns(Columns),
    /// Single points.
    Dots(Vec<(f64, f64)>),
    /// Cells of a heat map. Colours depend on the cells' counts.
    Cells {
        /// The non-empty cells.
        cells: Vec<Cell>,
        /// The count at which the last colour is reached.
        largest: u64,
        /// Whether the numbers in the cells are latencies in ns instead of counts.
        are_latencies: bool,
    },
    /// Bars that show the smallest, the median and the largest value.
    Ranges(Vec<Range>),
}

/// One line, band or set of cells in a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Name of the layer in the legend.
    pub name: String,
    pub tone: Tone,
    pub shape: Shape,
    /// Whether lines are dashed, which marks a model.
    pub is_dashed: bool,
    /// Whether the layer is hidden until the user selects it in the legend.
    pub is_hidden: bool,
    /// Whether the layer is shown and hidden together with the previous layer, without an entry in
    /// the legend.
    pub is_companion: bool,
}

impl Layer {
    /// Creates a visible layer.
    #[must_use]
    pub fn new(name: impl Into<String>, tone: Tone, shape: Shape) -> Self {
        Self {
            name: name.into(),
            tone,
            shape,
            is_dashed: false,
            is_hidden: false,
            is_companion: false,
        }
    }

    /// Makes the layer a companion of the previous layer, and returns it.
    #[must_use]
    pub fn companion(self) -> Self {
        Self {
            is_companion: true,
            ..self
        }
    }

    /// Sets whether the layer is hidden at first, and returns it.
    #[must_use]
    pub fn hidden(self, is_hidden: bool) -> Self {
        Self { is_hidden, ..self }
    }
}

/// An interval of the x axis with a label: a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub name: String,
    pub begin: f64,
    pub end: f64,
}

/// A point with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis.
    pub y: f64,
    pub text: String,
}

/// A line across the chart at a value, such as a deadline.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Whether the line is vertical, at a value of the x axis.
    pub is_vertical: bool,
    pub value: f64,
    pub text: String,
}

/// The numbers of a chart as a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Names of the columns, with their units.
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub kind: Kind,
    pub title: String,
    /// The run or runs that the numbers come from, for a stand-alone picture.
    pub subtitle: String,
    /// A sentence that explains how to read the chart.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Phases.
    pub spans: Vec<Span>,
    /// The layers of the chart, drawn in this order.
    pub layers: Vec<Layer>,
    /// Deadlines.
    pub rules: Vec<Rule>,
    /// Named points.
    pub marks: Vec<Mark>,
    /// All numbers of the chart.
    pub table: Table,
}

impl Chart {
    /// Shows the layers with these names and hides all others. A companion follows its layer.
    ///
    /// # Errors
    /// If no layer has one of the names, returns an error with this name and the existing names.
    pub fn choose(&mut self, names: &[String]) -> Result<(), String> {
        let own = |layer: &&Layer| !layer.is_companion;
        if let Some(unknown) = names.iter().find(|name| {
            !self
                .layers
                .iter()
                .filter(own)
                .any(|layer| layer.name == **name)
        }) {
            let known: Vec<&str> = self
                .layers
                .iter()
                .filter(own)
                .map(|layer| layer.name.as_str())
                .collect();
            return Err(format!(
                "this chart has no line `{unknown}`: choose from {}",
                known.join(", ")
            ));
        }
        let mut is_hidden = true;
        for layer in &mut self.layers {
            if !layer.is_companion {
                is_hidden = !names.contains(&layer.name);
            }
            layer.is_hidden = is_hidden;
        }
        Ok(())
    }

    /// Creates a chart that has neither layers nor numbers.
    #[must_use]
    pub fn new(
        kind: Kind,
        title: impl Into<String>,
        note: impl Into<String>,
        x: Axis,
        y: Axis,
    ) -> Self {
        let (title, note) = (title.into(), note.into());
        Self {
            kind,
            title,
            subtitle: String::new(),
            note,
            x,
            y,
            spans: Vec::new(),
            layers: Vec::new(),
            rules: Vec::new(),
            marks: Vec::new(),
            table: Table::default(),
        }
    }

    /// Changes the chart so that no two visible lines have the same colour, and returns it. There
    /// are [`SERIES_TONES`] colours. One further line is grey, and all others are hidden until the
    /// user selects them in the legend. A model keeps the colour of its series.
    pub(crate) fn distinct(mut self) -> Self {
        let mut order: Vec<(usize, usize)> = self
            .layers
            .iter()
            .enumerate()
            .filter(|(_, layer)| !layer.is_companion && !layer.is_hidden && !layer.is_dashed)
            .filter_map(|(place, layer)| match layer.tone {
                Tone::Series(index) => Some((index, place)),
                _ => None,
            })
            .collect();
        order.sort_unstable();
        let mut used = BTreeSet::new();
        for (index, place) in order {
            if used.insert(index % SERIES_TONES) {
                continue;
            }
            let is_hidden = !used.insert(SERIES_TONES);
            let companions = self.layers[place + 1..]
                .iter()
                .take_while(|layer| layer.is_companion)
                .count();
            for layer in &mut self.layers[place..=place + companions] {
                layer.is_hidden = is_hidden;
                if !is_hidden {
                    layer.tone = Tone::Muted;
                }
            }
        }
        self
    }
}

impl Shape {
    /// Returns the values for which the first and the last colour stand, and whether these values
    /// are latencies; `None` for shapes other than cells.
    #[must_use]
    pub fn heat_range(&self) -> Option<(u64, u64, bool)> {
        let Self::Cells {
            cells,
            largest,
            are_latencies,
        } = self
        else {
            return None;
        };
        // The smallest count is 1. The smallest latency is not known in advance.
        let least = if *are_latencies {
            cells.iter().map(|cell| cell.count).min().unwrap_or(1)
        } else {
            1
        };
        Some((least, *largest, *are_latencies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: Values) -> Axis {
        Axis::new("axis", Scale::Linear, values, (0.0, 2.0))
    }

    #[test]
    fn no_two_visible_lines_have_one_color_and_a_band_follows_its_line() {
        let line = || Shape::Line(vec![(0.0, 0.0)]);
        let mut chart = Chart::new(
            Kind::Timeline,
            "",
            "",
            axis(Values::Count),
            axis(Values::Count),
        );
        chart.layers.push(Layer::new("all", Tone::All, line()));
        // The worst series is drawn last, on top of the others.
        for index in (0..10).rev() {
            let tone = Tone::Series(index);
            chart
                .layers
                .push(Layer::new(index.to_string(), tone, line()));
            chart
                .layers
                .push(Layer::new("band", tone, line()).companion());
        }
        let chart = chart.distinct();
        let visible: Vec<(&str, Tone)> = chart
            .layers
            .iter()
            .filter(|layer| !layer.is_hidden && !layer.is_companion)
            .map(|layer| (layer.name.as_str(), layer.tone))
            .collect();
        let names: Vec<&str> = visible.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["all", "7", "6", "5", "4", "3", "2", "1", "0"]);
        for (place, (name, tone)) in visible.iter().enumerate() {
            assert!(
                visible[..place].iter().all(|(_, other)| other != tone),
                "{name}"
            );
        }
        for pair in chart.layers[1..].chunks(2) {
            assert_eq!(
                (pair[0].is_hidden, pair[0].tone),
                (pair[1].is_hidden, pair[1].tone),
                "{}",
                pair[0].name
            );
        }
    }

    #[test]
    fn counts_and_cpus_are_marked_at_whole_numbers() {
        let marked = |values| -> Vec<f64> {
            let ticks = axis(values).ticks(4);
            ticks.into_iter().map(|tick| tick.value).collect()
        };
        assert_eq!(marked(Values::Count), [0.0, 1.0, 2.0]);
        assert_eq!(marked(Values::Latency), [0.0, 0.5, 1.0, 1.5, 2.0]);
    }
}
