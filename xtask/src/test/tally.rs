//! How many tests passed, over all test programs.

/// Counts of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Tests that passed.
    pub(super) passed: u64,
    /// Tests that failed.
    pub(super) failed: u64,
    /// Tests that did not run.
    pub(super) ignored: u64,
    /// Whether every test program could be built and ended well.
    pub(super) is_complete: bool,
}

impl Tally {
    /// Adds what a line of the test programs' output tells:
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    pub(super) fn read(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else {
            return;
        };
        // "ok. " or "FAILED. " stands before the first count.
        let counts = counts.split_once(". ").map_or(counts, |(_, counts)| counts);
        for count in counts.split(';') {
            let Some((number, what)) = count.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_over_test_programs() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 62 filtered out; \
             finished in 0.81s",
            "test tests::result ... ok",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 1.50s",
        ] {
            tally.read(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 13,
                failed: 2,
                ignored: 1,
                is_complete: false
            }
        );
    }
}
