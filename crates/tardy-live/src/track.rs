//! A time line that takes constant memory however long the run is: it stores the largest value of
//! each time interval. When there are too many intervals, pairs of them are merged.

use tardy_core::units::Nanos;

/// Maximum number of intervals: more than a screen has columns.
const STRETCHES: usize = 512;
/// Length of an interval at the start.
const STEP: Nanos = Nanos::from_millis(125);

#[derive(Debug, Clone)]
pub(crate) struct Track {
    step: Nanos,
    maxima: Vec<Option<Nanos>>,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            step: STEP,
            maxima: Vec::new(),
        }
    }
}

impl Track {
    /// Adds a value at the time `at` after the start of the run.
    pub(crate) fn note(&mut self, at: Nanos, value: Nanos) {
        let at = at.max(Nanos::ZERO);
        while at.get() / self.step.get() >= STRETCHES as i64 {
            self.halve();
        }
        let place = (at.get() / self.step.get()) as usize;
        if self.maxima.len() <= place {
            self.maxima.resize(place + 1, None);
        }
        self.maxima[place] = self.maxima[place].max(Some(value));
    }

    fn halve(&mut self) {
        self.step = self.step * 2;
        self.maxima = self
            .maxima
            .chunks(2)
            .map(|pair| pair.iter().copied().max().flatten())
            .collect();
    }

    /// Divides the time from the start to `end` into `columns` equal parts, and returns the largest
    /// value in each part. An interval that is longer than a column fills all columns that it
    /// covers.
    pub(crate) fn columns(&self, end: Nanos, columns: usize) -> Vec<Option<Nanos>> {
        let mut largest = vec![None; columns];
        let end = i128::from(end.get().max(1));
        for (place, &value) in self
            .maxima
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_some())
        {
            let edge = |place: usize| {
                (i128::from(self.step.get()) * place as i128 * columns as i128 / end) as usize
            };
            let from = edge(place).min(columns.saturating_sub(1));
            for column in largest
                .iter_mut()
                .take(edge(place + 1).max(from + 1))
                .skip(from)
            {
                *column = value.max(*column);
            }
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_maximum_is_lost_and_memory_is_bounded(values in prop::collection::vec((0_i64..100_000_000_000, 1_i64..1_000_000), 1..300), columns in 1_usize..200) {
            let mut track = Track::default();
            values.iter().for_each(|&(at, value)| track.note(Nanos(at), Nanos(value)));
            let end = Nanos(values.iter().map(|value| value.0).max().unwrap() + 1);
            let drawn = track.columns(end, columns);
            let largest = values.iter().map(|value| value.1).max().unwrap();
            prop_assert_eq!(drawn.iter().copied().max().flatten(), Some(Nanos(largest)));
            prop_assert!(track.maxima.len() <= STRETCHES);
        }
    }

    #[test]
    fn values_stand_where_they_were_measured() {
        let mut track = Track::default();
        for (second, value) in [(0, 5), (3, 7), (9, 6)] {
            track.note(Nanos::from_secs(second), Nanos(value));
        }
        let drawn = track.columns(Nanos::from_secs(10), 10);
        let place = |value| drawn.iter().position(|&drawn| drawn == Some(Nanos(value)));
        assert_eq!([5, 7, 6].map(place), [Some(0), Some(3), Some(9)]);
    }
}
