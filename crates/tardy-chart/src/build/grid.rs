//! Charts how many samples each combination of time and latency has: the heat map, and the scatter
//! of samples.

use super::super::data::{ProbeData, RunData};
use super::super::model::{Cell, Chart, Kind, Layer, Shape, Table, Tone};
use super::super::words;
use super::timeline::{self, worst};
use super::{capital, kept_note, latency_axis, of_probe, rules, time_axis};
use tardy_samples::sweep::{GRID_COLUMNS, row_edges};

/// Number of time intervals in a heat map.
const HEAT_COLUMNS: usize = 160;
/// Number of time intervals in a heat map's table.
const TABLE_COLUMNS: usize = 24;

pub(super) fn heat_maps(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = (time_axis(runs, probe), latency_axis(runs, probe));
    let cells: Vec<Option<Vec<Cell>>> = runs
        .iter()
        .map(|run| Some(heat(run.probe(probe).filter(|probe| probe.has_time())?)))
        .collect();
    let largest = cells
        .iter()
        .flatten()
        .flatten()
        .map(|cell| cell.count)
        .max()
        .unwrap_or(1);
    let one = |(run, cells): (&RunData, Option<Vec<Cell>>)| {
        let data = run.probe(probe)?;
        let cells = cells?;
        let note = format!(
            "Colours show how many samples have this {} at this time, on a logarithmic scale from \
             1 to {}.{}",
            data.quantity,
            largest,
            kept_note(data)
        );
        let mut chart = Chart::new(
            Kind::Heatmap,
            format!("Heat map of the {}", data.quantity),
            note,
            x.clone(),
            y.clone(),
        );
        chart.spans = data.spans.clone();
        chart.table = heat_table(data, &cells);
        chart.layers.push(Layer::new(
            "samples",
            Tone::Heat(5),
            Shape::Cells {
                cells,
                largest,
                are_latencies: false,
            },
        ));
        chart.rules = rules(data, false);
        chart.marks = worst(data);
        Some(chart)
    };
    runs.iter().zip(cells).map(one).collect()
}

/// Returns the counts of all CPUs together in [`HEAT_COLUMNS`] time intervals.
fn heat(data: &ProbeData) -> Vec<Cell> {
    let columns = GRID_COLUMNS / (GRID_COLUMNS / HEAT_COLUMNS);
    let step = data.length / columns as f64;
    let mut cells = Vec::new();
    for column in 0..columns {
        let mut counts: Vec<u64> = Vec::new();
        for lane in &data.lanes {
            for fine in column * GRID_COLUMNS / columns..(column + 1) * GRID_COLUMNS / columns {
                let row_counts = &lane.swept.grid[fine];
                counts.resize(counts.len().max(row_counts.len()), 0);
                counts
                    .iter_mut()
                    .zip(row_counts)
                    .for_each(|(sum, &count)| *sum += u64::from(count));
            }
        }
        // Two rows of the grid become one row of the heat map, which does not need the full
        // resolution.
        for (pair, counts) in counts.chunks(2).enumerate() {
            let count: u64 = counts.iter().sum();
            if count > 0 {
                let (begin, end) = (row_edges(2 * pair).0, row_edges(2 * pair + 1).1);
                let x = (column as f64 * step, (column + 1) as f64 * step);
                cells.push(Cell {
                    x,
                    y: (begin as f64, end as f64),
                    count,
                });
            }
        }
    }
    cells
}

/// Returns a table with a row per time interval and a column per factor of two in latency.
fn heat_table(data: &ProbeData, cells: &[Cell]) -> Table {
    let octave = |cell: &Cell| (cell.y.0.max(1.0).log2() + 1e-9).floor() as i32;
    let (low, high) = cells
        .iter()
        .map(octave)
        .fold((i32::MAX, i32::MIN), |(low, high), octave| {
            (low.min(octave), high.max(octave))
        });
    if cells.is_empty() {
        return Table::default();
    }
    let step = data.length / TABLE_COLUMNS as f64;
    let mut head = vec!["from".to_owned(), "to".to_owned()];
    head.extend((low..=high).map(|octave| {
        format!(
            "from {}",
            super::super::scale::latency_name(2_f64.powi(octave))
        )
    }));
    let mut rows = vec![vec![0_u64; (high - low + 1) as usize]; TABLE_COLUMNS];
    for cell in cells {
        let row = ((cell.x.0 / step + 1e-9) as usize).min(TABLE_COLUMNS - 1);
        rows[row][(octave(cell) - low) as usize] += cell.count;
    }
    let time = |row: usize| words::time(row as f64 * step, data.length);
    let row = |(index, counts): (usize, Vec<u64>)| {
        [time(index), time(index + 1)]
            .into_iter()
            .chain(counts.into_iter().map(|count: u64| count.to_string()))
            .collect()
    };
    Table {
        head,
        rows: rows.into_iter().enumerate().map(row).collect(),
    }
}

pub(super) fn scatters(runs: &[RunData], probe: &str) -> Vec<Option<Chart>> {
    let (x, y) = (time_axis(runs, probe), latency_axis(runs, probe));
    let is_single = of_probe(runs, probe)
        .all(|probe| probe.lanes.iter().all(|lane| lane.swept.points.is_some()));
    let one = |run: &RunData| {
        let data = run.probe(probe).filter(|probe| probe.has_time())?;
        let how = if is_single {
            "Each dot is a sample."
        } else {
            "A dot can stand for any number of samples; the largest sample of each interval is \
             drawn at its exact value."
        };
        let note = format!("{how}{}", kept_note(data));
        let mut chart = Chart::new(
            Kind::Scatter,
            format!("{} of samples over time", capital(&data.quantity)),
            note,
            x.clone(),
            y.clone(),
        );
        chart.spans = data.spans.clone();
        for (index, lane) in data.lanes.iter().enumerate().rev() {
            let points = lane.swept.points.as_ref().filter(|_| is_single);
            let dots = points.map_or_else(
                || places(data, lane),
                |points| points.iter().map(|&(x, y)| (x, y as f64)).collect(),
            );
            chart.layers.push(Layer::new(
                &lane.name,
                Tone::Series(index),
                Shape::Dots(dots),
            ));
        }
        chart.rules = rules(data, false);
        chart.marks = worst(data);
        chart.table = timeline::table(data);
        Some(chart)
    };
    runs.iter().map(one).collect()
}

/// Returns the centres of the grid's non-empty cells, and the largest value of each time interval.
fn places(data: &ProbeData, lane: &super::super::data::Lane) -> Vec<(f64, f64)> {
    let step = data.length / GRID_COLUMNS as f64;
    let mut dots = Vec::new();
    for (column, counts) in lane.swept.grid.iter().enumerate() {
        let x = (column as f64 + 0.5) * step;
        for row in counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(row, _)| row)
        {
            let (begin, end) = row_edges(row);
            dots.push((x, (begin as f64 + (end - 1) as f64) / 2.0));
        }
    }
    let largest = super::super::shapes::by_pixel(&lane.swept.columns, |x| x / step);
    dots.extend(
        largest
            .into_iter()
            .map(|(column, _, max)| ((column + 0.5) * step, max as f64)),
    );
    dots
}
