//! Visits the values of two tallies together, in ascending order.

use super::tally::Tally;

/// The counts at one distinct value of the two samples: how many values of each sample are equal to
/// this value, and how many are at or below it.
pub(super) struct Step {
    pub(super) at: [u64; 2],
    pub(super) up_to: [u64; 2],
}

impl Step {
    /// Returns the mean rank of the values at this step among the values of both samples.
    pub(super) fn rank(&self) -> f64 {
        middle_rank(self.up_to[0] + self.up_to[1], self.at[0] + self.at[1])
    }

    /// Returns the mean rank of the values at this step among the values of their own sample.
    pub(super) fn own_rank(&self, side: usize) -> f64 {
        middle_rank(self.up_to[side], self.at[side])
    }
}

fn middle_rank(up_to: u64, at: u64) -> f64 {
    up_to as f64 - (at as f64 - 1.0) / 2.0
}

/// Returns all distinct values of both samples in ascending order.
pub(super) fn steps(first: &Tally, second: &Tally) -> Vec<Step> {
    let (mut a, mut b) = (
        first.entries().iter().peekable(),
        second.entries().iter().peekable(),
    );
    let mut steps = Vec::new();
    let mut up_to = [0, 0];
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.0.min(y.0),
            (Some(x), None) => x.0,
            (None, Some(y)) => y.0,
            (None, None) => return steps,
        };
        let at = [
            a.next_if(|x| x.0 == next).map_or(0, |x| x.1),
            b.next_if(|y| y.0 == next).map_or(0, |y| y.1),
        ];
        up_to = [up_to[0] + at[0], up_to[1] + at[1]];
        steps.push(Step { at, up_to });
    }
}
