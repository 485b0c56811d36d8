//! Delays of known length and kind that the module in `inject/` makes in a guest: the request as
//! text, and the due time of each delay.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

/// Path of the module in the guest.
pub const MODULE_PATH: &str = "/lib/tardy_inject.ko";
/// File name of the module, in a folder named after the kernel's release.
pub const MODULE_NAME: &str = "tardy_inject.ko";
/// Path, within a run folder, of the module's log of delays.
pub const LOG_PATH: &str = "trace/inject.csv";
/// The longest delay that the module accepts (DELAY_NS_MAX in inject/tardy_inject.c).
const LENGTH_MAX: Nanos = Nanos::from_millis(50);
/// Maximum number of delays that the module can log (LOG_ENTRIES_MAX in inject/tardy_inject.c).
const COUNT_MAX: u32 = 4096;

/// The context in which the module keeps the CPU busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Context {
    PreemptionOff,
    InterruptsOff,
    Softirq,
    /// A section under a raw spinlock. Waiters for such a lock spin on every kernel.
    RawSpinlock,
    /// A section under a spinlock. On PREEMPT_RT, waiters for such a lock sleep.
    Spinlock,
    /// A system call that holds no lock and disables neither interrupts nor preemption.
    Plain,
}

impl Context {
    /// Every context.
    pub const ALL: [Self; 6] = [
        Self::PreemptionOff,
        Self::InterruptsOff,
        Self::Softirq,
        Self::RawSpinlock,
        Self::Spinlock,
        Self::Plain,
    ];

    /// Returns the name that the module uses for the context.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreemptionOff => "preemption-off",
            Self::InterruptsOff => "interrupts-off",
            Self::Softirq => "softirq",
            Self::RawSpinlock => "raw-spinlock",
            Self::Spinlock => "spinlock",
            Self::Plain => "plain",
        }
    }
}

/// A series of equal delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    pub context: Context,
    /// Length of each delay.
    pub length: Nanos,
    /// Number of delays.
    pub count: u32,
}

impl Injection {
    /// Number of delays if the user gives none.
    pub const COUNT_DEFAULT: u32 = 30;
    /// Time from the start to the first delay. The start is the program's start; for a measurement,
    /// it is the moment when the measurement has made its files. The time is long enough for the
    /// probes to start before the first delay.
    pub const FIRST_AFTER: Nanos = Nanos::from_secs(1);

    /// Returns the time from the start to the due time of delay number `index`.
    /// [`Self::FIRST_AFTER`] states which moment is the start.
    ///
    /// Between two delays, the system has time to settle. Whatever the length of the delays,
    /// successive due times are a whole number of ms plus 24/29 ms apart. So for every period that
    /// divides 1 ms, 29 delays start at 29 evenly distributed points of the period. Pauses of a
    /// fixed length would not distribute the delays evenly, because the guest also takes time to
    /// wake up and to fire, which would shift the points.
    #[must_use]
    pub fn due(self, index: u32) -> Nanos {
        const MILLISECOND: i64 = 1_000_000;
        const REST_MS: i64 = 20;
        let whole_ms =
            self.length.0.div_euclid(MILLISECOND) + i64::from(self.length.0 % MILLISECOND > 0);
        Nanos(
            Self::FIRST_AFTER.0
                + i64::from(index) * ((REST_MS + whole_ms) * MILLISECOND + MILLISECOND * 24 / 29),
        )
    }
}

/// A text that does not describe a delay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a delay ({reason}): write CONTEXT:TIME or CONTEXT:TIME:COUNT, as in \
     preemption-off:1ms:30"
)]
pub struct ParseInjectionError {
    text: String,
    reason: String,
}

impl FromStr for Injection {
    type Err = ParseInjectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason: String| ParseInjectionError {
            text: text.to_owned(),
            reason,
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let known = || {
            format!(
                "contexts are {}",
                Context::ALL.map(Context::name).join(", ")
            )
        };
        let context = Context::ALL
            .into_iter()
            .find(|context| context.name() == name)
            .ok_or_else(|| wrong(known()))?;
        let length: Nanos = parts
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|error| wrong(format!("{error}")))?;
        if length <= Nanos::ZERO || length > LENGTH_MAX {
            return Err(wrong(format!("one delay lasts at most {LENGTH_MAX}")));
        }
        let count = match parts.next() {
            Some(count) => count
                .parse()
                .ok()
                .filter(|count| (1..=COUNT_MAX).contains(count)),
            None => Some(Self::COUNT_DEFAULT),
        };
        let count = count
            .filter(|_| parts.next().is_none())
            .ok_or_else(|| wrong(format!("the count ranges from 1 to {COUNT_MAX}")))?;
        Ok(Self {
            context,
            length,
            count,
        })
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}:{}",
            self.context.name(),
            self.length.exact(),
            self.count
        )
    }
}

/// One delay, as it is in the module's log. The times are on CLOCK_MONOTONIC. The module reads them
/// within the section that it makes, so the section is a little longer than the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedDelay {
    /// When the delay started.
    pub begun: Nanos,
    /// When the delay ended.
    pub ended: Nanos,
}

/// Parses the module's log.
///
/// # Errors
/// Returns the number, counted from 1, of the first line that is not in the module's format.
pub fn parse_log(text: &str) -> Result<Vec<InjectedDelay>, usize> {
    let firing = |line: &str| {
        let mut fields = line
            .split(',')
            .skip(3)
            .map(|field| field.parse().ok().map(Nanos));
        Some(InjectedDelay {
            begun: fields.next()??,
            ended: fields.next()??,
        })
    };
    let lines = text.lines().enumerate().skip(1);
    lines
        .map(|(index, line)| firing(line).ok_or(index + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_read_as_it_is_printed() {
        for text in [
            "preemption-off:1ms:30",
            "plain:200us:1",
            "spinlock:50ms:4096",
        ] {
            assert_eq!(text.parse::<Injection>().unwrap().to_string(), text);
        }
        assert_eq!(
            "softirq:1us".parse::<Injection>().unwrap().count,
            Injection::COUNT_DEFAULT
        );
    }

    #[test]
    fn what_the_module_would_refuse_is_refused_before() {
        for text in [
            "",
            "plain",
            "plain:0s",
            "plain:51ms",
            "plain:1ms:0",
            "plain:1ms:4097",
            "plain:1ms:3:4",
            "console:1ms",
            "plain:-1ms",
        ] {
            assert!(text.parse::<Injection>().is_err(), "{text}");
        }
    }

    #[test]
    fn thirty_delays_are_never_further_from_a_phase_than_a_25th_of_a_period() {
        for length in ["1us", "200us", "1ms", "1500us", "50ms"] {
            let injection: Injection = format!("plain:{length}:30").parse().unwrap();
            for period in [50_000, 100_000, 200_000, 250_000, 500_000, 1_000_000] {
                let mut phases: Vec<i64> = (0..injection.count)
                    .map(|index| injection.due(index).0 % period)
                    .collect();
                phases.sort_unstable();
                phases.push(phases[0] + period);
                let widest = phases
                    .windows(2)
                    .map(|pair| pair[1] - pair[0])
                    .max()
                    .unwrap();
                assert!(widest * 25 <= period, "{length}, period {period}: {widest}");
            }
            assert!(
                injection.due(1).0 - injection.due(0).0 >= injection.length.0 + 20_000_000,
                "rest between two"
            );
        }
    }

    #[test]
    fn the_log_is_read_and_a_foreign_line_named() {
        let header = "context,cpu,asked_ns,begun_ns,ended_ns\n";
        let log = format!("{header}plain,0,1000,5,1006\nplain,0,1000,2000,3001\n");
        assert_eq!(
            parse_log(&log).unwrap()[1],
            InjectedDelay {
                begun: Nanos(2000),
                ended: Nanos(3001)
            }
        );
        assert_eq!(parse_log(&format!("{header}plain,0,1000,5\n")), Err(2));
    }
}
