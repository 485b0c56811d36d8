//! Detects when somebody sets a clock that the run uses for timers, for grids or in probes.
//!
//! Time synchronisation steps clocks when it starts, and users can step them at any time. A leap
//! second is a step of CLOCK_REALTIME. An adjustment of the clock's rate is not a step, because
//! CLOCK_MONOTONIC follows it.

use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_run::plan::ThreadEntry;
use tardy_run::system_clock::{ClockReading, SystemClock};
use tardy_sys::{signal_handler, thread_signal};

use super::threads::MeasuringThread;

/// A clock that a run depends on.
#[derive(Debug)]
struct WatchedClock {
    reading: ClockReading,
    /// Whether threads use the clock for their timers. If false, the clock was used only at the
    /// start to place grids, or a probe reads it.
    has_timers: bool,
    step: Option<Warning>,
}

/// Checks the clocks in each iteration of the main loop, a few times a second, and stores the
/// steps.
#[derive(Debug)]
pub(super) struct ClockWatch {
    start: Nanos,
    clocks: Vec<WatchedClock>,
}

impl ClockWatch {
    /// Starts watching the clocks of a run that starts at `start`. Watches the clocks of `threads`,
    /// and the time of day if a probe reads it. The plans of `threads` must already contain the
    /// clocks' readings.
    pub(super) fn new(start: Nanos, threads: &[ThreadEntry], reads_time_of_day: bool) -> Self {
        let clocks = threads
            .iter()
            .map(|thread| thread.plan.clocks)
            .filter(|clocks| !clocks.are_plain());
        let readings: Vec<(ClockReading, bool)> = clocks
            .flat_map(|clocks| {
                clocks
                    .grid
                    .map(|grid| (grid, false))
                    .into_iter()
                    .chain([(clocks.timer, true)])
            })
            .chain(reads_time_of_day.then(|| (SystemClock::Realtime.read(), false)))
            .collect();
        let watched = [SystemClock::Realtime, SystemClock::Tai]
            .into_iter()
            .filter_map(|clock| {
                let of_clock = || {
                    readings
                        .iter()
                        .filter(|(reading, _)| reading.clock == clock)
                };
                let (reading, _) = of_clock().next()?;
                Some(WatchedClock {
                    reading: *reading,
                    has_timers: of_clock().any(|(_, is_of_timer)| *is_of_timer),
                    step: None,
                })
            });
        Self {
            start,
            clocks: watched.collect(),
        }
    }

    /// Checks the clocks. If a clock was stepped, interrupts threads that wait for timers on it,
    /// because their due times have moved.
    pub(super) fn update(&mut self, now: Nanos, threads: &[MeasuringThread]) {
        for clock in &mut self.clocks {
            clock.note(now - self.start, clock.reading.clock.read());
        }
        // The interruption is repeated at each check, because a thread that is just starting to
        // wait would not notice the first signal.
        let is_stepped = |thread: &&MeasuringThread| {
            let on_clock = |clock: &WatchedClock| {
                clock.step.is_some() && clock.reading.clock == thread.timer_clock
            };
            !thread.is_finished() && self.clocks.iter().any(on_clock)
        };
        for thread in threads.iter().filter(is_stepped) {
            let _ = thread_signal::send(thread.tid, signal_handler::NUDGE);
        }
    }

    /// Returns a warning about the first step of each clock that was stepped.
    pub(super) fn into_warnings(self) -> impl Iterator<Item = Warning> {
        self.clocks.into_iter().filter_map(|clock| clock.step)
    }
}

impl WatchedClock {
    fn note(&mut self, since_start: Nanos, now: ClockReading) {
        let by = now.ahead - self.reading.ahead;
        if by != Nanos::ZERO && self.step.is_none() {
            self.step = Some(Warning::ClockStepped {
                clock: self.reading.clock.to_string(),
                by,
                since_start: since_start.max(Nanos::ZERO),
                has_timers: self.has_timers,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::series::Schedule;
    use tardy_run::plan::ThreadPlan;
    use tardy_run::system_clock::ThreadClocks;

    fn entry(timer: SystemClock, grid: Option<SystemClock>) -> ThreadEntry {
        let reading = |clock| ClockReading {
            clock,
            ahead: Nanos(1000),
        };
        let clocks = ThreadClocks {
            timer: reading(timer),
            grid: grid.map(reading),
        };
        let schedule = Schedule::Event { request: Nanos(1) };
        let plan = ThreadPlan {
            cpu: None,
            copy: None,
            schedule,
            seed: 0,
            cycles: None,
            stop_above: None,
            clocks,
        };
        ThreadEntry {
            probe: "cyclic".into(),
            plan,
        }
    }

    #[test]
    fn the_first_step_of_each_clock_is_told_and_the_runs_own_clock_is_not_watched() {
        let threads = [
            entry(SystemClock::Monotonic, None),
            entry(SystemClock::Monotonic, Some(SystemClock::Realtime)),
            entry(SystemClock::Tai, None),
        ];
        let mut watch = ClockWatch::new(Nanos(50), &threads, false);
        let watched: Vec<_> = watch
            .clocks
            .iter()
            .map(|clock| (clock.reading.clock, clock.has_timers))
            .collect();
        assert_eq!(
            watched,
            [(SystemClock::Realtime, false), (SystemClock::Tai, true)]
        );
        for (since, ahead) in [(10, 1000), (20, 993), (30, 1000)] {
            watch.clocks[1].note(
                Nanos(since),
                ClockReading {
                    clock: SystemClock::Tai,
                    ahead: Nanos(ahead),
                },
            );
        }
        let told: Vec<Warning> = watch.into_warnings().collect();
        assert_eq!(
            told,
            [Warning::ClockStepped {
                clock: "CLOCK_TAI".into(),
                by: Nanos(-7),
                since_start: Nanos(20),
                has_timers: true
            }]
        );
        assert!(told[0].is_of_changed_probes());
    }

    #[test]
    fn the_time_of_day_is_watched_where_a_probe_reads_it() {
        let threads = [entry(SystemClock::Monotonic, None)];
        assert!(
            ClockWatch::new(Nanos(50), &threads, false)
                .clocks
                .is_empty()
        );
        let watch = ClockWatch::new(Nanos(50), &threads, true);
        let watched: Vec<_> = watch
            .clocks
            .iter()
            .map(|clock| (clock.reading.clock, clock.has_timers))
            .collect();
        assert_eq!(watched, [(SystemClock::Realtime, false)]);
    }
}
