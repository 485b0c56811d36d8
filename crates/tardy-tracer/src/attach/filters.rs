//! Filters of the events: what is recorded, for which threads.

use std::collections::BTreeSet;

use tardy_trace::timers::TimerKind;

use crate::events::WantedEvent;
use crate::events::of_timers::{CANCEL, EXPIRE_ENTRY, START, SWITCH, WAKING};

/// Threads that a filter names one by one; of more, a range of numbers.
const FILTER_PIDS_MAX: usize = 32;

/// The part of a filter that names these threads.
pub(super) fn of_threads(field: &str, threads: impl Iterator<Item = i32>) -> String {
    let mut threads: Vec<i32> = threads.collect();
    threads.sort_unstable();
    match threads.as_slice() {
        [] => format!("{field} < 0"),
        [first, .., last] if threads.len() > FILTER_PIDS_MAX => {
            format!("({field} >= {first} && {field} <= {last})")
        }
        named => format!(
            "({})",
            named
                .iter()
                .map(|thread| format!("{field} == {thread}"))
                .collect::<Vec<_>>()
                .join(" || ")
        ),
    }
}

/// What is recorded of each event, for these threads: each event costs the program some hundred ns,
/// and most are of no use here.
pub(super) fn filters(
    functions: &[(u64, TimerKind)],
    threads: impl Iterator<Item = i32>,
    linked: &BTreeSet<i32>,
) -> [(WantedEvent, String); 5] {
    let threads: Vec<i32> = threads.collect();
    // A range of many threads would take in those of other programs.
    let linked = linked
        .iter()
        .filter(|_| threads.len() + linked.len() <= FILTER_PIDS_MAX);
    let woken: Vec<i32> = threads.iter().chain(linked).copied().collect();
    let of_woken = |field: &str| self::of_threads(field, woken.iter().copied());
    let of_threads = |field: &str| self::of_threads(field, threads.iter().copied());
    let of_functions = functions
        .iter()
        .map(|(address, _)| format!("function == {address:#x}"))
        .collect::<Vec<_>>()
        .join(" || ");
    [
        (
            START,
            format!("({of_functions}) && {}", of_threads("common_pid")),
        ),
        (CANCEL, of_threads("common_pid")),
        (EXPIRE_ENTRY, of_functions),
        (WAKING, of_woken("pid")),
        (
            SWITCH,
            format!("{} || {}", of_woken("next_pid"), of_threads("prev_pid")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_threads_one_by_one_and_many_by_a_range() {
        let functions = [(0x10, TimerKind::Sleep), (0x20, TimerKind::Timerfd)];
        let [start, cancel, entry, waking, switch] =
            filters(&functions, [9, 7].into_iter(), &BTreeSet::new()).map(|(_, filter)| filter);
        assert_eq!(
            start,
            "(function == 0x10 || function == 0x20) && (common_pid == 7 || common_pid == 9)"
        );
        assert_eq!(entry, "function == 0x10 || function == 0x20");
        assert_eq!(
            (cancel.as_str(), waking.as_str()),
            (
                "(common_pid == 7 || common_pid == 9)",
                "(pid == 7 || pid == 9)"
            )
        );
        assert_eq!(
            switch,
            "(next_pid == 7 || next_pid == 9) || (prev_pid == 7 || prev_pid == 9)"
        );
        let [.., switch] =
            filters(&functions, 100..200, &BTreeSet::from([7])).map(|(_, filter)| filter);
        assert!(
            switch.starts_with("(next_pid >= 100 && next_pid <= 199) || "),
            "{switch}"
        );
        let [_, _, _, waking, switch] =
            filters(&functions, [7].into_iter(), &BTreeSet::from([8])).map(|(_, filter)| filter);
        assert_eq!(waking, "(pid == 7 || pid == 8)", "a waker's own wake-ups");
        assert_eq!(
            switch,
            "(next_pid == 7 || next_pid == 8) || (prev_pid == 7)"
        );
        let nobody = &filters(&functions, std::iter::empty(), &BTreeSet::new())[4].1;
        assert_eq!(nobody, "next_pid < 0 || prev_pid < 0");
    }
}
