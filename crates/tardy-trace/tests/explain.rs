//! Tests explained wake-ups in generated streams of known truth. The pieces must add up to the
//! latency, and must name the true holder of the CPU.

use std::collections::HashMap;

use proptest::prelude::*;
use tardy_trace::event::{Event, Head, Kind, Thread};
use tardy_trace::explain::{
    Cause, Certainty, Component, DueFrom, Explainer, Facts, Grid, Preemption, Target, WakeUp, Waker,
};
use tardy_trace::merge::Item;

const LOOP: i32 = 10;
const OTHER: i32 = 20;
const TIMER: u64 = 0xffff_8880;
const IN_INTERRUPT: u8 = 0x09;

fn thread(pid: i32) -> Thread {
    let (name, priority) = match pid {
        0 => ("swapper/0", 120),
        LOOP => ("my_loop", 19),
        OTHER => ("dd", 120),
        30 => ("motor", 9),
        _ => ("equal", 19),
    };
    Thread {
        pid,
        priority,
        name: name.into(),
    }
}

fn explain(facts: Facts, items: &[Item]) -> (Vec<WakeUp>, Explainer) {
    explain_on(None, facts, items)
}

fn explain_on(grid: Option<(i32, Grid)>, facts: Facts, items: &[Item]) -> (Vec<WakeUp>, Explainer) {
    let mut explainer = Explainer::new(
        Target::Names(vec!["my_loop".into()]),
        facts,
        &HashMap::new(),
    )
    .with_grids(grid);
    let mut found = Vec::new();
    for item in items {
        explainer.take(item);
        found.extend(explainer.finished());
    }
    (found, explainer)
}

/// A stream of events of one or two CPUs.
#[derive(Default)]
struct EventStream {
    items: Vec<Item>,
    cpu: u32,
    pid: i32,
    flags: u8,
    depth: u8,
}

impl EventStream {
    fn at(&mut self, time: u64, kind: Kind) -> &mut Self {
        let head = Head {
            flags: self.flags,
            preempt_count: self.depth,
            pid: self.pid,
        };
        self.items.push(Item::Event(Event {
            time,
            cpu: self.cpu,
            head,
            kind,
        }));
        if let Kind::Switch { next, .. } = kind {
            self.pid = next.pid;
        }
        self
    }

    fn switch(&mut self, time: u64, to: i32) -> &mut Self {
        let previous = thread(self.pid);
        self.at(
            time,
            Kind::Switch {
                previous,
                previous_state: 1,
                next: thread(to),
            },
        )
    }

    /// Creates a stream in which the loop sets its timer and then another thread gets the CPU.
    fn sleeping(due: i64, running: i32) -> Self {
        let mut made = Self {
            pid: LOOP,
            ..Self::default()
        };
        made.at(
            100,
            Kind::TimerStart {
                timer: TIMER,
                function: 1,
                expires: due,
                soft_expires: due,
                mode: Some(0),
            },
        );
        made.switch(200, running);
        made
    }

    /// Adds the timer interrupt that wakes the loop.
    fn timer_interrupt(&mut self, entry: u64, due: i64, depth: u8) -> &mut Self {
        (self.flags, self.depth) = (IN_INTERRUPT, depth);
        self.at(
            entry,
            Kind::VectorEntry {
                name: "local_timer".into(),
            },
        );
        self.at(
            entry + 1_000,
            Kind::TimerExpireEntry {
                timer: TIMER,
                function: 1,
                now: due.max(i64::try_from(entry).expect("times of these tests are small")),
            },
        );
        self.at(
            entry + 1_500,
            Kind::Waking {
                thread: thread(LOOP),
                target_cpu: 0,
            },
        );
        self.at(entry + 2_000, Kind::TimerExpireExit { timer: TIMER });
        self.at(
            entry + 3_000,
            Kind::VectorExit {
                name: "local_timer".into(),
            },
        );
        (self.flags, self.depth) = (0, 0);
        self
    }
}

fn told(wake_up: &WakeUp) -> Vec<(Component, Cause, &str, Certainty, u64)> {
    wake_up
        .pieces
        .iter()
        .map(|piece| {
            (
                piece.component,
                piece.holder.cause,
                piece.holder.name.as_str(),
                piece.known,
                piece.length(),
            )
        })
        .collect()
}

#[test]
fn an_interval_is_cut_at_the_marks_and_by_holder() {
    let mut made = EventStream::sleeping(1_000_000, OTHER);
    made.timer_interrupt(1_002_000, 1_000_000, 0)
        .switch(1_007_000, LOOP);
    let (found, _) = explain(Facts::default(), &made.items);
    assert_eq!(found.len(), 1);
    let wake_up = &found[0];
    assert_eq!(
        (
            wake_up.due,
            wake_up.due_from,
            wake_up.waker,
            wake_up.lateness()
        ),
        (1_000_000, DueFrom::Timer, Waker::Timer(1), 7_000)
    );
    assert_eq!(
        told(wake_up),
        [
            (
                Component::Timer,
                Cause::InterruptsOff,
                "dd",
                Certainty::CannotTell(Cause::LateInterrupt),
                2_000
            ),
            (
                Component::Interrupt,
                Cause::Interrupt,
                "local_timer",
                Certainty::Seen,
                1_000
            ),
            (
                Component::Expiry,
                Cause::Interrupt,
                "local_timer",
                Certainty::Seen,
                500
            ),
            (
                Component::Switch,
                Cause::Interrupt,
                "local_timer",
                Certainty::Seen,
                1_500
            ),
            (
                Component::Switch,
                Cause::Switch,
                "dd",
                Certainty::Inferred,
                2_000
            ),
        ]
    );
}

#[test]
fn a_grid_gives_due_times_where_the_trace_has_no_timer() {
    let mut made = EventStream {
        pid: OTHER,
        ..EventStream::default()
    };
    let wake = |made: &mut EventStream, entry: u64, waking: u64| {
        made.flags = IN_INTERRUPT;
        made.at(
            entry,
            Kind::VectorEntry {
                name: "local_timer".into(),
            },
        );
        made.at(
            waking,
            Kind::Waking {
                thread: thread(LOOP),
                target_cpu: 0,
            },
        );
        made.at(
            waking + 500,
            Kind::VectorExit {
                name: "local_timer".into(),
            },
        );
        made.flags = 0;
        made.switch(waking + 1_000, LOOP)
            .switch(waking + 2_000, OTHER);
    };
    wake(&mut made, 1_001_000, 1_002_000);
    // The second wake-up in a period does not count as the periodic one.
    wake(&mut made, 1_101_000, 1_102_000);
    wake(&mut made, 3_004_000, 3_005_000);
    let grid = Grid {
        origin: 1_000_000,
        period_ns: 1_000_000.0,
    };
    let (found, _) = explain_on(Some((LOOP, grid)), Facts::default(), &made.items);
    let marks: Vec<_> = found
        .iter()
        .map(|wake_up| {
            (
                wake_up.due,
                wake_up.due_from,
                wake_up.interrupt,
                wake_up.lateness(),
            )
        })
        .collect();
    assert_eq!(
        marks,
        [
            (1_000_000, DueFrom::Period, Some(1_001_000), 3_000),
            (1_102_000, DueFrom::Waking, None, 1_000),
            (3_000_000, DueFrom::Period, Some(3_004_000), 6_000),
        ]
    );
    sums_are_whole(&found);
    // A thread with another ID has no grid, and its timers are ignored.
    let (found, _) = explain_on(Some((OTHER, grid)), Facts::default(), &made.items);
    assert!(
        found
            .iter()
            .all(|wake_up| wake_up.due_from == DueFrom::Waking)
    );
}

#[test]
fn a_due_time_of_a_period_that_is_no_whole_number_is_its_own() {
    let grid = Grid {
        origin: 500,
        period_ns: 1_000.4,
    };
    // Due times are rounded to whole ns. A due time that was rounded down still belongs to its own
    // period, although it is before the exact start of this period.
    for place in 0..1_000_i64 {
        let due = 500 + (place as f64 * 1_000.4).round() as u64;
        assert_eq!(grid.last_due(due), (place, due));
        assert_eq!(grid.last_due(due + 900), (place, due));
    }
    // The grid also extends to times before its origin.
    assert_eq!(
        Grid {
            origin: 5_000,
            period_ns: 1_000.0
        }
        .last_due(3_900),
        (-2, 3_000)
    );
}

/// Returns the cause, the name and the certainty of the longest piece of the first wake-up.
fn longest(facts: Facts, made: &EventStream) -> (Cause, String, Certainty) {
    let (found, _) = explain(facts, &made.items);
    let piece = found[0]
        .pieces
        .iter()
        .max_by_key(|piece| piece.length())
        .copied()
        .expect("there are pieces");
    (
        piece.holder.cause,
        piece.holder.name.to_string(),
        piece.known,
    )
}

#[test]
fn a_thread_that_goes_on_is_told_by_what_the_interrupt_found() {
    let cases = [
        (1, None, Cause::PreemptionOff, Certainty::Inferred),
        (
            0,
            Some(Preemption::No),
            Cause::KernelCode,
            Certainty::Inferred,
        ),
        (
            0,
            Some(Preemption::Full),
            Cause::Switch,
            Certainty::Inferred,
        ),
        (
            0,
            None,
            Cause::KernelCode,
            Certainty::CannotTell(Cause::PreemptionOff),
        ),
    ];
    for (depth, preemption, cause, known) in cases {
        let mut made = EventStream::sleeping(1_000_000, OTHER);
        made.timer_interrupt(1_002_000, 1_000_000, depth)
            .switch(1_500_000, LOOP);
        assert_eq!(
            longest(
                Facts {
                    preemption,
                    ..Facts::default()
                },
                &made
            ),
            (cause, "dd".to_owned(), known),
            "depth {depth}, {preemption:?}"
        );
    }
}

#[test]
fn only_the_last_stretch_before_the_thread_runs_may_be_the_switch() {
    let mut made = EventStream::sleeping(1_000_000, OTHER);
    made.timer_interrupt(1_000_000, 1_000_000, 1);
    // Another interrupt 4 us later, while preemption is still off.
    (made.flags, made.depth) = (IN_INTERRUPT, 1);
    made.at(
        1_007_000,
        Kind::IrqEntry {
            irq: 7,
            name: "eth0".into(),
        },
    )
    .at(
        1_009_000,
        Kind::IrqExit {
            irq: 7,
            returned: 1,
        },
    );
    (made.flags, made.depth) = (0, 0);
    made.switch(1_100_000, LOOP);
    let (found, _) = explain(Facts::default(), &made.items);
    let after_waking: Vec<_> = told(&found[0])
        .into_iter()
        .filter(|piece| piece.0 == Component::Switch)
        .map(|piece| (piece.1, piece.4))
        .collect();
    assert_eq!(
        after_waking,
        [
            (Cause::Interrupt, 1_500),
            (Cause::PreemptionOff, 4_000),
            (Cause::Interrupt, 2_000),
            (Cause::PreemptionOff, 91_000)
        ]
    );
}

#[test]
fn threads_are_told_by_their_priority() {
    for (pid, cause) in [(30, Cause::HigherPriority), (31, Cause::EqualPriority)] {
        let mut made = EventStream::sleeping(1_000_000, pid);
        made.timer_interrupt(1_002_000, 1_000_000, 0)
            .switch(1_500_000, LOOP);
        assert_eq!(
            longest(Facts::default(), &made),
            (cause, thread(pid).name.to_string(), Certainty::Seen)
        );
    }
    let mut made = EventStream::sleeping(1_000_000, 30);
    made.timer_interrupt(1_002_000, 1_000_000, 0)
        .switch(1_100_000, OTHER)
        .switch(1_900_000, LOOP);
    assert_eq!(
        longest(Facts::default(), &made),
        (Cause::FairServer, "dd".to_owned(), Certainty::Inferred),
        "it was switched to while the loop waited"
    );
}

#[test]
fn a_late_interrupt_is_told_from_interrupts_off_by_events_that_found_them_on() {
    let late = |event: bool| {
        let mut made = EventStream::sleeping(1_000_000, OTHER);
        if event {
            made.at(1_300_000, Kind::Other);
        }
        made.timer_interrupt(1_400_000, 1_000_000, 0)
            .switch(1_405_000, LOOP);
        longest(
            Facts {
                is_guest: Some(false),
                ..Facts::default()
            },
            &made,
        )
    };
    assert_eq!(
        late(false),
        (Cause::InterruptsOff, "dd".to_owned(), Certainty::Inferred)
    );
    assert_eq!(
        late(true),
        (Cause::LateInterrupt, String::new(), Certainty::Inferred)
    );
}

#[test]
fn a_softirq_and_an_interrupt_before_the_switch_are_named() {
    let mut made = EventStream::sleeping(1_000_000, OTHER);
    made.timer_interrupt(1_002_000, 1_000_000, 0).flags = 0x10;
    made.at(1_010_000, Kind::SoftirqEntry { vector: 3 })
        .at(1_300_000, Kind::SoftirqExit { vector: 3 });
    made.flags = 0;
    made.switch(1_301_000, LOOP);
    assert_eq!(
        longest(Facts::default(), &made),
        (Cause::Softirq, "NET_RX".to_owned(), Certainty::Seen)
    );
}

#[test]
fn a_softirq_whose_end_is_not_recorded_ends_with_the_flag_of_the_next_event() {
    let mut made = EventStream::sleeping(1_000_000, 30);
    made.timer_interrupt(1_002_000, 1_000_000, 0).flags = 0x10;
    made.at(1_010_000, Kind::SoftirqEntry { vector: 3 });
    made.flags = 0;
    made.at(1_020_000, Kind::Other).switch(1_301_000, LOOP);
    assert_eq!(
        longest(Facts::default(), &made),
        (Cause::HigherPriority, "motor".to_owned(), Certainty::Seen)
    );
}

#[test]
fn softirqs_of_two_threads_on_a_cpu_do_not_end_each_other() {
    // On PREEMPT_RT, threads serve softirqs, and no flag marks their events. From Linux 6.18 on, a
    // thread may be preempted while it serves a softirq, and a second thread of the same CPU may
    // then serve another softirq.
    let mut made = EventStream::sleeping(1_000_000, 30);
    made.at(500_000, Kind::SoftirqEntry { vector: 3 })
        .switch(600_000, OTHER)
        .at(700_000, Kind::SoftirqEntry { vector: 1 })
        .at(800_000, Kind::SoftirqExit { vector: 1 });
    made.timer_interrupt(1_002_000, 1_000_000, 0)
        .switch(1_010_000, 30)
        .at(1_300_000, Kind::SoftirqExit { vector: 3 })
        .switch(1_301_000, LOOP);
    assert_eq!(
        longest(Facts::default(), &made),
        (Cause::Softirq, "NET_RX".to_owned(), Certainty::Seen)
    );
}

#[test]
fn an_interrupt_behind_the_last_handler_makes_no_softirq_of_what_follows() {
    let mut made = EventStream::sleeping(1_000_000, OTHER);
    made.timer_interrupt(1_002_000, 1_000_000, 0).flags = 0x10;
    made.at(1_010_000, Kind::SoftirqEntry { vector: 3 })
        .at(1_020_000, Kind::SoftirqExit { vector: 3 });
    made.at(1_021_000, Kind::Other).flags = 0;
    made.switch(1_301_000, LOOP);
    assert_ne!(longest(Facts::default(), &made).0, Cause::Softirq);
}

#[test]
fn interrupts_without_events_of_their_own_are_told_by_the_flags_of_others() {
    let mut made = EventStream::sleeping(1_000_000, OTHER);
    made.timer_interrupt(1_002_000, 1_000_000, 0);
    made.items.retain(|item| {
        !matches!(
            item,
            Item::Event(Event {
                kind: Kind::VectorEntry { .. } | Kind::VectorExit { .. },
                ..
            })
        )
    });
    made.switch(1_007_000, LOOP);
    let (found, _) = explain(Facts::default(), &made.items);
    assert_eq!(found[0].interrupt, None);
    assert!(
        told(&found[0]).contains(&(
            Component::Expiry,
            Cause::Interrupt,
            "",
            Certainty::Inferred,
            500
        )),
        "{:?}",
        told(&found[0])
    );
}

#[test]
fn a_wake_up_that_spans_lost_events_has_no_latency() {
    let lost = Item::Lost {
        cpu: 1,
        time: 1_400_000,
        count: Some(9),
    };
    for is_lost in [false, true] {
        let mut made = EventStream::sleeping(1_000_000, OTHER);
        made.timer_interrupt(1_002_000, 1_000_000, 0);
        made.items.extend(is_lost.then_some(lost));
        made.switch(1_500_000, LOOP);
        let (found, explainer) = explain(Facts::default(), &made.items);
        assert_eq!(
            (found.len(), explainer.unfinished()),
            if is_lost { (0, 1) } else { (1, 0) }
        );
    }
}

#[test]
fn where_the_switch_is_not_traced_the_lateness_is_a_lower_bound() {
    let mut made = EventStream::sleeping(1_000_000, 0);
    made.timer_interrupt(1_002_000, 1_000_000, 1);
    made.pid = LOOP;
    made.at(
        1_090_000,
        Kind::TimerStart {
            timer: TIMER,
            function: 1,
            expires: 2_000_000,
            soft_expires: 2_000_000,
            mode: Some(1),
        },
    );
    made.switch(1_091_000, 0)
        .timer_interrupt(2_002_000, 2_000_000, 1)
        .switch(2_010_000, LOOP);
    let (found, explainer) = explain(Facts::default(), &made.items);
    assert_eq!(
        (found[0].ran, found[0].first_sign),
        (1_005_000, Some(1_090_000))
    );
    assert_eq!((found[1].ran, found[1].first_sign), (2_010_000, None));
    assert_eq!(explainer.rules().sleeps_relative, 1);
}

#[test]
fn timer_slack_is_the_threads_own() {
    let mut made = EventStream {
        pid: LOOP,
        ..EventStream::default()
    };
    made.at(
        100,
        Kind::TimerStart {
            timer: TIMER,
            function: 1,
            expires: 1_050_000,
            soft_expires: 1_000_000,
            mode: Some(0),
        },
    )
    .switch(200, OTHER);
    made.timer_interrupt(1_052_000, 1_000_000, 0)
        .switch(1_057_000, LOOP);
    let (found, _) = explain(Facts::default(), &made.items);
    assert_eq!(
        told(&found[0])[0],
        (Component::Timer, Cause::Slack, "", Certainty::Seen, 50_000)
    );
}

#[test]
fn a_waker_of_lower_priority_and_page_faults_are_counted() {
    let mut made = EventStream {
        pid: LOOP,
        ..EventStream::default()
    };
    made.switch(100, OTHER);
    made.at(
        500,
        Kind::PageFault {
            is_user: true,
            address: 1,
        },
    );
    made.at(
        1_000,
        Kind::Waking {
            thread: thread(LOOP),
            target_cpu: 0,
        },
    )
    .switch(3_000, LOOP);
    made.at(
        3_100,
        Kind::PageFault {
            is_user: true,
            address: 1,
        },
    );
    let (found, explainer) = explain(Facts::default(), &made.items);
    assert_eq!(
        (found[0].due, found[0].due_from, found[0].waker),
        (1_000, DueFrom::Waking, Waker::Thread(thread(OTHER)))
    );
    assert_eq!(
        explainer.rules().woken_by_lower.get(&("dd".into(), 120)),
        Some(&1)
    );
    assert_eq!(
        explainer.rules().page_faults_user,
        1,
        "that of another thread is not counted"
    );
}

fn sums_are_whole(found: &[WakeUp]) {
    for wake_up in found {
        let mut at = wake_up.due;
        for piece in &wake_up.pieces {
            assert_eq!(piece.start, at, "a gap in {wake_up:?}");
            assert!(piece.end > piece.start, "an empty piece in {wake_up:?}");
            at = piece.end;
        }
        assert_eq!(at, wake_up.ran, "{wake_up:?}");
    }
}

/// Generates any event. There are only few threads, timers and CPUs, so that many events concern
/// the same ones.
fn kind() -> impl Strategy<Value = Kind> {
    let pid = prop::sample::select(vec![0, LOOP, OTHER, 30, 31]);
    prop_oneof![
        (pid.clone(), pid.clone()).prop_map(|(previous, next)| Kind::Switch {
            previous: thread(previous),
            previous_state: 0,
            next: thread(next)
        }),
        (0_u32..3).prop_map(|target_cpu| Kind::Waking {
            thread: thread(LOOP),
            target_cpu
        }),
        (pid, 0_u32..3).prop_map(|(pid, to_cpu)| Kind::Migrate { pid, to_cpu }),
        Just(Kind::VectorEntry {
            name: "local_timer".into()
        }),
        Just(Kind::VectorExit {
            name: "local_timer".into()
        }),
        (0_i64..12).prop_map(|vector| Kind::SoftirqEntry { vector }),
        (0_i64..12).prop_map(|vector| Kind::SoftirqExit { vector }),
        (0_i64..12).prop_map(|vector| Kind::SoftirqRaise { vector }),
        (any::<i64>(), any::<i64>()).prop_map(|(expires, soft_expires)| Kind::TimerStart {
            timer: TIMER,
            function: 1,
            expires,
            soft_expires,
            mode: None
        }),
        // A slack of a few ns is as likely as a longer one, so that the test would notice if such a
        // short slack were lost.
        (0_i64..2_000, prop_oneof![0_i64..6, 0_i64..2_000]).prop_map(|(soft_expires, slack)| {
            Kind::TimerStart {
                timer: TIMER,
                function: 1,
                expires: soft_expires + slack,
                soft_expires,
                mode: Some(1),
            }
        }),
        prop_oneof![any::<i64>(), 0_i64..2_000].prop_map(|now| Kind::TimerExpireEntry {
            timer: TIMER,
            function: 1,
            now
        }),
        Just(Kind::TimerExpireExit { timer: TIMER }),
        prop_oneof![any::<i64>(), 0_i64..2_000].prop_map(|took| Kind::Nmi { took }),
        Just(Kind::Other),
    ]
}

proptest! {
    #[test]
    fn the_sum_of_pieces_is_the_lateness_whatever_the_trace_says(
        events in proptest::collection::vec((kind(), 0_u64..100, 0_u32..3, any::<u8>(), any::<u8>(), prop::sample::select(vec![0, LOOP, OTHER, 30]), 0_u8..20), 0..150),
        is_monotonic in any::<bool>(),
        grid in proptest::option::of((any::<u64>(), 0_u64..3_000, prop_oneof![1.0..500.0, Just(1.0), Just(1e18)], any::<bool>())),
    ) {
        let mut time = 0;
        let items: Vec<Item> = events.into_iter().map(|(kind, gap, cpu, flags, preempt_count, pid, lost)| {
            time += gap;
            if lost == 0 {
                return Item::Lost { cpu, time, count: None };
            }
            Item::Event(Event { time, cpu, head: Head { flags, preempt_count, pid }, kind })
        }).collect();
        let grids = grid.map(|(far, near, period_ns, is_far)| (LOOP, Grid { origin: if is_far { far } else { near }, period_ns }));
        let (found, _) = explain_on(grids, Facts { is_monotonic, ..Facts::default() }, &items);
        sums_are_whole(&found);
    }
}
