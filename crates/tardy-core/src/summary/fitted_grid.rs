//! Fits a grid of timer expiries to a periodic event whose due times are unknown. If the times of
//! the events are plotted against the numbers of the expiries, the grid is a line: of all lines
//! below the events, it is the closest one.
//!
//! An interval error is the difference between two successive latencies. Relative to the fitted
//! grid, each event has a latency. This latency does not include any delay that all events share,
//! because the grid touches the earliest events.
//!
//! Interval errors are stored, and latencies are computed later, because the fit needs the whole
//! run. Among all lines below the events, the grid is the one with the smallest sum of distances to
//! them. This line is an edge of the events' lower convex hull. Its slope is the timer's rate.

use crate::units::Nanos;

/// Maximum deviation of the timer's period from the nominal one; crystals deviate less.
const DRIFT_PARTS_PER_MILLION: i64 = 500;

/// Finds the timer expiry that caused each event. Each pass must see the same events in the same
/// order.
#[derive(Debug, Clone)]
pub struct Places {
    period: i64,
    first: Option<i64>,
    floor: i64,
    latest: u64,
}

/// An event is a pair: the index of the expiry that caused it, and the event's time in ns since the
/// first event, minus that index times the nominal period.
type Point = (u64, i64);

/// Fits the line in one pass over the events.
#[derive(Debug, Clone)]
pub struct GridFit {
    places: Places,
    has_own_clock: bool,
    /// The lower convex hull of the events so far. If the timer runs on the run's clock, this is
    /// only the earliest event.
    hull: Vec<Point>,
    events: u64,
    sum_of_places: u128,
}

/// The fitted grid: the line that was fitted to the events. A second pass over the events uses it
/// to compute their latencies.
#[derive(Debug, Clone)]
pub struct FittedGrid {
    places: Places,
    origin: Point,
    slope: f64,
    /// Number of expiries from the first event to the last, both included.
    pub expiries: u64,
    pub events: u64,
}

impl Places {
    fn new(period: Nanos) -> Self {
        Self {
            period: period.get().max(1),
            first: None,
            floor: 0,
            latest: 0,
        }
    }

    fn point(&mut self, at: Nanos) -> Point {
        let since_first = at.get() - *self.first.get_or_insert(at.get());
        // The index of the last expiry before the event. `floor` may still be too high, so an event
        // may lie up to a quarter of a period below `floor`.
        let place = (since_first - self.floor + self.period / 4)
            .div_euclid(self.period)
            .max(0) as u64;
        let above = since_first - place as i64 * self.period;
        let drift = (self.period * DRIFT_PARTS_PER_MILLION / 1_000_000)
            .saturating_mul((place.saturating_sub(self.latest)).max(1) as i64);
        self.floor = if above < self.floor {
            above
        } else {
            above.min(self.floor.saturating_add(drift))
        };
        self.latest = self.latest.max(place);
        (place, above)
    }
}

impl GridFit {
    /// Creates a fit for a timer with this nominal period. Without `has_own_clock`, the timer runs
    /// on the clock of the events and its period is exact.
    #[must_use]
    pub fn new(period: Nanos, has_own_clock: bool) -> Self {
        Self {
            places: Places::new(period),
            has_own_clock,
            hull: Vec::new(),
            events: 0,
            sum_of_places: 0,
        }
    }

    /// Adds the next event.
    pub fn add(&mut self, at: Nanos) {
        let point = self.places.point(at);
        self.events += 1;
        self.sum_of_places += u128::from(point.0);
        if !self.has_own_clock {
            let earliest = self
                .hull
                .first()
                .map_or(point.1, |earliest| earliest.1.min(point.1));
            self.hull = vec![(0, earliest)];
            return;
        }
        match self.hull.last_mut() {
            // If two events belong to one expiry, only the earlier one is used.
            Some(last) if last.0 >= point.0 => last.1 = last.1.min(point.1),
            _ => self.hull.push(point),
        }
        while let [.., a, b, c] = self.hull[..]
            && !is_below(a, b, c)
        {
            let index = self.hull.len() - 2;
            self.hull.remove(index);
        }
    }

    /// Returns the fitted line; `None` if there are fewer than two expiries, because these define
    /// no period.
    #[must_use]
    pub fn line(self) -> Option<FittedGrid> {
        let places = Places::new(Nanos(self.places.period));
        let (expiries, events) = (self.places.latest + 1, self.events);
        if !self.has_own_clock {
            return (expiries > 1).then(|| FittedGrid {
                places,
                origin: self.hull[0],
                slope: 0.0,
                expiries,
                events,
            });
        }
        // The hull lies below the events. Of its edges, the one at the mean index of the events
        // gives the smallest sum of latencies (a linear programme).
        let middle = self.sum_of_places as f64 / self.events.max(1) as f64;
        let edge = self
            .hull
            .windows(2)
            .find(|edge| edge[1].0 as f64 >= middle)?;
        let ((begin, low), (end, high)) = (edge[0], edge[1]);
        let slope = (high - low) as f64 / (end - begin) as f64;
        Some(FittedGrid {
            places,
            origin: edge[0],
            slope,
            expiries,
            events,
        })
    }
}

impl FittedGrid {
    /// Returns the latency of the next event relative to the grid, in ns.
    pub fn lateness(&mut self, at: Nanos) -> Nanos {
        let (place, above) = self.places.point(at);
        let line = self.origin.1 as f64 + (place as f64 - self.origin.0 as f64) * self.slope;
        Nanos((above as f64 - line).round() as i64)
    }

    /// Returns the timer's period that the events imply, in ns.
    #[must_use]
    pub fn period_ns(&self) -> f64 {
        self.places.period as f64 + self.slope
    }
}

/// Returns whether `b` lies below the line from `a` to `c`.
fn is_below(a: Point, b: Point, c: Point) -> bool {
    let across = |(place, _): Point, (from, _): Point| i128::from(place) - i128::from(from);
    let up = |(_, above): Point, (_, from): Point| i128::from(above) - i128::from(from);
    up(b, a) * across(c, a) < up(c, a) * across(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: i64 = 1_000_000;

    fn fitted(period: i64, has_own_clock: bool, events: &[i64]) -> (FittedGrid, Vec<i64>) {
        let mut fit = GridFit::new(Nanos(period), has_own_clock);
        events.iter().for_each(|&at| fit.add(Nanos(at)));
        let mut grid = fit.line().unwrap();
        let latenesses = events
            .iter()
            .map(|&at| grid.lateness(Nanos(at)).get())
            .collect();
        (grid, latenesses)
    }

    #[test]
    fn latenesses_are_found_but_for_what_all_events_share() {
        let late: Vec<i64> = (0..1000)
            .map(|index| {
                40_000
                    + if index % 50 == 7 {
                        300_000
                    } else {
                        index * 7919 % 13
                    }
            })
            .collect();
        let events: Vec<i64> = late
            .iter()
            .enumerate()
            .map(|(index, late)| 5 + index as i64 * PERIOD + late)
            .collect();
        for (has_own_clock, error) in [(false, 0), (true, 1)] {
            let (grid, latenesses) = fitted(PERIOD, has_own_clock, &events);
            for (found, late) in latenesses.iter().zip(&late) {
                assert!(
                    (found - (late - 40_000)).abs() <= error,
                    "{found} for {late}"
                );
            }
            assert_eq!((grid.expiries, grid.events), (1000, 1000));
            assert!(
                (grid.period_ns() - PERIOD as f64).abs() < 0.01,
                "{}",
                grid.period_ns()
            );
        }
    }

    #[test]
    fn a_timer_that_is_faster_than_its_name_has_its_own_period() {
        // A /dev/rtc at 2048 Hz has a period of 488281.25 ns; its crystal is off by 100 parts per
        // million.
        let events: Vec<i64> = (0..20_000)
            .map(|index| {
                (f64::from(index) * 488_281.25 * 0.9999) as i64 + i64::from(index % 3) * 900
            })
            .collect();
        let (grid, latenesses) = fitted(488_281, true, &events);
        assert!(
            (grid.period_ns() - 488_281.25 * 0.9999).abs() < 0.001,
            "{}",
            grid.period_ns()
        );
        assert!(
            latenesses.iter().all(|late| (-1..=1801).contains(late)),
            "{:?}",
            latenesses.iter().minmax()
        );
    }

    trait MinMax {
        fn minmax(self) -> (i64, i64);
    }

    impl<'a, I: Iterator<Item = &'a i64> + Clone> MinMax for I {
        fn minmax(self) -> (i64, i64) {
            (*self.clone().min().unwrap(), *self.max().unwrap())
        }
    }

    #[test]
    fn expiries_that_no_event_stands_for_are_counted() {
        let events: Vec<i64> = (0..100)
            .filter(|index| index % 10 != 3)
            .map(|index| index * PERIOD)
            .collect();
        let (grid, latenesses) = fitted(PERIOD, false, &events);
        assert_eq!((grid.expiries, grid.events), (100, 90));
        assert!(latenesses.iter().all(|&late| late == 0));
    }

    #[test]
    fn one_event_has_no_grid() {
        let mut fit = GridFit::new(Nanos(PERIOD), true);
        assert!(fit.clone().line().is_none());
        fit.add(Nanos(7));
        assert!(fit.line().is_none());
    }

    proptest! {
        #[test]
        fn no_event_lies_before_its_expiry(has_own_clock in any::<bool>(), late in proptest::collection::vec(0_i64..700_000, 2..300)) {
            let events: Vec<i64> = late.iter().enumerate().map(|(index, late)| index as i64 * PERIOD + late).collect();
            let mut fit = GridFit::new(Nanos(PERIOD), has_own_clock);
            events.iter().for_each(|&at| fit.add(Nanos(at)));
            if let Some(mut grid) = fit.line() {
                for &at in &events {
                    prop_assert!(grid.lateness(Nanos(at)).get() >= -1);
                }
            }
        }
    }
}
