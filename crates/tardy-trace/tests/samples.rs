//! Tests explanations of samples. Whatever the trace contains, the pieces must cover exactly the
//! interval from the due time to the clock read. Generated streams of known truth must be explained
//! correctly.

use std::collections::HashMap;

use proptest::prelude::*;
use tardy_trace::event::{Event, Head, Kind, Thread};
use tardy_trace::explain::{Cause, Certainty, Component, Delay, Facts, Piece, Samples, Waker};
use tardy_trace::merge::Item;

const PROBE: i32 = 10;
const OTHER: i32 = 20;
const MOTOR: i32 = 30;
const WAKER: i32 = 40;
const TIMER: u64 = 0xffff_8880;

fn thread(pid: i32) -> Thread {
    let (name, priority) = match pid {
        0 => ("swapper/0", 120),
        PROBE => ("cyclic/0", 19),
        OTHER => ("dd", 120),
        MOTOR => ("motor", 9),
        _ => ("waker", 20),
    };
    Thread {
        pid,
        priority,
        name: name.into(),
    }
}

/// A stream of events of one CPU.
struct EventStream {
    items: Vec<Item>,
    pid: i32,
    flags: u8,
}

impl EventStream {
    fn new(pid: i32) -> Self {
        Self {
            items: Vec::new(),
            pid,
            flags: 0,
        }
    }

    fn at(&mut self, time: u64, kind: Kind) -> &mut Self {
        let head = Head {
            flags: self.flags,
            preempt_count: 0,
            pid: self.pid,
        };
        self.items.push(Item::Event(Event {
            time,
            cpu: 0,
            head,
            kind,
        }));
        if let Kind::Switch { next, .. } = kind {
            self.pid = next.pid;
        }
        self
    }

    fn switch(&mut self, time: u64, to: i32) -> &mut Self {
        self.at(
            time,
            Kind::Switch {
                previous: thread(self.pid),
                previous_state: 1,
                next: thread(to),
            },
        )
    }

    fn waking(&mut self, time: u64) -> &mut Self {
        self.at(
            time,
            Kind::Waking {
                thread: thread(PROBE),
                target_cpu: 0,
            },
        )
    }

    fn timer_set(&mut self, time: u64, due: i64) -> &mut Self {
        self.at(
            time,
            Kind::TimerStart {
                timer: TIMER,
                function: 1,
                expires: due,
                soft_expires: due,
                mode: Some(0),
            },
        )
    }

    fn timer_interrupt(&mut self, entry: u64) -> &mut Self {
        self.flags = 0x09;
        let now = i64::try_from(entry).expect("times of these tests are small");
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
                now,
            },
        );
        self.waking(entry + 1_500);
        self.at(entry + 2_000, Kind::TimerExpireExit { timer: TIMER });
        self.at(
            entry + 3_000,
            Kind::VectorExit {
                name: "local_timer".into(),
            },
        );
        self.flags = 0;
        self
    }

    fn explain(&self, threads: &[i32], due: u64, woke: u64) -> Delay {
        let mut samples = Samples::new(Facts::default(), &HashMap::new());
        threads.iter().for_each(|&pid| samples.follow(pid));
        self.items.iter().for_each(|item| samples.take(item));
        let delay = samples.explain(threads, 0, due, woke);
        assert_covers(&delay, due, woke);
        delay
    }
}

fn assert_covers(delay: &Delay, due: u64, woke: u64) {
    let mut at = due;
    for piece in &delay.pieces {
        assert_eq!(piece.start, at, "{:?}", delay.pieces);
        assert!(piece.end > piece.start, "{:?}", delay.pieces);
        at = piece.end;
    }
    assert_eq!(at, woke, "{:?}", delay.pieces);
}

fn told(delay: &Delay) -> Vec<(Component, Cause, &str, Certainty, u64)> {
    let told = |piece: &'_ Piece| {
        (
            piece.component,
            piece.holder.cause,
            piece.known,
            piece.length(),
        )
    };
    let names = delay.pieces.iter().map(|piece| piece.holder.name.as_str());
    let with_name =
        |((component, cause, known, length), name)| (component, cause, name, known, length);
    delay
        .pieces
        .iter()
        .map(told)
        .zip(names)
        .map(with_name)
        .collect()
}

#[test]
fn a_timers_way_goes_on_to_the_clock_read() {
    let mut made = EventStream::new(PROBE);
    made.timer_set(100, 1_000_000)
        .switch(200, OTHER)
        .timer_interrupt(1_002_000)
        .switch(1_007_000, PROBE);
    let delay = made.explain(&[PROBE], 1_000_000, 1_009_000);
    assert_eq!(
        (delay.pid, delay.waker, delay.is_switch_seen),
        (Some(PROBE), Some(Waker::Timer(1)), true)
    );
    assert_eq!(
        told(&delay),
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
            (
                Component::Return,
                Cause::OwnCode,
                "",
                Certainty::Seen,
                2_000
            ),
        ]
    );
}

#[test]
fn a_timer_that_was_set_late_and_a_thread_that_took_the_cpu_are_parts_of_the_way() {
    let mut made = EventStream::new(PROBE);
    // The sample's due time lies 300 ns before the timer's, because the program read the clock
    // before it set the timer.
    made.timer_set(100, 1_000_300)
        .switch(200, OTHER)
        .timer_interrupt(1_000_400)
        .switch(1_004_000, PROBE);
    made.switch(1_005_000, MOTOR).switch(1_505_000, PROBE);
    let delay = made.explain(&[PROBE], 1_000_000, 1_506_000);
    let told = told(&delay);
    assert_eq!(
        told[0],
        (
            Component::Request,
            Cause::LaterTimer,
            "",
            Certainty::Seen,
            300
        )
    );
    assert!(
        told.contains(&(
            Component::Return,
            Cause::HigherPriority,
            "motor",
            Certainty::Seen,
            500_000
        )),
        "{told:?}"
    );
}

#[test]
fn a_thread_that_is_woken_by_another_one_has_the_wakers_way_first() {
    let mut made = EventStream::new(PROBE);
    made.switch(200, WAKER).waking(5_000).switch(7_000, PROBE);
    let delay = made.explain(&[PROBE, WAKER], 4_000, 8_000);
    assert_eq!(
        (delay.pid, delay.waker),
        (Some(PROBE), Some(Waker::Thread(thread(WAKER)))),
        "the one that ran at the clock read took it"
    );
    assert_eq!(
        told(&delay)[0],
        (
            Component::Waker,
            Cause::Waker,
            "waker",
            Certainty::Inferred,
            1_000
        )
    );
    assert_eq!(
        told(&delay).last(),
        Some(&(
            Component::Return,
            Cause::OwnCode,
            "",
            Certainty::Seen,
            1_000
        ))
    );
}

#[test]
fn a_switch_that_the_kernel_does_not_trace_is_one_piece_with_what_follows() {
    let mut made = EventStream::new(PROBE);
    made.timer_set(100, 1_000_000)
        .switch(200, 0)
        .timer_interrupt(1_002_000);
    // The thread's first event comes after its clock read, or not at all.
    let silent = made.explain(&[PROBE], 1_000_000, 1_009_000);
    made.pid = PROBE;
    made.timer_set(1_010_000, 2_000_000);
    let later = made.explain(&[PROBE], 1_000_000, 1_009_000);
    for delay in [silent, later] {
        assert!(!delay.is_switch_seen);
        let last = *told(&delay).last().expect("there are pieces");
        assert_eq!(
            last,
            (
                Component::SwitchAndReturn,
                Cause::OwnCode,
                "",
                Certainty::CannotTell(Cause::LeavingIdle),
                4_000
            )
        );
    }
}

#[test]
fn a_gap_of_a_thread_that_was_awake_is_cut_by_what_ran_in_it() {
    let mut made = EventStream::new(OTHER);
    made.switch(100, PROBE);
    made.flags = 0x09;
    made.at(
        5_000,
        Kind::VectorEntry {
            name: "local_timer".into(),
        },
    )
    .at(
        8_000,
        Kind::VectorExit {
            name: "local_timer".into(),
        },
    );
    made.flags = 0;
    made.switch(20_000, MOTOR).switch(21_000, PROBE);
    let delay = made.explain(&[PROBE], 4_000, 9_000);
    assert_eq!(
        told(&delay),
        [
            (Component::Awake, Cause::OwnCode, "", Certainty::Seen, 1_000),
            (
                Component::Awake,
                Cause::Interrupt,
                "local_timer",
                Certainty::Seen,
                3_000
            ),
            (Component::Awake, Cause::OwnCode, "", Certainty::Seen, 1_000),
        ]
    );
    assert_eq!(delay.waker, None);
}

#[test]
fn what_was_lost_and_who_is_unknown_stay_unexplained_and_count() {
    let mut made = EventStream::new(PROBE);
    made.timer_set(100, 1_000_000).switch(200, OTHER);
    made.items.push(Item::Lost {
        cpu: 0,
        time: 1_500_000,
        count: Some(7),
    });
    made.pid = PROBE;
    made.timer_set(1_600_000, 2_000_000);
    let delay = made.explain(&[PROBE], 1_000_000, 1_009_000);
    assert_eq!(
        told(&delay),
        [(Component::Awake, Cause::Lost, "", Certainty::Seen, 9_000)]
    );
    let unknown = EventStream::new(OTHER).explain(&[], 5, 9);
    assert_eq!(
        told(&unknown),
        [(Component::Awake, Cause::Unknown, "", Certainty::Seen, 4)]
    );
}

#[test]
fn a_thread_that_waits_for_a_page_or_a_lock_is_told_so_wherever_it_waits() {
    let waits = |made: &mut EventStream, reason: Kind| {
        made.at(10_000, reason);
        made.at(
            11_000,
            Kind::Switch {
                previous: thread(PROBE),
                previous_state: 2,
                next: thread(OTHER),
            },
        );
        made.waking(900_000).switch(905_000, PROBE);
    };
    // The sample became due while the thread waited, and no other thread was about to wake it.
    let mut made = EventStream::new(PROBE);
    waits(
        &mut made,
        Kind::PageFault {
            is_user: true,
            address: 4096,
        },
    );
    let delay = made.explain(&[PROBE], 50_000, 910_000);
    assert_eq!(
        told(&delay)[0],
        (
            Component::Waker,
            Cause::PageFault,
            "dd",
            Certainty::Seen,
            850_000
        )
    );
    assert_eq!(told(&delay)[1].0, Component::Switch);
    // The thread was woken in time, but then waited for the owner of a lock before it read the
    // clock.
    let mut made = EventStream::new(OTHER);
    made.waking(3_000).switch(4_000, PROBE);
    waits(&mut made, Kind::ContentionBegin { flags: 8 });
    let delay = made.explain(&[PROBE], 2_000, 910_000);
    let laid: Vec<_> = told(&delay)
        .into_iter()
        .filter(|piece| piece.1 == Cause::KernelLock)
        .collect();
    assert_eq!(
        laid,
        [(
            Component::Return,
            Cause::KernelLock,
            "dd",
            Certainty::Inferred,
            889_000
        )]
    );
    // A page fault without a wait, before the thread's intended sleep, is not a cause.
    let mut made = EventStream::new(PROBE);
    made.at(
        10_000,
        Kind::PageFault {
            is_user: true,
            address: 4096,
        },
    );
    made.switch(11_000, WAKER)
        .waking(900_000)
        .switch(905_000, PROBE);
    let delay = made.explain(&[PROBE], 50_000, 910_000);
    assert_eq!(told(&delay)[0].1, Cause::Waker);
}

/// Events of another CPU were lost. The lost events may be those of any thread.
fn gap(made: &mut EventStream, time: u64) {
    made.items.push(Item::Lost {
        cpu: 1,
        time,
        count: None,
    });
}

#[test]
fn a_wait_with_lost_events_in_it_is_not_explained() {
    let sleeps = |made: &mut EventStream, time: u64| {
        made.at(
            time,
            Kind::Switch {
                previous: thread(PROBE),
                previous_state: 2,
                next: thread(OTHER),
            },
        );
    };
    let causes = |delay: &Delay| -> Vec<_> {
        let told = told(delay).into_iter();
        told.map(|piece| (piece.0, piece.1, piece.4)).collect()
    };
    // The event that ended this wait may be among the lost ones. In that case, the wake-up that the
    // trace shows may have ended a later wait.
    let mut made = EventStream::new(PROBE);
    made.at(10_000, Kind::ContentionBegin { flags: 8 });
    sleeps(&mut made, 11_000);
    gap(&mut made, 500_000);
    made.waking(900_000).switch(905_000, PROBE);
    let delay = made.explain(&[PROBE], 50_000, 910_000);
    assert_eq!(
        causes(&delay)[0],
        (Component::Waker, Cause::Lost, 850_000),
        "{delay:?}"
    );
    // The thread was not seen to wake up, so its next event ends the wait.
    made = EventStream::new(PROBE);
    sleeps(&mut made, 11_000);
    gap(&mut made, 500_000);
    made.switch(600_000, PROBE)
        .switch(700_000, OTHER)
        .waking(900_000)
        .switch(905_000, PROBE);
    let delay = made.explain(&[PROBE], 650_000, 910_000);
    let lost = (Component::Waker, Cause::Lost, 50_000);
    let waker = (Component::Waker, Cause::Waker, 200_000);
    assert_eq!(causes(&delay)[..2], [lost, waker], "{delay:?}");
    // Events before the gap do not show the reason for a wait after it.
    for reason in [
        Kind::ContentionBegin { flags: 8 },
        Kind::PageFault {
            is_user: true,
            address: 4096,
        },
    ] {
        made = EventStream::new(PROBE);
        made.at(10_000, reason);
        gap(&mut made, 20_000);
        sleeps(&mut made, 30_000);
        made.waking(900_000).switch(905_000, PROBE);
        let delay = made.explain(&[PROBE], 50_000, 910_000);
        let blocked = (Component::Waker, Cause::Blocked, 850_000);
        assert_eq!(causes(&delay)[0], blocked, "{delay:?}");
    }
}

#[test]
fn no_lock_wait_spans_lost_events() {
    let mut made = EventStream::new(PROBE);
    made.at(10_000, Kind::ContentionBegin { flags: 8 });
    gap(&mut made, 500_000);
    made.at(900_000, Kind::ContentionEnd)
        .at(910_000, Kind::ContentionBegin { flags: 8 })
        .at(910_700, Kind::ContentionEnd);
    let mut samples = Samples::new(Facts::default(), &HashMap::new());
    samples.judge(PROBE);
    samples.follow(PROBE);
    made.items.iter().for_each(|item| samples.take(item));
    let (_, rules) = samples.rules(PROBE).expect("the thread is judged");
    assert_eq!((rules.lock_waits.count, rules.lock_waits.max_ns), (1, 700));
}

#[test]
fn a_timer_whose_expiry_may_be_lost_gives_no_due_time() {
    let mut made = EventStream::new(PROBE);
    // The expiry of this timer and its next start may be lost.
    made.timer_set(900_000, 1_000_000).switch(930_000, OTHER);
    gap(&mut made, 1_500_000);
    made.timer_interrupt(2_000_000).switch(2_005_000, PROBE);
    // This timer is due after the gap.
    made.timer_set(2_010_000, 4_000_000)
        .switch(2_020_000, OTHER);
    gap(&mut made, 3_000_000);
    made.timer_interrupt(4_001_000).switch(4_006_000, PROBE);
    let mut samples = Samples::new(Facts::default(), &HashMap::new());
    samples.follow(PROBE);
    made.items.iter().for_each(|item| samples.take(item));
    assert_eq!(samples.due_of_wake_up(PROBE, 2_005_000), None);
    assert_eq!(samples.due_of_wake_up(PROBE, 4_006_000), Some(4_000_000));
}

#[test]
fn an_interrupt_that_a_cpu_sent_says_whose_it_was() {
    let mut made = EventStream::new(OTHER);
    made.at(900, Kind::IpiSend { cpu: 1 });
    made.switch(950, MOTOR).at(
        990,
        Kind::IpiSendMany {
            cpus: [0].into_iter().collect(),
        },
    );
    made.switch(995, PROBE);
    let interrupt = |made: &mut EventStream, start: u64| {
        made.flags = 0x09;
        made.at(
            start,
            Kind::VectorEntry {
                name: "call_function".into(),
            },
        )
        .at(
            start + 500,
            Kind::VectorExit {
                name: "call_function".into(),
            },
        );
        made.flags = 0;
    };
    interrupt(&mut made, 1_500);
    interrupt(&mut made, 5_000_000);
    made.switch(5_100_000, OTHER);
    let senders = |delay: Delay| {
        delay
            .pieces
            .iter()
            .filter_map(|piece| piece.holder.sender)
            .map(|name| name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(senders(made.explain(&[PROBE], 1_000, 3_000)), ["motor"]);
    assert_eq!(
        senders(made.explain(&[PROBE], 4_900_000, 5_010_000)),
        [""; 0],
        "it was sent too long ago"
    );
}

#[test]
fn functions_are_those_that_the_interrupt_found_and_those_that_gave_the_cpu_up() {
    let stack = |place| Kind::Stack { place: Some(place) };
    let mut made = EventStream::new(PROBE);
    made.timer_set(100, 1_000_000).switch(200, OTHER);
    made.flags = 0x09;
    made.at(
        1_002_000,
        Kind::VectorEntry {
            name: "local_timer".into(),
        },
    )
    .at(1_002_000, stack(7));
    made.at(
        1_003_000,
        Kind::TimerExpireEntry {
            timer: TIMER,
            function: 1,
            now: 1_002_000,
        },
    )
    .waking(1_003_500);
    made.at(1_004_000, Kind::TimerExpireExit { timer: TIMER })
        .at(
            1_005_000,
            Kind::VectorExit {
                name: "local_timer".into(),
            },
        );
    made.flags = 0;
    // Another interrupt arrives during the first one.
    made.at(
        1_100_000,
        Kind::VectorEntry {
            name: "local_timer".into(),
        },
    )
    .at(1_100_000, stack(9));
    made.at(
        1_102_000,
        Kind::VectorExit {
            name: "local_timer".into(),
        },
    );
    made.switch(1_500_000, PROBE);
    // The kernel writes the stack under the ID of the thread that lost the CPU.
    made.pid = OTHER;
    made.at(1_500_000, stack(8));
    made.pid = PROBE;
    let delay = made.explain(&[PROBE], 1_000_000, 1_502_000);
    let functions: Vec<_> = delay
        .pieces
        .iter()
        .map(|piece| {
            (
                piece.component,
                piece.holder.cause,
                piece.stack,
                piece.ended,
            )
        })
        .collect();
    assert_eq!(
        functions,
        [
            // The explanation names no functions for these pieces, because the pieces are too
            // short.
            (Component::Timer, Cause::InterruptsOff, None, None),
            (Component::Interrupt, Cause::Interrupt, None, None),
            (Component::Expiry, Cause::Interrupt, None, None),
            (Component::Switch, Cause::Interrupt, None, None),
            (Component::Switch, Cause::KernelCode, Some(7), None),
            (Component::Switch, Cause::Interrupt, None, None),
            (Component::Switch, Cause::KernelCode, Some(9), Some(8)),
            (Component::Return, Cause::OwnCode, None, None),
        ]
    );
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let pid = prop_oneof![Just(0), Just(PROBE), Just(OTHER), Just(MOTOR), Just(WAKER)];
    let switch = (pid.clone(), pid).prop_map(|(previous, next)| Kind::Switch {
        previous: thread(previous),
        previous_state: 0,
        next: thread(next),
    });
    prop_oneof![
        3 => switch,
        2 => Just(Kind::Waking { thread: thread(PROBE), target_cpu: 0 }),
        1 => Just(Kind::Waking { thread: thread(WAKER), target_cpu: 1 }),
        1 => Just(Kind::VectorEntry { name: "local_timer".into() }),
        1 => Just(Kind::VectorExit { name: "local_timer".into() }),
        1 => Just(Kind::SoftirqEntry { vector: 1 }),
        1 => Just(Kind::SoftirqExit { vector: 1 }),
        1 => (0_i64..20_000).prop_map(|due| Kind::TimerStart { timer: TIMER, function: 1, expires: due + 50, soft_expires: due, mode: None }),
        1 => (0_i64..20_000).prop_map(|now| Kind::TimerExpireEntry { timer: TIMER, function: 1, now }),
        1 => Just(Kind::TimerExpireExit { timer: TIMER }),
        1 => Just(Kind::Migrate { pid: PROBE, to_cpu: 1 }),
        1 => (0_i64..5_000).prop_map(|took| Kind::Nmi { took }),
        1 => Just(Kind::PageFault { is_user: true, address: 1 }),
        1 => Just(Kind::ContentionBegin { flags: 0 }),
        1 => Just(Kind::ContentionEnd),
        1 => proptest::collection::vec(0_u32..2, 0..3).prop_map(|cpus| Kind::IpiSendMany { cpus: cpus.into_iter().collect() }),
        1 => Just(Kind::Switch { previous: thread(PROBE), previous_state: 2, next: thread(OTHER) }),
        1 => proptest::option::of(0_u32..9).prop_map(|place| Kind::Stack { place }),
    ]
}

proptest! {
    #[test]
    fn the_pieces_cover_the_interval_whatever_the_trace_says(
        events in proptest::collection::vec((0_u64..1_000, 0_u32..2, any_kind(), any::<u8>(), prop_oneof![Just(0), Just(PROBE), Just(OTHER)]), 0..80),
        lost in proptest::collection::vec(0_usize..80, 0..3),
        samples in proptest::collection::vec((0_u64..30_000, 1_u64..30_000), 1..20),
        both in any::<bool>(),
    ) {
        let mut explained = Samples::new(Facts::default(), &HashMap::new());
        let threads = if both { vec![PROBE, WAKER] } else { vec![PROBE] };
        threads.iter().for_each(|&pid| explained.follow(pid));
        let mut time = 0;
        for (index, (step, cpu, kind, flags, pid)) in events.into_iter().enumerate() {
            time += step;
            if lost.contains(&index) {
                explained.take(&Item::Lost { cpu, time, count: None });
            }
            explained.take(&Item::Event(Event { time, cpu, head: Head { flags, preempt_count: 0, pid }, kind }));
        }
        for (due, length) in samples {
            assert_covers(&explained.explain(&threads, 0, due, due + length), due, due + length);
        }
    }
}
