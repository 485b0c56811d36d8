//! Maps values to positions on an axis, and chooses the values that are marked on the axis.

use serde::Serialize;

/// Magnitude in ns below which the signed logarithmic scale is linear.
const SIGNED_LOG_UNIT: f64 = 1_000.0;

/// Maps values to positions. Equal differences between positions are drawn as equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// A linear scale: the position is the value itself.
    Linear,
    /// A scale with decimal logarithms, for values above zero.
    Log,
    /// A logarithmic scale for positive and negative values, linear within 1 us of zero. This scale
    /// is for latencies that can be negative.
    SignedLog,
}

/// A value that is marked on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    pub value: f64,
    /// Whether the value is written at its mark.
    pub is_named: bool,
}

impl Scale {
    /// Returns the scale for latencies in ns, the smallest of which is `min`.
    #[must_use]
    pub fn of_latency(min: i64) -> Self {
        if min > 0 { Self::Log } else { Self::SignedLog }
    }

    /// Returns the position of `value`; only differences of positions are meaningful.
    #[must_use]
    pub fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::SignedLog => (1.0 + value.abs() / SIGNED_LOG_UNIT)
                .log10()
                .copysign(value),
        }
    }

    /// Returns the value at `place`.
    #[must_use]
    pub fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => 10_f64.powf(place),
            Self::SignedLog => ((10_f64.powf(place.abs()) - 1.0) * SIGNED_LOG_UNIT).copysign(place),
        }
    }

    /// Returns the values to mark between `low` and `high`; about `wanted` of them have labels.
    /// Logarithmic scales mark powers of ten, and their multiples if there is space. Linear scales
    /// mark round steps.
    #[must_use]
    pub fn ticks(self, low: f64, high: f64, wanted: usize) -> Vec<Tick> {
        let wanted = wanted.max(2);
        match self {
            Self::Linear => linear_ticks(low, high, wanted),
            Self::Log => log_ticks(low, high, wanted),
            Self::SignedLog => {
                let mut ticks = vec![Tick {
                    value: 0.0,
                    is_named: true,
                }];
                for sign in [-1.0, 1.0] {
                    let reach = if sign < 0.0 { -low } else { high };
                    if reach > SIGNED_LOG_UNIT {
                        let side = log_ticks(SIGNED_LOG_UNIT, reach, wanted);
                        ticks.extend(side.into_iter().map(|tick| Tick {
                            value: tick.value * sign,
                            ..tick
                        }));
                    }
                }
                ticks.retain(|tick| low <= tick.value && tick.value <= high);
                ticks.sort_by(|a, b| a.value.total_cmp(&b.value));
                ticks
            }
        }
    }
}

fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    let step = round_step((high - low) / wanted as f64);
    if step.is_nan() || step <= 0.0 || !step.is_finite() {
        return vec![Tick {
            value: low,
            is_named: true,
        }];
    }
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|index| Tick {
            value: index as f64 * step,
            is_named: true,
        })
        .collect()
}

/// Returns the whole numbers to mark between `low` and `high`.
#[must_use]
pub fn whole_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    let mut ticks = linear_ticks(low, high, wanted.max(2));
    ticks.retain(|tick| (tick.value - tick.value.round()).abs() < 1e-9);
    ticks
}

/// Returns the times in s to mark between `low` and `high`, at steps that are usual on clocks.
#[must_use]
pub fn time_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    const STEPS: [f64; 19] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0,
    ];
    let step = (high - low) / wanted.max(2) as f64;
    match STEPS.into_iter().find(|&round| round >= step * 0.999) {
        Some(step) if step > 1.0 => (0..)
            .map(|index| (low / step - 1e-9).ceil() * step + f64::from(index) * step)
            .take_while(|value| *value <= high * (1.0 + 1e-12))
            .map(|value| Tick {
                value,
                is_named: true,
            })
            .collect(),
        _ => linear_ticks(low, high, wanted.max(2)),
    }
}

/// Returns the smallest number that is at least `step` and is 1, 2 or 5 times a power of ten.
#[must_use]
pub fn round_step(step: f64) -> f64 {
    if step.is_nan() || step <= 0.0 {
        return 0.0;
    }
    let power = 10_f64.powf(step.log10().floor());
    let of_power = step / power;
    power
        * [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .find(|round| of_power <= round * (1.0 + 1e-9))
            .unwrap_or(10.0)
}

fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    let (first, last) = (
        (low.log10() - 1e-9).floor() as i32,
        (high.log10() + 1e-9).floor() as i32,
    );
    let decades = (high / low).log10();
    // The more labels fit into a decade, the more multiples of a power of ten have labels. The
    // other multiples have ticks without labels, unless the axis has too many decades.
    let named: &[u32] = match wanted as f64 / decades.max(1e-9) {
        room if room >= 8.0 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        room if room >= 3.0 => &[1, 2, 5],
        _ => &[1],
    };
    let every = (decades / wanted as f64).ceil().max(1.0) as i32;
    let digits: &[u32] = if every > 1 || decades > 12.0 {
        &[1]
    } else {
        &[1, 2, 3, 4, 5, 6, 7, 8, 9]
    };
    let mut ticks = Vec::new();
    for exponent in first..=last {
        for &digit in digits {
            let value = f64::from(digit) * 10_f64.powi(exponent);
            if value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9) {
                ticks.push(Tick {
                    value,
                    is_named: named.contains(&digit) && exponent.rem_euclid(every) == 0,
                });
            }
        }
    }
    ticks
}

/// Formats a latency for an axis, with its unit and at most three digits.
#[must_use]
pub fn latency_name(nanos: f64) -> String {
    let magnitude = nanos.abs();
    let (divisor, unit) = match magnitude {
        0.0 => return "0".to_owned(),
        below if below < 999.5 => (1.0, "ns"),
        below if below < 999.5e3 => (1e3, "us"),
        below if below < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", trimmed(nanos / divisor))
}

/// Formats a number with at most three significant digits, without trailing zeros. Halves are
/// rounded up, as in `tardy_core::units::three_digits`, so a chart and its table agree.
fn trimmed(value: f64) -> String {
    let decimals = match value.abs() {
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    let steps = 10_f64.powi(decimals as i32);
    let text = format!("{:.decimals$}", (value * steps).round() / steps);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(scale: Scale, low: f64, high: f64, wanted: usize) -> Vec<f64> {
        scale
            .ticks(low, high, wanted)
            .into_iter()
            .filter(|tick| tick.is_named)
            .map(|tick| tick.value)
            .collect()
    }

    #[test]
    fn decades_are_named_and_more_where_there_is_room() {
        assert_eq!(named(Scale::Log, 1_000.0, 1e6, 5), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(named(Scale::Log, 8_000.0, 60_000.0, 4), [1e4, 2e4, 5e4]);
        assert_eq!(
            named(Scale::Log, 1.0, 1e12, 6),
            [1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]
        );
        assert_eq!(
            named(Scale::Linear, 0.0, 51.0, 6),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
        );
        assert_eq!(
            named(Scale::SignedLog, -20_000.0, 100_000.0, 3),
            [-1e4, -1e3, 0.0, 1e3, 1e4, 1e5]
        );
    }

    #[test]
    fn times_have_the_steps_of_clocks() {
        let ticks = |high, wanted| {
            time_ticks(0.0, high, wanted)
                .into_iter()
                .map(|tick| tick.value)
                .collect::<Vec<_>>()
        };
        assert_eq!(ticks(3_600.0, 5), [0.0, 900.0, 1_800.0, 2_700.0, 3_600.0]);
        assert_eq!(
            ticks(32_750.0, 5),
            [0.0, 7_200.0, 14_400.0, 21_600.0, 28_800.0]
        );
        assert_eq!(ticks(1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    }

    #[test]
    fn latencies_are_named_with_their_unit() {
        let names = [0.0, 250.0, 1e3, 1.5e4, 999_600.0, 2e9].map(latency_name);
        assert_eq!(names, ["0", "250 ns", "1 us", "15 us", "1 ms", "2 s"]);
    }

    #[test]
    fn half_a_digit_is_rounded_as_in_tables() {
        for nanos in [54_250.0, 54_350.0, 10_050.0, 99_250.0, 2_225_000.0] {
            let in_table = tardy_core::units::three_digits(nanos);
            assert_eq!(latency_name(nanos), in_table);
        }
    }

    proptest! {
        #[test]
        fn places_ascend_and_lead_back(a in -1e10_f64..1e10, b in -1e10_f64..1e10) {
            for scale in [Scale::Linear, Scale::SignedLog] {
                prop_assert!((a < b) == (scale.place(a) < scale.place(b)) || (a - b).abs() < 1e-3);
                prop_assert!((scale.value(scale.place(a)) - a).abs() <= 1e-6 * a.abs().max(1.0));
            }
        }

        #[test]
        fn ticks_lie_on_the_axis(low in 1.0_f64..1e9, factor in 1.01_f64..1e6, wanted in 2_usize..12) {
            for scale in [Scale::Linear, Scale::Log, Scale::SignedLog] {
                let ticks = scale.ticks(low, low * factor, wanted);
                prop_assert!(ticks.len() < 200);
                prop_assert!(ticks.iter().all(|tick| tick.value >= low * 0.999_999 && tick.value <= low * factor * 1.000_001));
            }
        }
    }
}
