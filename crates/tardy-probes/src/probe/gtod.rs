//! `gtod`: reads one clock again and again and counts the time between any two reads, as gtod_latency of koolwal2009 does for the largest; two clocks in turns.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{PolicyName, ThreadPlan, WaitsFor};
use tardy_sys::clock;

use super::busy_loop::Share;
use super::info::ProbeInfo;
use super::member::{Member, Run};
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::Control;
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "gtod",
    about: "gaps between reads of the clock, one after another",
    times: "gettimeofday(2) for 1 ms, then clock_gettime(CLOCK_MONOTONIC) for 1 ms: from one read of a clock to the next; every one is counted",
    context: "no timer; stock: what takes the CPU is seen in any context; RT: the same, but for tasks of lower priority",
    source: "koolwal2009 (gtod_latency)",
    parameters: &[Parameter::duration(
        "least",
        "shortest time that is stored with its moment; shorter ones are counted by length",
        "5us",
        Nanos(1),
        Nanos::from_micros(60),
    )],
    series: &[
        SeriesInfo { bins_below_least: true, ..SeriesInfo::GAPS },
        SeriesInfo { part: "monotonic", bins_below_least: true, ..SeriesInfo::GAPS },
    ],
    policy: PolicyName::Other,
    waits_for: WaitsFor::Nothing,
    system_calls: &[],
    open,
    ..ProbeInfo::USUAL
};

/// For how long one clock is read before it is the other one's turn. What lies between the reads that are timed is then the same clock's read alone.
const TURN: Nanos = Nanos::from_millis(1);

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let share = Share::of(opening.probe);
    let monotonic = opening.producers.remove(1);
    let time_of_day = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        measure(&thread, start.at, (time_of_day, monotonic), share, start.control)
    });
    let member = Member { is_watched: false, ..Member::new(opening.probe, opening.thread.cpu, run) };
    Ok(ProbeInstance { members: vec![member], ..ProbeInstance::default() })
}

/// A clock that is read again and again, with its series.
struct ClockReader<C: Fn() -> i64> {
    clock: C,
    producer: Producer,
    /// The last read.
    last: i64,
    /// Reads that are still to be made.
    left: u64,
    /// Time that its reads covered, in ns.
    observed: i64,
}

impl<C: Fn() -> i64> ClockReader<C> {
    fn new(clock: C, producer: Producer, plan: &ThreadPlan) -> Self {
        let last = clock();
        Self { clock, producer, last, left: plan.cycles.unwrap_or(u64::MAX), observed: 0 }
    }

    /// Begins a turn: what came since the last one is not this clock's time.
    #[inline]
    fn begin(&mut self) {
        self.last = (self.clock)();
    }

    /// Reads the clock for a turn, or until it was read often enough; the last gap that was long enough to have its moment and is above the limit.
    fn take_turn(&mut self, stop_above: Nanos) -> Option<Sample> {
        let begun = self.last;
        let mut above = None;
        while self.left > 0 && self.last - begun < TURN.get() {
            if let Some(sample) = self.read()
                && sample.latency > stop_above
            {
                above = Some(sample);
            }
        }
        self.observed += self.last - begun;
        self.producer.observed(self.observed);
        above
    }

    /// Reads once, beside the turns.
    fn read_once_more(&mut self, stop_above: Nanos) -> Option<Sample> {
        if self.left == 0 {
            return None;
        }
        let before = self.last;
        let sample = self.read();
        self.observed += self.last - before;
        sample.filter(|sample| sample.latency > stop_above)
    }

    /// Reads once, and counts the gap since the last read; handed over where it is long.
    #[inline]
    fn read(&mut self) -> Option<Sample> {
        let now = (self.clock)();
        let gap = now - self.last;
        self.last = now;
        self.left -= 1;
        self.producer.begin_cycle();
        if self.producer.count(gap) {
            return None;
        }
        Some(self.hand_over(gap))
    }

    /// On the run's clock, whichever was read: a gap is long beside one more read.
    #[cold]
    fn hand_over(&mut self, gap: i64) -> Sample {
        let sample = Sample { due: Nanos(clock::monotonic() - gap), latency: Nanos(gap), skipped: 0 };
        self.producer.push(sample);
        sample
    }

    fn close(self, end: Nanos) {
        self.producer.close(end);
    }
}

fn measure(
    plan: &ThreadPlan,
    start: Nanos,
    (of_day, of_clock): (Producer, Producer),
    mut share: Share,
    control: &Control,
) -> io::Result<()> {
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let _ = clock::sleep_until(&clock::Instant::from_nanos(start.get()));
    let (mut day, mut monotonic) = (ClockReader::new(clock::time_of_day, of_day, plan), ClockReader::new(clock::monotonic, of_clock, plan));
    let end = loop {
        // Each clock's first read comes before the other one's last: whatever takes the CPU between two turns is in the gaps of one of them.
        let above_of_day = day.take_turn(stop_above);
        monotonic.begin();
        let above_of_day = above_of_day.or(day.read_once_more(stop_above));
        let above = monotonic.take_turn(stop_above);
        let mut now = Nanos(monotonic.last);
        if let Some(sample) = above_of_day.or(above) {
            control.stop_because_of(plan.cpu, sample);
        }
        if day.left == 0 && monotonic.left == 0 {
            break now;
        }
        let is_rested = share.give_up_when_used(now)?;
        day.begin();
        if is_rested {
            now = Nanos(clock::monotonic());
        } else if let Some(sample) = monotonic.read_once_more(stop_above) {
            control.stop_because_of(plan.cpu, sample);
        }
        if control.is_past_end(now) {
            break now;
        }
    };
    day.close(end);
    monotonic.close(end);
    Ok(())
}
