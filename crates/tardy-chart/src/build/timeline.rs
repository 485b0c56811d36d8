//! Smallest and largest latency over time, with a colour per CPU.

use tardy_core::units::three_digits;
use tardy_results::summary::model::MarkSummary;

use super::super::data::{ProbeData, RunData};
use super::super::model::{Chart, Kind, Layer, Mark, Rule, Shape, Table, Tone};
use super::super::{shapes, words};
use super::{capital, kept_note, latency_axis, rules, time_axis};
use tardy_samples::sweep::Columns;

/// Number of rows in the table.
const ROWS: usize = 60;

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = (time_axis(runs, probe), latency_axis(runs, probe));
    let one = |run: &RunData| {
        let data = run.probe(probe).filter(|probe| probe.has_time())?;
        let note = format!(
            "Each pixel column spans from the smallest to the largest {} in its interval; no \
             maximum is lost.{}",
            data.quantity,
            kept_note(data)
        );
        let title = format!("{} over time", capital(&data.quantity));
        let mut chart = Chart::new(Kind::Timeline, title, note, x.clone(), y.clone());
        chart.spans = data.spans.clone();
        // The worst CPU is drawn last, on top of the others.
        for (index, lane) in data.lanes.iter().enumerate().rev() {
            let tone = Tone::Series(index);
            chart.layers.push(Layer::new(
                &lane.name,
                tone,
                Shape::Columns(lane.swept.columns.clone()),
            ));
        }
        chart.rules = rules(data, false);
        chart.rules.extend(marked(run));
        chart.marks = worst(data);
        chart.table = table(data);
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns a line for each time that was marked during the run.
fn marked(run: &RunData) -> Vec<Rule> {
    let rule = |(place, mark): (usize, &MarkSummary)| Rule {
        is_vertical: true,
        value: mark.at_ns.as_secs_f64(),
        text: format!("mark {}", place + 1),
    };
    run.summary.marks.iter().enumerate().map(rule).collect()
}

/// Returns a mark at the largest latency, if its time is known.
pub(super) fn worst(data: &ProbeData) -> Vec<Mark> {
    let mark = data.worst.map(|(x, latency)| Mark {
        x,
        y: latency as f64,
        text: format!("max {}", three_digits(latency as f64)),
    });
    mark.into_iter().collect()
}

/// Returns a table of the smallest and largest latencies in [`ROWS`] equal time intervals.
pub(super) fn table(data: &ProbeData) -> Table {
    let mut head = vec!["from".to_owned(), "to".to_owned()];
    for lane in &data.lanes {
        head.extend([
            format!("{} min, us", lane.name),
            format!("{} max, us", lane.name),
        ]);
    }
    let step = data.length / ROWS as f64;
    let lanes: Vec<_> = data
        .lanes
        .iter()
        .map(|lane| by_row(&lane.swept.columns, step))
        .collect();
    let row = |row: usize| {
        let time = |row: usize| words::time(row as f64 * step, data.length);
        let mut cells = vec![time(row), time(row + 1)];
        for lane in &lanes {
            match lane.iter().find(|place| place.0 == row as f64) {
                Some(&(_, min, max)) => cells.extend([words::micros(min), words::micros(max)]),
                None => cells.extend(["–".to_owned(), "–".to_owned()]),
            }
        }
        cells
    };
    Table {
        head,
        rows: (0..ROWS).map(row).collect(),
    }
}

fn by_row(columns: &Columns, step: f64) -> Vec<(f64, i64, i64)> {
    shapes::by_pixel(columns, |x| (x / step).min(ROWS as f64 - 1.0))
}
