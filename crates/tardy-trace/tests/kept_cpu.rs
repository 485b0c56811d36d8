//! Tests two cases in which the kernel lets a thread keep the CPU although a thread of higher
//! priority waits: an extended time slice, and the owner of a mutex that runs for its donor.

use std::collections::HashMap;

use tardy_trace::event::{Event, Head, Kind, Thread};
use tardy_trace::explain::{Cause, Certainty, Explainer, Facts, Preemption, Target};
use tardy_trace::merge::Item;
use tardy_trace::symbols::Symbols;

const IDLE: i32 = 0;
const LOOP: i32 = 10;
const OTHER: i32 = 20;
const DONOR: i32 = 30;
/// Addresses of the function that ends an extended time slice, and of the timer that calls it.
const EXPIRED: u64 = 0xffff_ffff_8100_0100;
const SLICE_TIMER: u64 = 0xffff_8880_0000_0200;
const HARD_INTERRUPT: u8 = 0x08;
const SLEEP: i64 = 1;
const MUTEX: i64 = 2;

fn thread(pid: i32) -> Thread {
    let (name, priority) = match pid {
        IDLE => ("swapper", 120),
        LOOP => ("my_loop", 19),
        OTHER => ("dd", 120),
        _ => ("motor", 9),
    };
    Thread {
        pid,
        priority,
        name: name.into(),
    }
}

fn event(time: u64, pid: i32, flags: u8, kind: Kind) -> Item {
    Item::Event(Event {
        time,
        cpu: 0,
        head: Head {
            flags,
            preempt_count: 0,
            pid,
        },
        kind,
    })
}

fn switch(time: u64, from: i32, previous_state: i64, to: i32) -> Item {
    let kind = Kind::Switch {
        previous: thread(from),
        previous_state,
        next: thread(to),
    };
    event(time, from, 0, kind)
}

fn waking(time: u64, by: i32, flags: u8, pid: i32) -> Item {
    let kind = Kind::Waking {
        thread: thread(pid),
        target_cpu: 0,
    };
    event(time, by, flags, kind)
}

/// Creates a timer interrupt that interrupts thread `by` and wakes the loop at `time`.
fn interrupt(time: u64, by: i32) -> [Item; 3] {
    let name = "local_timer".into();
    [
        event(time - 1_000, by, HARD_INTERRUPT, Kind::VectorEntry { name }),
        waking(time, by, HARD_INTERRUPT, LOOP),
        event(time + 1_000, by, HARD_INTERRUPT, Kind::VectorExit { name }),
    ]
}

fn extension(time: u64) -> Item {
    let expires = 1_000_000;
    let kind = Kind::TimerStart {
        timer: SLICE_TIMER,
        function: EXPIRED,
        expires,
        soft_expires: expires,
        mode: Some(0x0a),
    };
    event(time, OTHER, 0, kind)
}

/// Returns the holders of the CPU while the loop waited: cause, name, donor, certainty, length.
fn holders(facts: Facts, items: &[Item]) -> Vec<(Cause, String, String, Certainty, u64)> {
    let mut explainer = Explainer::new(Target::Pids(vec![LOOP]), facts, &HashMap::new());
    items.iter().for_each(|item| explainer.take(item));
    let wake_up = explainer.finished().next().expect("the loop was woken");
    let pieces = wake_up.pieces.iter().map(|piece| {
        let donor = piece.holder.sender.unwrap_or_default();
        let (cause, name) = (piece.holder.cause, piece.holder.name.to_string());
        (cause, name, donor.to_string(), piece.known, piece.length())
    });
    pieces
        .filter(|(cause, ..)| *cause != Cause::Interrupt)
        .collect()
}

/// Returns the facts about a preemptible kernel that has both features, as its symbols show.
fn facts() -> Facts {
    let symbols = Symbols::parse(
        "ffffffff81000000 T schedule\nffffffff81000100 t rseq_slice_expired\n\
         ffffffff82000000 D __sched_proxy_exec\n",
    );
    Facts {
        preemption: Some(Preemption::Full),
        ..Facts::default()
    }
    .with_symbols(&symbols)
}

#[test]
fn an_extended_time_slice_lasts_from_its_timer_to_the_switch() {
    let mut items = vec![switch(1_000, LOOP, SLEEP, OTHER)];
    items.extend(interrupt(100_000, OTHER));
    items.extend([extension(101_500), switch(106_500, OTHER, 0, LOOP)]);
    let seen = (Cause::ExtendedSlice, Certainty::Seen, 5_000);
    let told = |facts| {
        let last = holders(facts, &items).pop().expect("there are pieces");
        (last.0, last.3, last.4)
    };
    assert_eq!(told(facts()), seen);
    // If the address of the function is unknown, no other timer is taken for the one that ends a
    // time slice.
    assert_ne!(told(Facts::default()).0, Cause::ExtendedSlice);
}

#[test]
fn an_extended_time_slice_ends_with_its_timer() {
    let mut items = vec![switch(1_000, LOOP, SLEEP, OTHER)];
    items.extend(interrupt(100_000, OTHER));
    items.push(extension(101_500));
    let name = "local_timer".into();
    let (timer, function, now) = (SLICE_TIMER, EXPIRED, 151_500);
    let expiry = Kind::TimerExpireEntry {
        timer,
        function,
        now,
    };
    items.extend([
        event(151_500, OTHER, HARD_INTERRUPT, Kind::VectorEntry { name }),
        event(152_000, OTHER, HARD_INTERRUPT, expiry),
        event(152_500, OTHER, HARD_INTERRUPT, Kind::VectorExit { name }),
        switch(153_500, OTHER, 0, LOOP),
    ]);
    let told: Vec<_> = holders(facts(), &items)
        .into_iter()
        .map(|(cause, name, .., length)| (cause, name, length))
        .collect();
    let of = |cause, length| (cause, "dd".to_owned(), length);
    assert_eq!(
        told,
        [
            of(Cause::Switch, 500),
            of(Cause::ExtendedSlice, 50_000),
            of(Cause::Switch, 1_000),
        ]
    );
}

#[test]
fn an_extension_from_before_the_wake_up_was_for_another_thread() {
    let mut items = vec![switch(1_000, LOOP, SLEEP, OTHER), extension(90_000)];
    items.extend(interrupt(100_000, OTHER));
    items.push(switch(102_000, OTHER, 0, LOOP));
    let told = holders(facts(), &items);
    assert!(
        told.iter()
            .all(|(cause, ..)| *cause != Cause::ExtendedSlice),
        "{told:?}"
    );
}

/// The donor waits for a mutex of the thread that gets the CPU, and the loop is woken meanwhile.
fn lent(by: i32) -> Vec<Item> {
    let mut items = vec![
        switch(1_000, LOOP, SLEEP, DONOR),
        switch(50_000, DONOR, MUTEX, OTHER),
    ];
    items.extend(interrupt(100_000, OTHER));
    let mut release = waking(400_000, by, 0, DONOR);
    if let Item::Event(event) = &mut release {
        event.cpu = u32::from(by != OTHER);
    }
    items.extend([
        release,
        switch(402_000, OTHER, 0, DONOR),
        switch(410_000, DONOR, SLEEP, LOOP),
    ]);
    items
}

#[test]
fn the_owner_of_a_mutex_runs_for_its_donor() {
    let owner = (
        Cause::LockOwner,
        "dd".to_owned(),
        "motor".to_owned(),
        Certainty::Inferred,
        301_000,
    );
    assert_eq!(holders(facts(), &lent(OTHER))[0], owner);
    // The cause may also be that preemption was off, unless an event excludes this.
    let unknown = Facts {
        preemption: None,
        ..facts()
    };
    assert_eq!(
        holders(unknown, &lent(OTHER))[0].3,
        Certainty::CannotTell(Cause::KernelCode)
    );
    let without = Facts {
        has_proxy_execution: false,
        ..facts()
    };
    assert_eq!(holders(without, &lent(OTHER))[0].0, Cause::Switch);
}

#[test]
fn a_sleeper_that_another_thread_wakes_is_no_donor() {
    assert_eq!(holders(facts(), &lent(99))[0].0, Cause::Switch);
}

#[test]
fn an_owner_that_gets_the_cpu_while_the_loop_waits_runs_for_its_donor() {
    let mut items = vec![switch(1_000, LOOP, SLEEP, DONOR)];
    items.extend(interrupt(100_000, DONOR));
    items.extend([
        switch(150_000, DONOR, MUTEX, OTHER),
        waking(400_000, OTHER, 0, DONOR),
        switch(402_000, OTHER, 0, DONOR),
        switch(410_000, DONOR, SLEEP, LOOP),
    ]);
    let told: Vec<_> = holders(facts(), &items)
        .into_iter()
        .map(|(cause, name, donor, ..)| (cause, name, donor))
        .collect();
    let motor = (Cause::HigherPriority, "motor".to_owned(), String::new());
    let owner = (Cause::LockOwner, "dd".to_owned(), "motor".to_owned());
    assert_eq!(told, [motor.clone(), owner, motor]);
}
