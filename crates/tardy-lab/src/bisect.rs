//! Finds the first bad kernel in the order of versions. The user expects the first kernel to be
//! good and the last one to be bad; the search tests both.

/// The result of testing a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Good,
    Bad,
    /// The kernel does not boot, or lacks a requirement.
    CannotTell,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BisectResult {
    /// The first bad kernel is `bad`, or one of the kernels between `good` and `bad`. The tests of
    /// all kernels between these two were inconclusive.
    Between { good: usize, bad: usize },
    /// The first kernel is not good.
    FirstNotGood(Answer),
    /// The last kernel is not bad.
    LastNotBad(Answer),
}

/// Finds the first bad kernel among `count` kernels with as few tests as possible.
///
/// # Errors
/// If a test returns an error, the search ends and returns this error.
pub fn bisect<E>(
    count: usize,
    mut test: impl FnMut(usize) -> Result<Answer, E>,
) -> Result<BisectResult, E> {
    let last = count.saturating_sub(1);
    match test(last)? {
        Answer::Bad => {}
        answer => return Ok(BisectResult::LastNotBad(answer)),
    }
    match test(0)? {
        Answer::Good => {}
        answer => return Ok(BisectResult::FirstNotGood(answer)),
    }
    let (mut good, mut bad) = (0_usize, last);
    let mut cannot_tell: Vec<usize> = Vec::new();
    loop {
        let middle = good.midpoint(bad);
        let untested = (good + 1..bad).filter(|place| !cannot_tell.contains(place));
        let Some(next) = untested.min_by_key(|place| place.abs_diff(middle)) else {
            return Ok(BisectResult::Between { good, bad });
        };
        match test(next)? {
            Answer::Good => good = next,
            Answer::Bad => bad = next,
            Answer::CannotTell => cannot_tell.push(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a search among `count` kernels. The kernels at index `bad` and above are bad.
    /// Tests of the kernels at the indices in `mute` are inconclusive. Returns the search's result
    /// and its number of tests.
    fn found(count: usize, bad: usize, mute: &[usize]) -> (BisectResult, usize) {
        let mut tests = 0;
        let answer = |place: usize| match () {
            () if mute.contains(&place) => Answer::CannotTell,
            () if place >= bad => Answer::Bad,
            () => Answer::Good,
        };
        let found = bisect(count, |place| {
            tests += 1;
            Ok::<_, ()>(answer(place))
        });
        (found.unwrap(), tests)
    }

    #[test]
    fn the_first_bad_kernel_is_found_wherever_it_is_in_few_tests() {
        for bad in 1..64 {
            let (found, tests) = found(64, bad, &[]);
            assert_eq!(found, BisectResult::Between { good: bad - 1, bad });
            assert!(tests <= 2 + 6, "{bad}: {tests}");
        }
    }

    #[test]
    fn kernels_that_cannot_tell_are_passed_over_and_bound_what_is_known() {
        assert_eq!(
            found(9, 5, &[4, 3]).0,
            BisectResult::Between { good: 2, bad: 5 }
        );
        assert_eq!(
            found(3, 1, &[1]).0,
            BisectResult::Between { good: 0, bad: 2 }
        );
    }

    #[test]
    fn ends_that_are_not_as_said_stop_the_search() {
        assert_eq!(
            found(5, 9, &[]),
            (BisectResult::LastNotBad(Answer::Good), 1)
        );
        assert_eq!(
            found(5, 0, &[]),
            (BisectResult::FirstNotGood(Answer::Bad), 2)
        );
        assert_eq!(
            found(5, 2, &[4]).0,
            BisectResult::LastNotBad(Answer::CannotTell)
        );
        assert_eq!(bisect(3, |_| Err::<Answer, _>("no QEMU")), Err("no QEMU"));
    }
}
