//! For each load of a watched run, charts two distributions of the latency: the one that follows
//! from the kernel's sections (abeni2002), and the one that the probes measured.

use tardy_outside::census::Group;
use tardy_outside::theory::SectionLatencyRow;

use crate::model::{Axis, Chart, Kind, Layer, Shape, Tone, Values};
use crate::scale::Scale;

/// Returns a chart with both distributions of each load. At first, only the load with the longest
/// latencies is visible. Returns `None` if no load has both distributions.
#[must_use]
pub fn chart(groups: &[Group]) -> Option<Chart> {
    let rows: Vec<(&Group, &SectionLatencyRow)> = groups
        .iter()
        .filter_map(|group| Some((group, group.section_latency.as_ref()?)))
        .collect();
    let latency = |row: &SectionLatencyRow| {
        row.curve
            .last()
            .map_or(0.0, |share| share.above_ns.get() as f64)
    };
    let (shown, _) = rows
        .iter()
        .enumerate()
        .max_by(|(_, (_, a)), (_, (_, b))| latency(a).total_cmp(&latency(b)))?;
    let low = rows
        .iter()
        .map(|(_, row)| row.way_ns.get() as f64)
        .fold(f64::INFINITY, f64::min);
    let high = rows.iter().map(|(_, row)| latency(row)).fold(0.0, f64::max);
    let samples = rows.iter().map(|(_, row)| row.distance.samples).max()?;
    let mut chart = Chart::new(
        Kind::Ccdf,
        "Latency predicted from sections, and measured by the probe".to_owned(),
        "Share of latencies above a value. Dashed: prediction for due times at random moments \
         (abeni2002): the rest of the section at the due time, plus the latency of a sample \
         outside all sections. Solid: measured by the probe.",
        Axis::new(
            "latency (logarithmic)",
            Scale::Log,
            Values::Latency,
            (low, high),
        ),
        Axis::new(
            "share of samples above (logarithmic)",
            Scale::Log,
            Values::Share,
            (0.4 / samples as f64, 1.0),
        ),
    );
    for (place, (group, row)) in rows.iter().enumerate() {
        let points = |share: fn(&tardy_outside::theory::ShareAbove) -> f64| -> Vec<(f64, f64)> {
            let of_curve = row
                .curve
                .iter()
                .map(|point| (point.above_ns.get() as f64, share(point)));
            of_curve.filter(|(_, share)| *share > 0.0).collect()
        };
        let name = if group.variant.is_empty() {
            group.load.clone()
        } else {
            format!("{}, {}", group.variant, group.load)
        };
        let layer = |name, points| {
            Layer::new(name, Tone::Series(place), Shape::Line(points)).hidden(place != shown)
        };
        chart
            .layers
            .push(layer(name, points(|point| point.by_probes)));
        let model = layer("by sections".to_owned(), points(|point| point.by_sections));
        chart.layers.push(
            Layer {
                is_dashed: true,
                ..model
            }
            .companion(),
        );
    }
    Some(chart)
}
