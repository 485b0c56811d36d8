//! Durations and points in time as whole nanoseconds, read and printed with their unit.
//!
//! A bare number is refused: `200` may mean microseconds to one tool and nanoseconds to the next.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Signed nanoseconds: a duration, or a point on the monotonic clock.
///
/// Signed because early wake-ups, deviations and audio/video skew are negative; 64 bits because stalls pass 4 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Further in the future than any run reaches.
    pub const MAX: Self = Self(i64::MAX);
    /// Further in the past than any run reaches.
    pub const MIN: Self = Self(i64::MIN);

    /// `count` microseconds.
    #[must_use]
    pub const fn from_micros(count: i64) -> Self {
        Self(count * 1_000)
    }

    /// `count` milliseconds.
    #[must_use]
    pub const fn from_millis(count: i64) -> Self {
        Self(count * 1_000_000)
    }

    /// `count` seconds.
    #[must_use]
    pub const fn from_secs(count: i64) -> Self {
        Self(count * 1_000_000_000)
    }

    /// The number of nanoseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Seconds, for text and statistics only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Microseconds, for text and statistics only.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The same span as the standard library's type; a negative one becomes zero.
    #[must_use]
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// The shortest text that is read back as the same duration: `1ms`, `50us`, `488281ns`.
    #[must_use]
    pub fn exact(self) -> String {
        const UNITS: [(i64, &str); 6] =
            [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        let fitting = UNITS.iter().find(|(nanos, _)| self.0 != 0 && self.0 % nanos == 0);
        fitting.map_or_else(|| "0".to_owned(), |(nanos, unit)| format!("{}{unit}", self.0 / nanos))
    }

    /// The sum, or the nearest end of the range.
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

/// Prints microseconds below 10 ms and the larger units above, with three decimals: one unit for what is compared by eye.
impl fmt::Display for Nanos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (divisor, unit) = match magnitude {
            0..10_000_000 => (1e3, "us"),
            10_000_000..10_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        formatter.pad(&format!("{:.3} {unit}", self.0 as f64 / divisor))
    }
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNanosError {
    /// A number without `ns`, `us`, `ms`, `s`, `m`, `h` or `d` behind it.
    #[error("`{0}` has no unit: write it with ns, us, ms, s, m, h or d, as in 200us")]
    NoUnit(String),
    /// Not a number, or not one of the units.
    #[error("`{0}` is not a duration: write a number and a unit, as in 200us, 1.5ms or 24h")]
    Malformed(String),
    /// Past 292 years.
    #[error("`{0}` is too long: at most 292 years")]
    TooLong(String),
}

/// Reads `200us`, `1.5ms`, `24h`, `-111us`, `1h30m`: the units are ns, us (or µs), ms, s, m (or min), h, d.
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
        while !rest.is_empty() {
            let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, tail) = rest.split_at(digits_end);
            if number.is_empty() {
                return Err(malformed());
            }
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let unit_nanos = unit_in_nanos(unit.trim()).ok_or_else(|| match unit.trim() {
                "" => ParseNanosError::NoUnit(text.to_owned()),
                _ => malformed(),
            })?;
            total += decimal_times(number, unit_nanos).ok_or_else(malformed)?;
            rest = tail;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).map(Self).map_err(|_| ParseNanosError::TooLong(text.to_owned()))
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

/// `number` (digits with at most one point) times `unit_nanos`, without going through floating point; rounds towards zero below 1 ns.
fn decimal_times(number: &str, unit_nanos: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.len() > 15 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
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
        assert_eq!("200".parse::<Nanos>(), Err(ParseNanosError::NoUnit("200".into())));
        assert!("200".parse::<Nanos>().unwrap_err().to_string().contains("200us"));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "-", "us", "1.2.3us", "200 parsecs", "1us2", "999999999d", "1e9s", "--1us"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn exact_text_is_short() {
        let cases =
            [(0, "0"), (1_000_000, "1ms"), (50_000, "50us"), (488_281, "488281ns"), (-2_000_000_000, "-2s"), (5_400_000_000_000, "90m")];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).exact(), text);
        }
    }

    #[test]
    fn printing_keeps_one_unit_below_ten_milliseconds() {
        assert_eq!(Nanos(1_234).to_string(), "1.234 us");
        assert_eq!(Nanos(-42_000).to_string(), "-42.000 us");
        assert_eq!(Nanos(9_999_999).to_string(), "9999.999 us");
        assert_eq!(Nanos(10_000_000).to_string(), "10.000 ms");
        assert_eq!(Nanos(60_000_000_000).to_string(), "60.000 s");
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
