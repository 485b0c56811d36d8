//! The result of `tardy attach` as text: the latencies of each thread and their parts, the outcomes
//! of its timers and wake-ups, and the worst wake-ups.

use std::fmt::Write as _;

use tardy_core::units::Nanos;
use tardy_results::attach::{AttachEnd, AttachResult, Figures, KindCounts, ThreadRow};
use tardy_trace::timers::TimerClock;
use tardy_trace::wake_ups::Parts;

use super::cycles_text;
use super::screen::push_wrapped;
use super::summary_text::word;
use super::table::Table;

/// Maximum number of threads in a table. One more line gives the number of further threads.
const ROWS_MAX: usize = 16;
/// Number of threads for which the parts of the latency are shown.
const PARTS_MAX: usize = 4;
/// Column headings of the parts, in the order of [`Parts::NAMES`].
const PARTS: [&str; Parts::NAMES.len()] = ["set late", "slack", "timer", "waking", "switch"];

/// Returns the result as text, in lines of at most `columns`.
#[must_use]
pub fn text(result: &AttachResult, columns: usize) -> String {
    let mut out = String::new();
    cycle_headline(&mut out, result, columns);
    head(&mut out, result, columns);
    for note in &result.notes {
        let _ = writeln!(out, "! {note}");
    }
    cycles_text::rows(&mut out, &result.cycles.threads, columns);
    if let Some(longest) = result.cycles.worst.first() {
        let shown = cycles_text::STRETCHES_OF_SCREEN;
        cycles_text::story(&mut out, longest, result.begin_ns, columns, shown);
    }
    if let Some(slowest) = result.cycles.chains.first() {
        let words = cycles_text::chain_words(slowest);
        push_wrapped(&mut out, &words, columns, (0, 2));
    }
    cycles_text::rules(&mut out, &result.loops, columns);
    if let Some(all) = result.all {
        out.push_str(&threads(result, all, columns));
        parts(&mut out, result, columns);
    }
    timers(&mut out, result, columns);
    worst(&mut out, result, columns);
    if let Some(folder) = &result.folder {
        let _ = writeln!(
            out,
            "next: tardy explain {folder} | tardy plot {folder} --kind ccdf -o tail.svg"
        );
    }
    out
}

/// If the time for which the longest cycle was blocked exceeds the largest wake-up latency, writes
/// a sentence about the largest part of this cycle.
fn cycle_headline(out: &mut String, result: &AttachResult, columns: usize) {
    let worst_wake_up = result.all.map_or(Nanos::ZERO, |all| all.max_ns);
    if let Some(longest) = result
        .cycles
        .worst
        .first()
        .filter(|longest| longest.shares.blocked_ns > worst_wake_up)
    {
        push_wrapped(out, &cycles_text::headline(longest), columns, (0, 2));
    }
}

fn head(out: &mut String, result: &AttachResult, columns: usize) {
    let target = match &result.process {
        Some(process) => {
            let thread = process
                .thread
                .map_or_else(String::new, |thread| format!(", thread {thread}"));
            format!("process {} ({}){thread}", process.id, process.name)
        }
        None if result.threads_followed == 1 => "1 real-time thread".to_owned(),
        None => format!("{} real-time threads", result.threads_followed),
    };
    let end = match result.end {
        AttachEnd::Finished => "",
        AttachEnd::Interrupted => ", interrupted",
        AttachEnd::ProcessEnded => ", until the process exited",
        AttachEnd::TraceEnded => ", until the trace ended",
        AttachEnd::Threshold => ", until a miss",
    };
    let wake_ups = match (&result.functions, result.wake_ups) {
        (Some([from, to]), count) => format!(
            "{count} {} from {from} to {to}",
            if count == 1 { "time" } else { "times" }
        ),
        (None, 1) => "1 wake-up".to_owned(),
        (None, count) => format!("{count} wake-ups"),
    };
    let line = format!("{target}: {wake_ups} in {}{end}", result.length_ns);
    push_wrapped(out, &line, columns, (0, 2));
    if let Some(verdict) = &result.verdict {
        let _ = writeln!(out, "{}: {}", word(verdict.outcome), verdict.sentence);
    }
    if result.wake_ups == 0 {
        let why = if let (Some([from, to]), Some(marks)) = (&result.functions, result.cycles.marks)
        {
            &format!(
                "{from} was called {} times and {to} {} times, but no thread called {from} and \
                 then {to}: both calls must come from the same thread",
                marks.starts, marks.ends
            )
        } else if result.process.is_none() {
            "tardy saw no thread with a real-time policy wake up"
        } else {
            "tardy saw no thread of the program wake up: its threads do not wait, or wait for \
             longer than --for"
        };
        push_wrapped(out, why, columns, (0, 2));
    }
}

fn row_name(row: &ThreadRow) -> String {
    format!("{}/{}", row.name, row.thread)
}

fn threads(result: &AttachResult, all: Figures, columns: usize) -> String {
    let has_misses = result.verdict.is_some();
    let [what, count] = if result.functions.is_some() {
        ["time between", "times"]
    } else {
        ["latency", "wake-ups"]
    };
    let head = [what, "kind", count, "median", "99 %", "max"];
    let mut table = Table::new(head.into_iter().chain(has_misses.then_some("misses"))).words([1]);
    let mut row =
        |name: String, kind: &str, wake_ups: u64, figures: Figures, misses: Option<u64>| {
            let cells = [
                name,
                kind.to_owned(),
                wake_ups.to_string(),
                figures.median_ns.to_string(),
                figures.p99_ns.to_string(),
                figures.max_ns.to_string(),
            ];
            table.row(
                cells
                    .into_iter()
                    .chain(misses.map(|misses| misses.to_string())),
            );
        };
    for found in result.threads.iter().take(ROWS_MAX) {
        row(
            row_name(found),
            &found.kind,
            found.wake_ups,
            found.lateness,
            found.misses,
        );
    }
    if result.threads.len() > 1 {
        let misses = has_misses.then(|| result.threads.iter().filter_map(|row| row.misses).sum());
        row("all".to_owned(), "", result.wake_ups, all, misses);
    }
    let mut text = table.chosen(
        columns,
        &["max", "wake-ups", "kind", "median", "misses", "99 %"],
    );
    if let Some(more) = result
        .threads
        .len()
        .checked_sub(ROWS_MAX)
        .filter(|&more| more > 0)
    {
        let _ = writeln!(text, "{more} more, with lower latency");
    }
    text
}

fn parts(out: &mut String, result: &AttachResult, columns: usize) {
    // If the time between two functions was measured, the parts are shown together with the cycles.
    if result.functions.is_some() {
        return;
    }
    let mut table = Table::new(["median / max of each part"].into_iter().chain(PARTS));
    for row in result.threads.iter().take(PARTS_MAX) {
        let part = |name: &&str| {
            row.parts
                .iter()
                .find(|part| part.part == *name)
                .map(|part| part.figures)
        };
        let cell = |figures: Option<Figures>| match figures {
            Some(Figures {
                max_ns: Nanos(0),
                median_ns: Nanos(0),
                ..
            })
            | None => "-".to_owned(),
            Some(figures) => format!("{} / {}", figures.median_ns, figures.max_ns),
        };
        let name = if result.threads.len() > 1 {
            format!("{} {}", row_name(row), row.kind)
        } else {
            row_name(row)
        };
        table.row(
            [name]
                .into_iter()
                .chain(Parts::NAMES.iter().map(part).map(cell)),
        );
    }
    out.push_str(&table.chosen(columns, &["switch", "timer", "slack", "set late", "waking"]));
}

/// Writes how many calls of the two functions could not be measured, and why.
fn marks(out: &mut String, result: &AttachResult, columns: usize) {
    let (Some([from, to]), Some(marks)) = (&result.functions, result.cycles.marks) else {
        return;
    };
    let others = [
        (
            marks.restarts,
            format!("followed by another call of {from}"),
        ),
        (
            result.cycles.cut_off,
            format!("not followed by a call of {to}"),
        ),
    ];
    let others = others
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(", {count} {what}"));
    let mut line = format!(
        "{from}: called {} times, {} measured",
        marks.starts, result.wake_ups
    );
    line.extend(others);
    let _ = write!(line, "; {to}: called {} times", marks.ends);
    if marks.ends_without_start > 0 {
        let _ = write!(
            line,
            ", {} not preceded by a call of {from}",
            marks.ends_without_start
        );
    }
    push_wrapped(out, &line, columns, (0, 2));
}

fn timers(out: &mut String, result: &AttachResult, columns: usize) {
    if result.functions.is_some() {
        return marks(out, result, columns);
    }
    for KindCounts { timer, counts } in &result.timers {
        let ends = [
            (counts.wake_ups, "woke a thread"),
            (counts.cancelled, "cancelled before expiry"),
            (counts.unawaited, "expired without a waiter"),
            (counts.lost, "lost"),
            (counts.pending, "still set"),
        ];
        let ends: Vec<String> = ends
            .into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        push_wrapped(
            out,
            &format!(
                "{}: {} set: {}",
                timer.word(),
                counts.started,
                ends.join(", ")
            ),
            columns,
            (0, 2),
        );
    }
    let wakings = result.wakings;
    let ends = [
        (
            wakings.no_entry,
            "by an interrupt whose entry is not traced",
        ),
        (
            wakings.unknown_timer,
            "by a timer whose start is not traced",
        ),
        (wakings.lost, "lost"),
        (wakings.pending, "not running yet"),
    ];
    let ends: Vec<String> = ends
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !ends.is_empty() {
        let line = format!(
            "wake-ups: {}, of which {} measured; without a latency: {}",
            wakings.wakings,
            wakings.measured,
            ends.join(", ")
        );
        push_wrapped(out, &line, columns, (0, 2));
    }
}

fn worst(out: &mut String, result: &AttachResult, columns: usize) {
    if result.worst.is_empty() || result.functions.is_some() {
        return;
    }
    let head = ["worst at", "thread", "latency"]
        .into_iter()
        .chain(PARTS)
        .chain(["CPU", "woken by", "clock"]);
    let mut table = Table::new(head).words([1, 9]);
    for found in &result.worst {
        let part = |name: &str| match found.parts.get(name).copied().unwrap_or(0) {
            0 => "-".to_owned(),
            value => Nanos(value).to_string(),
        };
        let parts = Parts::NAMES.into_iter().map(part);
        let clock = found.clock.map_or("-", |clock| match clock {
            TimerClock::Monotonic => "monotonic",
            TimerClock::Realtime => "realtime",
            TimerClock::Boottime => "boottime",
            TimerClock::Tai => "tai",
            TimerClock::Set => "was set",
        });
        let by = found.by.as_ref().unwrap_or(&found.kind);
        let first = [
            format!("{:.6} s", found.at_ns.as_secs_f64()),
            format!("{}/{}", found.name, found.thread),
            found.lateness_ns.to_string(),
        ];
        table.row(first.into_iter().chain(parts).chain([
            found.cpu.to_string(),
            by.clone(),
            clock.to_owned(),
        ]));
    }
    out.push_str(&table.chosen(
        columns,
        &[
            "latency", "thread", "woken by", "switch", "timer", "waking", "slack", "set late",
            "CPU",
        ],
    ));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tardy_results::attach::{AttachFacts, AttachTrace, AttachedProcess, Tally};
    use tardy_samples::wake_up_kind::WakeUpKind;
    use tardy_trace::timers::{TimerCounts, TimerKind};
    use tardy_trace::wake_ups::{Cause, Start, WakeUp, WakingCounts};

    use super::*;

    fn found(threads: i32, wake_ups: i64) -> AttachResult {
        let mut tally = Tally::new(Some(Nanos(1_000_000)), None);
        for thread in 1..=threads {
            for place in 0..wake_ups {
                let parts = Parts {
                    timer: 10_000,
                    switch: 5_000 + place * 1_000,
                    ..Parts::default()
                };
                let (due, ran) = (place * 1_000_000, place * 1_001_000 + 15_000);
                let (kind, clock, start) = (TimerKind::Sleep, TimerClock::Realtime, Start::Switch);
                let wake_up = WakeUp {
                    thread,
                    cause: Cause::Timer { kind, clock },
                    cpu: 3,
                    due,
                    ran,
                    parts,
                    start,
                };
                tally.add(&wake_up, &WakeUpKind::Timer(kind));
            }
        }
        let wake_ups = u64::try_from(i64::from(threads) * wake_ups).unwrap();
        tally.result(AttachFacts {
            functions: None,
            process: Some(AttachedProcess {
                id: 1,
                name: "loop".into(),
                thread: None,
            }),
            end: AttachEnd::ProcessEnded,
            begin: Nanos::ZERO,
            length: Nanos(2_000_000_000),
            threads: usize::try_from(threads).unwrap(),
            names: (1..=threads)
                .map(|thread| (thread, format!("worker{thread}")))
                .collect::<BTreeMap<_, _>>(),
            counts: vec![(
                TimerKind::Sleep,
                TimerCounts {
                    started: wake_ups + 3,
                    wake_ups,
                    cancelled: 2,
                    pending: 1,
                    ..TimerCounts::default()
                },
            )],
            wakings: WakingCounts {
                wakings: wake_ups + 9,
                measured: wake_ups,
                no_entry: 7,
                pending: 2,
                ..WakingCounts::default()
            },
            other_wake_ups: 9,
            cycles: tardy_results::explain::cycles::Cycles::default(),
            no_stacks: None,
            trace: AttachTrace {
                events: 1,
                losses: 0,
                lost_events: 0,
                explanation_losses: 0,
                lost_explanations: 0,
                incomplete: None,
            },
            folder: Some("mine".into()),
        })
    }

    #[test]
    fn the_text_fits_the_screen_and_names_what_it_leaves_out() {
        let result = found(20, 5);
        for columns in [60, 80, 120] {
            let text = text(&result, columns);
            let is_wide = |line: &&str| {
                line.chars().count() > columns
                    && !line.starts_with("next:")
                    && !line.starts_with("PASSED")
            };
            assert_eq!(text.lines().find(is_wide), None, "{columns}:\n{text}");
            let start = text
                .split("\nPASSED: ")
                .next()
                .unwrap()
                .replace("\n  ", " ");
            assert_eq!(
                start,
                "process 1 (loop): 100 wake-ups in 2.00 s, until the process exited"
            );
            assert!(
                text.contains("\nall ") && text.contains("\n4 more, with lower latency\n"),
                "{text}"
            );
        }
        let text = text(&result, 120);
        assert!(
            text.contains(
                "sleep: 103 set: 100 woke a thread, 2 cancelled before expiry, 1 still set\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "wake-ups: 109, of which 100 measured; without a latency: 7 by an interrupt whose \
                 entry is not traced, 2 not running yet\n"
            ) && text.contains("realtime"),
            "{text}"
        );
        assert!(
            text.contains("10.0 us / 10.0 us") && text.contains("7.00 us / 9.00 us"),
            "{text}"
        );
    }

    #[test]
    fn a_program_without_a_wake_up_is_told_why() {
        let text = text(&found(0, 0), 80);
        assert!(
            text.contains("0 wake-ups in 2.00 s") && text.contains("INCONCLUSIVE: "),
            "{text}"
        );
        assert!(
            text.contains("tardy saw no thread of the program wake up: ")
                && !text.contains("\nlatency "),
            "{text}"
        );
    }
}
