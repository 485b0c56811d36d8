//! Models how long work takes if it starts late and also runs slowly: both delays are added
//! (mckenney2009, section 3).
//!
//! The model is used to draw curves and to find where they cross. It ignores interruptions, and any
//! correlation between late starts and slow work. Only a measurement can show whether real work
//! ends in time.

use serde::{Deserialize, Serialize};

use tardy_statistics::confidence::Interval;
use tardy_statistics::estimate::Estimate;

/// Returns the time from the due time of work to its completion, in ns. The work starts
/// `latency_ns` after its due time. It would take `work_ns` at full speed; `slowdown` is the
/// relative increase of this time (0 for none).
#[must_use]
pub fn total_delay(latency_ns: f64, slowdown: f64, work_ns: f64) -> f64 {
    latency_ns + work_ns * (1.0 + slowdown)
}

/// The length of work for which two kernels finish at the same time. The "real time" kernel starts
/// work sooner but runs it more slowly; the "real fast" kernel starts work later and runs it
/// faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "crossover", rename_all = "kebab-case")]
pub enum Crossover {
    /// The real-time kernel finishes shorter work sooner, and the real-fast kernel finishes longer
    /// work sooner.
    At {
        /// Length of the work, in ns.
        work_ns: f64,
        /// Confidence interval of the length, from the intervals of latencies and slowdown. Its
        /// upper end may be infinite. Absent if no intervals were given.
        interval_ns: Option<Interval>,
    },
    /// The real-time kernel finishes work of any length sooner, because it starts sooner and is not
    /// slower.
    RealTimeAlways,
    /// The real-fast kernel finishes work of any length sooner, because the real-time kernel does
    /// not start sooner and runs it more slowly.
    RealFastAlways,
    /// The real-time kernel starts later but works faster, so it finishes longer work sooner.
    Reversed {
        /// Length of the work, in ns.
        work_ns: f64,
    },
}

/// Returns the crossover `(fast - real time) / slowdown`. Its inputs are the latencies of both
/// kernels in ns, and the slowdown of the real-time kernel relative to the real-fast one.
///
/// The resulting interval contains the crossover if each input lies in its interval. With a
/// confidence of 1 - a for each input, the confidence of the result is at least 1 - 3a.
#[must_use]
pub fn crossover(
    latency_fast_ns: Estimate,
    latency_real_time_ns: Estimate,
    slowdown: Estimate,
) -> Crossover {
    let gain = latency_fast_ns.value - latency_real_time_ns.value;
    match (gain > 0.0, slowdown.value > 0.0) {
        (true, false) => Crossover::RealTimeAlways,
        (false, true) => Crossover::RealFastAlways,
        (false, false) if slowdown.value == 0.0 => Crossover::RealFastAlways,
        (false, false) => Crossover::Reversed {
            work_ns: gain / slowdown.value,
        },
        (true, true) => {
            let is_known = [latency_fast_ns, latency_real_time_ns, slowdown]
                .iter()
                .any(|estimate| estimate.interval.is_some());
            let (fast, real_time, share) = (
                latency_fast_ns.ends(),
                latency_real_time_ns.ends(),
                slowdown.ends(),
            );
            let upper_gain = fast.upper - real_time.lower;
            let interval = Interval {
                lower: ((fast.lower - real_time.upper) / share.upper).max(0.0),
                upper: if share.lower > 0.0 {
                    upper_gain / share.lower
                } else {
                    f64::INFINITY
                },
            };
            Crossover::At {
                work_ns: gain / slowdown.value,
                interval_ns: is_known.then_some(interval),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(found: Crossover) -> (f64, Option<Interval>) {
        let Crossover::At {
            work_ns,
            interval_ns,
        } = found
        else {
            panic!("{found:?}")
        };
        (work_ns, interval_ns)
    }

    #[test]
    fn the_crossover_of_two_latencies_and_a_slowdown_is_their_quotient() {
        // The numbers are from mckenney2009, section 3: latencies of 3 ms and 20 us, and slowdowns
        // of 16.78 % and 107.5 %. The paper's text states about 10 and 1 ms, which do not follow
        // from these numbers.
        let (fast, real_time) = (Estimate::exact(3e6), Estimate::exact(20e3));
        let (some, _) = at(crossover(fast, real_time, Estimate::exact(0.1678)));
        assert_eq!(format!("{:.1}", some / 1e6), "17.8");
        let (much, _) = at(crossover(fast, real_time, Estimate::exact(1.075)));
        assert_eq!(format!("{:.1}", much / 1e6), "2.8");
        assert_eq!(
            crossover(fast, real_time, Estimate::exact(0.0)),
            Crossover::RealTimeAlways
        );
    }

    #[test]
    fn every_order_of_latencies_and_speeds_has_an_answer() {
        let of = |fast: f64, real_time: f64, slowdown: f64| {
            crossover(
                Estimate::exact(fast),
                Estimate::exact(real_time),
                Estimate::exact(slowdown),
            )
        };
        assert_eq!(of(10.0, 5.0, -0.1), Crossover::RealTimeAlways);
        assert_eq!(of(5.0, 10.0, 0.1), Crossover::RealFastAlways);
        assert_eq!(of(5.0, 5.0, 0.0), Crossover::RealFastAlways);
        assert_eq!(of(5.0, 10.0, -0.5), Crossover::Reversed { work_ns: 10.0 });
    }

    #[test]
    fn a_slowdown_that_may_be_none_sets_no_upper_end() {
        let slowdown = Estimate {
            value: 0.1,
            interval: Some(Interval {
                lower: -0.05,
                upper: 0.2,
            }),
        };
        let (work, interval) = at(crossover(
            Estimate::exact(300.0),
            Estimate::exact(100.0),
            slowdown,
        ));
        assert!((work - 2000.0).abs() < 1e-9);
        assert_eq!(
            interval,
            Some(Interval {
                lower: 1000.0,
                upper: f64::INFINITY
            })
        );
    }

    proptest! {
        #[test]
        fn both_kernels_take_equally_long_at_the_crossover(fast in 1.0_f64..1e9, share in 0.0_f64..0.999, slowdown in 1e-3_f64..10.0) {
            let real_time = fast * share;
            let (work, _) = at(crossover(Estimate::exact(fast), Estimate::exact(real_time), Estimate::exact(slowdown)));
            let (of_fast, of_real_time) = (total_delay(fast, 0.0, work), total_delay(real_time, slowdown, work));
            prop_assert!((of_fast / of_real_time - 1.0).abs() < 1e-9, "{of_fast} {of_real_time}");
            prop_assert!(total_delay(real_time, slowdown, work * 0.9) < total_delay(fast, 0.0, work * 0.9));
            prop_assert!(total_delay(real_time, slowdown, work * 1.1) > total_delay(fast, 0.0, work * 1.1));
        }

        #[test]
        fn the_interval_holds_every_crossover_of_values_within_their_intervals(
            fast in 100.0_f64..1e6, real_time in 1.0_f64..90.0, slowdown in 0.02_f64..2.0, spread in 0.0_f64..0.4, at_each in [0.0_f64..=1.0, 0.0_f64..=1.0, 0.0_f64..=1.0]
        ) {
            let around = |value: f64| Estimate { value, interval: Some(Interval { lower: value * (1.0 - spread), upper: value * (1.0 + spread) }) };
            let within = |estimate: Estimate, place: f64| { let ends = estimate.ends(); ends.lower + place * ends.width() };
            let (f, r, s) = (around(fast), around(real_time), around(slowdown));
            let (_, interval) = at(crossover(f, r, s));
            let inside = (within(f, at_each[0]) - within(r, at_each[1])) / within(s, at_each[2]);
            let ends = interval.unwrap();
            prop_assert!(ends.lower * (1.0 - 1e-9) <= inside.max(0.0) && inside <= ends.upper * (1.0 + 1e-9), "{inside} {ends:?}");
        }
    }
}
