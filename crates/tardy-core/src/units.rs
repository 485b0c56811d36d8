//! Durations and points in time as whole nanoseconds, which are parsed and formatted with a unit.
//!
//! A number without a unit is refused, because `200` means microseconds to one tool and nanoseconds
//! to the next.
//!
//! Times for people always have three digits and a fitting unit, also in columns. Microseconds are
//! `us` in the terminal, in reports and in charts, as in the kernel and in options, so that text
//! can be searched and copied. Upper bounds are rounded up, and numbers that a program will parse
//! are written in full.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Signed nanoseconds: a duration, or a point on the monotonic clock.
///
/// They are signed because early wake-ups, deviations and audio/video skew can be negative, and
/// have 64 bits because 32 bits hold at most 4 s.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    pub const ZERO: Self = Self(0);
    /// The latest point in time, after the end of any run.
    pub const MAX: Self = Self(i64::MAX);
    /// The earliest point in time, before the start of any run.
    pub const MIN: Self = Self(i64::MIN);

    #[must_use]
    pub const fn from_micros(count: i64) -> Self {
        Self(count * 1_000)
    }

    #[must_use]
    pub const fn from_millis(count: i64) -> Self {
        Self(count * 1_000_000)
    }

    #[must_use]
    pub const fn from_secs(count: i64) -> Self {
        Self(count * 1_000_000_000)
    }

    /// Returns the number of nanoseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns seconds, for text and statistics only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns microseconds, for text and statistics only.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Converts to the standard library's type; a negative duration becomes zero.
    #[must_use]
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Returns the shortest text that parses to the same duration: `1ms`, `50us`, `488281ns`.
    #[must_use]
    pub fn exact(self) -> String {
        const UNITS: [(i64, &str); 6] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let fitting = UNITS
            .iter()
            .find(|(nanos, _)| self.0 != 0 && self.0 % nanos == 0);
        fitting.map_or_else(
            || "0".to_owned(),
            |(nanos, unit)| format!("{}{unit}", self.0 / nanos),
        )
    }

    /// Returns the sum, limited to the range of i64.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<i64> for Nanos {
    type Output = Self;
    fn mul(self, factor: i64) -> Self {
        Self(self.0 * factor)
    }
}

impl Neg for Nanos {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

/// Formats with three digits and a fitting unit, for people: `4.67 ms`, `23.6 us`, `999 ns`.
/// [`Nanos::exact`] formats without loss.
impl fmt::Display for Nanos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&three_digits(self.0 as f64))
    }
}

/// Units of time, each with its length in ns, its name, and the number from which on the next unit
/// is used instead.
const UNITS: [(f64, &str, f64); 6] = [
    (1.0, "ns", 1e3),
    (1e3, "us", 1e3),
    (1e6, "ms", 1e3),
    (1e9, "s", 1e3),
    (60e9, "min", 120.0),
    (3_600e9, "h", f64::INFINITY),
];

/// Formats a time in ns with three digits and a fitting unit, rounded to the nearest. A whole
/// number of nanoseconds below 1 us has no decimals.
#[must_use]
pub fn three_digits(nanos: f64) -> String {
    with_unit(nanos, f64::round)
}

/// Formats a time like [`three_digits`], but rounded up, so that an upper bound stays an upper
/// bound.
#[must_use]
pub fn at_most_three_digits(nanos: f64) -> String {
    with_unit(nanos, |steps| (steps - 1e-9).ceil())
}

fn with_unit(nanos: f64, round: impl Fn(f64) -> f64) -> String {
    if nanos == 0.0 {
        return "0".to_owned();
    }
    if !nanos.is_finite() {
        return nanos.to_string();
    }
    let sign = if nanos < 0.0 { "-" } else { "" };
    for (size, unit, most) in UNITS {
        let value = nanos.abs() / size;
        let at = |decimals: i32| round(value * 10_f64.powi(decimals)) / 10_f64.powi(decimals);
        let decimals = match value {
            _ if unit == "ns" && nanos.fract() == 0.0 => 0,
            _ if at(2) < 10.0 => 2,
            _ if at(1) < 100.0 => 1,
            _ => 0,
        };
        // A value that rounds up to the next unit is written in that unit.
        if at(decimals) < most {
            return format!("{sign}{:.*} {unit}", decimals as usize, at(decimals));
        }
    }
    unreachable!("the largest unit has no upper limit")
}

/// The reason why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNanosError {
    /// The number has no unit (`ns`, `us`, `ms`, `s`, `m`, `h` or `d`).
    #[error("`{0}` has no unit: write it with ns, us, ms, s, m, h or d, as in 200us")]
    NoUnit(String),
    /// The text is not a number, or its unit is unknown.
    #[error("`{0}` is not a duration: write a number and a unit, as in 200us, 1.5ms or 24h")]
    Malformed(String),
    /// The duration exceeds 292 years.
    #[error("`{0}` is too long: at most 292 years")]
    TooLong(String),
}

/// Parses `200us`, `1.5ms`, `24h`, `-111us`, `1h30m`. The units are ns, us (or µs), ms, s, m (or
/// min), h, d.
impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseNanosError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let (negative, mut rest) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total: i128 = 0;
        let mut unit_before = i128::MAX;
        while !rest.is_empty() {
            let digits_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, tail) = rest.split_at(digits_end);
            if number.is_empty() {
                return Err(malformed());
            }
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let unit_nanos = unit_in_nanos(unit.trim()).ok_or_else(|| match unit.trim() {
                "" => ParseNanosError::NoUnit(text.to_owned()),
                _ => malformed(),
            })?;
            // Units must descend: 1h30m is valid, 30m1h and 1ms1ms are not.
            if unit_nanos >= unit_before {
                return Err(malformed());
            }
            unit_before = unit_nanos;
            total += decimal_times(number, unit_nanos).ok_or_else(malformed)?;
            rest = tail;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed)
            .map(Self)
            .map_err(|_| ParseNanosError::TooLong(text.to_owned()))
    }
}

fn unit_in_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

/// Returns `number` (digits with at most one point) times `unit_nanos`, without floating point.
/// Fractions of a nanosecond are cut off.
fn decimal_times(number: &str, unit_nanos: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.')
        || (whole.is_empty() && fraction.is_empty())
        || whole.len() > 24
        || fraction.len() > 15
    {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    Some(whole * unit_nanos + fraction * unit_nanos / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        let cases = [
            ("200us", 200_000),
            ("1.5ms", 1_500_000),
            ("24h", 86_400_000_000_000),
            ("-111us", -111_000),
            ("+111us", 111_000),
            ("1h30m", 5_400_000_000_000),
            ("7ns", 7),
            ("0", 0),
            (" 2 s ", 2_000_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_the_remedy() {
        assert_eq!(
            "200".parse::<Nanos>(),
            Err(ParseNanosError::NoUnit("200".into()))
        );
        assert!(
            "200"
                .parse::<Nanos>()
                .unwrap_err()
                .to_string()
                .contains("200us")
        );
        let long = "9223372036854775808ns";
        assert_eq!(
            long.parse::<Nanos>(),
            Err(ParseNanosError::TooLong(long.into()))
        );
        assert_eq!(
            "9223372036854775807ns".parse::<Nanos>(),
            Ok(Nanos(i64::MAX))
        );
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "-",
            "us",
            "1.2.3us",
            "200 parsecs",
            "1us2",
            "999999999d",
            "1e9s",
            "--1us",
            "1ms1ms",
            "30m1h",
        ] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn exact_text_is_short() {
        let cases = [
            (0, "0"),
            (1_000_000, "1ms"),
            (50_000, "50us"),
            (488_281, "488281ns"),
            (-2_000_000_000, "-2s"),
            (5_400_000_000_000, "90m"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).exact(), text);
        }
    }

    #[test]
    fn printing_has_three_digits_and_a_fitting_unit() {
        let cases = [
            (0, "0"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1_234, "1.23 us"),
            (9_994, "9.99 us"),
            (9_996, "10.0 us"),
            (99_949, "99.9 us"),
            (-42_000, "-42.0 us"),
            (99_960, "100 us"),
            (999_400, "999 us"),
            (999_600, "1.00 ms"),
            (4_670_300, "4.67 ms"),
            (60_000_000_000, "60.0 s"),
            (999_600_000_000, "16.7 min"),
            (86_400_000_000_000, "24.0 h"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(
            (three_digits(0.32), three_digits(23.6)),
            ("0.32 ns".to_owned(), "23.6 ns".to_owned())
        );
    }

    #[test]
    fn a_limit_is_never_printed_smaller_than_it_is() {
        let cases = [
            (999, "999 ns"),
            (17_990, "18.0 us"),
            (8_635_700, "8.64 ms"),
            (200_000, "200 us"),
            (10_000_000, "10.0 ms"),
            (9_990_001, "10.0 ms"),
            (999_001, "1.00 ms"),
            (4_000_000_001_i64, "4.01 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(at_most_three_digits(nanos as f64), text);
        }
    }

    proptest! {
        #[test]
        fn nanoseconds_survive_a_round_trip_through_text(nanos in any::<i32>()) {
            prop_assert_eq!(format!("{nanos}ns").parse::<Nanos>().unwrap(), Nanos(i64::from(nanos)));
            let nanos = Nanos(i64::from(nanos) * 1_000_000);
            prop_assert_eq!(nanos.exact().parse::<Nanos>().unwrap(), nanos);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<Nanos>();
        }
    }
}
