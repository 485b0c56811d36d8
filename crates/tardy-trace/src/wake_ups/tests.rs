use proptest::prelude::*;

use super::*;
use crate::test_events::*;

const WAKEUP: u64 = 0xf000;
const TIMERFD: u64 = 0xf001;
const TICK: u64 = 0xf002;
const LOOP: i32 = 10;
const OTHER: i32 = 20;
/// Offsets of clocks in the year 2026, after a minute of suspend.
const OFFSETS: ClockOffsets = ClockOffsets {
    realtime: 1_790_000_000_000_000_000,
    boottime: 60_000_000_000,
    tai: 1_790_000_037_000_000_000,
};

fn watch() -> WakeUpWatch {
    let mut watch = WakeUpWatch::new([(WAKEUP, TimerKind::Sleep), (TIMERFD, TimerKind::Timerfd)]);
    watch.follow(LOOP);
    watch.set_offsets(OFFSETS);
    watch
}

fn clock(found: &WakeUp) -> Option<TimerClock> {
    match found.cause {
        Cause::Timer { clock, .. } => Some(clock),
        _ => None,
    }
}

fn kind(found: &WakeUp) -> Option<TimerKind> {
    match found.cause {
        Cause::Timer { kind, .. } => Some(kind),
        _ => None,
    }
}

fn watched(items: &[Item]) -> (WakeUpWatch, Vec<WakeUp>) {
    let mut watch = watch();
    items.iter().for_each(|item| watch.take(item));
    watch.finish();
    let found = watch.finished().collect();
    (watch, found)
}

/// Returns a sleep until 1 000 000 on a clock with this offset. The timer's interrupt interrupts
/// the idle thread.
fn sleep(ahead: i64) -> Vec<Item> {
    vec![
        start(
            500_000,
            LOOP,
            7,
            WAKEUP,
            1_000_000 + ahead,
            1_050_000 + ahead,
        ),
        switch(510_000, LOOP, 0),
        entry(1_060_500, 0, 7, WAKEUP, 1_060_000 + ahead),
        waking(1_061_000, 0, HARD_INTERRUPT, LOOP),
        exit(1_062_000, 0, 7),
        switch(1_070_000, 0, LOOP),
    ]
}

#[test]
fn a_thread_that_was_on_another_cpu_when_it_was_woken_is_not_as_late_as_its_next_switch() {
    // The timer stayed on CPU 0, where the thread set it. The thread is on CPU 1 on its way to
    // sleep, and continues there until it is preempted.
    let elsewhere = |time, previous, previous_state, next| {
        event(
            time,
            1,
            previous,
            0,
            Kind::Switch {
                previous: thread(previous),
                previous_state,
                next: thread(next),
            },
        )
    };
    let items = [
        start(500_000, LOOP, 7, WAKEUP, 1_000_000, 1_000_000),
        entry(1_000_500, 0, 7, WAKEUP, 1_000_400),
        waking(1_001_000, 0, HARD_INTERRUPT, LOOP),
        exit(1_002_000, 0, 7),
        elsewhere(1_050_000, LOOP, 0, OTHER),
        elsewhere(1_200_000, OTHER, 0, LOOP),
    ];
    for it_could_go_on in [0, PREEMPTED] {
        let mut items = items;
        items[4] = elsewhere(1_050_000, LOOP, it_could_go_on, OTHER);
        let (watch, found) = watched(&items);
        assert_eq!(
            (found.len(), found[0].ran, found[0].start),
            (1, 1_001_000, Start::Unseen)
        );
        assert_eq!(watch.counts(TimerKind::Sleep).wake_ups, 1);
    }
    // If the thread had left its CPU when it was woken, its latency lasts until the CPU switches to
    // it.
    let mut items = items;
    items[4] = elsewhere(1_050_000, LOOP, 1, OTHER);
    let (_, found) = watched(&items);
    assert_eq!(
        (found.len(), found[0].ran, found[0].start),
        (1, 1_200_000, Start::Switch)
    );
}

#[test]
fn a_sleep_is_as_late_as_its_parts_together_and_each_part_has_its_marks() {
    let (watch, found) = watched(&sleep(0));
    let parts = Parts {
        armed: 0,
        slack: 50_000,
        timer: 10_500,
        waking: 500,
        switch: 9_000,
    };
    let expected = WakeUp {
        thread: LOOP,
        cause: Cause::Timer {
            kind: TimerKind::Sleep,
            clock: TimerClock::Monotonic,
        },
        cpu: 0,
        due: 1_000_000,
        ran: 1_070_000,
        parts,
        start: Start::Switch,
    };
    assert_eq!(found, [expected]);
    assert_eq!(found[0].lateness(), 70_000);
    assert_eq!(
        watch.counts(TimerKind::Sleep),
        TimerCounts {
            started: 1,
            wake_ups: 1,
            ..TimerCounts::default()
        }
    );
    assert_eq!(
        (watch.counts(TimerKind::Timerfd), watch.other_wake_ups()),
        (TimerCounts::default(), 0)
    );
}

#[test]
fn due_times_of_every_clock_are_those_of_the_monotonic_one() {
    let clocks = [
        (0, TimerClock::Monotonic),
        (OFFSETS.realtime, TimerClock::Realtime),
        (OFFSETS.boottime, TimerClock::Boottime),
        (OFFSETS.tai, TimerClock::Tai),
    ];
    for (ahead, clock) in clocks {
        let (_, found) = watched(&sleep(ahead));
        assert_eq!(
            (self::clock(&found[0]), found[0].due, found[0].lateness()),
            (Some(clock), 1_000_000, 70_000)
        );
    }
    // If a clock was set since its offset was last read, the time that the interrupt read is used.
    // The interrupt reads it 500 ns before the timer's function is called.
    let (_, found) = watched(&sleep(OFFSETS.realtime - 5_000_000_000));
    assert_eq!(
        (clock(&found[0]), found[0].due, found[0].lateness()),
        (Some(TimerClock::Set), 1_000_500, 69_500)
    );
}

#[test]
fn a_machine_that_was_never_suspended_has_no_boot_time_of_its_own() {
    for (boottime, ahead, clock) in [
        (0, 0, TimerClock::Monotonic),
        (0, 501, TimerClock::Monotonic),
        (400_000_000, 400_000_000, TimerClock::Boottime),
    ] {
        let mut watch = watch();
        watch.set_offsets(ClockOffsets {
            boottime,
            ..OFFSETS
        });
        sleep(ahead).iter().for_each(|item| watch.take(item));
        assert_eq!(
            watch
                .finished()
                .map(|found| self::clock(&found))
                .collect::<Vec<_>>(),
            [Some(clock)],
            "{boottime} {ahead}"
        );
    }
}

#[test]
fn a_thread_that_sets_its_timer_too_late_is_late_itself() {
    // The timer is due at 1 000 000, and is set half a millisecond later. The interrupt comes while
    // the thread is still on the CPU.
    let (watch, found) = watched(&[
        start(1_500_000, LOOP, 7, WAKEUP, 1_000_000, 1_000_000),
        entry(1_502_000, LOOP, 7, WAKEUP, 1_501_000),
        waking(1_503_000, LOOP, HARD_INTERRUPT, LOOP),
        exit(1_504_000, LOOP, 7),
    ]);
    assert_eq!(
        (found[0].parts, found[0].start),
        (
            Parts {
                armed: 500_000,
                timer: 2_000,
                waking: 1_000,
                ..Parts::default()
            },
            Start::OnCpu
        )
    );
    assert_eq!(watch.counts(TimerKind::Sleep).wake_ups, 1);
}

#[test]
fn a_wait_that_something_else_ends_is_no_wake_up_of_its_timer() {
    let (watch, found) = watched(&[
        start(500_000, LOOP, 7, WAKEUP, 9_000_000, 9_000_000),
        switch(510_000, LOOP, OTHER),
        waking(700_000, OTHER, 0, LOOP),
        switch(710_000, OTHER, LOOP),
        cancel(711_000, LOOP, 7),
    ]);
    assert_eq!(
        (found.len(), found[0].cause, found[0].due, found[0].ran),
        (1, Cause::Thread(OTHER), 700_000, 710_000),
        "its reference is the waking"
    );
    assert_eq!(
        watch.counts(TimerKind::Sleep),
        TimerCounts {
            started: 1,
            cancelled: 1,
            ..TimerCounts::default()
        }
    );
    assert_eq!(watch.other_wake_ups(), 1);
}

#[test]
fn kernels_that_tell_of_a_timers_end_as_taken_back_too_cancel_nothing() {
    let mut items = sleep(0);
    items.insert(
        2,
        event(
            1_060_400,
            0,
            LOOP,
            HARD_INTERRUPT,
            Kind::TimerCancel { timer: 7 },
        ),
    );
    assert_eq!(watched(&items).1.len(), 1);
    // A thread that is not followed does not cancel the timer of a followed thread. This thread
    // serves timers on PREEMPT_RT.
    items[2] = cancel(1_060_400, OTHER, 7);
    assert_eq!(watched(&items).1.len(), 1);
}

#[test]
fn a_timer_that_is_set_anew_was_cancelled_and_one_that_nobody_waits_for_wakes_nobody() {
    let (watch, found) = watched(&[
        start(100, LOOP, 7, TIMERFD, 1_000_000, 1_000_000),
        start(200, LOOP, 7, TIMERFD, 2_000_000, 2_000_000),
        entry(2_000_100, OTHER, 7, TIMERFD, 2_000_000),
        exit(2_000_300, OTHER, 7),
        // After the timer's function has ended, another interrupt wakes the followed thread.
        waking(2_000_400, OTHER, HARD_INTERRUPT, LOOP),
        start(2_100_000, LOOP, 7, TIMERFD, 9_000_000, 9_000_000),
    ]);
    assert!(found.is_empty());
    assert_eq!(
        watch.counts(TimerKind::Timerfd),
        TimerCounts {
            started: 3,
            cancelled: 1,
            unawaited: 1,
            pending: 1,
            ..TimerCounts::default()
        }
    );
    let unmeasured = WakingCounts {
        wakings: 1,
        no_entry: 1,
        ..WakingCounts::default()
    };
    assert_eq!((watch.other_wake_ups(), watch.wakings()), (1, unmeasured));
}

#[test]
fn a_thread_that_has_ended_is_followed_no_more_and_its_last_wake_up_counts() {
    let mut watch = watch();
    let (last, switched) = (sleep(0), 5);
    last[..switched].iter().for_each(|item| watch.take(item));
    watch.unfollow(LOOP);
    assert_eq!(
        watch
            .finished()
            .map(|wake_up| wake_up.start)
            .collect::<Vec<_>>(),
        [Start::Unseen],
        "it ran, or it would not have ended"
    );
    let counts = watch.counts(TimerKind::Sleep);
    // The thread ID belongs to another program by now.
    sleep(0).iter().for_each(|item| watch.take(item));
    assert_eq!(
        (
            watch.counts(TimerKind::Sleep),
            watch.finished().count(),
            watch.other_wake_ups()
        ),
        (counts, 0, 0)
    );
}

#[test]
fn timers_of_other_threads_and_of_other_functions_are_passed_over() {
    let (watch, found) = watched(&[
        start(100, OTHER, 7, WAKEUP, 1_000, 1_000),
        start(110, LOOP, 8, TICK, 1_000, 1_000),
        // The tick's timer is set in an interrupt of the thread.
        event(
            120,
            0,
            LOOP,
            HARD_INTERRUPT,
            Kind::TimerStart {
                timer: 9,
                function: WAKEUP,
                expires: 1_000,
                soft_expires: 1_000,
                mode: None,
            },
        ),
        entry(1_100, 0, 7, WAKEUP, 1_050),
        waking(1_200, 0, HARD_INTERRUPT, OTHER),
        exit(1_300, 0, 7),
    ]);
    assert!(found.is_empty());
    assert_eq!(
        (watch.counts(TimerKind::Sleep), watch.other_wake_ups()),
        (TimerCounts::default(), 0)
    );
}

#[test]
fn a_thread_that_was_not_seen_to_be_switched_to_had_not_left_the_cpu() {
    let mut items = sleep(0);
    items.truncate(5);
    // The thread is about to go to sleep on another CPU when it is woken, and continues there.
    items.push(start(1_065_000, LOOP, 8, WAKEUP, 2_000_000, 2_000_000));
    let (watch, found) = watched(&items);
    assert_eq!((found[0].ran, found[0].start), (1_061_000, Start::Unseen));
    assert_eq!(
        watch.counts(TimerKind::Sleep),
        TimerCounts {
            started: 2,
            wake_ups: 1,
            pending: 1,
            ..TimerCounts::default()
        }
    );
    // The thread was already woken, so this switch away from it is not the one by which it went to
    // sleep.
    let mut items = sleep(0);
    items.insert(5, switch(1_063_000, LOOP, 0));
    assert_eq!(watched(&items).1[0].start, Start::Switch);
}

#[test]
fn what_is_under_way_where_events_are_lost_is_lost() {
    let lost = Item::Lost {
        cpu: 1,
        time: 1_000,
        count: Some(3),
    };
    let count = sleep(0).len();
    for seen in 1..=count {
        let mut items = sleep(0);
        items.insert(seen, lost);
        let (watch, found) = watched(&items);
        let is_over = seen == count;
        let expected = TimerCounts {
            started: 1,
            lost: u64::from(!is_over),
            wake_ups: u64::from(is_over),
            ..TimerCounts::default()
        };
        assert_eq!(
            (watch.counts(TimerKind::Sleep), found.len()),
            (expected, usize::from(is_over)),
            "lost behind event {seen}"
        );
    }
}

/// Returns an event of an interrupt or a softirq on CPU 0.
fn handler(time: u64, flags: u8, kind: Kind) -> Item {
    event(time, 0, 0, flags, kind)
}

#[test]
fn a_wake_up_by_an_interrupt_or_a_softirq_is_due_at_its_entry() {
    let irq = Kind::IrqEntry {
        irq: 34,
        name: "eth0".into(),
    };
    let softirq = Kind::SoftirqEntry { vector: 3 };
    let found = |entry: Kind, flags: u8| {
        watched(&[
            switch(50, LOOP, 0),
            handler(100, flags, entry),
            waking(130, 0, flags, LOOP),
            switch(200, 0, LOOP),
        ])
    };
    let parts = Parts {
        waking: 30,
        switch: 70,
        ..Parts::default()
    };
    for (entry, flags, cause) in [
        (irq, HARD_INTERRUPT, Cause::Interrupt("eth0".into())),
        (softirq, SOFT_INTERRUPT, Cause::Softirq(3)),
    ] {
        let (watch, found) = found(entry, flags);
        assert_eq!(
            (found.len(), found[0].cause, found[0].parts, found[0].start),
            (1, cause, parts, Start::Switch)
        );
        assert_eq!(
            (found[0].due, found[0].woken(), found[0].ran),
            (100, 130, 200)
        );
        assert_eq!(watch.wakings().measured, 1);
    }
    // If an interrupt interrupts a softirq, the interrupt counts as the waker. An interrupt or a
    // softirq that has ended wakes no thread.
    for (entry, flags) in [(softirq, HARD_INTERRUPT), (irq, SOFT_INTERRUPT)] {
        let (watch, found) = found(entry, flags);
        assert_eq!((found.len(), watch.wakings().no_entry), (0, 1));
    }
    let (watch, found) = watched(&[
        handler(100, HARD_INTERRUPT, irq),
        handler(
            110,
            HARD_INTERRUPT,
            Kind::IrqExit {
                irq: 34,
                returned: 1,
            },
        ),
        waking(130, 0, HARD_INTERRUPT, LOOP),
        switch(200, 0, LOOP),
    ]);
    assert_eq!((found.len(), watch.wakings().no_entry), (0, 1));
}

#[test]
fn an_interrupt_into_a_thread_that_has_not_left_its_cpu_is_as_late_as_the_waking() {
    let irq = Kind::IrqEntry {
        irq: 34,
        name: "eth0".into(),
    };
    let (_, found) = watched(&[
        event(100, 0, LOOP, HARD_INTERRUPT, irq),
        waking(130, LOOP, HARD_INTERRUPT, LOOP),
        switch(200, 0, LOOP),
    ]);
    assert_eq!(
        (found.len(), found[0].lateness(), found[0].start),
        (1, 30, Start::OnCpu)
    );
}

#[test]
fn a_thread_that_a_thread_woke_and_that_runs_without_a_switch_is_a_lower_bound() {
    let (watch, found) = watched(&[
        switch(50, LOOP, 0),
        waking(100, OTHER, 0, LOOP),
        cancel(140, LOOP, 7),
        waking(200, OTHER, 0, LOOP),
        waking(300, OTHER, 0, LOOP),
    ]);
    let told = |found: &WakeUp| (found.due, found.lateness(), found.start);
    assert_eq!(
        found.iter().map(told).collect::<Vec<_>>(),
        [(100, 0, Start::Unseen), (200, 0, Start::Unseen)]
    );
    let counts = WakingCounts {
        wakings: 3,
        measured: 2,
        pending: 1,
        ..WakingCounts::default()
    };
    assert_eq!((watch.wakings(), watch.other_wake_ups()), (counts, 3));
}

#[test]
fn a_timer_that_was_set_before_or_that_woke_another_thread_gives_no_latency() {
    let mut watch = watch();
    watch.follow(LOOP + 1);
    let items = [
        entry(100, 0, 9, WAKEUP, 100),
        waking(110, 0, HARD_INTERRUPT, LOOP),
        exit(120, 0, 9),
        switch(130, 0, LOOP),
        start(200, LOOP, 7, TIMERFD, 300, 300),
        entry(310, 0, 7, TIMERFD, 300),
        waking(320, 0, HARD_INTERRUPT, LOOP),
        waking(330, 0, HARD_INTERRUPT, LOOP + 1),
        exit(340, 0, 7),
        switch(350, 0, LOOP),
    ];
    items.iter().for_each(|item| watch.take(item));
    watch.take(&waking(400, OTHER, 0, LOOP));
    watch.take(&lost(410));
    let counts = WakingCounts {
        wakings: 4,
        measured: 1,
        unknown_timer: 2,
        lost: 1,
        ..WakingCounts::default()
    };
    assert_eq!(watch.wakings(), counts);
    assert_eq!(
        watch.finished().map(|found| found.due).collect::<Vec<_>>(),
        [300]
    );
}

/// Generates any item, in any order, for two followed threads, one other thread, and three timers.
fn any_item() -> impl Strategy<Value = Item> {
    let pid = prop_oneof![Just(LOOP), Just(LOOP + 1), Just(OTHER), Just(0)];
    let function = prop_oneof![Just(WAKEUP), Just(TIMERFD), Just(TICK)];
    (
        0_u64..13,
        0_u32..2,
        pid.clone(),
        pid,
        0_u64..3,
        function,
        prop_oneof![Just(0), Just(HARD_INTERRUPT), Just(SOFT_INTERRUPT)],
        -5_000_i64..5_000,
    )
        .prop_map(|(what, cpu, by, pid, timer, function, flags, at)| {
            let kind = match what {
                0 | 1 => Kind::TimerStart {
                    timer,
                    function,
                    expires: at + 100,
                    soft_expires: at,
                    mode: None,
                },
                2 => Kind::TimerCancel { timer },
                3 | 4 => Kind::TimerExpireEntry {
                    timer,
                    function,
                    now: at,
                },
                5 => Kind::TimerExpireExit { timer },
                6 => Kind::Waking {
                    thread: thread(pid),
                    target_cpu: cpu,
                },
                7 | 8 => Kind::Switch {
                    previous: thread(by),
                    previous_state: 1,
                    next: thread(pid),
                },
                9 => Kind::IrqEntry {
                    irq: 1,
                    name: "eth0".into(),
                },
                10 => Kind::IrqExit {
                    irq: 1,
                    returned: 1,
                },
                11 => Kind::SoftirqEntry { vector: 3 },
                _ => {
                    return Item::Lost {
                        cpu,
                        time: 0,
                        count: None,
                    };
                }
            };
            event(0, cpu, by, flags, kind)
        })
}

proptest! {
    #[test]
    fn every_timer_and_every_waking_ends_in_one_way_and_parts_add_up(mut items in proptest::collection::vec(any_item(), 0..200)) {
        for (place, item) in items.iter_mut().enumerate() {
            if let Item::Event(event) = item {
                event.time = place as u64 * 10;
            }
        }
        let mut watch = watch();
        watch.follow(LOOP + 1);
        items.iter().for_each(|item| watch.take(item));
        watch.finish();
        let found: Vec<_> = watch.finished().collect();
        let is_waking = |item: &&Item| matches!(item, Item::Event(Event { kind: Kind::Waking { thread, .. }, .. }) if [LOOP, LOOP + 1].contains(&thread.pid));
        let WakingCounts { wakings, measured, no_entry, unknown_timer, lost, pending } = watch.wakings();
        prop_assert_eq!(wakings, items.iter().filter(is_waking).count() as u64);
        prop_assert_eq!(wakings, measured + no_entry + unknown_timer + lost + pending);
        prop_assert_eq!(measured, found.len() as u64);
        for kind in TimerKind::ALL {
            let TimerCounts { started, wake_ups, unawaited, cancelled, lost, pending } = watch.counts(kind);
            prop_assert_eq!(started, wake_ups + unawaited + cancelled + lost + pending);
            prop_assert_eq!(wake_ups, found.iter().filter(|found| self::kind(found) == Some(kind)).count() as u64);
        }
        for found in found {
            prop_assert_eq!(found.parts.values().iter().sum::<i64>(), found.lateness());
            prop_assert!(kind(&found).is_some() || found.parts.waking >= 0 && found.parts.values()[..3] == [0; 3]);
            prop_assert!(found.parts.values()[..2].iter().all(|&part| part >= 0) && found.parts.switch >= 0);
        }
    }
}
