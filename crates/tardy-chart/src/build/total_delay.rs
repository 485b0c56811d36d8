//! Charts the curves of total delay. Both axes are logarithmic, and the curves are dashed because
//! they are a model.

use tardy_advise::curves::{Curves, Point, WORK_LENGTHS};
use tardy_advise::task::Task;
use tardy_core::total_delay::{Crossover, total_delay};

use crate::model::{Axis, Chart, Kind, Layer, Mark, Rule, Shape, Table, Tone, Values};
use crate::scale::{Scale, latency_name};
use crate::words;

/// Number of points that are drawn for each factor of ten. With this many points, the curves look
/// smooth.
const POINTS_A_DECADE: u32 = 20;

/// Returns the chart. `names` are the names of the fast kernel and of the real-time kernel.
#[must_use]
pub fn chart(curves: &Curves, names: [&str; 2], task: &Task) -> Chart {
    let (first, last) = (
        WORK_LENGTHS[0].get() as f64,
        WORK_LENGTHS[WORK_LENGTHS.len() - 1].get() as f64,
    );
    let delay = |latency: f64, slowdown: f64| -> Vec<(f64, f64)> {
        let steps = ((last / first).log10() * f64::from(POINTS_A_DECADE)).round() as u32;
        let work = (0..=steps)
            .map(|step| first * 10_f64.powf(f64::from(step) / f64::from(POINTS_A_DECADE)));
        work.map(|work| (work, total_delay(latency, slowdown, work)))
            .collect()
    };
    let fast = delay(curves.latency_fast_ns.value, 0.0);
    let real_time = delay(curves.latency_real_time_ns.value, curves.slowdown.value);
    let values = || fast.iter().chain(&real_time).map(|(_, delay)| *delay);
    let extent = (
        values().fold(f64::INFINITY, f64::min) / 1.3,
        values().fold(0.0, f64::max) * 1.3,
    );
    let mut chart = Chart::new(
        Kind::TotalDelay,
        curves.title.clone(),
        "A model: latency plus slowed-down work; where the lines cross, both kernels finish at \
         the same time.",
        Axis::new(
            "length of work (logarithmic)",
            Scale::Log,
            Values::Latency,
            (first, last),
        ),
        Axis::new(
            "time from due to done (logarithmic), model",
            Scale::Log,
            Values::Latency,
            extent,
        ),
    );
    chart.table = table(curves, names);
    let layers = [(names[0], fast), (names[1], real_time)];
    chart.layers = layers
        .into_iter()
        .enumerate()
        .map(|(index, (name, line))| Layer {
            is_dashed: true,
            ..Layer::new(name, Tone::Series(index), Shape::Line(line))
        })
        .collect();
    if let Crossover::At { work_ns, .. } | Crossover::Reversed { work_ns } = curves.crossing {
        let y = total_delay(curves.latency_fast_ns.value, 0.0, work_ns);
        // Only three digits are shown, because latencies and slowdowns are not known more
        // precisely.
        let unit = 10_f64.powf(work_ns.log10().floor() - 2.0);
        let text = format!("{} of work", latency_name((work_ns / unit).round() * unit));
        chart
            .marks
            .extend((first..=last).contains(&work_ns).then_some(Mark {
                x: work_ns,
                y,
                text,
            }));
    }
    let rule = |is_vertical, value: Option<tardy_core::units::Nanos>, name: &str| {
        value.map(|value| Rule {
            is_vertical,
            value: value.get() as f64,
            text: format!("{name} {}", value.exact()),
        })
    };
    chart.rules.extend(rule(true, task.work_ns, "work"));
    chart
        .rules
        .extend(rule(false, task.deadline_ns, "deadline"));
    chart
}

fn table(curves: &Curves, names: [&str; 2]) -> Table {
    let row = |point: &Point| {
        let micros = |ns: f64| words::micros(ns.round() as i64);
        vec![
            words::micros(point.work_ns.get()),
            micros(point.real_fast_ns),
            micros(point.real_time_ns),
        ]
    };
    let head = [
        "work, us".to_owned(),
        format!("{}, us", names[0]),
        format!("{}, us", names[1]),
    ];
    Table {
        head: head.to_vec(),
        rows: curves.points.iter().map(row).collect(),
    }
}
