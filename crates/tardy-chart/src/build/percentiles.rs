//! Charts the latency of each percentile. On the axis, each additional nine of the percentile (90
//! %, 99 %, 99.9 %) takes the same space.

use tardy_statistics::confidence::Confidence;

use super::super::data::{Group, GroupKind, RunData};
use super::super::model::{Axis, Chart, Kind, Layer, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::hist::layers;
use super::{BANDS_MAX, a_group_a_run, capital, latency_axis, of_probe, rules, rules_of_all};

/// Number of percentiles that are drawn per decade. From one decade to the next, the fraction of
/// samples above the percentile is ten times smaller.
const STEPS_A_DECADE: u32 = 10;

/// A percentile: one in `one_in` samples is larger than `value`. The true percentile lies between
/// `lower` and `upper` with 95 % confidence; these are absent if the samples do not bound it.
struct Point {
    one_in: f64,
    /// Whether `value` is the largest sample; the line ends there.
    is_max: bool,
    value: i64,
    lower: Option<i64>,
    upper: Option<i64>,
}

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = axes(runs, probe);
    let one = |run: &RunData| {
        let data = run.probe(probe)?;
        let title = format!("{} by percentile", capital(&data.quantity));
        let note = "The sample at each percentile; the band contains the true percentile with \
                    95 % confidence, and ends where the samples no longer bound it.";
        let mut chart = Chart::new(Kind::Percentiles, title, note, x.clone(), y.clone());
        let all = points(data.all());
        chart.layers = layers(data, |group| line(&points(group)));
        chart.layers.insert(
            1,
            Layer::new("95 % band", Tone::All, band(&all)).companion(),
        );
        chart.rules = rules(data, false);
        chart.table = table(&data.groups);
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns a chart with a line per run. Runs have bands if there are few enough to distinguish
/// them.
pub(super) fn overlaid(runs: &[RunData], probe: &str) -> Option<Chart> {
    let quantity = &of_probe(runs, probe).next()?.quantity;
    let (x, y) = axes(runs, probe);
    let title = format!("{} by percentile, all runs", capital(quantity));
    let groups = a_group_a_run(runs, probe);
    let has_bands = groups.len() <= BANDS_MAX;
    let bands = if has_bands {
        " Bands contain the true percentile with 95 % confidence, and end where the samples no \
         longer bound it."
    } else {
        ""
    };
    let mut chart = Chart::new(
        Kind::Percentiles,
        title,
        format!("One line per run.{bands}"),
        x,
        y,
    );
    for (tone, group) in &groups {
        let points = points(group);
        chart
            .layers
            .push(Layer::new(&group.name, *tone, line(&points)));
        if has_bands {
            chart
                .layers
                .push(Layer::new("95 % band", *tone, band(&points)).companion());
        }
    }
    chart.rules = rules_of_all(runs, probe, false);
    let groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    chart.table = table(&groups);
    Some(chart)
}

fn axes(runs: &[RunData], probe: &str) -> (Axis, Axis) {
    let samples = of_probe(runs, probe)
        .map(|probe| probe.all().histogram.count())
        .max()
        .unwrap_or(1);
    (
        Axis::new(
            "percentile",
            Scale::Log,
            Values::OneIn,
            (1.0, samples as f64),
        ),
        latency_axis(runs, probe),
    )
}

fn line(points: &[Point]) -> Shape {
    Shape::Line(
        points
            .iter()
            .map(|point| (point.one_in, point.value as f64))
            .collect(),
    )
}

fn band(points: &[Point]) -> Shape {
    let bounded = points
        .iter()
        .filter_map(|point| Some((point.one_in, point.lower? as f64, point.upper? as f64)));
    Shape::Band(bounded.collect())
}

fn points(group: &Group) -> Vec<Point> {
    let samples = group.histogram.count();
    let decades = (samples.max(1) as f64).log10();
    let steps = (decades * f64::from(STEPS_A_DECADE)).floor() as u32;
    let wanted = (0..=steps)
        .map(|step| {
            (
                10_f64.powf(f64::from(step) / f64::from(STEPS_A_DECADE)),
                false,
            )
        })
        .chain([(samples as f64, true)]);
    let ranked: Vec<_> = wanted
        .map(|(one_in, is_max)| {
            let probability = 1.0 - 1.0 / one_in;
            let ranks = group.dependence.above(1.0 / one_in).quantile_ranks(
                samples,
                probability,
                Confidence::NINETY_FIVE,
            );
            // As in summaries, the percentile is the sample of rank ceil(probability * samples).
            let above = if is_max {
                0
            } else {
                (samples as f64 / one_in * (1.0 + 1e-9)).floor() as u64
            };
            (one_in, is_max, samples.saturating_sub(above).max(1), ranks)
        })
        .collect();
    let mut ranks: Vec<u64> = ranked
        .iter()
        .flat_map(|(_, _, rank, ranks)| [Some(*rank), ranks.lower, ranks.upper])
        .flatten()
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let values = group.histogram.values_at(&ranks);
    let value = |rank: u64| {
        ranks
            .binary_search(&rank)
            .ok()
            .and_then(|index| values[index])
    };
    let point = |(one_in, is_max, rank, ranks): &(
        f64,
        bool,
        u64,
        tardy_statistics::quantile::QuantileRanks,
    )| {
        let (lower, upper) = (ranks.lower.and_then(value), ranks.upper.and_then(value));
        Some(Point {
            one_in: *one_in,
            is_max: *is_max,
            value: value(*rank)?,
            lower,
            upper,
        })
    };
    ranked.iter().filter_map(point).collect()
}

fn table(groups: &[Group]) -> Table {
    let head = [
        "samples",
        "percentile",
        "latency, us",
        "lower, 95 %, us",
        "upper, 95 %, us",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut rows = Vec::new();
    for group in groups
        .iter()
        .filter(|group| group.what != GroupKind::Processor)
    {
        let points = points(group);
        let last = points.len().saturating_sub(1);
        // The table has two rows per factor of ten, and a row for the largest sample.
        for point in points
            .iter()
            .enumerate()
            .filter(|(index, _)| index % 5 == 0 || *index == last)
            .map(|(_, point)| point)
        {
            let bound =
                |bound: Option<i64>| bound.map_or_else(|| "not bounded".to_owned(), words::micros);
            let percentile = if point.is_max {
                "max".to_owned()
            } else {
                percent(point.one_in)
            };
            rows.push(vec![
                group.name.clone(),
                percentile,
                words::micros(point.value),
                bound(point.lower),
                bound(point.upper),
            ]);
        }
    }
    Table { head, rows }
}

/// Formats a percentile. A percentile between two decades is not a round number, so it gets two
/// digits more than on the axis.
fn percent(one_in: f64) -> String {
    if (one_in.log10() - one_in.log10().round()).abs() < 1e-9 {
        return words::percentile(one_in);
    }
    let decimals = (one_in.log10().ceil() as usize).min(12);
    format!("{:.decimals$} %", 100.0 - 100.0 / one_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::{Budget, Histogram};
    use tardy_core::summary::dependence::Dependence;
    use tardy_core::summary::numbers::percentiles;

    #[test]
    fn percentiles_are_those_of_the_summary_and_the_last_is_the_largest() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        (0..990).for_each(|_| histogram.record(100_000));
        (0..10).for_each(|place| histogram.record(200_000 + place));
        let dependence = Dependence::of_extremal_index(1000, 1.0);
        let group = Group {
            name: "g".into(),
            what: GroupKind::All,
            histogram,
            dependence: dependence.clone(),
            model: Vec::new(),
        };
        let drawn = points(&group);
        let mut compared = 0;
        for known in percentiles(&group.histogram, &dependence) {
            let is_same = |point: &&Point| {
                !point.is_max && (1.0 - 1.0 / point.one_in - known.probability).abs() < 1e-9
            };
            for point in drawn.iter().filter(is_same) {
                assert_eq!(point.value, known.value_ns, "{}", known.probability);
                compared += 1;
            }
        }
        assert_eq!(compared, 2, "99 % and 99.9 %");
        assert_eq!(
            drawn.last().map(|point| (point.is_max, point.value)),
            Some((true, 200_009))
        );
    }
}
