//! Parses printed numbers: durations, counts, and words next to them.
//!
//! Printed durations are rounded to three digits, so two of them contradict each other only if they
//! differ by more than that rounding.

use std::fmt;

/// Marks that may follow or enclose a word.
const MARKS: &[char] = &[',', ';', ':', '.', '(', ')', '`'];
const UNITS_NS: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
];

/// A printed duration.
#[derive(Clone, Copy)]
pub(super) struct Duration {
    pub(super) ns: f64,
    /// Half a unit of the last printed digit; 0 for an exact text, such as the user's deadline.
    pub(super) rounding_ns: f64,
    /// Whether the text has `~` before the number.
    pub(super) is_unbounded: bool,
}

impl fmt::Debug for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} us", self.ns / 1e3)
    }
}

impl Duration {
    /// Parses `14.8 us` (rounded) and `250us` (exact), with `~`, `*` or `up to ` around it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text
            .trim()
            .trim_end_matches('*')
            .trim_start_matches("up to ");
        let (is_unbounded, text) = match text.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, unit) = text.split_at(text.find(char::is_alphabetic)?);
        let unit_ns = UNITS_NS.iter().find(|(name, _)| *name == unit)?.1;
        let digits = number.trim();
        let is_exact = digits.len() == number.len();
        Some(Self {
            ns: digits.parse::<f64>().ok()? * unit_ns,
            rounding_ns: if is_exact {
                0.0
            } else {
                half_of_last_digit(digits) * unit_ns
            },
            is_unbounded,
        })
    }

    /// Returns whether this duration is longer than `other` by more than the rounding.
    pub(super) fn is_above(self, other: Self) -> bool {
        self.ns - other.ns > self.rounding_with(other) * 1.001 + 1e-6 * other.ns.abs()
    }

    /// Returns whether both texts can be the same value. Two texts whose last digits differ by one
    /// cannot be the same value.
    pub(super) fn is_same(self, other: Self) -> bool {
        (self.ns - other.ns).abs() <= self.rounding_with(other) * 0.999 + 1e-9 * other.ns.abs()
    }

    /// The largest difference that the rounding of both durations can explain.
    pub(super) fn rounding_with(self, other: Self) -> f64 {
        self.rounding_ns + other.rounding_ns
    }

    /// Returns this duration multiplied by `factor`, with the same rounding.
    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            ns: self.ns * factor,
            ..self
        }
    }
}

/// Half a unit of the last digit in `digits`.
pub(super) fn half_of_last_digit(digits: &str) -> f64 {
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
    0.5 * 0.1_f64.powi(decimals as i32)
}

/// Returns whether both durations are known and `a` is longer than `b` by more than the rounding.
pub(super) fn exceeds(a: Option<Duration>, b: Option<Duration>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a.is_above(b))
}

/// Returns whether both durations are known and cannot be the same value.
pub(super) fn differ(a: Option<Duration>, b: Option<Duration>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if !a.is_same(b))
}

/// Returns whether both counts are known and differ.
pub(super) fn unequal(a: Option<f64>, b: Option<f64>) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// Parses `65k`, `2.1M` and `2056`.
pub(super) fn short_count(text: &str) -> Option<f64> {
    let factor = match text.chars().last()? {
        'k' => 1e3,
        'M' => 1e6,
        _ => 1.0,
    };
    let digits = text.trim_end_matches(['k', 'M']);
    Some(digits.parse::<f64>().ok()? * factor)
}

pub(super) fn word_before<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let before = &text[..text.find(pattern)?];
    Some(before.split_whitespace().last()?.trim_matches(MARKS))
}

pub(super) fn word_after<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let after = &text[text.find(pattern)? + pattern.len()..];
    Some(after.split_whitespace().next()?.trim_matches(MARKS))
}

pub(super) fn number_before(text: &str, pattern: &str) -> Option<f64> {
    word_before(text, pattern)?.parse().ok()
}

pub(super) fn number_after(text: &str, pattern: &str) -> Option<f64> {
    word_after(text, pattern)?.parse().ok()
}

pub(super) fn duration_after(text: &str, pattern: &str) -> Option<Duration> {
    let after = &text[text.find(pattern)? + pattern.len()..];
    let mut words = after
        .split_whitespace()
        .map(|word| word.trim_end_matches(MARKS));
    let first = words.next()?;
    Duration::parse(first).or_else(|| Duration::parse(&format!("{first} {}", words.next()?)))
}

pub(super) fn duration_before(text: &str, pattern: &str) -> Option<Duration> {
    let words: Vec<&str> = text[..text.find(pattern)?].split_whitespace().collect();
    let number_and_unit = words.len().checked_sub(2)?..;
    Duration::parse(words.last()?).or_else(|| Duration::parse(&words[number_and_unit].join(" ")))
}

/// Parses a list of CPUs such as `0-2,5`.
pub(super) fn cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The fraction of samples that a column such as `median` or `99.9 %` covers.
pub(super) fn share_of_column(column: &str) -> Option<f64> {
    if column == "median" {
        return Some(0.5);
    }
    Some(column.strip_suffix(" %")?.parse::<f64>().ok()? / 100.0)
}

/// The rank of a percentile among `count` sorted samples, counted from 1.
pub(super) fn place_of_percentile(share: f64, count: f64) -> f64 {
    (share * count - 1e-6).ceil()
}
