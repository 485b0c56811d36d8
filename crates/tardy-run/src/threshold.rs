//! What is done when a latency is above the threshold, in the words of rtla.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One action. Without any the run stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdAction {
    /// Keep the kernel's trace of it.
    Trace,
    /// Run a command in a shell.
    Shell(String),
    /// Send SIGTERM to a process.
    Signal(i32),
    /// Go on measuring.
    Continue,
}

impl fmt::Display for ThresholdAction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace => formatter.write_str("trace"),
            Self::Shell(command) => write!(formatter, "shell={command}"),
            Self::Signal(process) => write!(formatter, "signal={process}"),
            Self::Continue => formatter.write_str("continue"),
        }
    }
}

impl FromStr for ThresholdAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "trace" => Ok(Self::Trace),
            None if text == "continue" => Ok(Self::Continue),
            Some(("shell", command)) if !command.is_empty() => Ok(Self::Shell(command.to_owned())),
            // 0 and below mean groups of processes, and 1 is the machine's.
            Some(("signal", process)) => match process.parse::<i32>() {
                Ok(process) if process > 1 => Ok(Self::Signal(process)),
                _ => Err(format!("`{process}` is no process to send a signal to: write for example signal=1234")),
            },
            _ => Err(format!("`{text}` is not trace, shell=COMMAND, signal=PID or continue")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_they_are_written() {
        for text in ["trace", "shell=echo a=b", "signal=42", "continue"] {
            assert_eq!(text.parse::<ThresholdAction>().unwrap().to_string(), text);
        }
        for text in ["stop", "shell=", "signal=1", "signal=-5", "signal=x", "trace=1"] {
            assert!(text.parse::<ThresholdAction>().is_err(), "{text}");
        }
    }
}
