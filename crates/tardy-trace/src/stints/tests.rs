use super::*;
use crate::test_events::*;

const LOOP: i32 = 10;
const OTHER: i32 = 20;

fn stints(items: &[Item]) -> Vec<(i64, i64, Doing)> {
    let mut stints = Stints::default();
    stints.follow(LOOP);
    items.iter().for_each(|item| stints.take(item));
    stints
        .finished()
        .map(|stint| (stint.start, stint.end, stint.doing))
        .collect()
}

fn asleep(stack: Option<u32>, is_relative: bool, waker: Waker) -> Doing {
    Doing::Asleep {
        stack,
        is_relative,
        waker,
    }
}

const READY: Doing = Doing::Ready { cpu: 0, held: None };

#[test]
fn the_longest_softirq_while_a_thread_waits_is_stored_with_the_time_that_it_was_preempted() {
    let softirq = |switches: &[Item]| {
        let enter = Kind::SoftirqEntry { vector: 3 };
        let flags = SOFT_INTERRUPT;
        let before = [
            switch_of(100, 0, (OTHER, 1), LOOP),
            switch_of(200, 0, (LOOP, 1), OTHER),
            event(210, 0, OTHER, flags, Kind::SoftirqEntry { vector: 6 }),
            event(215, 0, OTHER, flags, Kind::SoftirqExit { vector: 6 }),
            event(220, 0, OTHER, flags, enter),
            waking(230, OTHER, HARD_INTERRUPT, LOOP),
        ];
        let after = [
            event(290, 0, OTHER, flags, Kind::SoftirqExit { vector: 3 }),
            switch_of(300, 0, (OTHER, 0), LOOP),
        ];
        let found = stints(&[&before[..], switches, &after].concat());
        match found.last() {
            Some((230, 300, Doing::Ready { held, .. })) => *held,
            other => panic!("{other:?}"),
        }
    };
    let by = Waker::Softirq(Some(3));
    let held = |preempted| {
        Some(Held {
            by,
            start: 220,
            end: 290,
            preempted,
        })
    };
    let found = softirq(&[]);
    assert_eq!(found, held(0));
    let found = found.unwrap();
    assert_eq!(found.most_of(230, 300), Some(60));
    assert_eq!(found.most_of(100, 300).or(found.most_of(290, 300)), None);
    let preempted = switch_of(240, 0, (OTHER, 0), 21);
    let found = softirq(&[preempted, switch_of(245, 0, (21, 1), OTHER)]);
    assert_eq!(found, held(5));
    assert_eq!(found.unwrap().most_of(230, 300), Some(55));
    let found = softirq(&[preempted]);
    assert_eq!(found, held(50));
    assert_eq!(found.unwrap().most_of(230, 300), None);
    // It is unknown when the softirq was preempted.
    let unknown = switch_of(240, 0, (21, 0), 22);
    assert_eq!(
        softirq(&[unknown]).map(|held| held.by),
        Some(Waker::Softirq(Some(6)))
    );
}

#[test]
fn stints_follow_one_another_and_each_sleep_has_its_stack_and_its_waker() {
    let irq = Kind::IrqEntry {
        irq: 34,
        name: "eth0".into(),
    };
    let found = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        switch_of(150, 0, (LOOP, PREEMPTED), OTHER),
        switch_of(170, 0, (OTHER, 0), 21),
        switch_of(180, 0, (21, 1), LOOP),
        switch_of(200, 0, (LOOP, 2), OTHER),
        stack(201, 0, LOOP, 7),
        event(250, 1, 0, HARD_INTERRUPT, irq),
        event(
            260,
            1,
            0,
            HARD_INTERRUPT,
            Kind::Waking {
                thread: thread(LOOP),
                target_cpu: 0,
            },
        ),
        switch_of(300, 0, (0, 0), LOOP),
        start(310, LOOP, 5, 0xf000, 400, 400),
        switch_of(320, 0, (LOOP, 1), 0),
        entry(400, 0, 5, 0xf000, 400),
        waking(410, 0, HARD_INTERRUPT, LOOP),
        exit(420, 0, 5),
        switch_of(430, 0, (OTHER, 0), LOOP),
        switch_of(440, 0, (LOOP, 1), 0),
        waking(500, OTHER, 0, LOOP),
        switch_of(510, 0, (0, 0), LOOP),
    ]);
    let preempted = Doing::Preempted { cpu: 0 };
    let expected = [
        (100, 150, Doing::Running),
        (150, 180, preempted),
        (180, 200, Doing::Running),
        (
            200,
            260,
            asleep(Some(7), false, Waker::Interrupt("eth0".into())),
        ),
        (260, 300, READY),
        (300, 320, Doing::Running),
        (320, 410, asleep(None, false, Waker::Timer)),
        (410, 430, READY),
        (430, 440, Doing::Running),
        (440, 500, asleep(None, false, Waker::Thread(OTHER))),
        (500, 510, READY),
    ];
    assert_eq!(found, expected);
    assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0));
}

#[test]
fn a_thread_woken_on_its_way_to_sleep_sleeps_no_time_but_an_old_wake_up_ends_no_later_sleep() {
    let on_its_way = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        waking(190, OTHER, 0, LOOP),
        switch_of(200, 0, (LOOP, 1), OTHER),
        switch_of(230, 0, (OTHER, 1), LOOP),
    ]);
    assert_eq!(
        on_its_way[1..],
        [
            (200, 200, asleep(None, false, Waker::Thread(OTHER))),
            (200, 230, READY)
        ]
    );
    // The thread had not left the CPU when it was woken, so the sleep that follows is a new one.
    let later = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        waking(110, OTHER, 0, LOOP),
        switch_of(200, 0, (LOOP, 1), OTHER),
        waking(300, 21, 0, LOOP),
        switch_of(330, 0, (OTHER, 1), LOOP),
    ]);
    assert_eq!(later[1], (200, 300, asleep(None, false, Waker::Thread(21))));
}

#[test]
fn nothing_is_known_behind_lost_events_until_the_next_switch() {
    let found = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        lost(150),
        switch_of(200, 0, (LOOP, 1), OTHER),
        waking(300, OTHER, 0, LOOP),
        switch_of(310, 0, (OTHER, 1), LOOP),
    ]);
    assert_eq!(
        found,
        [
            (200, 300, asleep(None, false, Waker::Thread(OTHER))),
            (300, 310, READY)
        ]
    );
    let others = stints(&[switch_of(100, 0, (OTHER, 1), 21), waking(110, 21, 0, OTHER)]);
    assert_eq!(others, []);
}

#[test]
fn a_thread_that_an_idle_cpu_got_without_a_traced_switch_runs_since_its_wake_up() {
    let found = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        switch_of(200, 0, (LOOP, 1), 0),
        stack(201, 0, LOOP, 7),
        waking(250, 0, HARD_INTERRUPT, LOOP),
        start(260, LOOP, 5, 0xf000, 400, 400),
        switch_of(300, 0, (LOOP, 1), 0),
        waking(400, 0, HARD_INTERRUPT, LOOP),
        switch_of(450, 0, (LOOP, PREEMPTED), OTHER),
        start(500, LOOP, 5, 0xf000, 600, 600),
        switch_of(550, 0, (LOOP, 1), 0),
    ]);
    let times: Vec<(i64, i64)> = found.iter().map(|&(start, end, _)| (start, end)).collect();
    let expected = [
        (100, 200),
        (200, 250),
        (250, 250),
        (250, 300),
        (300, 400),
        (400, 400),
        (400, 450),
        (450, 500),
        (500, 550),
    ];
    assert_eq!(times, expected);
    assert!(
        found
            .iter()
            .filter(|(.., doing)| *doing == Doing::Running)
            .count()
            == 4
    );
}

#[test]
fn a_thread_that_was_woken_on_its_way_to_sleep_runs_on_without_a_traced_switch() {
    let found = stints(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        waking(190, 1, HARD_INTERRUPT, LOOP),
        switch_of(200, 0, (LOOP, 1), 0),
        start(260, LOOP, 5, 0xf000, 400, 400),
        switch_of(300, 0, (LOOP, 1), 0),
    ]);
    let times: Vec<(i64, i64)> = found.iter().map(|&(start, end, _)| (start, end)).collect();
    assert_eq!(times, [(100, 200), (200, 200), (200, 200), (200, 300)]);
}

#[test]
fn a_thread_that_calls_a_marked_function_runs_even_if_no_switch_to_it_was_seen() {
    let found = stints(&[
        event(100, 0, LOOP, 0, Kind::Mark { is_end: false }),
        switch_of(200, 0, (LOOP, 1), OTHER),
    ]);
    assert_eq!(found, [(100, 200, Doing::Running)]);
}

#[test]
fn the_thread_that_had_the_cpu_longest_is_known_until_switches_are_lost() {
    let mut stints = Stints::default();
    stints.follow(LOOP);
    let preempted = [
        switch_of(100, 0, (OTHER, 1), LOOP),
        switch_of(150, 0, (LOOP, PREEMPTED), OTHER),
        switch_of(160, 0, (OTHER, 1), 21),
        switch_of(190, 0, (21, 0), 22),
        switch_of(195, 0, (22, 1), LOOP),
    ];
    preempted.iter().for_each(|item| stints.take(item));
    let occupant = |stints: &Stints| {
        let found = stints.occupant(0, 150, 195)?;
        Some((found.thread.pid, found.length))
    };
    assert_eq!(occupant(&stints), Some((21, 30)));
    assert_eq!(
        stints.finished().last().map(|stint| stint.doing),
        Some(Doing::Preempted { cpu: 0 })
    );
    let mut lossy = Stints::default();
    lossy.follow(LOOP);
    preempted[..3].iter().for_each(|item| lossy.take(item));
    lossy.lose_switches_of_others();
    preempted[3..].iter().for_each(|item| lossy.take(item));
    assert_eq!(occupant(&lossy), None);
}

#[test]
fn a_thread_that_moves_while_it_waits_waited_on_the_cpu_of_its_longest_stay() {
    let migrate = |time, to_cpu| event(time, 1, OTHER, 0, Kind::Migrate { pid: LOOP, to_cpu });
    let cpus = |items: &[Item]| -> Vec<u32> {
        let found = stints(items).into_iter();
        let waits = found.filter_map(|(_, _, doing)| match doing {
            Doing::Preempted { cpu } | Doing::Ready { cpu, .. } => Some(cpu),
            _ => None,
        });
        waits.collect()
    };
    let found = cpus(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        switch_of(150, 0, (LOOP, PREEMPTED), OTHER),
        migrate(190, 1),
        switch_of(195, 1, (21, 1), LOOP),
        switch_of(200, 1, (LOOP, 1), 21),
        waking(300, OTHER, 0, LOOP),
        // The wake-up selects another CPU.
        migrate(301, 2),
        migrate(390, 3),
        switch_of(400, 3, (0, 0), LOOP),
    ]);
    assert_eq!(found, [0, 2]);
    let lacks_the_move = cpus(&[
        switch_of(100, 0, (OTHER, 1), LOOP),
        switch_of(150, 0, (LOOP, PREEMPTED), OTHER),
        switch_of(195, 1, (21, 1), LOOP),
    ]);
    assert_eq!(lacks_the_move, [1]);
}
