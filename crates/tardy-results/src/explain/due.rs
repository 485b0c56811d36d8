//! Finds the due times of threads whose timers are not in the trace. The due times lie on a grid
//! with the thread's period. A grid must not place any due time after its wake-up. Of all grids
//! that meet this condition, the latest is chosen.

use std::collections::BTreeMap;

use tardy_core::summary::fitted_grid::{FittedGrid, GridFit};
use tardy_core::units::Nanos;
use tardy_trace::explain::{Explainer, Grid};
use tardy_trace::merge::Item;

/// Maximum number of threads for which a grid is fitted.
const THREADS_MAX: usize = 10_000;

/// Returns a map from thread ID to grid, for each thread that was woken in at least two periods.
/// `explainer` finds the wake-ups. `has_own_clock` means that the timers and the time stamps use
/// different clocks, so the period in the trace may differ from `period` by the drift of the
/// clocks.
pub(super) fn grids(
    mut explainer: Explainer,
    items: impl Iterator<Item = Item>,
    period: Nanos,
    has_own_clock: bool,
) -> BTreeMap<i32, Grid> {
    let mut fits: BTreeMap<i32, (Nanos, GridFit)> = BTreeMap::new();
    for item in items {
        explainer.take(&item);
        for wake_up in explainer
            .finished()
            .filter(|wake_up| wake_up.waker.may_be_timer())
        {
            let (Ok(waking), pid) = (i64::try_from(wake_up.waking).map(Nanos), wake_up.thread.pid)
            else {
                continue;
            };
            if fits.len() < THREADS_MAX || fits.contains_key(&pid) {
                fits.entry(pid)
                    .or_insert_with(|| (waking, GridFit::new(period, has_own_clock)))
                    .1
                    .add(waking);
            }
        }
    }
    fits.into_iter()
        .filter_map(|(pid, (first, fit))| Some((pid, grid(first, fit.line()?)?)))
        .collect()
}

fn grid(first: Nanos, mut line: FittedGrid) -> Option<Grid> {
    let origin = first.get() - line.lateness(first).get();
    // The origin of the fitted line may be before time 0. The origin of a grid cannot, so it is
    // moved forward by whole periods.
    let period_ns = line.period_ns();
    let periods = if origin < 0 {
        (-origin as f64 / period_ns).ceil()
    } else {
        0.0
    };
    Some(Grid {
        origin: u64::try_from(origin + (periods * period_ns).round() as i64).ok()?,
        period_ns,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tardy_trace::event::{Event, Head, Kind, Thread};
    use tardy_trace::explain::{Facts, Target};

    use super::*;

    const PID: i32 = 7;

    /// Fits a grid to the wake-ups in a generated trace. In this trace, an interrupt wakes the
    /// thread at each of the times `wakings`, and the CPU then switches to the thread.
    fn fitted(wakings: &[u64], has_own_clock: bool) -> Option<Grid> {
        let event = |time, flags, kind| {
            Item::Event(Event {
                time,
                cpu: 0,
                head: Head {
                    flags,
                    preempt_count: 0,
                    pid: 0,
                },
                kind,
            })
        };
        let this = Thread {
            pid: PID,
            priority: 19,
            name: "loop".into(),
        };
        let items = wakings.iter().flat_map(|&time| {
            let idle = Thread::default();
            [
                event(
                    time,
                    0x09,
                    Kind::Waking {
                        thread: this,
                        target_cpu: 0,
                    },
                ),
                event(
                    time + 10,
                    0,
                    Kind::Switch {
                        previous: idle,
                        previous_state: 0,
                        next: this,
                    },
                ),
                event(
                    time + 20,
                    0,
                    Kind::Switch {
                        previous: this,
                        previous_state: 1,
                        next: idle,
                    },
                ),
            ]
        });
        let explainer = Explainer::new(Target::Pids(vec![PID]), Facts::default(), &HashMap::new());
        grids(explainer, items, Nanos(1_000_000), has_own_clock).remove(&PID)
    }

    #[test]
    fn the_grid_lies_below_all_wake_ups_and_touches_the_earliest() {
        let lateness = |cycle: u64| 2_000 + cycle * 7_919 % 300_000;
        let wakings: Vec<u64> = (1..500)
            .map(|cycle| cycle * 1_000_000 + lateness(cycle))
            .collect();
        let earliest = (1..500).map(lateness).min().unwrap();
        let grid = fitted(&wakings, false).unwrap();
        assert_eq!(
            (grid.period_ns.to_bits(), grid.origin % 1_000_000),
            (1_000_000_f64.to_bits(), earliest)
        );
        for (cycle, waking) in (1..500).zip(wakings) {
            assert_eq!(waking - grid.last_due(waking).1, lateness(cycle) - earliest);
        }
    }

    #[test]
    fn a_clock_that_runs_otherwise_has_its_own_period() {
        // The clocks drift by 100 ns per period. After 5,000 periods, the drift is half a period.
        let wakings: Vec<u64> = (1..5_000)
            .map(|cycle| cycle * 1_000_100 + 2_000 + cycle * 7_919 % 1_000)
            .collect();
        let grid = fitted(&wakings, true).unwrap();
        assert!((grid.period_ns - 1_000_100.0).abs() < 1.0, "{grid:?}");
        assert!(
            wakings
                .iter()
                .all(|&waking| waking - grid.last_due(waking).1 < 1_100),
            "{grid:?}"
        );
    }

    #[test]
    fn one_wake_up_has_no_period() {
        assert_eq!(fitted(&[5_000_000], false), None);
        assert_eq!(fitted(&[], false), None);
    }
}
