//! Charts the distribution of latencies and its complement, with their 95 % bounds.

use tardy_core::summary::dependence::Dependence;
use tardy_core::units::three_digits;
use tardy_statistics::confidence::Confidence;

use super::super::data::{Group, GroupKind, ProbeData, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Mark, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::hist::layers;
use super::{BANDS_MAX, a_group_a_run, latency_axis, of_probe, rules, rules_of_all};

/// Number of points drawn for each factor of ten in the share or in the latency.
const POINTS_A_DECADE: f64 = 40.0;
/// Number of table rows for each factor of ten in the share.
const ROWS_A_DECADE: f64 = 6.0;

/// A value, with the number of samples at or above it and the number at or below it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    value: i64,
    at_or_above: u64,
    at_or_below: u64,
    samples: u64,
}

impl Point {
    /// Returns the number of samples that a chart of `kind` counts at this value.
    fn count(self, kind: Kind) -> u64 {
        if kind == Kind::Cdf {
            self.at_or_below
        } else {
            self.at_or_above
        }
    }

    /// Returns the fraction of samples that a chart of `kind` shows at this value.
    fn share(self, kind: Kind) -> f64 {
        self.count(kind) as f64 / self.samples as f64
    }

    /// Returns the two-sided 95 % interval of the share, computed by the method of Clopper and
    /// Pearson from the effective number of samples.
    fn interval(self, kind: Kind, dependence: &Dependence) -> (f64, f64) {
        let above = if kind == Kind::Cdf {
            self.samples - self.at_or_below
        } else {
            self.at_or_above
        };
        let clustering = dependence.above(above as f64 / self.samples as f64);
        let side = Confidence::NINETY_FIVE.of_each_side();
        let lower = clustering.share_lower(above as f64, self.samples as f64, side);
        let upper = clustering.share_upper(above as f64, self.samples as f64, side);
        if kind == Kind::Cdf {
            (1.0 - upper, 1.0 - lower)
        } else {
            (lower, upper)
        }
    }
}

/// Returns points of a group's distribution: always the smallest and the largest value, and other
/// values up to `density` points per decade.
fn points(group: &Group, density: f64) -> Vec<Point> {
    let samples = group.histogram.count();
    let (mut points, mut below, mut last): (Vec<Point>, u64, Option<Point>) = (Vec::new(), 0, None);
    group.histogram.for_each(|value, count| {
        let point = Point {
            value,
            at_or_above: samples - below,
            at_or_below: below + count,
            samples,
        };
        let is_far = |known: &Point| {
            let apart = |a: f64, b: f64| (a / b).log10().abs() * density >= 1.0;
            apart(known.at_or_above as f64, point.at_or_above as f64)
                || (point.share(Kind::Cdf) - known.share(Kind::Cdf)) * density * 2.0 >= 1.0
                || known.value.signum() != value.signum()
                || apart(known.value as f64, value as f64)
        };
        if points.last().is_none_or(is_far) {
            points.push(point);
        }
        last = Some(point);
        below += count;
    });
    if let Some(last) = last.filter(|last| points.last() != Some(last)) {
        points.push(last);
    }
    points
}

pub(super) fn charts(kind: Kind, runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = (
        reaching(latency_axis(runs, probe), runs, probe),
        share_axis(kind, runs, probe),
    );
    let one = |run: &RunData| {
        let data = run.probe(probe)?;
        let title = match kind {
            Kind::Cdf => format!("Distribution of the {}", data.quantity),
            _ => format!("Tail of the {}", data.quantity),
        };
        let what = if kind == Kind::Cdf {
            "at or below"
        } else {
            "at or above"
        };
        let bounds = if band(kind, data.all()).is_empty() {
            NO_BAND
        } else {
            "The band contains the true share with 95 % confidence, for any distribution; a \
             cluster of late samples is treated as one sample."
        };
        let note = format!("Share of samples {what} a {}. {bounds}", data.quantity);
        let mut chart = Chart::new(kind, title, note, x.clone(), y.clone());
        let lines = layers(data, |group| line(kind, group));
        let bands = data.groups.iter().map(|group| band(kind, group));
        for (line, band) in lines.into_iter().zip(bands) {
            let is_all = line.tone == Tone::All;
            let companion = Layer::new("95 % band", line.tone, Shape::Band(band.clone()))
                .companion()
                .hidden(line.is_hidden);
            chart.layers.push(line);
            // Only one band is drawn, because several bands would cover each other.
            if (is_all || data.groups.len() == 1) && !band.is_empty() {
                chart.layers.push(companion);
            }
        }
        chart.layers.extend(models(kind, data));
        chart.rules = rules(data, true);
        chart.marks = max_mark(data.all(), kind);
        if data.groups.iter().any(|group| !group.model.is_empty()) {
            chart.note += " Dashed: a model, not a measurement. The model starts at its \
                           threshold, and holds only while the conditions of the run last. Its \
                           band covers all models that agree with the data at 95 % confidence.";
        }
        chart.table = table(kind, &data.groups);
        chart.table.rows.extend(model_rows(kind, &data.groups));
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns the lines and bands of the tail models. The model of the worst series is visible, the
/// others are hidden.
fn models(kind: Kind, data: &ProbeData) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let processors = data
        .groups
        .iter()
        .filter(|group| group.what == GroupKind::Processor);
    for (place, group) in data.groups.iter().take(1).map(|group| (None, group)).chain(
        processors
            .enumerate()
            .map(|(place, group)| (Some(place), group)),
    ) {
        if group.model.is_empty() {
            continue;
        }
        let (name, tone) = match place {
            Some(place) => (
                format!("model of {}, not measured", group.name),
                Tone::Series(place),
            ),
            None => ("model, not measured".to_owned(), Tone::All),
        };
        let is_hidden = !layers.is_empty();
        let of_kind = |share: f64| {
            if kind == Kind::Cdf {
                1.0 - share
            } else {
                share
            }
        };
        let points = group
            .model
            .iter()
            .map(|point| (point.value_ns, of_kind(point.share)))
            .collect();
        let band = group.model.iter().map(|point| {
            let (one, other) = (
                of_kind(point.share_interval.lower),
                of_kind(point.share_interval.upper),
            );
            (point.value_ns, one.min(other), one.max(other))
        });
        let band = Shape::Band(band.collect());
        layers.push(Layer {
            is_dashed: true,
            ..Layer::new(name, tone, Shape::Line(points)).hidden(is_hidden)
        });
        layers.push(
            Layer::new("95 % band of the model", tone, band)
                .companion()
                .hidden(is_hidden),
        );
    }
    layers
}

/// Returns the axis, extended to the last point of the models.
fn reaching(axis: Axis, runs: &[RunData], probe: &str) -> Axis {
    let groups = of_probe(runs, probe).flat_map(|probe| &probe.groups);
    let furthest = groups
        .filter_map(|group| group.model.last())
        .map(|point| point.value_ns)
        .fold(f64::NEG_INFINITY, f64::max);
    let scale = axis.scale;
    let wanted = scale.value(scale.place(furthest) + 0.02);
    if furthest.is_finite() && wanted > axis.high {
        Axis {
            high: wanted,
            ..axis
        }
    } else {
        axis
    }
}

/// Returns a chart with a line per run. Runs have bands if there are few enough to distinguish
/// them.
pub(super) fn overlaid(kind: Kind, runs: &[RunData], probe: &str) -> Option<Chart> {
    let quantity = of_probe(runs, probe).next()?.quantity.clone();
    let side = if kind == Kind::Cdf { "below" } else { "above" };
    let groups = a_group_a_run(runs, probe);
    let bands = if groups.len() <= BANDS_MAX {
        " Bands contain the true share with 95 % confidence."
    } else {
        ""
    };
    let note = format!("Share of samples at or {side} each {quantity}, one line per run.{bands}");
    let title = if kind == Kind::Cdf {
        format!("Distributions of the {quantity}, all runs")
    } else {
        format!("Tails of the {quantity}, all runs")
    };
    let mut chart = Chart::new(
        kind,
        title,
        note,
        reaching(latency_axis(runs, probe), runs, probe),
        share_axis(kind, runs, probe),
    );
    for (tone, group) in &groups {
        chart
            .layers
            .push(Layer::new(&group.name, *tone, line(kind, group)));
        let band = band(kind, group);
        if groups.len() <= BANDS_MAX && !band.is_empty() {
            chart
                .layers
                .push(Layer::new("95 % band", *tone, Shape::Band(band)).companion());
        }
        if !group.model.is_empty() {
            let share = |share: f64| {
                if kind == Kind::Cdf {
                    1.0 - share
                } else {
                    share
                }
            };
            let points = group
                .model
                .iter()
                .map(|point| (point.value_ns, share(point.share)))
                .collect();
            chart.layers.push(
                Layer {
                    is_dashed: true,
                    ..Layer::new("model, not measured", *tone, Shape::Line(points))
                }
                .companion(),
            );
        }
        chart.marks.extend(max_mark(group, kind));
    }
    chart.rules = rules_of_all(runs, probe, true);
    let groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    chart.table = table(kind, &groups);
    Some(chart)
}

fn share_axis(kind: Kind, runs: &[RunData], probe: &str) -> Axis {
    let samples = of_probe(runs, probe)
        .map(|probe| probe.all().histogram.count())
        .max()
        .unwrap_or(1);
    let groups = of_probe(runs, probe).flat_map(|probe| &probe.groups);
    let modelled = groups
        .filter_map(|group| group.model.last())
        .map(|point| point.share)
        .fold(1.0, f64::min);
    match kind {
        Kind::Cdf => Axis::new(
            "share of samples at or below",
            Scale::Linear,
            Values::Share,
            (0.0, 1.0),
        ),
        _ => Axis::new(
            "share of samples at or above (logarithmic)",
            Scale::Log,
            Values::Share,
            ((0.4 / samples as f64).min(0.4 * modelled), 1.0),
        ),
    }
}

fn line(kind: Kind, group: &Group) -> Shape {
    let points = points(group, POINTS_A_DECADE)
        .iter()
        .map(|point| (point.value as f64, point.share(kind)))
        .collect();
    // If a latency lies between two samples, the share of samples at or above it is the share at
    // the larger of the two samples.
    if kind == Kind::Cdf {
        Shape::Steps(points)
    } else {
        Shape::StepsBefore(points)
    }
}

/// The note for a chart of shares that has no band.
const NO_BAND: &str = "The confidence band is left out: the samples are too few or too strongly \
                       correlated.";

/// Intervals at least this wide say almost nothing about the share and are omitted.
const NO_BOUND: f64 = 0.999;

/// Returns the intervals of all shares, except those that are too wide to be useful.
fn band(kind: Kind, group: &Group) -> Vec<(f64, f64, f64)> {
    let points = points(group, POINTS_A_DECADE);
    let band = |point: &Point| {
        let (lower, upper) = point.interval(kind, &group.dependence);
        (upper - lower < NO_BOUND).then_some((point.value as f64, lower, upper))
    };
    points.iter().filter_map(band).collect()
}

fn max_mark(group: &Group, kind: Kind) -> Vec<Mark> {
    if kind == Kind::Cdf {
        return Vec::new();
    }
    let last = points(group, POINTS_A_DECADE).last().copied();
    let mark = last.map(|point| Mark {
        x: point.value as f64,
        y: point.share(kind),
        text: format!("max {}", three_digits(point.value as f64)),
    });
    mark.into_iter().collect()
}

fn table(kind: Kind, groups: &[Group]) -> Table {
    let what = if kind == Kind::Cdf {
        "share at or below"
    } else {
        "share at or above"
    };
    let head = ["samples", "latency, us", what, "lower, 95 %", "upper, 95 %"]
        .map(str::to_owned)
        .to_vec();
    let mut rows = Vec::new();
    for group in groups
        .iter()
        .filter(|group| group.what != GroupKind::Processor)
    {
        for point in points(group, ROWS_A_DECADE) {
            let (lower, upper) = point.interval(kind, &group.dependence);
            let shares = [point.share(kind), lower, upper].map(words::share);
            rows.push(
                [group.name.clone(), words::micros(point.value)]
                    .into_iter()
                    .chain(shares)
                    .collect(),
            );
        }
    }
    Table { head, rows }
}

/// Returns the rows of the models, with two rows per factor of ten of the share.
fn model_rows(kind: Kind, groups: &[Group]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for group in groups {
        let mut last = f64::INFINITY;
        for point in &group.model {
            if point.share.log10() > last - 0.5 && Some(point) != group.model.last() {
                continue;
            }
            last = point.share.log10();
            let shares = [
                point.share,
                point.share_interval.lower,
                point.share_interval.upper,
            ];
            let shares = if kind == Kind::Cdf {
                [1.0 - shares[0], 1.0 - shares[2], 1.0 - shares[1]]
            } else {
                shares
            };
            let head = [
                format!("model of {}, not measured", group.name),
                words::micros(point.value_ns.round() as i64),
            ];
            rows.push(head.into_iter().chain(shares.map(words::share)).collect());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::{Budget, Histogram};

    fn group(values: &[i64]) -> Group {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        values.iter().for_each(|&value| histogram.record(value));
        Group {
            name: "g".into(),
            what: GroupKind::All,
            histogram,
            dependence: Dependence::of_extremal_index(values.len() as u64, 1.0),
            model: Vec::new(),
        }
    }

    #[test]
    fn shares_are_those_of_the_samples_and_the_largest_is_never_left_out() {
        let values: Vec<i64> = (1..=10_000).chain([1_000_000]).collect();
        let points = points(&group(&values), POINTS_A_DECADE);
        for point in &points {
            assert_eq!(
                point.at_or_above as usize,
                values.iter().filter(|&&value| value >= point.value).count()
            );
        }
        assert_eq!(
            points.last().map(|point| (point.value, point.at_or_above)),
            Some((1_000_000, 1))
        );
        assert!(points.len() < 400, "{}", points.len());
    }

    #[test]
    fn the_lower_end_of_one_sample_is_that_of_clopper_and_pearson() {
        let values: Vec<i64> = (1..=20_000).collect();
        let &(value, lower, upper) = band(Kind::Ccdf, &group(&values)).last().unwrap();
        // The expected lower end is 1 - 0.975^(1/20000), for 1 of 20000 samples.
        assert!(
            value == 20_000.0 && (lower / 1.2659e-6 - 1.0).abs() < 1e-3 && upper > 2.7e-4,
            "{value} {lower} {upper}"
        );
    }

    #[test]
    fn shares_without_a_bound_have_no_band() {
        let values: Vec<i64> = (1..=1_000).collect();
        assert!(!band(Kind::Ccdf, &group(&values)).is_empty());
        let unbounded = Group {
            dependence: Dependence::of_extremal_index(1_000, 1e-9),
            ..group(&values)
        };
        assert_eq!(band(Kind::Ccdf, &unbounded), []);
    }

    #[test]
    fn bands_hold_the_share_and_are_wider_for_clusters() {
        let values: Vec<i64> = (1..=1_000).collect();
        let (independent, clustered) = (
            group(&values),
            Group {
                dependence: Dependence::of_extremal_index(1_000, 0.2),
                ..group(&values)
            },
        );
        for point in points(&independent, POINTS_A_DECADE) {
            let (lower, upper) = point.interval(Kind::Ccdf, &independent.dependence);
            let share = point.share(Kind::Ccdf);
            assert!(lower <= share && share <= upper, "{lower} {share} {upper}");
            let wide = point.interval(Kind::Ccdf, &clustered.dependence);
            assert!(wide.0 <= lower && upper <= wide.1);
        }
    }
}
