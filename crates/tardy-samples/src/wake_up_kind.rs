//! The kind of a wake-up: the call in which the thread waited, and the kind of its waker. Latencies
//! of different kinds have different distributions.

use std::sync::Arc;

use serde::Serialize;
use tardy_trace::timers::TimerKind;
use tardy_trace::wake_ups::Cause;

/// The kind of waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WokenBy {
    /// A timer that the program had set.
    Timer,
    /// An interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// Another thread.
    Thread,
    /// Nothing woke the thread, because the sample is the time between two functions of the
    /// program.
    Functions,
}

/// The kind of a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeUpKind {
    /// A wake-up by a timer that the program had set.
    Timer(TimerKind),
    /// A wake-up by another cause.
    Other {
        /// The waker.
        by: WokenBy,
        /// The call in which the thread slept, in the form of [`call`]; absent if unknown.
        call: Option<Arc<str>>,
    },
    /// The time between two functions of the program, which is recorded like a wake-up.
    Between,
}

impl WakeUpKind {
    /// Returns the kind of a wake-up that had this cause and woke a thread that slept in `call`.
    #[must_use]
    pub fn new(cause: &Cause, call: Option<&Arc<str>>) -> Self {
        let by = match *cause {
            Cause::Timer { kind, .. } => return Self::Timer(kind),
            Cause::Interrupt(_) => WokenBy::Interrupt,
            Cause::Softirq(_) => WokenBy::Softirq,
            Cause::Thread(_) => WokenBy::Thread,
            Cause::Functions => return Self::Between,
        };
        let call = call.cloned();
        Self::Other { by, call }
    }

    /// Returns the kind without the call, for wake-ups of threads that share a series. Only eight
    /// kinds remain without the call, while the kernel has many calls.
    #[must_use]
    pub fn of_others(&self) -> Self {
        match self {
            Self::Other { by, .. } => Self::Other {
                by: *by,
                call: None,
            },
            kind => kind.clone(),
        }
    }

    /// Returns the name of the kind, as used in the names of series: `sleep`, `futex-thread`,
    /// `read-irq`.
    #[must_use]
    pub fn name(&self) -> String {
        let (by, call) = match self {
            Self::Timer(kind) => return kind.word().to_owned(),
            Self::Between => return "between".to_owned(),
            Self::Other { by, call } => (*by, call),
        };
        let word = match by {
            WokenBy::Timer => "timer",
            WokenBy::Interrupt => "irq",
            WokenBy::Softirq => "softirq",
            WokenBy::Thread => "thread",
            WokenBy::Functions => "functions",
        };
        match call {
            Some(call) => format!("{call}-{word}"),
            None => word.to_owned(),
        }
    }

    /// Returns the name of the series with this kind of wake-up, for a thread with the name
    /// `thread`. The name is the same in each run of the program, so that runs can be compared.
    /// Special characters are replaced, because the name is also a file name. Several threads may
    /// have the same name. Their series of the same kind then also have the same name, and the run
    /// folder numbers these series in the order in which they are opened.
    #[must_use]
    pub fn series(&self, thread: &str) -> String {
        let plain = |character: char| {
            if character.is_ascii_alphanumeric() || "-_".contains(character) {
                character
            } else {
                '_'
            }
        };
        let thread: String = thread.chars().map(plain).collect();
        let thread = if thread.is_empty() { "thread" } else { &thread };
        format!("{thread}.{}", self.name())
    }

    /// Returns what kind of waker ended the sleep.
    #[must_use]
    pub fn woken_by(&self) -> WokenBy {
        match self {
            Self::Timer(_) => WokenBy::Timer,
            Self::Other { by, .. } => *by,
            Self::Between => WokenBy::Functions,
        }
    }

    /// Returns the kind of the timer, if a timer woke the thread.
    #[must_use]
    pub fn timer(&self) -> Option<TimerKind> {
        match self {
            Self::Timer(kind) => Some(*kind),
            Self::Other { .. } | Self::Between => None,
        }
    }
}

/// Returns the call of a [`WaitPlace`](crate::cycles::WaitPlace) in the form that the names of
/// kinds use. The result contains neither the call in which a page fault happened, nor the fact
/// that a sleep was relative.
#[must_use]
pub fn call(of_place: &str) -> Arc<str> {
    let first = of_place.split(" in ").next().unwrap_or(of_place);
    let first = first.strip_suffix(" for a time").unwrap_or(first);
    first.replace(' ', "-").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_by_its_call_and_its_waker() {
        let named =
            |cause, place: Option<&str>| WakeUpKind::new(&cause, place.map(call).as_ref()).name();
        assert_eq!(named(Cause::Thread(7), Some("futex")), "futex-thread");
        assert_eq!(
            named(Cause::Interrupt("eth0".into()), Some("read")),
            "read-irq"
        );
        assert_eq!(named(Cause::Softirq(3), None), "softirq");
        let fault = named(Cause::Softirq(4), Some("page fault in write"));
        assert_eq!(fault, "page-fault-softirq");
        let signal = named(Cause::Thread(7), Some("clock_nanosleep for a time"));
        assert_eq!(signal, "clock_nanosleep-thread");
        let sleep = WakeUpKind::Timer(TimerKind::Sleep);
        assert_eq!(sleep.series("../my loop"), "___my_loop.sleep");
    }
}
