//! Draws the map of CPUs, which shows when each CPU had large latencies.

use tardy_core::cpu::CpuId;
use tardy_core::units::three_digits;

use super::super::cpu_map::{Row, STRETCHES};
use super::super::data::{ProbeData, RunData};
use super::super::model::{Axis, Cell, Chart, Kind, Layer, Mark, Shape, Table, Tone, Values};
use super::super::scale::Scale;
use super::super::words;
use super::{kept_note, rules, time_axis};

/// Number of rows in the table. Only the worst CPUs are listed.
const ROWS: usize = 40;

pub(super) fn charts(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let x = time_axis(runs, probe);
    let one = |run: &RunData| {
        let data = run.probe(probe).filter(|probe| probe.has_time())?;
        let (first, last) = (data.map.rows.first()?, data.map.rows.last()?);
        let cells = cells(data);
        let largest = cells.iter().map(|cell| cell.count).max()?;
        // Colours stand for latencies in this chart, so a deadline cannot be drawn as a line; the
        // note states the deadline.
        let limits: Vec<String> = rules(data, false)
            .into_iter()
            .map(|rule| format!(" The {}.", rule.text.replacen(' ', " is ", 1)))
            .collect();
        let note = format!(
            "Colours show the largest {} of each CPU at each time, on a logarithmic scale up to \
             {}; a mark shows the worst.{}{}",
            data.quantity,
            three_digits(largest as f64),
            limits.concat(),
            kept_note(data)
        );
        let y = Axis::new(
            "CPU",
            Scale::Linear,
            Values::Count,
            band(first.first, last.last),
        );
        let mut chart = Chart::new(
            Kind::CpuMap,
            format!("Largest {} of each CPU over time", data.quantity),
            note,
            x.clone(),
            y,
        );
        chart.spans = data.spans.clone();
        chart.table = table(data);
        chart.marks = mark(data).into_iter().collect();
        chart.layers.push(Layer::new(
            "largest",
            Tone::Heat(5),
            Shape::Cells {
                cells,
                largest,
                are_latencies: true,
            },
        ));
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns the part of the axis that the CPUs from `first` to `last` take. The number of a CPU
/// stands in the middle of the CPU's part.
fn band(first: CpuId, last: CpuId) -> (f64, f64) {
    (f64::from(first.0) - 0.5, f64::from(last.0) + 0.5)
}

fn cells(data: &ProbeData) -> Vec<Cell> {
    let step = data.length / STRETCHES as f64;
    let of_row = |row: &Row| {
        let y = band(row.first, row.last);
        let known = row
            .largest
            .iter()
            .enumerate()
            .filter_map(|(stretch, largest)| Some((stretch, (*largest)?)));
        let cell = |(stretch, largest): (usize, i64)| {
            let x = (stretch as f64 * step, (stretch + 1) as f64 * step);
            Cell {
                x,
                y,
                count: largest.max(1).unsigned_abs(),
            }
        };
        known.map(cell).collect::<Vec<_>>()
    };
    data.map.rows.iter().flat_map(of_row).collect()
}

fn name(row: &Row) -> String {
    if row.first == row.last {
        format!("CPU {}", row.first)
    } else {
        format!("CPUs {}-{}", row.first, row.last)
    }
}

/// Returns the rows of the map sorted by their largest latency, largest first.
fn worst_first(data: &ProbeData) -> Vec<(&Row, i64, usize)> {
    let mut rows: Vec<_> = data
        .map
        .rows
        .iter()
        .filter_map(|row| {
            row.worst()
                .map(|(largest, stretch)| (row, largest, stretch))
        })
        .collect();
    rows.sort_by_key(|&(row, largest, _)| (std::cmp::Reverse(largest), row.first));
    rows
}

fn mark(data: &ProbeData) -> Option<Mark> {
    let (row, largest, stretch) = worst_first(data).into_iter().next()?;
    let (x, y) = (
        (stretch as f64 + 0.5) * data.length / STRETCHES as f64,
        f64::midpoint(f64::from(row.first.0), f64::from(row.last.0)),
    );
    Some(Mark {
        x,
        y,
        text: format!("{}, {}", name(row), three_digits(largest as f64)),
    })
}

fn table(data: &ProbeData) -> Table {
    let head = ["CPUs", "largest, us", "at"].map(str::to_owned).to_vec();
    let time =
        |stretch: usize| words::time(stretch as f64 * data.length / STRETCHES as f64, data.length);
    let row = |(row, largest, stretch): (&Row, i64, usize)| {
        vec![name(row), words::micros(largest), time(stretch)]
    };
    Table {
        head,
        rows: worst_first(data).into_iter().take(ROWS).map(row).collect(),
    }
}
