//! Accounts for every due time of a series: expected = recorded + skipped + lost. Also accounts for
//! every recorded sample: recorded = stored + unstored.
//!
//! Readers refuse impossible counts and times, so sums and differences of values from files need no
//! overflow checks. The limits are `COUNT_MAX` in `crates/tardy-core/src/accounting.rs` (2^48),
//! `crates/tardy-samples/src/far_time.rs` (2^62 ns), `crates/tardy-outside/src/stream.rs` (2^50).
//! The fuzz targets enable overflow checks.

use serde::{Deserialize, Serialize};

/// Upper bound of every count of a series. A series with a sample every microsecond reaches it
/// after nine years. A file with a larger count is treated as damaged. The bound keeps sums of
/// counts from overflowing.
pub const COUNT_MAX: u64 = 1 << 48;

/// Cumulative counts of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Number of due times that the clock has passed (on a grid), or of cycles that were started
    /// (for events). This count is measured and never computed from the other counts.
    pub expected: u64,
    /// Samples that reached the recorder.
    pub recorded: u64,
    /// Due times skipped because the wake-up before them was late.
    #[serde(alias = "missed")]
    pub skipped: u64,
    /// Samples that were taken but did not reach the recorder. If there are any, the run reports
    /// this first.
    pub lost: u64,
    /// Samples that were recorded but are not in the file, because of `--keep` or because the disk
    /// was full.
    pub unstored: u64,
}

impl Counts {
    /// Returns the number of samples in the file.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.recorded - self.unstored.min(self.recorded)
    }

    /// Returns the number of due times that are neither recorded, skipped nor lost; 0 if the
    /// accounting is exact.
    #[must_use]
    pub fn unexplained(&self) -> i128 {
        i128::from(self.expected)
            - i128::from(self.recorded)
            - i128::from(self.skipped)
            - i128::from(self.lost)
    }

    /// Returns whether the counts are consistent: every expected due time is recorded, skipped or
    /// lost, and `unstored` is at most `recorded`.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.unexplained() == 0 && self.unstored <= self.recorded
    }

    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        Self {
            expected: self.expected.saturating_sub(earlier.expected),
            recorded: self.recorded.saturating_sub(earlier.recorded),
            skipped: self.skipped.saturating_sub(earlier.skipped),
            lost: self.lost.saturating_sub(earlier.lost),
            unstored: self.unstored.saturating_sub(earlier.unstored),
        }
    }

    /// Returns the sum of two series' counts.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            expected: self.expected.saturating_add(other.expected),
            recorded: self.recorded.saturating_add(other.recorded),
            skipped: self.skipped.saturating_add(other.skipped),
            lost: self.lost.saturating_add(other.lost),
            unstored: self.unstored.saturating_add(other.unstored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_only_when_nothing_is_unexplained() {
        let counts = Counts {
            expected: 10,
            recorded: 7,
            skipped: 2,
            lost: 1,
            unstored: 3,
        };
        assert!(counts.is_exact());
        assert_eq!(counts.stored(), 4);
        assert!(
            !Counts {
                expected: 11,
                ..counts
            }
            .is_exact()
        );
        assert!(
            !Counts {
                unstored: 8,
                ..counts
            }
            .is_exact()
        );
        assert_eq!(
            Counts {
                expected: 9,
                ..counts
            }
            .unexplained(),
            -1
        );
    }

    #[test]
    fn counts_of_a_damaged_document_are_added_without_an_overflow() {
        let counts = Counts {
            expected: u64::MAX,
            recorded: u64::MAX,
            skipped: 1,
            lost: u64::MAX,
            unstored: u64::MAX,
        };
        assert_eq!(
            counts.plus(&counts),
            Counts {
                skipped: 2,
                ..counts
            }
        );
    }
}
