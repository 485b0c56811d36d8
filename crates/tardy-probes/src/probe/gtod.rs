//! `gtod`: reads a clock continuously, and records the times between two consecutive reads.
//! gtod_latency of koolwal2009 reports only the largest of these times.
//!
//! The probe reads two clocks in turns: one for 1.03 ms, then the other. If it read the clocks
//! alternately, the time between two reads of one clock would include a read of the other clock.
//! The turns of the two clocks overlap: each turn starts before the other clock's last read. So a
//! delay between two turns falls between two reads of one clock.
//!
//! If the time of day is set during a gap, the length of the gap is taken from the run's clock
//! instead. Otherwise a step forward by an hour would look like a gap of an hour, and after a step
//! back the thread would read for an hour. Gaps that are counted in bins are not checked, because a
//! step in such a gap is short, too.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{PolicyName, ThreadPlan, WaitsFor};
use tardy_sys::clock::{self, Clock};

use super::busy_loop::Share;
use super::info::ProbeInfo;
use super::member::{Member, Run};
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "gtod",
    about: "gaps between consecutive reads of the clock",
    times: "repeated gettimeofday(2) for 1.03 ms, then repeated clock_gettime(CLOCK_MONOTONIC) for \
            1.03 ms: from one read of a clock to the next; every gap is counted",
    context: "no timer; stock kernel: the probe can lose its CPU to any context; PREEMPT_RT: to \
              interrupts and to tasks of the same or a higher priority",
    source: "koolwal2009 (gtod_latency)",
    parameters: &[Parameter::duration(
        "least",
        "shortest gap that is stored with its time; shorter gaps are only counted by length",
        "5us",
        Nanos(1),
        Nanos::from_micros(60),
    )],
    series: &[
        SeriesInfo {
            bins_below_least: true,
            ..SeriesInfo::GAPS
        },
        SeriesInfo {
            part: "monotonic",
            bins_below_least: true,
            ..SeriesInfo::GAPS
        },
    ],
    policy: PolicyName::Other,
    waits_for: WaitsFor::Nothing,
    reads_time_of_day: true,
    system_calls: &[],
    open,
    ..ProbeInfo::USUAL
};

/// Duration of one clock's turn. In this time, the other clock is read only once, after the turn's
/// first read.
///
/// The duration is out of step with the kernel's tick (1, 4 or 10 ms) and with work that recurs
/// each second or each four seconds. With 1 ms, such work would always fall into the turns of the
/// same clock.
const TURN: Nanos = Nanos(1_030_700);

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let share = Share::of(opening.probe);
    let monotonic = opening.producers.remove(1);
    let time_of_day = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        measure(
            &thread,
            start.at,
            (time_of_day, monotonic),
            share,
            start.control,
        )
    });
    let member = Member {
        is_watched: false,
        ..Member::new(opening.probe, opening.thread.cpu, run)
    };
    Ok(ProbeInstance {
        members: vec![member],
        ..ProbeInstance::default()
    })
}

/// A clock that is read repeatedly, with its series.
///
/// A user or time synchronisation may set the time of day while the probe reads it. The length of
/// the gap in which this happens is taken from the run's clock. So samples do not include the step,
/// and a turn ends even if the clock was set back.
struct ClockReader<C: Fn() -> i64, A: Fn() -> i64> {
    clock: C,
    /// Returns how far the clock is ahead of the run's clock.
    ahead: A,
    producer: Producer,
    /// Time of the last read.
    last: i64,
    /// How far the clock was ahead of the run's clock at the last read.
    last_ahead: i64,
    /// Time of the first read of this turn, corrected for steps of the clock since then.
    begun: i64,
    /// Number of reads still to be made.
    left: u64,
    /// Time during which the clock was read continuously, in ns.
    observed: i64,
}

impl<C: Fn() -> i64, A: Fn() -> i64> ClockReader<C, A> {
    fn new(clock: C, ahead: A, producer: Producer, plan: &ThreadPlan) -> Self {
        let left = plan.cycles.unwrap_or(u64::MAX);
        let mut reader = Self {
            clock,
            ahead,
            producer,
            last: 0,
            last_ahead: 0,
            begun: 0,
            left,
            observed: 0,
        };
        reader.begin();
        reader
    }

    /// Starts a turn. The time since the clock's last turn is not counted as a gap.
    #[inline]
    fn begin(&mut self) {
        (self.last, self.last_ahead) = self.read_exactly();
        self.begun = self.last;
    }

    /// Reads the clock's offset before and after the clock, and repeats this until both offsets are
    /// equal.
    fn read_exactly(&self) -> (i64, i64) {
        loop {
            let ahead = (self.ahead)();
            let now = (self.clock)();
            if (self.ahead)() == ahead {
                return (now, ahead);
            }
        }
    }

    /// Reads the clock for a turn, or until the requested number of reads is reached. Returns the
    /// last sample above the limit.
    fn take_turn(&mut self, stop_above: Nanos) -> Option<Sample> {
        let mut above = None;
        while self.left > 0 && self.last - self.begun < TURN.get() {
            if let Some(sample) = self.read()
                && sample.latency > stop_above
            {
                above = Some(sample);
            }
        }
        self.observed += self.last - self.begun;
        self.producer.observed(self.observed);
        above
    }

    /// Reads the clock once more, outside its turns.
    fn read_once_more(&mut self, stop_above: Nanos) -> Option<Sample> {
        if self.left == 0 {
            return None;
        }
        self.begun = self.last;
        let sample = self.read();
        self.observed += self.last - self.begun;
        sample.filter(|sample| sample.latency > stop_above)
    }

    /// Reads once, and counts the gap since the last read. Returns a sample if the gap is too long
    /// for the bins.
    #[inline]
    fn read(&mut self) -> Option<Sample> {
        let now = (self.clock)();
        let gap = now - self.last;
        self.last = now;
        self.left -= 1;
        self.producer.begin_cycle();
        // If the clock was set back, the gap is below zero and has no bin either.
        if self.producer.count(gap) {
            None
        } else {
            self.hand_over(gap)
        }
    }

    /// Records the gap as a sample that ends now on the run's clock. Reading the run's clock takes
    /// little time compared with such a gap. Returns `None` if the clock was set and the gap proves
    /// to be short.
    #[cold]
    fn hand_over(&mut self, mut gap: i64) -> Option<Sample> {
        let mut end = clock::monotonic();
        if (self.ahead)() != self.last_ahead {
            // The clock was set before or after the read that found the gap. Another read, for
            // which the clock's offset is known, therefore ends the gap.
            let (now, ahead) = self.read_exactly();
            let step = ahead - self.last_ahead;
            gap = (now - step - (self.last - gap)).max(0);
            end = clock::monotonic();
            (self.last, self.last_ahead) = (now, ahead);
            self.begun += step;
            if self.producer.count(gap) {
                return None;
            }
        }
        let sample = Sample {
            due: Nanos(end - gap),
            latency: Nanos(gap),
            skipped: 0,
        };
        self.producer.push(sample);
        Some(sample)
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
) -> io::Result<Departure> {
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let _ = clock::sleep_until(&clock::Instant::from_nanos(start.get()));
    let mut day = ClockReader::new(clock::time_of_day, || Clock::Realtime.ahead(), of_day, plan);
    let mut monotonic = ClockReader::new(
        clock::monotonic,
        || Clock::Monotonic.ahead(),
        of_clock,
        plan,
    );
    let end = loop {
        // Each turn starts before the other clock's last read. So a preemption between two turns
        // falls between two reads of one clock.
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
    Ok(control.leave())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::recording::ring::ring_with_bins;
    use tardy_core::sample::Record;
    use tardy_core::series::Schedule;
    use tardy_run::system_clock::ThreadClocks;

    /// A test clock that advances by 100 ns per read, and jumps at read number `set_at`.
    struct SetClock {
        reads: Cell<i64>,
        set_at: i64,
        by: i64,
    }

    impl SetClock {
        fn ahead(&self) -> i64 {
            if self.reads.get() >= self.set_at {
                self.by
            } else {
                0
            }
        }

        fn read(&self) -> i64 {
            self.reads.set(self.reads.get() + 1);
            1_000_000_000 + 100 * self.reads.get() + self.ahead()
        }
    }

    /// Runs turns in which this clock is read. Returns how often each gap length was counted, the
    /// stored gaps, and the observed time.
    fn turns(clock: &SetClock) -> (Vec<u64>, Vec<Record>, i64) {
        let plan = ThreadPlan {
            cpu: None,
            copy: None,
            schedule: Schedule::Event { request: Nanos(1) },
            seed: 0,
            cycles: None,
            stop_above: None,
            clocks: ThreadClocks::default(),
        };
        let (producer, mut consumer) = ring_with_bins(64, 5000);
        let mut reader = ClockReader::new(|| clock.read(), || clock.ahead(), producer, &plan);
        for _ in 0..3 {
            reader.begin();
            assert_eq!(reader.take_turn(Nanos::MAX), None);
            assert_eq!(reader.read_once_more(Nanos::MAX), None);
        }
        let mut stored = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| stored.push(record));
        (
            consumer.bins().collect(),
            stored,
            consumer.observed().unwrap().get(),
        )
    }

    #[test]
    fn a_step_of_the_time_of_day_makes_no_gap_and_no_turn_longer() {
        let undisturbed = turns(&SetClock {
            reads: Cell::new(0),
            set_at: i64::MAX,
            by: 0,
        });
        assert_eq!((undisturbed.0.len(), undisturbed.1.len()), (5000, 0));
        let hour = 3_600_000_000_000;
        for by in [hour, -hour, 1_000_000_000, -1_000_000_000, -10_000] {
            // The clock is set in the middle of a turn of 1 ms, at the start of a turn, or at the
            // single read between two turns.
            for set_at in [12_345, 10_003, 10_002, 10_001] {
                let (counted, stored, observed) = turns(&SetClock {
                    reads: Cell::new(0),
                    set_at,
                    by,
                });
                assert_eq!(stored, [], "{by} at read {set_at}");
                let longest = counted.iter().rposition(|&times| times > 0);
                assert!(
                    longest <= Some(300),
                    "{by} at read {set_at}: a gap of {longest:?} ns"
                );
                assert!(
                    (observed - undisturbed.2).abs() <= 1000,
                    "{by} at read {set_at}: {observed} ns observed, {} undisturbed",
                    undisturbed.2
                );
            }
        }
    }
}
