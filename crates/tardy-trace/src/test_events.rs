//! Makes events for unit tests, as the decoder would return them.

use crate::event::{Event, Head, Kind, Thread};
use crate::merge::Item;
use crate::text::Text;

pub(crate) const HARD_INTERRUPT: u8 = 0x08;
pub(crate) const SOFT_INTERRUPT: u8 = 0x10;

pub(crate) fn thread(pid: i32) -> Thread {
    Thread {
        pid,
        priority: 120,
        name: Text::default(),
    }
}

pub(crate) fn event(time: u64, cpu: u32, pid: i32, flags: u8, kind: Kind) -> Item {
    Item::Event(Event {
        time,
        cpu,
        head: Head {
            flags,
            preempt_count: 0,
            pid,
        },
        kind,
    })
}

/// Creates the event by which a thread sets a timer for `soft_expires` and lets it expire as late
/// as `expires`.
pub(crate) fn start(
    time: u64,
    pid: i32,
    timer: u64,
    function: u64,
    soft_expires: i64,
    expires: i64,
) -> Item {
    event(
        time,
        0,
        pid,
        0,
        Kind::TimerStart {
            timer,
            function,
            expires,
            soft_expires,
            mode: Some(0),
        },
    )
}

pub(crate) fn cancel(time: u64, pid: i32, timer: u64) -> Item {
    event(time, 0, pid, 0, Kind::TimerCancel { timer })
}

/// Creates the event by which a CPU calls a timer's function, in an interrupt of the thread `pid`.
pub(crate) fn entry(time: u64, pid: i32, timer: u64, function: u64, now: i64) -> Item {
    event(
        time,
        0,
        pid,
        HARD_INTERRUPT,
        Kind::TimerExpireEntry {
            timer,
            function,
            now,
        },
    )
}

pub(crate) fn exit(time: u64, pid: i32, timer: u64) -> Item {
    event(
        time,
        0,
        pid,
        HARD_INTERRUPT,
        Kind::TimerExpireExit { timer },
    )
}

pub(crate) fn waking(time: u64, by: i32, flags: u8, pid: i32) -> Item {
    event(
        time,
        0,
        by,
        flags,
        Kind::Waking {
            thread: thread(pid),
            target_cpu: 0,
        },
    )
}

pub(crate) fn switch(time: u64, previous: i32, next: i32) -> Item {
    event(
        time,
        0,
        previous,
        0,
        Kind::Switch {
            previous: thread(previous),
            previous_state: 1,
            next: thread(next),
        },
    )
}

/// Creates a switch on any CPU; the thread that loses the CPU has the given state.
pub(crate) fn switch_of(time: u64, cpu: u32, (previous, state): (i32, i64), next: i32) -> Item {
    let kind = Kind::Switch {
        previous: thread(previous),
        previous_state: state,
        next: thread(next),
    };
    event(time, cpu, previous, 0, kind)
}

/// Creates the stack of a thread that has just left its CPU.
pub(crate) fn stack(time: u64, cpu: u32, pid: i32, place: u32) -> Item {
    event(time, cpu, pid, 0, Kind::Stack { place: Some(place) })
}

/// Creates an item that states that events of CPU 0 were lost.
pub(crate) fn lost(time: u64) -> Item {
    Item::Lost {
        cpu: 0,
        time,
        count: None,
    }
}
