//! The margin: the largest difference that does not matter to the user.
//!
//! The default margin of a latency is 5 %, but at least 1 us. Without this minimum, the margin for
//! a latency of 2 us would be only 100 ns, and if there are enough samples, even such a difference
//! is significant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

/// Minimum in ns of a margin that is given as a fraction of a latency.
const MARGIN_LEAST: f64 = 1_000.0;

/// The largest difference that does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Margin {
    Time(Nanos),
    /// A fraction of the baseline's value.
    Share(f64),
}

impl Default for Margin {
    /// Returns 5 %, which is less than the usual difference between two boots of the same machine.
    fn default() -> Self {
        Self::Share(0.05)
    }
}

impl Margin {
    /// Returns the margin in ns for a latency of the baseline. If the margin is a share, at least 1
    /// us is returned.
    #[must_use]
    pub fn of_latency(self, baseline: f64) -> f64 {
        match self {
            Self::Time(_) => self.of(baseline),
            Self::Share(_) => self.of(baseline).max(MARGIN_LEAST),
        }
    }

    /// Returns the margin in ns for a value of the baseline.
    #[must_use]
    pub fn of(self, baseline: f64) -> f64 {
        match self {
            Self::Time(time) => time.get() as f64,
            Self::Share(share) => share * baseline.abs(),
        }
    }
}

/// The error if a text is not a margin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a margin: write a time such as 5us, or a share of the baseline such as 5%")]
pub struct ParseMarginError(String);

impl FromStr for Margin {
    type Err = ParseMarginError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseMarginError(text.to_owned());
        if let Some(number) = text.trim().strip_suffix('%') {
            let percent: f64 = number.trim().parse().map_err(|_| error())?;
            return if (0.0..=1000.0).contains(&percent) {
                Ok(Self::Share(percent / 100.0))
            } else {
                Err(error())
            };
        }
        let time: Nanos = text.parse().map_err(|_| error())?;
        if time >= Nanos::ZERO {
            Ok(Self::Time(time))
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => formatter.write_str(&time.exact()),
            Self::Share(share) => write!(formatter, "{} %", (share * 1e6).round() / 1e4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_times_or_shares() {
        assert_eq!("5us".parse(), Ok(Margin::Time(Nanos(5_000))));
        assert_eq!("5%".parse(), Ok(Margin::Share(0.05)));
        assert_eq!("0".parse(), Ok(Margin::Time(Nanos::ZERO)));
        assert_eq!(Margin::Share(0.05).of(-200.0), 10.0);
        assert_eq!(Margin::Share(0.05).of_latency(2_000.0), 1_000.0);
        assert_eq!(Margin::Share(0.05).of_latency(1e6), 50_000.0);
        assert_eq!(Margin::Time(Nanos(5)).of_latency(1e6), 5.0);
        assert_eq!(Margin::Share(0.05).to_string(), "5 %");
        for wrong in ["5", "-5us", "-1%", "five", "%", "NaN%"] {
            assert!(wrong.parse::<Margin>().is_err(), "{wrong}");
        }
    }
}
