//! Finds the longest run of consecutive misses in a series that may be read in parts.

use serde::{Deserialize, Serialize};

/// A run of consecutive misses, measured in due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Index of the first miss among the due times of the series.
    pub place: u64,
    /// Number of misses.
    pub length: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.place + self.length
    }
}

/// Runs of misses so far. The first and the last run may continue in the neighbouring part.
#[derive(Debug, Clone, Copy, Default)]
pub struct MissRuns {
    runs: u64,
    first: Run,
    last: Run,
    longest: Run,
}

impl MissRuns {
    /// Adds `length` consecutive misses, the first of them at the due time with index `place`.
    /// `place` must increase from call to call.
    pub fn add(&mut self, place: u64, length: u64) {
        if length > 0 {
            self.merge(&Self::of(Run { place, length }));
        }
    }

    fn of(run: Run) -> Self {
        Self {
            runs: 1,
            first: run,
            last: run,
            longest: run,
        }
    }

    /// Adds the runs of the next part.
    pub fn merge(&mut self, next: &Self) {
        if next.runs == 0 {
            return;
        }
        if self.runs == 0 {
            *self = *next;
            return;
        }
        let joined = (self.last.end() == next.first.place).then_some(Run {
            place: self.last.place,
            length: self.last.length + next.first.length,
        });
        for candidate in [Some(next.longest), joined].into_iter().flatten() {
            if candidate.length > self.longest.length {
                self.longest = candidate;
            }
        }
        if let Some(joined) = joined {
            if self.runs == 1 {
                self.first = joined;
            }
            self.last = if next.runs == 1 { joined } else { next.last };
            self.runs += next.runs - 1;
        } else {
            self.last = next.last;
            self.runs += next.runs;
        }
    }

    /// Returns the longest run; `None` if there was no miss.
    #[must_use]
    pub fn longest(&self) -> Option<Run> {
        (self.runs > 0).then_some(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_run_does_not_depend_on_where_the_series_is_cut(
            misses in proptest::collection::vec(any::<bool>(), 0..80), cuts in proptest::collection::vec(0_usize..80, 0..4),
        ) {
            let mut parts: Vec<MissRuns> = vec![MissRuns::default(); 81];
            for (place, _) in misses.iter().enumerate().filter(|(_, miss)| **miss) {
                let part = cuts.iter().filter(|&&cut| cut <= place).count();
                parts[part].add(place as u64, 1);
            }
            let mut whole = MissRuns::default();
            parts.iter().for_each(|part| whole.merge(part));
            let longest = misses.split(|miss| !miss).map(<[bool]>::len).max().unwrap_or(0) as u64;
            prop_assert_eq!(whole.longest().map_or(0, |run| run.length), longest);
            if let Some(run) = whole.longest() {
                prop_assert!(misses[run.place as usize..(run.place + run.length) as usize].iter().all(|&miss| miss));
            }
        }
    }
}
