//! Computes the curves of mckenney2009, figures 1 to 3, which show the total delay against the
//! length of work for two kernels. The curves are a model, and every output states that.

use serde::Serialize;
use tardy_core::total_delay::{Crossover, crossover, total_delay};
use tardy_core::units::Nanos;
use tardy_statistics::estimate::Estimate;

/// Lengths of work from 1 us to 100 ms, three per decade, evenly spaced on a logarithmic axis.
pub const WORK_LENGTHS: [Nanos; 16] = [
    Nanos(1_000),
    Nanos(2_000),
    Nanos(5_000),
    Nanos(10_000),
    Nanos(20_000),
    Nanos(50_000),
    Nanos(100_000),
    Nanos(200_000),
    Nanos(500_000),
    Nanos(1_000_000),
    Nanos(2_000_000),
    Nanos(5_000_000),
    Nanos(10_000_000),
    Nanos(20_000_000),
    Nanos(50_000_000),
    Nanos(100_000_000),
];

/// The total delay of both kernels at one length of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Length of the work on the fast kernel, which is not real-time.
    pub work_ns: Nanos,
    /// Time from the due time of work until the work is done on the fast kernel, in ns.
    pub real_fast_ns: f64,
    /// Time from the due time of work until the work is done on the real-time kernel, in ns.
    pub real_time_ns: f64,
}

/// One figure, with two curves and their crossing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// Title of the figure.
    pub title: String,
    /// Marks the curves as a model. This is always `true`, because the curves are computed from
    /// measured latencies and slowdowns, and are not themselves measured.
    pub is_model: bool,
    /// Latency of the fast kernel, in ns.
    pub latency_fast_ns: Estimate,
    /// Latency of the real-time kernel, in ns.
    pub latency_real_time_ns: Estimate,
    /// How much longer work takes on the real-time kernel, as a fraction; negative if work is
    /// faster there, 0 if the slowdown is unknown.
    pub slowdown: Estimate,
    /// The crossing of the two curves.
    pub crossing: Crossover,
    /// The points of both curves, sorted by the length of work.
    pub points: Vec<Point>,
}

/// Computes the curves from two latencies in ns and a slowdown.
#[must_use]
pub fn curves(
    title: String,
    latency_fast_ns: Estimate,
    latency_real_time_ns: Estimate,
    slowdown: Estimate,
) -> Curves {
    let point = |work_ns: Nanos| {
        let work = work_ns.get() as f64;
        Point {
            work_ns,
            real_fast_ns: total_delay(latency_fast_ns.value, 0.0, work),
            real_time_ns: total_delay(latency_real_time_ns.value, slowdown.value, work),
        }
    };
    let crossing = crossover(latency_fast_ns, latency_real_time_ns, slowdown);
    let points = WORK_LENGTHS.into_iter().map(point).collect();
    Curves {
        title,
        is_model: true,
        latency_fast_ns,
        latency_real_time_ns,
        slowdown,
        crossing,
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_of_work_is_shorter_than_the_next() {
        assert!(WORK_LENGTHS.is_sorted_by(|a, b| a < b));
        assert_eq!(
            (WORK_LENGTHS[0], WORK_LENGTHS[15]),
            (Nanos::from_micros(1), Nanos::from_millis(100))
        );
    }

    #[test]
    fn the_lower_curve_changes_at_the_crossover() {
        let found = curves(
            String::new(),
            Estimate::exact(3e6),
            Estimate::exact(20e3),
            Estimate::exact(0.1678),
        );
        let sooner = |point: &Point| point.real_time_ns < point.real_fast_ns;
        let last = found.points.iter().rfind(|point| sooner(point)).unwrap();
        assert_eq!(last.work_ns, Nanos::from_millis(10));
        assert!(
            found
                .points
                .iter()
                .filter(|point| point.work_ns > last.work_ns)
                .all(|point| !sooner(point))
        );
    }
}
