//! `gtod`: reads the clocks one after another and counts the time between any two reads, as gtod_latency of koolwal2009 does for the largest.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{PolicyName, ThreadPlan};
use tardy_sys::clock;

use super::control::Control;
use super::info::{Placement, ProbeInfo, SeriesInfo, always};
use super::member::{Member, Run};
use super::occupying::{Share, end_of};
use super::{Opened, Opening};
use crate::record::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "gtod",
    times: "gettimeofday(2) and clock_gettime(CLOCK_MONOTONIC) in turns: from one read of a clock to the next of the same; every one is counted",
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
        SeriesInfo { counts_small: true, ..SeriesInfo::GAPS },
        SeriesInfo { part: "monotonic", counts_small: true, ..SeriesInfo::GAPS },
    ],
    placement: Placement::EachCpu,
    policy: PolicyName::Other,
    period: Nanos::from_millis(1),
    resolve: always,
    open,
};

/// What a cycle of `--cycles` stands for.
const CYCLE: Nanos = Nanos::from_millis(1);

fn open(mut opening: Opening<'_>) -> io::Result<Opened> {
    let share = Share::of(opening.probe);
    let monotonic = opening.producers.remove(1);
    let time_of_day = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        measure(&thread, start.at, (time_of_day, monotonic), share, start.control)
    });
    let member = Member { is_watched: false, ..Member::new(opening.probe, opening.thread.cpu, run) };
    Ok(Opened { members: vec![member], ..Opened::default() })
}

fn measure(
    plan: &ThreadPlan,
    start: Nanos,
    (mut of_day, mut of_clock): (Producer, Producer),
    mut share: Share,
    control: &Control,
) -> io::Result<()> {
    let end = end_of(plan, CYCLE, start);
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let _ = clock::sleep_until(&clock::Instant::from_nanos(start.get()));
    let (mut day, mut now) = (clock::time_of_day(), clock::monotonic());
    let mut observed = 0;
    loop {
        let (day_before, before) = (day, now);
        (day, now) = (clock::time_of_day(), clock::monotonic());
        note(&mut of_day, day - day_before, now);
        if let Some(sample) = note(&mut of_clock, now - before, now)
            && sample.latency > stop_above
        {
            control.stop_because_of(plan.cpu, sample);
        }
        observed += now - before;
        if Nanos(now) >= end || control.is_past_end(Nanos(now)) {
            break;
        }
        if share.give_up_when_used(Nanos(now))? {
            (day, now) = (clock::time_of_day(), clock::monotonic());
        }
    }
    for mut producer in [of_day, of_clock] {
        producer.observed(observed);
        producer.close(Nanos(now));
    }
    Ok(())
}

/// Counts a gap that ended now, and hands it over where it is long.
#[inline]
fn note(producer: &mut Producer, gap: i64, now: i64) -> Option<Sample> {
    producer.begin_cycle();
    if producer.count(gap) {
        return None;
    }
    let sample = Sample { due: Nanos(now - gap), latency: Nanos(gap), missed: 0 };
    producer.push(sample);
    Some(sample)
}
