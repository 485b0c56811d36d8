//! Checks the cycles that are cut from stints of known length.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

use tardy_core::units::Nanos;
use tardy_samples::cycles::cut::Cutter;
use tardy_samples::cycles::{Cycles, Shares, StretchKind, WaitPlace};
use tardy_trace::contexts::Waker;
use tardy_trace::stints::{Doing, Stint};
use tardy_trace::timers::{TimerClock, TimerKind};
use tardy_trace::wake_ups::{Cause, Parts, Start, WakeUp};

const LOOP: i32 = 10;
const HOME: u32 = 0;
const LOCK: u32 = 1;
/// Index of the place where the thread sleeps for a relative time.
const RELATIVE: u32 = 3;

/// Makes consecutive stints.
struct Story {
    cutter: Cutter,
    time: i64,
}

impl Story {
    fn does(&mut self, length: i64, doing: Doing, place: Option<u32>) {
        let (start, end) = (self.time, self.time + length);
        self.time = end;
        let stint = Stint {
            thread: LOOP,
            start,
            end,
            doing,
        };
        self.cutter.take(stint, place, None);
    }

    fn runs(&mut self, length: i64) {
        self.does(length, Doing::Running, None);
    }

    /// Adds a sleep, followed by a wait of 10 ns for a CPU. If the waker is a timer, it is due 5 ns
    /// before the end of the sleep.
    fn sleeps(&mut self, length: i64, place: u32, waker: Waker) {
        let asleep = Doing::Asleep {
            stack: None,
            is_relative: place == RELATIVE,
            waker,
        };
        let due = self.time + length - 5;
        self.does(length, asleep, Some(place));
        if waker == Waker::Timer {
            self.cutter.wake_up(&WakeUp {
                thread: LOOP,
                cause: Cause::Timer {
                    kind: TimerKind::Sleep,
                    clock: TimerClock::Monotonic,
                },
                cpu: 0,
                due,
                ran: self.time + 10,
                parts: Parts::default(),
                start: Start::Switch,
            });
        }
        self.does(10, Doing::Ready { cpu: 0, held: None }, None);
    }

    fn ends(mut self) -> Cycles {
        let place = |call: &str| WaitPlace {
            call: call.to_owned(),
            function: "waits".to_owned(),
        };
        let places = ["home", "lock", "read", "for a time"].map(place);
        self.cutter.finish();
        self.cutter.result(&places, &|thread| format!("t{thread}"))
    }
}

#[test]
fn a_cycle_is_a_closed_sum_from_the_due_time_to_the_next_sleep_in_the_waiting_place() {
    let mut story = Story {
        cutter: Cutter::default(),
        time: 0,
    };
    // One long sleep before a loop is not where the loop waits.
    story.sleeps(1_000_000, 2, Waker::Thread(20));
    for cycle in 0..100 {
        story.runs(100);
        if cycle == 50 {
            story.sleeps(3_000, LOCK, Waker::Thread(20));
            story.runs(7);
            story.does(40, Doing::Preempted { cpu: 0 }, None);
            story.runs(3);
        }
        story.sleeps(900, HOME, Waker::Timer);
    }
    let found = story.ends();
    let row = &found.threads[0];
    assert_eq!((row.cycles, found.cut_off), (99, 0));
    assert_eq!(row.ends_in.as_ref().unwrap().call, "home");
    assert_eq!(
        row.median_ns,
        Nanos(115),
        "5 ns from the due time, 10 ns to a CPU"
    );
    let longest = &found.worst[0];
    let shares = Shares {
        wake_up_ns: Nanos(15),
        running_ns: Nanos(110),
        preempted_ns: Nanos(50),
        blocked_ns: Nanos(3_000),
    };
    assert_eq!(
        (longest.shares, longest.response_ns),
        (shares, shares.sum())
    );
    let blocked = &longest.stretches[1];
    assert_eq!(
        (blocked.kind, blocked.at_ns),
        (StretchKind::Blocked, Nanos(115))
    );
    assert_eq!(blocked.place.as_ref().unwrap().call, "lock");
    assert_eq!(blocked.by.as_deref(), Some("t20/20"));
    assert_eq!(row.blocked_in[0].sum_ns, Nanos(3_000));
}

#[test]
fn the_sleeps_by_place_add_up_to_the_blocked_time_however_many_there_are() {
    let mut story = Story {
        cutter: Cutter::between_marks(),
        time: 0,
    };
    for cycle in 0..3 {
        story.cutter.mark(LOOP, story.time, false);
        story.runs(100);
        // Only the 32 longest intervals of a cycle are stored.
        for sleep in 0..100 {
            story.sleeps(1_000 + sleep, LOCK, Waker::Thread(20));
            story.runs(7);
        }
        if cycle == 1 {
            for place in 100..200 {
                story.sleeps(i64::from(place), place, Waker::Thread(20));
                story.runs(7);
            }
        }
        story.cutter.mark(LOOP, story.time, true);
    }
    let found = story.ends();
    let row = &found.threads[0];
    assert_eq!((row.cycles, found.cut_off), (3, 0));
    let lock = &row.blocked_in[0];
    assert_eq!(lock.place.call, "lock");
    let expected = (300, Nanos(300_000 + 3 * 4_950), Nanos(1_099));
    assert_eq!((lock.sleeps, lock.sum_ns, lock.max_ns), expected);
    let others = row.other_places;
    assert_eq!((row.blocked_in.len(), others.sleeps), (64, 37));
    assert_eq!(others.max_ns, Nanos(199));
    let sleeps: u64 = row.blocked_in.iter().map(|place| place.sleeps).sum();
    assert_eq!(sleeps + others.sleeps, 400);
    let sums = row.blocked_in.iter().map(|place| place.sum_ns);
    assert_eq!(
        sums.fold(others.sum_ns, Nanos::saturating_add),
        row.sum.blocked_ns
    );
}

#[test]
fn a_worker_that_sleeps_for_a_time_at_work_waits_where_it_slept_longest() {
    let mut story = Story {
        cutter: Cutter::default(),
        time: 0,
    };
    for _ in 0..20 {
        story.sleeps(97_000, LOCK, Waker::Thread(20));
        story.runs(10);
        story.sleeps(3_000, RELATIVE, Waker::Timer);
        story.runs(10);
    }
    let found = story.ends();
    assert_eq!(found.threads[0].ends_in.as_ref().unwrap().call, "lock");
    assert_eq!(found.worst[0].response_ns, Nanos(10 + 10 + 3_000 + 10 + 10));
}

#[test]
fn a_loop_that_blocks_for_longer_than_it_sleeps_waits_for_its_timer() {
    let mut story = Story {
        cutter: Cutter::default(),
        time: 0,
    };
    for cycle in 0..64 {
        story.sleeps(900, HOME, Waker::Timer);
        story.runs(100);
        if cycle % 10 == 9 {
            story.sleeps(8_000_000, LOCK, Waker::Thread(20));
            story.runs(7);
        }
    }
    let found = story.ends();
    let row = &found.threads[0];
    assert_eq!((row.cycles, row.blocked_in[0].sleeps), (63, 6));
    assert_eq!(found.worst[0].shares.blocked_ns, Nanos(8_000_000));
}

/// Makes a loop with a timer that blocks in one call of its 50th cycle `sleeps` times, for `length`
/// each. Returns its cycles.
fn loop_with_call(sleeps: u64, length: i64) -> Cycles {
    let mut story = Story {
        cutter: Cutter::default(),
        time: 0,
    };
    for cycle in 0..100 {
        story.sleeps(900, HOME, Waker::Timer);
        story.runs(100);
        let in_call = if cycle == 50 { sleeps } else { 0 };
        for _ in 0..in_call {
            story.sleeps(length, LOCK, Waker::Softirq(Some(4)));
            story.runs(7);
        }
    }
    story.ends()
}

#[test]
fn a_call_that_sleeps_many_times_belongs_to_one_cycle() {
    let found = loop_with_call(1_000, 2_000);
    let row = &found.threads[0];
    assert_eq!((row.cycles, found.cut_off), (99, 0));
    let lock = &row.blocked_in[0];
    assert_eq!((lock.sleeps, lock.sum_ns), (1_000, Nanos(2_000_000)));
    let longest = &found.worst[0];
    assert_eq!(longest.shares.blocked_ns, Nanos(2_000_000));
    assert_eq!(longest.shares.sum(), longest.response_ns);
}

#[test]
fn a_thread_that_has_left_its_wait_place_for_long_has_another_one() {
    // After a second, each sleep of the call ends a cycle. The cycles at both changes are cut off.
    let found = loop_with_call(1_000, 10_000_000);
    let row = &found.threads[0];
    assert!(row.cycles > 900 && found.cut_off == 2, "{found:?}");
}

#[test]
fn where_events_were_lost_no_cycle_spans_the_gap() {
    let mut story = Story {
        cutter: Cutter::default(),
        time: 0,
    };
    for cycle in 0..10 {
        story.runs(100);
        story.sleeps(900, HOME, Waker::Timer);
        if cycle == 5 {
            story.time += 1_000_000;
        }
    }
    let found = story.ends();
    assert_eq!((found.threads[0].cycles, found.cut_off), (8, 1));
    assert_eq!(found.threads[0].max_ns, Nanos(115));
}
