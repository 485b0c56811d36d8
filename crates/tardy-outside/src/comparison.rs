//! Compares two censuses: which sections are longer, shorter, new or gone in the second one.

use serde::Serialize;
use tardy_core::units::Nanos;

use crate::census::Census;
use crate::kind::Kind;

/// How the longest section between two functions changed from the first census to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Longer,
    Shorter,
    New,
    Gone,
}

/// The difference of the sections between two functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub kind: Kind,
    pub begin: String,
    pub end: String,
    pub change: Change,
    /// Length of the longest section in the first census; absent if there is no section.
    pub base_ns: Option<Nanos>,
    /// Length of the longest section in the second census; absent if there is no section.
    pub candidate_ns: Option<Nanos>,
    pub base_count: u64,
    pub candidate_count: u64,
}

/// Compares the longest sections of each kind between the same two functions. Leaves out
/// [`Kind::Blocked`]. A section counts as longer or shorter if the difference exceeds both `least`
/// and a fifth of the shorter length. A section that only one census has is reported if it is at
/// least `least` long. The largest differences come first.
#[must_use]
pub fn compare(base: &Census, candidate: &Census, least: Nanos) -> Vec<Difference> {
    let (before, after) = (base.by_place(), candidate.by_place());
    let mut differences = Vec::new();
    let keys: std::collections::BTreeSet<_> = before
        .keys()
        .chain(after.keys())
        .filter(|(kind, ..)| *kind != Kind::Blocked)
        .collect();
    for key @ (kind, begin, end) in keys {
        let (one, other) = (before.get(key), after.get(key));
        let change = match (one, other) {
            (Some(&(_, one)), Some(&(_, other))) => {
                let margin = Nanos((one.0 / 5).max(least.0));
                match other {
                    _ if other > one + margin => Change::Longer,
                    _ if one > other + Nanos((other.0 / 5).max(least.0)) => Change::Shorter,
                    _ => continue,
                }
            }
            (None, Some(&(_, other))) if other >= least => Change::New,
            (Some(&(_, one)), None) if one >= least => Change::Gone,
            _ => continue,
        };
        let count = |side: Option<&(u64, Nanos)>| side.map_or(0, |side| side.0);
        differences.push(Difference {
            kind: *kind,
            begin: begin.clone(),
            end: end.clone(),
            change,
            base_ns: one.map(|one| one.1),
            candidate_ns: other.map(|other| other.1),
            base_count: count(one),
            candidate_count: count(other),
        });
    }
    let size = |difference: &Difference| {
        let of = |side: Option<Nanos>| side.map_or(0, |nanos| nanos.0);
        (of(difference.base_ns) - of(difference.candidate_ns)).abs()
    };
    differences.sort_by_key(|difference| std::cmp::Reverse(size(difference)));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::{Group, KindCensus, Place};

    fn census(places: &[(&str, i64)]) -> Census {
        let place = |&(begin, longest): &(&str, i64)| Place {
            begin: begin.to_owned(),
            end: "end".to_owned(),
            count: 1,
            total_ns: Nanos(longest),
            longest_ns: Nanos(longest),
            task: String::new(),
        };
        let kind = KindCensus {
            kind: Kind::InterruptsOff,
            count: 1,
            total_ns: Nanos(1),
            longest_ns: Nanos(1),
            histogram: Vec::new(),
            places: places.iter().map(place).collect(),
        };
        let group = Group {
            variant: "v".into(),
            load: "l".into(),
            runs: 1,
            executed_ns: Nanos(1),
            kinds: vec![kind],
            is_preemptible: None,
            longest: Vec::new(),
            bound: None,
            section_latency: None,
        };
        Census {
            groups: vec![group],
            corrected: 0,
            unstored: 0,
            knows_preemption: true,
            left_out_windows: 0,
        }
    }

    #[test]
    fn what_became_longer_shorter_new_or_gone_is_told_and_the_rest_is_not() {
        let base = census(&[
            ("same", 10_000),
            ("longer", 10_000),
            ("shorter", 90_000),
            ("gone", 7000),
            ("short gone", 10),
        ]);
        let candidate = census(&[
            ("same", 11_900),
            ("longer", 20_000),
            ("shorter", 10_000),
            ("new", 6000),
        ]);
        let found = compare(&base, &candidate, Nanos(1000));
        let changes: Vec<_> = found
            .iter()
            .map(|difference| (difference.begin.as_str(), difference.change))
            .collect();
        assert_eq!(
            changes,
            [
                ("shorter", Change::Shorter),
                ("longer", Change::Longer),
                ("gone", Change::Gone),
                ("new", Change::New)
            ]
        );
    }
}
