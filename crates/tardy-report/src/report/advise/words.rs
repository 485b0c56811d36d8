//! Formats the numbers of a model.

use tardy_core::total_delay::Crossover;
use tardy_core::units::three_digits;
use tardy_statistics::confidence::Interval;

/// Formats a time in ns with three digits in a suitable unit.
pub(in crate::report) fn time(ns: f64) -> String {
    if ns.is_infinite() {
        return "any length".to_owned();
    }
    three_digits(ns)
}

/// Returns a sentence that states for which length of work both kernels take equally long.
pub(super) fn crossing(crossing: Crossover, slowdown: f64) -> String {
    let percent = (slowdown * 1e4).round() / 1e2;
    let interval = |interval: Option<Interval>| {
        interval.map_or_else(String::new, |ends| {
            format!(" (95 %: {} to {})", time(ends.lower), time(ends.upper))
        })
    };
    match crossing {
        Crossover::At {
            work_ns,
            interval_ns,
        } => {
            format!(
                "with a slowdown of {percent} %, the ordinary kernel finishes sooner if the work \
                 is longer than {}{}",
                time(work_ns),
                interval(interval_ns)
            )
        }
        Crossover::RealTimeAlways => format!(
            "with a slowdown of {percent} %, the real-time kernel finishes work of any length \
             sooner"
        ),
        Crossover::RealFastAlways => format!(
            "with a slowdown of {percent} %, the ordinary kernel finishes work of any length \
             sooner"
        ),
        Crossover::Reversed { work_ns } => {
            format!(
                "with a slowdown of {percent} %, the ordinary kernel finishes sooner if the work \
                 is shorter than {}",
                time(work_ns)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits() {
        let found = [20.0, 1_010.0, 17_754_000.0, 2.772e6, 103e6, f64::INFINITY].map(time);
        assert_eq!(
            found,
            [
                "20 ns",
                "1.01 us",
                "17.8 ms",
                "2.77 ms",
                "103 ms",
                "any length"
            ]
        );
    }
}
