//! What to do at a latency above the threshold; the names of actions are those of rtla.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What to do at a latency above the threshold. If there is no action, the run stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdAction {
    /// Store the kernel's trace of the latency.
    Trace,
    /// Run a command in a shell.
    Shell(String),
    /// Send SIGTERM to this process.
    Signal(i32),
    /// Send this signal to a process.
    SignalNumber {
        /// Number of the signal, as in signal(7).
        num: i32,
        /// Number of the process; `None` for the parent of the tool.
        pid: Option<i32>,
    },
    /// Keep measuring.
    Continue,
}

/// Number of the last signal of Linux (signal(7)).
const SIGNAL_MAX: i32 = 64;

impl fmt::Display for ThresholdAction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace => formatter.write_str("trace"),
            Self::Shell(command) => write!(formatter, "shell={command}"),
            Self::Signal(process) => write!(formatter, "signal={process}"),
            Self::SignalNumber { num, pid: None } => {
                write!(formatter, "signal,num={num},pid=parent")
            }
            Self::SignalNumber {
                num,
                pid: Some(pid),
            } => write!(formatter, "signal,num={num},pid={pid}"),
            Self::Continue => formatter.write_str("continue"),
        }
    }
}

/// Parses `num=10,pid=1234`, in any order, as in rtla. `pid=parent` is the process that started the
/// tool.
fn signal_number(text: &str) -> Option<ThresholdAction> {
    let (mut num, mut pid) = (None, None);
    for part in text.split(',') {
        match part.split_once('=')? {
            ("num", value) if num.is_none() => {
                num = Some(
                    value
                        .parse::<i32>()
                        .ok()
                        .filter(|num| (1..=SIGNAL_MAX).contains(num))?,
                )
            }
            ("pid", "parent") if pid.is_none() => pid = Some(None),
            ("pid", value) if pid.is_none() => pid = Some(Some(process(value)?)),
            _ => return None,
        }
    }
    Some(ThresholdAction::SignalNumber {
        num: num?,
        pid: pid?,
    })
}

/// Parses the number of a process. Refuses 0 and negative numbers, because they mean process
/// groups, and 1, because it is the machine's init.
fn process(text: &str) -> Option<i32> {
    text.parse::<i32>().ok().filter(|&process| process > 1)
}

impl FromStr for ThresholdAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(what) = text.strip_prefix("signal,") {
            return signal_number(what).ok_or_else(|| {
                format!(
                    "`{what}` does not name a signal and a process: write both, such as \
                     signal,num=10,pid=1234 or signal,num=10,pid=parent"
                )
            });
        }
        match text.split_once('=') {
            None if text == "trace" => Ok(Self::Trace),
            None if text == "continue" => Ok(Self::Continue),
            Some(("shell", command)) if !command.is_empty() => Ok(Self::Shell(command.to_owned())),
            Some(("signal", name)) => process(name).map(Self::Signal).ok_or_else(|| {
                format!(
                    "`{name}` is not a process to signal: write signal=PID, such as signal=1234"
                )
            }),
            _ => Err(format!(
                "`{text}` is not an action: write trace, shell=COMMAND, signal=PID, \
                 `signal,num=N,pid=PID` or continue"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_they_are_written() {
        for text in [
            "trace",
            "shell=echo a=b",
            "signal=42",
            "signal,num=10,pid=42",
            "signal,num=64,pid=parent",
            "continue",
        ] {
            assert_eq!(text.parse::<ThresholdAction>().unwrap().to_string(), text);
        }
        assert_eq!(
            "signal,pid=42,num=10".parse(),
            Ok(ThresholdAction::SignalNumber {
                num: 10,
                pid: Some(42)
            })
        );
        for text in [
            "signal,num=0,pid=42",
            "signal,num=65,pid=42",
            "signal,num=10",
            "signal,pid=42",
            "signal,num=10,pid=1",
            "signal,num=10,num=12,pid=42",
        ] {
            assert!(
                text.parse::<ThresholdAction>()
                    .unwrap_err()
                    .contains("signal,num=10,pid=1234"),
                "{text}"
            );
        }
        for text in [
            "stop",
            "shell=",
            "signal=1",
            "signal=-5",
            "signal=x",
            "trace=1",
        ] {
            assert!(text.parse::<ThresholdAction>().is_err(), "{text}");
        }
    }
}
