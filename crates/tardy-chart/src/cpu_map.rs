//! The largest latency of each CPU over time, for machines with more CPUs than colours.
//!
//! Its size is independent of the CPUs and the length of the run: many CPUs share rows, as many per
//! row as necessary.

use tardy_core::cpu::{CpuId, CpuList};

use tardy_samples::sweep::Columns;

/// Rows at most: three pixels each in a chart of the usual height.
const ROWS_MAX: usize = 128;
/// Number of time intervals.
pub const STRETCHES: usize = 120;

/// The map of one probe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuMap {
    /// In the order of the CPUs' numbers.
    pub rows: Vec<Row>,
}

/// Adjacent CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The first of them.
    pub first: CpuId,
    /// The last of them.
    pub last: CpuId,
    /// Largest latency of the CPU in each of [`STRETCHES`] intervals of time, in ns; `None` without
    /// samples.
    pub largest: Vec<Option<i64>>,
}

impl CpuMap {
    /// An empty map of these CPUs.
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

    /// Adds the extremes of a CPU over the whole length of the run.
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
    /// Returns the largest latency and its interval.
    #[must_use]
    pub fn worst(&self) -> Option<(i64, usize)> {
        let known = self
            .largest
            .iter()
            .enumerate()
            .filter_map(|(stretch, largest)| Some(((*largest)?, stretch)));
        // The first one if several are equal.
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
