//! `oslat`: reads the cycle counter continuously, and finds every interval in which something took
//! the CPU away, as oslat and hwlat do.
//!
//! The counters that changed during a gap show its cause. If the kernel counted an involuntary
//! switch of the thread, the cause is a task (`oslat.tasks`). If there was no such switch, but the
//! kernel counted an interrupt of the CPU, the cause is an interrupt (`oslat.interrupts`). If it
//! counted neither, the cause is the hypervisor, the firmware or the hardware, whose activity the
//! kernel does not see (`oslat.unseen`). The series of all gaps is `oslat`.
//!
//! The probe reads the counters at the end of each gap and once per ms. If an interrupt is too
//! short to be a gap, a gap within the next ms can therefore be attributed to it. While tracepoints
//! are counted, each one makes an interrupt some hundred ns longer. If interrupts cannot be
//! counted, a note states the reason, and the last two series are absent.
//!
//! The time of the probe's own work (a clock read once per ms, and recording a gap) does not count
//! as observed time. A gap during this work is found only if it lasts at least 50 us and at least
//! `least`.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{PolicyName, ThreadPlan, WaitsFor};
use tardy_sys::clock;
use tardy_sys::cycle_counter::{self, Calibration};
use tardy_sys::tracepoint_counter::TracepointCounter;
use tardy_sys::usage::{UsageScope, usage};

use super::busy_loop::{Anchor, Share};
use super::info::ProbeInfo;
use super::interrupt_counter;
use super::member::{Member, Run};
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "oslat",
    about: "intervals in which a busy thread lost its CPU",
    times: "consecutive reads of the cycle counter: intervals between two reads in which the \
            thread lost its CPU",
    context: "no timer; stock kernel: the probe can lose its CPU to any context; PREEMPT_RT: to \
              interrupts and to tasks of the same or a higher priority",
    source: "today (oslat, hwlat)",
    parameters: &[Parameter::duration(
        "least",
        "shortest interval that is stored as a sample",
        "1us",
        Nanos(100),
        Nanos::from_secs(10),
    )],
    series: &[
        SeriesInfo::GAPS,
        SeriesInfo {
            part: "tasks",
            quantity: "gap by a task",
            ..SeriesInfo::GAPS
        },
        SeriesInfo {
            part: "interrupts",
            quantity: "gap by an interrupt",
            ..SeriesInfo::GAPS
        },
        SeriesInfo {
            part: "unseen",
            quantity: "gap that no count explains",
            ..SeriesInfo::GAPS
        },
    ],
    policy: PolicyName::Other,
    waits_for: WaitsFor::Nothing,
    // After each gap and once per ms, the probe asks the kernel how often its thread was switched
    // out.
    system_calls: &["getrusage"],
    // Reads the counters of interrupts.
    traced_system_calls: &["read"],
    open,
    ..ProbeInfo::USUAL
};

/// Time between two checks of the clock and the stop flag.
const LOOK: Nanos = Nanos::from_millis(1);
/// Maximum time that one step of the probe's own work may take. In an emulated machine, a step
/// takes some thousand instructions, each of which takes 4 ns.
const OWN_WORK_MAX: Nanos = Nanos::from_micros(50);

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let least = opening.probe.parameters.duration("least");
    let share = Share::of(opening.probe);
    let cpu = opening.thread.cpu.map_or(0, |cpu| cpu.0);
    let counted = interrupt_counter::open(&Root::system(), cpu);
    let mut notes: Vec<String> = counted
        .as_ref()
        .err()
        .map(|why| format!("oslat cannot separate interrupts from gaps outside the kernel: {why}"))
        .into_iter()
        .collect();
    // If interrupts cannot be counted, two series would always be empty and wrongly show that there
    // were no such gaps.
    let series = counted.is_err().then(|| INFO.series[..2].to_vec());
    let interrupts = counted
        .ok()
        .map(|counter| Interrupts { counter, before: 0 });
    let [all, tasks, by_interrupts, unseen] =
        <[Producer; 4]>::try_from(opening.producers).expect("every series in INFO has a producer");
    let thread = opening.thread.clone();
    let counter = cycle_counter::invariant();
    let calibration = if counter.is_ok() {
        Calibration::of_this_machine()
    } else {
        Calibration::OF_NANOSECONDS
    };
    let run: Run = Box::new(move |ready| {
        let least = calibration.ticks(least.get());
        let series = Series {
            all,
            tasks,
            by_interrupts,
            unseen,
            least,
            switches: 0,
            interrupts,
            calibration,
        };
        let start = ready.wait();
        if counter.is_ok() {
            measure(
                &thread,
                start.at,
                cycle_counter::read,
                series,
                share,
                start.control,
            )
        } else {
            measure(
                &thread,
                start.at,
                || clock::monotonic() as u64,
                series,
                share,
                start.control,
            )
        }
    });
    let member = Member {
        is_watched: false,
        ..Member::new(opening.probe, opening.thread.cpu, run)
    };
    notes.extend(
        counter
            .err()
            .map(|reason| format!("oslat reads CLOCK_MONOTONIC, not a cycle counter: {reason}")),
    );
    Ok(ProbeInstance {
        members: vec![member],
        series,
        notes,
        ..ProbeInstance::default()
    })
}

struct Series {
    all: Producer,
    tasks: Producer,
    by_interrupts: Producer,
    unseen: Producer,
    /// The shortest gap that is recorded, in ticks.
    least: u64,
    /// Number of involuntary switches at the last read.
    switches: u64,
    /// Counter of interrupts; absent if they cannot be counted.
    interrupts: Option<Interrupts>,
    calibration: Calibration,
}

/// The interrupts of the CPU.
struct Interrupts {
    counter: TracepointCounter,
    /// Count at the last check.
    before: u64,
}

impl Interrupts {
    /// Returns whether the count changed since the last check.
    fn came(&mut self) -> bool {
        let now = self.counter.read().unwrap_or(self.before);
        now != std::mem::replace(&mut self.before, now)
    }
}

impl Series {
    /// Reads all counters, so that a later gap is not attributed to earlier events.
    fn look(&mut self) {
        self.switches = count_switches();
        self.interrupts.as_mut().map(Interrupts::came);
    }

    /// Returns the counts at the last check or at the last gap.
    fn counted(&self) -> (u64, Option<u64>) {
        (
            self.switches,
            self.interrupts.as_ref().map(|interrupts| interrupts.before),
        )
    }

    /// Resets the stored counts to those that [`Self::counted`] returned, so that the next gap is
    /// attributed to all events since then.
    fn count_from(&mut self, (switches, before): (u64, Option<u64>)) {
        self.switches = switches;
        if let (Some(interrupts), Some(before)) = (&mut self.interrupts, before) {
            interrupts.before = before;
        }
    }

    /// Records a gap of `ticks` that starts at `begin`, and returns its sample.
    fn found(&mut self, begin: Nanos, ticks: u64) -> Sample {
        let sample = Sample {
            due: begin,
            latency: Nanos(self.calibration.nanos(ticks)),
            skipped: 0,
        };
        let switches = count_switches();
        let is_switched = switches > std::mem::replace(&mut self.switches, switches);
        let is_interrupted = self.interrupts.as_mut().map(Interrupts::came);
        let cause = match (is_switched, is_interrupted) {
            (true, _) => Some(&mut self.tasks),
            (false, Some(true)) => Some(&mut self.by_interrupts),
            (false, Some(false)) => Some(&mut self.unseen),
            (false, None) => None,
        };
        for producer in [Some(&mut self.all), cause].into_iter().flatten() {
            producer.begin_cycle();
            producer.push(sample);
        }
        sample
    }

    fn observed(&mut self, nanos: i64) {
        self.all.observed(nanos);
        self.tasks.observed(nanos);
        self.by_interrupts.observed(nanos);
        self.unseen.observed(nanos);
    }

    fn close(self, end: Nanos) {
        for producer in [self.all, self.tasks, self.by_interrupts, self.unseen] {
            producer.close(end);
        }
    }
}

fn measure(
    plan: &ThreadPlan,
    start: Nanos,
    read: impl Fn() -> u64,
    mut series: Series,
    mut share: Share,
    control: &Control,
) -> io::Result<Departure> {
    let calibration = series.calibration;
    // A cycle is the interval between two reads.
    let mut left = plan.cycles.unwrap_or(u64::MAX);
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let (look, own_work_max) = (
        calibration.ticks(LOOK.get()),
        calibration.ticks(OWN_WORK_MAX.get()),
    );
    clock::sleep_until(&clock::Instant::from_nanos(start.get()))?;
    series.look();
    let mut anchor = Anchor::new(&read, calibration);
    let (first, mut not_observed) = (anchor.ticks(), 0_u64);
    let (mut last, mut next_look) = (first, first.wrapping_add(look));
    loop {
        let now = read();
        let gap = now.wrapping_sub(last);
        left -= 1;
        if gap < series.least && now < next_look && left > 0 {
            last = now;
            continue;
        }
        let (mut work_began, mut counted) = (now, series.counted());
        if gap >= series.least {
            let sample = series.found(anchor.at(last), gap);
            if sample.latency > stop_above {
                control.stop_because_of(plan.cpu, sample);
            }
        }
        if now >= next_look || left == 0 {
            series.look();
            let observed = calibration.nanos(now.wrapping_sub(first).wrapping_sub(not_observed));
            series.observed(observed);
            anchor = Anchor::new(&read, calibration);
            if left == 0 || control.is_past_end(anchor.nanos()) {
                break;
            }
            if share.give_up_when_used(anchor.nanos())? {
                series.look();
                not_observed += read().wrapping_sub(work_began);
                (work_began, counted) = (read(), series.counted());
            }
            next_look = read().wrapping_add(look);
        }
        // The work since `work_began` is not observed time. If the work took too long, something
        // took the CPU away meanwhile; this is recorded as a gap.
        last = read();
        let work = last.wrapping_sub(work_began);
        if work < own_work_max.max(series.least) {
            not_observed += work;
        } else {
            // The counts of the check above may already include the cause, so the earlier counts
            // are restored.
            series.count_from(counted);
            series.found(anchor.at(work_began), work);
            let noted = read();
            not_observed += noted.wrapping_sub(last);
            last = noted;
        }
    }
    series.close(anchor.nanos());
    Ok(control.leave())
}

/// Returns how often the kernel preempted this thread in favour of another one.
fn count_switches() -> u64 {
    usage(UsageScope::Thread).map_or(0, |usage| usage.switches_involuntary)
}
