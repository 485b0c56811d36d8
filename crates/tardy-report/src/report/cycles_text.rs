//! Cycles of threads as text: response times, their parts, and the longest cycles with the causes
//! of their delays.

use std::fmt::Write as _;

use tardy_core::units::Nanos;
use tardy_results::explain::LoopRow;
use tardy_results::explain::cycles::{
    Cycle, CycleExplanation, CycleRow, IDLE, OtherPlaces, PlaceRow, Stretch, StretchKind,
    WaitPlace, WakeUpChain,
};

use super::explain_run_text::{loop_name, rules_head};
use super::explain_text::{broken, broken_head, not_broken};
use super::screen::push_wrapped;
use super::table::Table;

/// Maximum number of rows in the table of threads.
const ROWS_MAX: usize = 8;
/// Maximum number of wait places that are shown for a thread.
const PLACES_MAX: usize = 3;
/// Maximum number of intervals of a cycle that the screen of `attach` shows.
pub(super) const STRETCHES_OF_SCREEN: usize = 3;
/// Maximum number of chains that are listed.
pub(super) const CHAINS_MAX: usize = 3;
/// Maximum number of loops whose rules are listed.
const LOOPS_MAX: usize = 3;
/// Maximum number of cycles that are listed.
const CYCLES_MAX: usize = 20;

/// Returns the cycles of a run folder as text.
#[must_use]
pub fn text(found: &CycleExplanation, columns: usize) -> String {
    let mut out = String::new();
    let longest = found.worst.first();
    match (found.above_ns, longest) {
        (Some(above), None) if found.cycles > 0 => {
            let _ = writeln!(out, "0 of {} cycles took longer than {above}", found.cycles);
        }
        (Some(above), Some(longest)) => {
            let line = format!(
                "{} of {} cycles took longer than {above}: {}",
                found.worst.len(),
                found.cycles,
                headline(longest)
            );
            push_wrapped(&mut out, &line, columns, (0, 2));
        }
        (None, Some(longest)) => push_wrapped(&mut out, &headline(longest), columns, (0, 2)),
        (_, None) => out.push_str("the run has no complete cycle\n"),
    }
    if found
        .above_ns
        .is_some_and(|above| above < found.complete_above_ns)
    {
        let line = format!(
            "! the folder keeps only the longest cycles of each thread: cycles shorter than {} may \
             be missing from the list",
            found.complete_above_ns
        );
        push_wrapped(&mut out, &line, columns, (0, 2));
    }
    rows(&mut out, &found.threads, columns);
    for cycle in found.worst.iter().take(CYCLES_MAX) {
        story(&mut out, cycle, found.begin_ns, columns, usize::MAX);
    }
    if let Some(more) = found.worst.len().checked_sub(CYCLES_MAX)
        && more > 0
    {
        let _ = writeln!(out, "{more} more: --json lists all");
    }
    for chain in found.chains.iter().take(CHAINS_MAX) {
        push_wrapped(&mut out, &chain_words(chain), columns, (0, 2));
    }
    rules(&mut out, &found.loops, columns);
    for line in found
        .loops
        .iter()
        .take(1)
        .flat_map(|looped| not_broken(&looped.rules))
    {
        push_wrapped(&mut out, &line, columns, (2, 4));
    }
    out
}

/// Shows which rules for real-time loops the threads broke.
pub(super) fn rules(out: &mut String, loops: &[LoopRow], columns: usize) {
    for looped in loops.iter().take(LOOPS_MAX) {
        if broken(&looped.rules).next().is_none() {
            let line = format!("{} broke no rule of a real-time loop", loop_name(looped));
            push_wrapped(out, &line, columns, (0, 2));
            continue;
        }
        push_wrapped(out, &rules_head(looped), columns, (0, 2));
        for rule in broken(&looped.rules) {
            push_wrapped(out, &broken_head(rule), columns, (2, 4));
            push_wrapped(out, &format!("remedy: {}", rule.remedy), columns, (4, 6));
        }
    }
    if let Some(more) = loops.len().checked_sub(LOOPS_MAX)
        && more > 0
    {
        let _ = writeln!(
            out,
            "{more} more real-time threads: --json lists their rules"
        );
    }
}

/// Formats a chain, such as "irq eth0 -> recv/12 -> motor/14: 412 us, of which motor/14 waited 380
/// us for the CPU behind kworker/1:2/99; last link 380 us".
#[must_use]
pub fn chain_words(chain: &WakeUpChain) -> String {
    let first = match (&chain.origin, chain.is_longer) {
        (_, true) => "...".to_owned(),
        (Some(origin), false) => origin.clone(),
        (None, false) => "unknown".to_owned(),
    };
    let names = chain
        .links
        .iter()
        .map(|link| thread(&link.name, link.thread));
    let way: Vec<String> = [first].into_iter().chain(names).collect();
    let worst = chain
        .links
        .iter()
        .max_by_key(|link| link.waited_ns.max(link.took_ns));
    let of_which = worst.map_or_else(String::new, |link| {
        let name = thread(&link.name, link.thread);
        if link.took_ns > link.waited_ns {
            format!(
                ", of which {name} took {} from its start on the CPU until it woke the next thread",
                link.took_ns
            )
        } else {
            let behind = match link.behind.as_deref() {
                Some(IDLE) => ", which was idle".to_owned(),
                Some(by) => format!(" behind {by}"),
                None => String::new(),
            };
            format!(
                ", of which {name} waited {} for the CPU{behind}",
                link.waited_ns
            )
        }
    });
    let last = chain
        .links
        .last()
        .map_or(Nanos::ZERO, |link| link.waited_ns);
    let way = way.join(" -> ");
    format!("{way}: {}{of_which}; last link {last}", chain.latency_ns)
}

/// Returns a sentence about the largest part of a cycle.
#[must_use]
pub fn headline(cycle: &Cycle) -> String {
    let shares = cycle.shares;
    let (response, name) = (cycle.response_ns, thread(&cycle.name, cycle.thread));
    let largest = |kind: StretchKind| {
        cycle
            .stretches
            .iter()
            .filter(|stretch| stretch.kind == kind)
            .max_by_key(|stretch| stretch.length_ns)
    };
    let most = [
        shares.wake_up_ns,
        shares.running_ns,
        shares.preempted_ns,
        shares.blocked_ns,
    ]
    .into_iter()
    .max()
    .unwrap_or_default();
    if most == shares.blocked_ns
        && let Some(stretch) = largest(StretchKind::Blocked)
    {
        format!(
            "the longest cycle of {name} took {response}; the thread was blocked for {} of it: {}",
            shares.blocked_ns,
            words(stretch)
        )
    } else if most == shares.preempted_ns
        && let Some(stretch) = largest(StretchKind::Preempted)
    {
        format!(
            "the longest cycle of {name} took {response}; the thread was preempted for {} of it: {}",
            shares.preempted_ns,
            words(stretch)
        )
    } else if most == shares.running_ns {
        format!(
            "the longest cycle of {name} took {response}; the thread ran for {} of it",
            shares.running_ns
        )
    } else {
        format!(
            "the longest cycle of {name} took {response}, with a wake-up latency of {}",
            shares.wake_up_ns
        )
    }
}

fn thread(name: &str, number: i32) -> String {
    format!("{name}/{number}")
}

/// Describes an interval, for example "3.02 ms in fsync (folio_wait_bit_common), until kworker/1:2
/// woke it up".
fn words(stretch: &Stretch) -> String {
    let length = stretch.length_ns;
    let by = stretch.by.as_deref();
    match (stretch.kind, &stretch.place) {
        (StretchKind::Blocked, Some(place)) => {
            let by = by.map_or_else(String::new, |by| format!(", until {by} woke it up"));
            format!("{length} in {} ({}){by}", place.call, place.function)
        }
        // The text names the thread, but not as the cause, because a late timer interrupt may have
        // caused a part of the interval.
        (StretchKind::WakeUp, _) => match (by, stretch.by_ns) {
            (Some(IDLE), Some(idle)) if idle < length => {
                format!("{length}; the CPU was idle for {idle}")
            }
            (Some(by), Some(had)) if had < length => {
                format!("{length}; {by} had the CPU for {had}")
            }
            (Some(IDLE), _) => format!("{length}; the CPU was idle"),
            (Some(by), _) => format!("{length}; {by} had the CPU"),
            (None, _) => format!("{length} behind unknown threads"),
        },
        _ => match (by, stretch.by_ns) {
            (Some(IDLE), Some(idle)) if idle < length => {
                format!("{length}, of which the CPU was idle for {idle}")
            }
            (Some(by), Some(had)) if had < length => {
                format!("{length}, of which {by} had the CPU for {had}")
            }
            (Some(IDLE), _) => format!("{length} on an idle CPU"),
            (Some(by), _) => format!("{length} behind {by}"),
            (None, _) => format!("{length} behind unknown threads"),
        },
    }
}

/// Headings of the columns that [`cells`] returns.
pub(super) const HEAD: [&str; 9] = [
    "cycles of",
    "cycles",
    "median",
    "99 %",
    "max",
    "sum wake-up",
    "sum running",
    "sum preempted",
    "sum blocked",
];

/// Returns the cells with the response times of a thread and the totals of their parts.
pub(super) fn cells(row: &CycleRow) -> [String; HEAD.len()] {
    [
        thread(&row.name, row.thread),
        row.cycles.to_string(),
        row.median_ns.to_string(),
        row.p99_ns.to_string(),
        row.max_ns.to_string(),
        row.sum.wake_up_ns.to_string(),
        row.sum.running_ns.to_string(),
        row.sum.preempted_ns.to_string(),
        row.sum.blocked_ns.to_string(),
    ]
}

/// Describes the sleeps inside cycles. Each of the first [`PLACES_MAX`] places at which the thread
/// waited has a line, and all other places share one, so the lines add up to all sleeps.
pub(super) fn blocked_lines(row: &CycleRow) -> Vec<String> {
    let shown = row.blocked_in.len().min(PLACES_MAX);
    let (places, rest) = row.blocked_in.split_at(shown);
    let place = |place: &PlaceRow| {
        let WaitPlace { call, function } = &place.place;
        let at = format!("{call} ({function})");
        blocked_words(&at, place.sleeps, place.sum_ns, place.max_ns)
    };
    let mut lines: Vec<String> = places.iter().map(place).collect();
    let others = rest
        .iter()
        .fold(row.other_places, |others, place| OtherPlaces {
            sleeps: others.sleeps + place.sleeps,
            sum_ns: others.sum_ns.saturating_add(place.sum_ns),
            max_ns: others.max_ns.max(place.max_ns),
        });
    if others.sleeps > 0 {
        let OtherPlaces {
            sleeps,
            sum_ns,
            max_ns,
        } = others;
        lines.push(blocked_words("other places", sleeps, sum_ns, max_ns));
    }
    lines
}

fn blocked_words(place: &str, sleeps: u64, sum: Nanos, max: Nanos) -> String {
    format!("blocked in {place}: {sleeps} times, {sum} in all, {max} at most")
}

/// Names the place at which the thread waits between cycles.
pub(super) fn ends_in(place: &WaitPlace) -> String {
    format!("cycles end in {} ({})", place.call, place.function)
}

/// Writes the response times of each thread, and the places at which the first thread waited.
pub(super) fn rows(out: &mut String, threads: &[CycleRow], columns: usize) {
    if threads.is_empty() {
        return;
    }
    let mut table = Table::new(HEAD);
    for row in threads.iter().take(ROWS_MAX) {
        table.row(cells(row));
    }
    let importance = ["max", "sum blocked", "sum preempted", "cycles", "median"];
    out.push_str(&table.chosen(columns, &importance));
    if let Some(more) = threads.len().checked_sub(ROWS_MAX)
        && more > 0
    {
        let _ = writeln!(out, "{more} more, with shorter cycles");
    }
    for row in threads.iter().take(1) {
        for line in blocked_lines(row) {
            push_wrapped(out, &line, columns, (0, 2));
        }
        if let Some(place) = &row.ends_in {
            push_wrapped(out, &ends_in(place), columns, (0, 2));
        }
    }
}

/// Writes one cycle: its total, and its longest intervals in chronological order.
pub(super) fn story(
    out: &mut String,
    cycle: &Cycle,
    begin: Nanos,
    columns: usize,
    stretches: usize,
) {
    push_wrapped(out, &story_words(cycle, begin), columns, (0, 2));
    let mut shown: Vec<&Stretch> = cycle.stretches.iter().collect();
    shown.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
    shown.truncate(stretches);
    shown.sort_by_key(|stretch| stretch.at_ns);
    for stretch in shown {
        push_wrapped(out, &stretch_words(stretch), columns, (2, 4));
    }
    if let Some(line) = left_out_words(cycle).filter(|_| cycle.stretches.len() <= stretches) {
        push_wrapped(out, &line, columns, (2, 4));
    }
}

/// Counts the intervals of a cycle that are not stored; `None` if all are stored.
pub(super) fn left_out_words(cycle: &Cycle) -> Option<String> {
    (cycle.left_out > 0).then(|| {
        format!(
            "{} shorter intervals, {} in all, are not listed",
            cycle.left_out, cycle.left_out_ns
        )
    })
}

/// Returns the response time of a cycle as the sum of its parts.
pub(super) fn story_words(cycle: &Cycle, begin: Nanos) -> String {
    let shares = cycle.shares;
    format!(
        "{} at {:.6} s: {} = {} wake-up + {} running + {} preempted + {} blocked",
        thread(&cycle.name, cycle.thread),
        (cycle.begin_ns - begin).as_secs_f64(),
        cycle.response_ns,
        shares.wake_up_ns,
        shares.running_ns,
        shares.preempted_ns,
        shares.blocked_ns
    )
}

/// Describes an interval of a cycle, with its start.
pub(super) fn stretch_words(stretch: &Stretch) -> String {
    let kind = match stretch.kind {
        StretchKind::WakeUp => "waited",
        StretchKind::Preempted => "preempted",
        StretchKind::Blocked => "blocked",
    };
    format!("at {}: {kind} {}", stretch.at_ns, words(stretch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_results::explain::cycles::Shares;

    fn cycle(shares: Shares, kind: StretchKind, by: Option<(&str, i64)>) -> Cycle {
        let place = (kind == StretchKind::Blocked).then(|| WaitPlace {
            call: "fsync".to_owned(),
            function: "folio_wait_bit_common".to_owned(),
        });
        Cycle {
            thread: 7,
            name: "loop".to_owned(),
            begin_ns: Nanos(1_500_000_000),
            response_ns: shares.sum(),
            shares,
            stretches: vec![Stretch {
                kind,
                at_ns: Nanos(100_000),
                length_ns: Nanos(3_000_000),
                place,
                by: by.map(|(by, _)| by.to_owned()),
                by_ns: by.map(|(_, length)| Nanos(length)),
            }],
            left_out: 0,
            left_out_ns: Nanos::ZERO,
        }
    }

    #[test]
    fn the_headline_names_what_took_the_most_of_the_cycle() {
        let mut shares = Shares {
            wake_up_ns: Nanos(60_000),
            running_ns: Nanos(40_000),
            preempted_ns: Nanos(0),
            blocked_ns: Nanos(3_000_000),
        };
        assert_eq!(
            headline(&cycle(shares, StretchKind::Blocked, Some(("other/8", 0)))),
            "the longest cycle of loop/7 took 3.10 ms; the thread was blocked for 3.00 ms of it: \
             3.00 ms in fsync (folio_wait_bit_common), until other/8 woke it up"
        );
        std::mem::swap(&mut shares.blocked_ns, &mut shares.preempted_ns);
        let (all, most) = (3_000_000, 2_000_000);
        let wake_up = cycle(shares, StretchKind::WakeUp, Some(("other/8", most)));
        assert_eq!(
            words(&wake_up.stretches[0]),
            "3.00 ms; other/8 had the CPU for 2.00 ms"
        );
        for (by, expected) in [
            (Some(("other/8", all)), "3.00 ms behind other/8"),
            (
                Some(("other/8", most)),
                "3.00 ms, of which other/8 had the CPU for 2.00 ms",
            ),
            (Some((IDLE, all)), "3.00 ms on an idle CPU"),
            (
                Some((IDLE, most)),
                "3.00 ms, of which the CPU was idle for 2.00 ms",
            ),
            (None, "3.00 ms behind unknown threads"),
        ] {
            assert_eq!(
                headline(&cycle(shares, StretchKind::Preempted, by)),
                format!(
                    "the longest cycle of loop/7 took 3.10 ms; the thread was preempted for 3.00 \
                     ms of it: {expected}"
                )
            );
        }
        shares.running_ns = Nanos(9_000_000);
        let ran = headline(&cycle(shares, StretchKind::Preempted, None));
        assert!(ran.ends_with("the thread ran for 9.00 ms of it"), "{ran}");
    }

    #[test]
    fn a_chain_names_the_thread_that_took_the_longest() {
        let link = |thread, waited, took| tardy_results::explain::cycles::ChainLink {
            thread,
            name: "t".to_owned(),
            waited_ns: Nanos(waited),
            behind: (waited > 100_000).then(|| "kworker/1:2/99".to_owned()),
            took_ns: Nanos(took),
        };
        let mut chain = WakeUpChain {
            begin_ns: Nanos(0),
            latency_ns: Nanos(412_000),
            origin: Some("irq eth0".to_owned()),
            links: vec![
                link(1, 6_000, 6_000),
                link(2, 380_000, 10_000),
                link(3, 10_000, 0),
            ],
            is_longer: false,
        };
        assert_eq!(
            chain_words(&chain),
            "irq eth0 -> t/1 -> t/2 -> t/3: 412 us, of which t/2 waited 380 us for the CPU behind \
             kworker/1:2/99; last link 10.0 us"
        );
        chain.links[0] = link(1, 6_000, 3_000_000);
        let words = chain_words(&chain);
        assert!(
            words.contains(
                "of which t/1 took 3.00 ms from its start on the CPU until it woke the next thread"
            ),
            "{words}"
        );
    }

    #[test]
    fn the_lines_of_blocked_time_add_up_to_all_sleeps() {
        let place = |number: i64| PlaceRow {
            place: WaitPlace {
                call: format!("call{number}"),
                function: "waits".to_owned(),
            },
            sleeps: 2,
            sum_ns: Nanos(number * 1_000_000),
            max_ns: Nanos(number * 600_000),
        };
        let mut row = CycleRow {
            thread: 7,
            name: "loop".to_owned(),
            cycles: 3,
            ends_in: None,
            median_ns: Nanos(1),
            p99_ns: Nanos(1),
            max_ns: Nanos(1),
            sum: Shares::default(),
            blocked_in: [9, 8, 7, 5, 4].map(place).to_vec(),
            other_places: OtherPlaces {
                sleeps: 30,
                sum_ns: Nanos(1_000_000),
                max_ns: Nanos(100_000),
            },
        };
        let lines = blocked_lines(&row);
        let head = "blocked in call9 (waits): 2 times, 9.00 ms in all, 5.40 ms at most";
        let rest = "blocked in other places: 34 times, 10.0 ms in all, 3.00 ms at most";
        assert_eq!((lines.len(), lines[0].as_str()), (4, head));
        assert_eq!(lines[3], rest);
        row.blocked_in.truncate(3);
        row.other_places = OtherPlaces::default();
        assert_eq!(blocked_lines(&row).len(), 3);
    }

    #[test]
    fn a_cycle_is_told_as_a_closed_sum() {
        let shares = Shares {
            wake_up_ns: Nanos(60_000),
            running_ns: Nanos(40_000),
            preempted_ns: Nanos(0),
            blocked_ns: Nanos(3_000_000),
        };
        let mut out = String::new();
        let mut cycle = cycle(shares, StretchKind::Blocked, Some(("other/8", 0)));
        cycle.left_out = 5;
        cycle.left_out_ns = Nanos(60);
        story(&mut out, &cycle, Nanos(1_000_000_000), 200, 3);
        assert_eq!(
            out,
            "loop/7 at 0.500000 s: 3.10 ms = 60.0 us wake-up + 40.0 us running + 0 preempted + \
             3.00 ms blocked\n  at 100 us: blocked 3.00 ms in fsync (folio_wait_bit_common), until \
             other/8 woke it up\n  5 shorter intervals, 60 ns in all, are not listed\n"
        );
    }
}
