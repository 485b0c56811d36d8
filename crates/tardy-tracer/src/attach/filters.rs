//! Filters that select the events of the followed threads. The kernel accepts only filters shorter
//! than a page (kernel/trace/trace_events.c, `event_filter_write`). So a filter has at most
//! [`RANGES_MAX`] ranges of thread IDs for each field, however many threads there are.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tardy_trace::symbols::Symbols;
use tardy_trace::timers::TimerKind;

use crate::events::of_timers::{CANCEL, EXPIRE_ENTRY, MIGRATE, START, SWITCH, WAKING};
use crate::events::{OF_PROBES, WantedEvent};

/// Maximum number of ranges of thread IDs per field: with two fields and IDs of seven digits, this
/// many fit into a page.
const RANGES_MAX: usize = 32;

/// Returns a part of a filter that selects the events of these threads. If there are many threads,
/// it selects ranges of IDs that contain as few other threads as possible. Recording events of
/// other threads takes some time, and readers discard these events.
pub(super) fn of_threads(field: &str, threads: impl Iterator<Item = i32>) -> String {
    let threads: BTreeSet<i32> = threads.collect();
    if threads.is_empty() {
        return format!("{field} < 0");
    }
    let ranges = ranges(&threads).into_iter().map(|(first, last)| {
        if first == last {
            format!("{field} == {first}")
        } else {
            format!("{field} >= {first} && {field} <= {last}")
        }
    });
    format!("({})", ranges.collect::<Vec<_>>().join(" || "))
}

/// Returns at most [`RANGES_MAX`] ranges that contain all these IDs, and as few other IDs as
/// possible. So only the widest gaps between the IDs are outside of the ranges.
fn ranges(threads: &BTreeSet<i32>) -> Vec<(i32, i32)> {
    let numbers: Vec<i32> = threads.iter().copied().collect();
    let mut gaps: Vec<usize> = (1..numbers.len()).collect();
    gaps.sort_by_key(|&at| Reverse(i64::from(numbers[at]) - i64::from(numbers[at - 1])));
    gaps.truncate(RANGES_MAX - 1);
    gaps.sort_unstable();
    let begins = std::iter::once(0).chain(gaps.iter().copied());
    let ends = gaps.iter().copied().chain([numbers.len()]);
    begins
        .zip(ends)
        .map(|(begin, end)| (numbers[begin], numbers[end - 1]))
        .collect()
}

/// Returns the filter of each event for these threads. The filters select only useful events,
/// because each recorded event costs the program a few hundred ns.
pub(super) fn filters(
    functions: &[(u64, TimerKind)],
    threads: impl Iterator<Item = i32>,
    linked: &BTreeSet<i32>,
) -> [(WantedEvent, String); 5] {
    let threads: Vec<i32> = threads.collect();
    // Up to RANGES_MAX threads are selected one by one. For more threads, the filter has ranges
    // that may contain other threads, so the threads of other programs are left out.
    let linked = linked
        .iter()
        .filter(|_| threads.len() + linked.len() <= RANGES_MAX);
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

/// Returns the addresses of the timers' functions from /proc/kallsyms; no addresses if the kernel
/// hides them.
pub(super) fn functions(symbols: &Symbols) -> Vec<(u64, TimerKind)> {
    let function = |(address, name): (u64, &str)| {
        // Compilers append suffixes to names, as in `hrtimer_wakeup.llvm.1`.
        let name = name.split_once('.').map_or(name, |(name, _)| name);
        let mut kinds = TimerKind::ALL.into_iter();
        Some((address, kinds.find(|kind| kind.function() == name)?))
    };
    symbols.iter().filter_map(function).collect()
}

/// Returns the filter of the switches that [`filters`] does not select. These switches show which
/// threads had a CPU while a followed thread waited for it. Switches from and to the idle task are
/// left out, because a CPU is not idle while a thread waits for it. On most machines, these are
/// most of the switches.
pub(super) fn of_other_switches(
    threads: &BTreeSet<i32>,
    linked: &BTreeSet<i32>,
) -> (WantedEvent, String) {
    let threads = threads.iter().copied();
    let [.., (event, filter)] = filters(&[], threads, linked);
    (
        event,
        format!("prev_pid != 0 && next_pid != 0 && !({filter})"),
    )
}

/// Returns a filter for each event that shows why a thread waited in the kernel, on which CPU it
/// waited, or which rules it violated. The filter selects the events of the given threads.
pub(super) fn of_rules(threads: &BTreeSet<i32>) -> Vec<(WantedEvent, String)> {
    let of_threads = |field| of_threads(field, threads.iter().copied());
    let filter = of_threads("common_pid");
    let events = OF_PROBES.iter().map(|&event| (event, filter.clone()));
    events.chain([(MIGRATE, of_threads("pid"))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_functions_are_found_by_name_and_hidden_ones_are_none() {
        let symbols = "ffffffff81000010 t hrtimer_wakeup\nffffffff81000020 t \
                       hrtimer_wakeup_later\nffffffff81000030 t \
                       posix_timer_fn.llvm.77\nffffffff81000040 T \
                       it_real_fn\t[module]\n0000000000000000 t timerfd_tmrproc\n";
        let kinds = [
            (0xffff_ffff_8100_0010, TimerKind::Sleep),
            (0xffff_ffff_8100_0030, TimerKind::PosixTimer),
            (0xffff_ffff_8100_0040, TimerKind::Itimer),
        ];
        assert_eq!(functions(&Symbols::parse(symbols)), kinds);
        let hidden = Symbols::parse("0000000000000000 t hrtimer_wakeup\n");
        assert_eq!(functions(&hidden), []);
    }

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
        let [.., switch] = filters(&functions, (100..300).step_by(2), &BTreeSet::from([7]))
            .map(|(_, filter)| filter);
        assert!(
            switch.starts_with("(next_pid == 100 || next_pid == 102 || "),
            "{switch}"
        );
        assert!(
            !switch.contains("== 7 "),
            "no thread of other programs among many: {switch}"
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

    #[test]
    fn many_threads_become_ranges_with_the_fewest_others_in_a_filter_that_the_kernel_takes() {
        // Pairs of thread IDs at a distance of 1, with a distance of 100 from one pair to the next.
        let threads: Vec<i32> = (0..300).map(|n| 1_000_000 + n / 2 * 100 + n % 2).collect();
        let found = ranges(
            &threads
                .iter()
                .copied()
                .chain([4_000_000, 4_000_005])
                .collect(),
        );
        assert_eq!(found.len(), RANGES_MAX);
        assert_eq!(found.last(), Some(&(4_000_000, 4_000_005)));
        for thread in threads.iter().copied().chain([4_000_000, 4_000_005]) {
            assert!(
                found
                    .iter()
                    .any(|&(first, last)| first <= thread && thread <= last)
            );
        }
        let few = ranges(&BTreeSet::from([5, 6, 7, 90]));
        assert_eq!(few, [(5, 5), (6, 6), (7, 7), (90, 90)]);
        let functions = [(u64::MAX, TimerKind::Sleep); 4];
        for (_, filter) in filters(&functions, threads.into_iter(), &BTreeSet::new()) {
            assert!(filter.len() < 4096, "{} bytes", filter.len());
        }
    }
}
