//! Shared code of the thread-to-thread probes. In these probes, one thread wakes another one, and
//! the woken thread records how long this took.
//!
//! The woken thread has a higher priority than the waker, so that on the same CPU the wake-up
//! itself switches to the woken thread. One of the two is the timekeeper: it sleeps until each due
//! time of a grid, and records the latency of that timer in a separate series.
//!
//! A pair of threads has two series. In the series of wake-ups, each wake-up is due when the waker
//! reads the clock, right before it wakes the other thread. In the series of the timer that paces
//! the wake-ups, due times are on a grid. A late timer therefore does not count as a late wake-up.
//! If the woken thread is still busy with one wake-up when the next period starts, that period has
//! no wake-up and is recorded as skipped. One atomic step decides this, so each period is counted
//! once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::Parameter;
use tardy_run::plan::{ProbePlan, ThreadPlan, WaitsFor};
use tardy_sys::sched::Policy;
use tardy_sys::{affinity, clock};

use super::info::{ProbeInfo, Refusal};
use super::member::{Member, Run, Start};
use super::schedule::grid_of;
use super::series_info::{SeriesInfo, SeriesKind};
use super::{OpenContext, ProbeInstance};
use crate::recording::control::Departure;
use crate::recording::ring::Producer;

/// A way for one thread to wake another one. If a wake-up comes before the other thread waits, it
/// must not be lost.
pub(super) trait Channel: Sized + Send + Sync + 'static {
    /// Makes the channel. Called on the main thread, before any other thread exists.
    fn new() -> io::Result<Self>;

    /// Called once on the thread that will wait, before the first wake-up.
    fn prepare_to_wait(&self) -> io::Result<()> {
        Ok(())
    }

    /// Wakes the waiting thread, or the next thread that waits.
    fn wake(&self) -> io::Result<()>;

    /// Waits for a wake-up.
    fn wait(&self) -> io::Result<()>;
}

/// The description that these probes share, except for name, text and channel.
pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "",
    times: "",
    context: "no timer; stock kernel: the waker's system call wakes the thread; PREEMPT_RT: the \
              same, but the call may sleep while it waits for the kernel's locks",
    source: "",
    parameters: &[
        Parameter::choice(
            "waker",
            "where the waker runs: on the CPU of the woken thread, or on another CPU",
            &["same", "other"],
        ),
        Parameter::choice(
            "pace",
            "which thread sleeps until the due time: the waker, which then wakes the other thread; \
             or the woken thread, which then requests its wake-up, as in the programs of rt-tests",
            &["waker", "woken"],
        ),
    ],
    series: &[
        SeriesInfo {
            part: "",
            quantity: "latency",
            kind: SeriesKind::Event,
            is_outside_verdict: false,
            bins_below_least: false,
        },
        SeriesInfo {
            part: "timer",
            quantity: "latency",
            kind: SeriesKind::Grid,
            is_outside_verdict: true,
            bins_below_least: false,
        },
    ],
    waits_for: WaitsFor::Event,
    resolve,
    open: |_| Err(io::Error::other("the probe has no channel")),
    ..ProbeInfo::USUAL
};

pub(super) fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    if probe.priority == Some(1) {
        return Err(Refusal::Request(
            "the woken thread needs a higher priority than the waker: give --priority 2 or \
             more"
                .into(),
        ));
    }
    if probe.parameters.text("waker") == "other"
        && affinity::obtainable().is_ok_and(|usable| usable.len() < 2)
    {
        return Err(Refusal::Absent(Unsupported::new(
            "a second CPU for the waker",
            "allow the tool more CPUs, or leave waker=other out",
        )));
    }
    Ok(())
}

/// Resolves a probe, and refuses it if the kernel lacks the probe's channel.
pub(super) fn resolve_with<C: Channel>(
    probe: &ProbePlan,
    host: &Host,
    missing: &str,
    remedy: &str,
) -> Result<(), Refusal> {
    resolve(probe, host)?;
    match C::new() {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::Absent(Unsupported::new(
            format!("{missing} ({error})"),
            remedy,
        ))),
    }
}

/// Value of `under_way` while no wake-up is in progress.
const IDLE: u64 = u64::MAX;

/// The state that the two threads share.
struct Pair<C> {
    wake: C,
    ask: C,
    /// The waker's clock read right before the wake-up. Written only while no wake-up is in
    /// progress.
    stamp: AtomicI64,
    /// [`IDLE`], or the number of periods that have passed since the start of the current wake-up.
    under_way: AtomicU64,
    /// Number of periods that the waker started; used only if the waker is the timekeeper. The
    /// number of expected samples is then this count, so that it does not depend on the woken
    /// thread.
    periods: AtomicU64,
    is_ending: AtomicBool,
}

/// What the waker does in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The woken thread has returned, so it is woken again.
    Wake,
    /// The woken thread has not returned yet, so the period is skipped.
    Skipped,
}

impl<C: Channel> Pair<C> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            wake: C::new()?,
            ask: C::new()?,
            stamp: AtomicI64::new(0),
            under_way: AtomicU64::new(IDLE),
            periods: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        })
    }

    /// Starts a period on the waker's side. One atomic step decides whether the period is skipped
    /// or the woken thread has returned, so that each period is counted once, by one of the two
    /// threads.
    #[inline]
    fn begin_period(&self) -> Turn {
        self.periods
            .store(self.periods.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let skipped = self
            .under_way
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |passed| {
                (passed != IDLE).then(|| passed + 1)
            });
        if skipped.is_ok() {
            Turn::Skipped
        } else {
            Turn::Wake
        }
    }

    /// Stores the clock's time as the wake-up's due time, and wakes the other thread. Must follow a
    /// [`Turn::Wake`].
    #[inline]
    fn wake(&self) -> io::Result<()> {
        self.stamp.store(clock::monotonic(), Ordering::Relaxed);
        self.under_way.store(0, Ordering::Release);
        self.wake.wake()
    }

    /// Takes the current wake-up. Returns its sample, with the latency up to `now`; `None` if there
    /// is no wake-up.
    #[inline]
    fn take(&self, now: i64) -> Option<Sample> {
        if self.under_way.load(Ordering::Acquire) == IDLE {
            return None;
        }
        let due = Nanos(self.stamp.load(Ordering::Relaxed));
        let passed = self.under_way.swap(IDLE, Ordering::AcqRel);
        Some(Sample {
            due,
            latency: Nanos(now) - due,
            skipped: u32::try_from(passed).unwrap_or(u32::MAX),
        })
    }

    fn is_over(&self) -> bool {
        self.is_ending.load(Ordering::Acquire) && self.under_way.load(Ordering::Acquire) == IDLE
    }

    fn end(&self, last: &C) -> io::Result<()> {
        self.is_ending.store(true, Ordering::Release);
        last.wake()
    }
}

/// Opens one instance: the woken thread on the measured CPU, the waker on the same CPU or another
/// one.
pub(super) fn open<C: Channel>(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let (Some(timer), Some(latencies)) = (opening.producers.pop(), opening.producers.pop()) else {
        return Err(io::Error::other("a pair was opened without its two series"));
    };
    let pair = Arc::new(Pair::<C>::new()?);
    let plan = opening.thread.clone();
    let (of_woken, of_waker) = if opening.probe.parameters.text("pace") == "woken" {
        (
            paced_woken(Arc::clone(&pair), plan, latencies, timer),
            asked_waker(pair),
        )
    } else {
        (
            woken_by_waker(Arc::clone(&pair), plan.clone(), latencies),
            paced_waker(pair, plan, timer),
        )
    };
    let cpu = opening.thread.cpu;
    let woken = Member::new(opening.probe, cpu, of_woken);
    let mut waker = Member::new(opening.probe, cpu, of_waker);
    waker.role = "waker";
    waker.policy = below(waker.policy);
    if opening.probe.parameters.text("waker") == "other" {
        waker.cpus = other_cpu(cpu, opening.measured_cpus)?;
    }
    let notes = match woken.policy {
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => Vec::new(),
        _ => vec![format!(
            "{}: waker and woken thread are ordinary tasks of the same priority, so after a \
             wake-up the scheduler may run the waker first",
            opening.probe.name
        )],
    };
    Ok(ProbeInstance {
        members: vec![woken, waker],
        notes,
        ..ProbeInstance::default()
    })
}

/// Returns the policy with a real-time priority that is lower by one.
fn below(policy: Policy) -> Policy {
    match policy {
        Policy::Fifo { priority } => Policy::Fifo {
            priority: priority.saturating_sub(1).max(1),
        },
        Policy::RoundRobin { priority } => Policy::RoundRobin {
            priority: priority.saturating_sub(1).max(1),
        },
        other => other,
    }
}

/// Returns the next measured CPU after `cpu`. If `cpu` is the only one, returns the first other CPU
/// that the tool may use.
fn other_cpu(cpu: Option<CpuId>, measured: &CpuList) -> io::Result<CpuList> {
    let after = measured.iter().find(|&other| Some(other) > cpu);
    let before = measured.iter().find(|&other| Some(other) != cpu);
    let allowed = || {
        affinity::get(0)
            .ok()?
            .into_iter()
            .map(CpuId)
            .find(|&other| Some(other) != cpu)
    };
    let other = after.or(before).or_else(allowed);
    other
        .map(|other| [other].into_iter().collect())
        .ok_or_else(|| {
            io::Error::other("there is no second CPU for the waker: leave waker=other out")
        })
}

/// Makes the waker that sleeps until due times.
fn paced_waker<C: Channel>(pair: Arc<Pair<C>>, plan: ThreadPlan, mut timer: Producer) -> Run {
    Box::new(move |ready| {
        let start = ready.wait();
        let (mut walk, end) = grid_of(&plan.at(start.at))?;
        let mut measure = || -> io::Result<()> {
            while walk.base() < end && !start.control.is_past_end(walk.base()) {
                clock::sleep_until(walk.due())?;
                let now = clock::monotonic();
                let due = Nanos(walk.due().to_nanos());
                timer.push(Sample {
                    due,
                    latency: Nanos(now) - due,
                    skipped: walk.advance_past(now, || end.min(start.control.end())),
                });
                if pair.begin_period() == Turn::Wake {
                    pair.wake()?;
                }
            }
            Ok(())
        };
        let result = measure();
        timer.close(walk.base());
        // The woken thread must be told that the run ends, even after an error here.
        leave_or_stop(&start, result.and(pair.end(&pair.wake)))
    })
}

/// Makes the woken thread for a pair whose timekeeper is the waker.
fn woken_by_waker<C: Channel>(
    pair: Arc<Pair<C>>,
    plan: ThreadPlan,
    mut latencies: Producer,
) -> Run {
    Box::new(move |ready| {
        pair.wake.prepare_to_wait()?;
        let start = ready.wait();
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        let (mut begun, mut last) = (0, start.at);
        let mut measure = || -> io::Result<()> {
            while !pair.is_over() {
                pair.wake.wait()?;
                let now = clock::monotonic();
                let Some(sample) = pair.take(now) else {
                    continue;
                };
                let periods = 1 + u64::from(sample.skipped);
                (0..periods).for_each(|_| latencies.begin_cycle());
                (begun, last) = (begun + periods, Nanos(now));
                latencies.push(sample);
                if sample.latency > stop_above {
                    start.control.stop_because_of(plan.cpu, sample);
                }
            }
            Ok(())
        };
        let result = measure();
        // The waker started these periods, but this thread never saw their wake-ups. The periods
        // are counted as expected, so their missing samples are reported as unexplained.
        (begun..pair.periods.load(Ordering::Acquire)).for_each(|_| latencies.begin_cycle());
        latencies.close(last);
        leave_or_stop(&start, result)
    })
}

/// Makes the woken thread that keeps the time itself, and asks the waker to wake it.
fn paced_woken<C: Channel>(
    pair: Arc<Pair<C>>,
    plan: ThreadPlan,
    mut latencies: Producer,
    mut timer: Producer,
) -> Run {
    Box::new(move |ready| {
        pair.wake.prepare_to_wait()?;
        let start = ready.wait();
        let (mut walk, end) = grid_of(&plan.at(start.at))?;
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        let mut measure = || -> io::Result<()> {
            while walk.base() < end && !start.control.is_past_end(walk.base()) {
                clock::sleep_until(walk.due())?;
                let now = clock::monotonic();
                let due = Nanos(walk.due().to_nanos());
                timer.push(Sample {
                    due,
                    latency: Nanos(now) - due,
                    skipped: walk.advance_past(now, || end.min(start.control.end())),
                });
                latencies.begin_cycle();
                pair.ask.wake()?;
                let sample = loop {
                    pair.wake.wait()?;
                    let now = clock::monotonic();
                    match pair.take(now) {
                        Some(sample) => break sample,
                        // The waker ended early and has already reported why.
                        None if pair.is_ending.load(Ordering::Acquire) => return Ok(()),
                        None => {}
                    }
                };
                latencies.push(sample);
                if sample.latency > stop_above {
                    start.control.stop_because_of(plan.cpu, sample);
                }
            }
            Ok(())
        };
        let result = measure();
        timer.close(walk.base());
        latencies.close(walk.base());
        leave_or_stop(&start, result.and(pair.end(&pair.ask)))
    })
}

/// Makes the waker that waits until the woken thread asks it.
fn asked_waker<C: Channel>(pair: Arc<Pair<C>>) -> Run {
    Box::new(move |ready| {
        pair.ask.prepare_to_wait()?;
        let start = ready.wait();
        let measure = || -> io::Result<()> {
            loop {
                pair.ask.wait()?;
                if pair.is_ending.load(Ordering::Acquire) {
                    return Ok(());
                }
                pair.wake()?;
            }
        };
        let result = measure();
        if result.is_err() {
            let _ = pair.end(&pair.wake);
        }
        leave_or_stop(&start, result)
    })
}

/// Waits until all threads have taken their last samples. If `result` is an error, stops the run
/// instead, because a pair measures nothing without one of its threads.
fn leave_or_stop(start: &Start<'_>, result: io::Result<()>) -> io::Result<Departure> {
    result.inspect_err(|_| start.control.stop())?;
    Ok(start.control.leave())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::probe::StartGate;
    use crate::recording::control::Control;
    use crate::recording::ring::{Consumer, ring};
    use proptest::prelude::*;
    use tardy_core::sample::Record;
    use tardy_core::series::Schedule;
    use tardy_run::system_clock::ThreadClocks;

    /// A channel whose operations never sleep, for tests that call both sides from one thread.
    struct CountedChannel(AtomicU64);

    impl Channel for CountedChannel {
        fn new() -> io::Result<Self> {
            Ok(Self(AtomicU64::new(0)))
        }
        fn wake(&self) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn wait(&self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn every_period_is_a_wake_up_or_skipped_in_any_order_of_the_two_threads(returns in proptest::collection::vec(any::<bool>(), 0..60)) {
            let pair = Pair::<CountedChannel>::new().unwrap();
            let (mut recorded, mut skipped) = (0, 0);
            for comes_back in returns {
                if pair.begin_period() == Turn::Wake {
                    pair.wake().unwrap();
                }
                if comes_back && let Some(sample) = pair.take(clock::monotonic()) {
                    prop_assert!(sample.latency >= Nanos::ZERO);
                    (recorded, skipped) = (recorded + 1, skipped + u64::from(sample.skipped));
                }
            }
            prop_assert!(!pair.is_over());
            pair.end(&pair.wake).unwrap();
            if let Some(sample) = pair.take(clock::monotonic()) {
                (recorded, skipped) = (recorded + 1, skipped + u64::from(sample.skipped));
            }
            prop_assert!(pair.is_over());
            prop_assert_eq!(recorded + skipped, pair.periods.load(Ordering::Relaxed));
            prop_assert_eq!(pair.wake.0.load(Ordering::Relaxed), recorded + 1);
        }
    }

    #[test]
    fn the_waker_is_one_priority_below_and_on_the_next_cpu() {
        assert_eq!(
            below(Policy::Fifo { priority: 95 }),
            Policy::Fifo { priority: 94 }
        );
        assert_eq!(below(Policy::Other { nice: 0 }), Policy::Other { nice: 0 });
        let measured: CpuList = "2,5,7".parse().unwrap();
        for (cpu, other) in [(2, "5"), (5, "7"), (7, "2")] {
            assert_eq!(
                other_cpu(Some(CpuId(cpu)), &measured).unwrap(),
                other.parse().unwrap()
            );
        }
    }

    /// Runs one instance for 50 periods of 200 us, with both threads unbound and without real-time
    /// priority. Returns the samples of the first series, the number of started cycles, and the
    /// samples of the timer.
    pub(in crate::probe) fn measured<C: Channel>(pace: &str) -> (Vec<Sample>, u64, Vec<Sample>) {
        let pair = Arc::new(Pair::<C>::new().unwrap());
        let schedule = Schedule::Grid {
            period: Nanos::from_micros(200),
            start: Nanos::ZERO,
            dither: Nanos::ZERO,
        };
        let plan = ThreadPlan {
            cpu: None,
            copy: None,
            schedule,
            seed: 1,
            cycles: Some(50),
            stop_above: None,
            clocks: ThreadClocks::default(),
        };
        let (latencies, mut latencies_out) = ring(256);
        let (timer, mut timer_out) = ring(256);
        let (woken, waker) = if pace == "woken" {
            (
                paced_woken(Arc::clone(&pair), plan, latencies, timer),
                asked_waker(pair),
            )
        } else {
            (
                woken_by_waker(Arc::clone(&pair), plan.clone(), latencies),
                paced_waker(pair, plan, timer),
            )
        };
        let line = Arc::new(std::sync::Barrier::new(2));
        let threads = [woken, waker].map(|run| {
            let line = Arc::clone(&line);
            std::thread::spawn(move || {
                let control = Control::new(None, None);
                run(StartGate::new(&control, move || {
                    line.wait();
                    Nanos(clock::monotonic() + 1_000_000)
                }))
            })
        });
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        let drained = |consumer: &mut Consumer| {
            let mut samples = Vec::new();
            consumer.drain_up_to(u64::MAX, |record| match record {
                Record::Sample(sample) => samples.push(sample),
                Record::Gap(gap) => panic!("{gap:?}"),
            });
            assert!(consumer.closing_statement().is_some());
            samples
        };
        (
            drained(&mut latencies_out),
            latencies_out.cycles(),
            drained(&mut timer_out),
        )
    }

    /// Checks a channel over 50 periods: both series record or skip every period, and no wake-up is
    /// received before it is sent.
    pub(in crate::probe) fn accounts_for_every_period<C: Channel>() {
        for pace in ["waker", "woken"] {
            let (latencies, cycles, timer) = measured::<C>(pace);
            let skipped = |samples: &[Sample]| {
                samples
                    .iter()
                    .map(|sample| u64::from(sample.skipped))
                    .sum::<u64>()
            };
            assert_eq!(
                latencies.len() as u64 + skipped(&latencies),
                cycles,
                "{pace}"
            );
            assert_eq!(
                timer.len() as u64,
                cycles,
                "{pace}: each time that the timer was kept is a period"
            );
            assert!(timer.len() as u64 + skipped(&timer) >= 50, "{pace}");
            assert!(
                latencies.iter().all(|sample| sample.latency >= Nanos::ZERO),
                "{pace}"
            );
            assert!(latencies.is_sorted_by_key(|sample| sample.due), "{pace}");
        }
    }
}
