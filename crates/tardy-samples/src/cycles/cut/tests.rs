use tardy_trace::event::Thread;

use super::*;

const THREAD: i32 = 7;

fn stint(start: i64, end: i64, doing: Doing) -> Stint {
    Stint {
        thread: THREAD,
        start,
        end,
        doing,
    }
}

fn other(pid: i32, length: i64) -> Option<Occupant> {
    let thread = Thread {
        pid,
        ..Thread::default()
    };
    Some(Occupant { thread, length })
}

fn asleep() -> Doing {
    Doing::Asleep {
        stack: None,
        is_relative: false,
        waker: Waker::Thread(9),
    }
}

#[test]
fn the_time_between_two_functions_is_divided_to_the_nanosecond() {
    let mut cutter = Cutter::between_marks();
    assert_eq!(cutter.mark(THREAD, 100, false), None);
    cutter.take(stint(40, 130, Doing::Running), None, None);
    cutter.take(stint(130, 190, asleep()), Some(0), None);
    let ready = Doing::Ready {
        cpu: 0,
        held: Some(Held {
            by: Waker::Softirq(Some(3)),
            start: 180,
            end: 196,
            preempted: 0,
        }),
    };
    cutter.take(stint(190, 200, ready), None, other(8, 10));
    cutter.take(stint(200, 205, Doing::Running), None, None);
    let preempted = Doing::Preempted { cpu: 0 };
    cutter.take(stint(205, 225, preempted), None, other(5, 14));
    assert_eq!(cutter.mark(THREAD, 232, true), Some((100, 232)));
    // This stint started inside the cycle, so its end does not matter.
    cutter.take(stint(225, 300, Doing::Running), None, None);
    let place = WaitPlace {
        call: "read".into(),
        function: "pipe_read".into(),
    };
    cutter.finish();
    let cycles = cutter.result(&[place], &|_| "loop".into());
    let [cycle] = cycles.worst.as_slice() else {
        panic!("one cycle: {cycles:?}");
    };
    let shares = Shares {
        wake_up_ns: Nanos(0),
        running_ns: Nanos(30 + 5 + 7),
        preempted_ns: Nanos(10 + 20),
        blocked_ns: Nanos(60),
    };
    assert_eq!((cycle.shares, cycle.response_ns), (shares, Nanos(132)));
    let by = |stretch: &Stretch| (stretch.by.clone().unwrap(), stretch.by_ns);
    let by: Vec<_> = cycle.stretches.iter().map(by).collect();
    let expected = [
        ("loop/9", None),
        ("softirq NET_RX", Some(Nanos(6))),
        ("/5", Some(Nanos(14))),
    ];
    assert_eq!(by, expected.map(|(by, length)| (by.to_owned(), length)));
    assert_eq!(cycles.threads[0].blocked_in[0].place.call, "read");
}

#[test]
fn each_start_is_measured_cut_off_or_followed_by_another() {
    let mut cutter = Cutter::between_marks();
    for (time, is_end) in [
        (10, true),
        (20, false),
        (30, false),
        (35, true),
        (40, false),
    ] {
        cutter.mark(THREAD, time, is_end);
    }
    cutter.lose();
    cutter.mark(THREAD, 50, true);
    cutter.mark(THREAD, 60, false);
    // No stint covers the time from 60 to 70.
    cutter.take(stint(70, 80, asleep()), None, None);
    cutter.mark(THREAD, 90, true);
    cutter.mark(THREAD, 95, false);
    cutter.finish();
    let cycles = cutter.result(&[], &|_| "loop".into());
    let marks = Marks {
        starts: 5,
        ends: 4,
        restarts: 1,
        ends_without_start: 3,
    };
    assert_eq!(cycles.marks, Some(marks));
    let measured = cycles.threads[0].cycles;
    assert_eq!((measured, cycles.cut_off), (1, 3));
    assert_eq!(marks.starts, measured + cycles.cut_off + marks.restarts);
    assert_eq!(marks.ends, measured + marks.ends_without_start);
}
