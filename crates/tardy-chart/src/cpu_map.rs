//! The largest latency of each CPU over time, for machines with more CPUs than colours.
//!
//! The size of the map does not depend on the number of CPUs or on the length of the run. If there
//! are many CPUs, several adjacent ones share a row.

use tardy_core::cpu::{CpuId, CpuList};

use tardy_samples::sweep::Columns;

/// Maximum number of rows, which gives each row three pixels in a chart of the usual height.
const ROWS_MAX: usize = 128;
/// Number of time intervals in the map.
pub const STRETCHES: usize = 120;

/// The map of one probe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuMap {
    /// The rows, ordered by CPU number.
    pub rows: Vec<Row>,
}

/// A row of the map, for one CPU or several adjacent ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The first CPU of the row.
    pub first: CpuId,
    /// The last CPU of the row.
    pub last: CpuId,
    /// The largest latency in each of [`STRETCHES`] time intervals, in ns; `None` for an interval
    /// without samples.
    pub largest: Vec<Option<i64>>,
}

impl CpuMap {
    /// Creates an empty map for `cpus`.
    #[must_use]
    pub fn new(cpus: &CpuList) -> Self {
        let cpus: Vec<CpuId> = cpus.iter().collect();
        let rows = cpus.chunks(cpus.len().div_ceil(ROWS_MAX).max(1));
        Self {
            rows: rows
                .map(|row| Row {
                    first: row[0],
                    last: row[row.len() - 1],
                    largest: vec![None; STRETCHES],
                })
                .collect(),
        }
    }

    /// Adds the extremes of a CPU. `columns` must cover the whole length of the run.
    pub fn add(&mut self, cpu: CpuId, columns: &Columns) {
        let Some(row) = self
            .rows
            .iter_mut()
            .find(|row| row.first <= cpu && cpu <= row.last)
        else {
            return;
        };
        let count = columns.extremes.len();
        for (index, &(_, max)) in columns
            .extremes
            .iter()
            .enumerate()
            .filter_map(|(index, extremes)| Some((index, extremes.as_ref()?)))
        {
            let stretch = &mut row.largest[index * STRETCHES / count];
            *stretch = (*stretch).max(Some(max));
        }
    }
}

impl Row {
    /// Returns the largest latency of the row, and the index of its time interval.
    #[must_use]
    pub fn worst(&self) -> Option<(i64, usize)> {
        let known = self
            .largest
            .iter()
            .enumerate()
            .filter_map(|(stretch, largest)| Some(((*largest)?, stretch)));
        // Of several equal latencies, the first one is returned.
        known.max_by_key(|&(largest, stretch)| (largest, std::cmp::Reverse(stretch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(extremes: Vec<Option<(i64, i64)>>) -> Columns {
        Columns {
            begin: 0.0,
            step: 1.0,
            extremes,
        }
    }

    #[test]
    fn many_cpus_share_rows_and_keep_their_largest_latency() {
        let cpus: CpuList = (0..1024).map(CpuId).collect();
        let mut map = CpuMap::new(&cpus);
        assert_eq!(
            (map.rows.len(), map.rows[1].first, map.rows[1].last),
            (128, CpuId(8), CpuId(15))
        );
        let mut extremes = vec![Some((1, 5)); 960];
        extremes[959] = Some((1, 700));
        map.add(CpuId(9), &columns(extremes));
        map.add(CpuId(10), &columns(vec![Some((2, 6)); 960]));
        assert_eq!(map.rows[1].worst(), Some((700, STRETCHES - 1)));
        assert_eq!(map.rows[1].largest[0], Some(6));
        assert_eq!(map.rows[0].worst(), None);
    }

    #[test]
    fn few_cpus_have_a_row_each_and_cpus_that_were_not_measured_none() {
        let mut map = CpuMap::new(&"1,3".parse().unwrap());
        assert_eq!(map.rows.len(), 2);
        map.add(CpuId(2), &columns(vec![Some((1, 1)); 10]));
        assert!(map.rows.iter().all(|row| row.worst().is_none()));
    }
}
