//! Finds out why a guest gave no result. The diagnosis is based on how the guest's machine ended,
//! its exported files and its console.
//!
//! `lab check` calls a kernel "bad" only if the kernel itself is at fault. If the kernel panics
//! after its boot, it is bad; if it does not boot, it is skipped. An error of the host stops the
//! bisection, with an exit code that `git bisect run` does not take for a bad commit.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::guest_job::Ending;

/// Number of the console's last lines that are shown together with a failure.
const TAIL_LINES: usize = 12;
/// QEMU's assertion when a resumed machine had executed more than 2^31 instructions. QEMU keeps the
/// number of instructions since the last event in an int (replay/replay-internal.c of 7.2).
const LONG_BOOT: &str = "replay_advance_current_icount";

/// Text that the first process writes to the console when it fails.
pub(super) const GUEST_FAILED: &str = "tardy: the guest failed: ";
/// Text that the first process writes to the console once the kernel has booted. This is before the
/// system settles and the measurement starts.
pub(super) const BOOTED: &str = "tardy: the guest has booted";

/// In what way a guest failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The kernel panicked, with this message.
    Panic(String),
    /// The kernel killed processes because memory was short, according to the guest's report or the
    /// console.
    OutOfMemory,
    /// The guest did not end within the host's time limit, because the guest hung or because the
    /// host is too slow for the job.
    WallLimit {
        /// The limit in seconds.
        limit_s: u64,
    },
    /// The guest's program did not end within the guest's time limit.
    TimeLimit,
    /// The machine was switched off, but left no result.
    NoResult,
    /// QEMU reported that the guest's kernel panicked, but the console shows no message of a panic.
    Stopped,
    /// The first process failed, with this message.
    Guest(String),
    /// The result is damaged.
    Torn(String),
    /// QEMU failed and printed this message.
    Qemu(String),
    /// The guest's program failed.
    Program {
        /// How the program ended.
        ending: Ending,
        /// The last lines of the program's standard error.
        stderr: String,
    },
    /// The kernel does not run with the requested preemption model.
    Preemption {
        /// The requested value.
        wanted: String,
        /// The values that the kernel offers, if known.
        offered: Option<String>,
    },
    /// The host could not prepare the guest or keep its result.
    Host(String),
}

/// A guest that left no usable result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cause of the failure.
    pub cause: Cause,
    /// The last lines of the console.
    pub console_tail: Vec<String>,
    /// Whether the kernel had booted far enough to start the first process.
    #[serde(default)]
    pub has_booted: bool,
}

/// What a failure shows about the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The kernel did not boot, or lacks a requirement. The kernel's latencies are unknown.
    CannotTell,
    /// The kernel booted, and then panicked, hung or switched off.
    Kernel,
    /// The host, QEMU, or the program in the guest failed. This shows nothing about the kernel.
    Host,
}

impl Failure {
    /// Returns what the failure shows about the kernel.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match &self.cause {
            Cause::Preemption { .. } | Cause::Stopped => Blame::CannotTell,
            Cause::Panic(_) | Cause::WallLimit { .. } | Cause::NoResult if self.has_booted => {
                Blame::Kernel
            }
            Cause::Panic(_) | Cause::WallLimit { .. } | Cause::NoResult => Blame::CannotTell,
            // The guest's clock keeps running even if the guest's kernel hangs or does not let the
            // program run. Such a kernel therefore causes this failure.
            Cause::TimeLimit => Blame::Kernel,
            Cause::OutOfMemory
            | Cause::Guest(_)
            | Cause::Torn(_)
            | Cause::Qemu(_)
            | Cause::Program { .. }
            | Cause::Host(_) => Blame::Host,
        }
    }
}

impl Cause {
    /// Returns whether QEMU cannot resume the guest, because the guest has executed too many
    /// instructions before its snapshot.
    pub(super) fn is_long_boot(&self) -> bool {
        matches!(self, Self::Qemu(words) if words.contains(LONG_BOOT))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(words) => write!(formatter, "the kernel panicked: {words}"),
            Self::OutOfMemory => write!(
                formatter,
                "the guest ran out of memory: give it more with --memory"
            ),
            Self::WallLimit { limit_s } => {
                write!(
                    formatter,
                    "the guest did not finish within {limit_s} s of the host's time: it hangs, or \
                     needs a longer --wall-limit"
                )
            }
            Self::TimeLimit => write!(
                formatter,
                "the program in the guest exceeded its limit of virtual time"
            ),
            Self::NoResult => write!(formatter, "the guest powered off without a result"),
            Self::Stopped => write!(
                formatter,
                "QEMU reported a panic of the guest's kernel, but the console shows no message of \
                 it, so the cause is unknown"
            ),
            Self::Guest(words) => write!(formatter, "{words}"),
            Self::Torn(why) => write!(formatter, "{why}: run it again"),
            Self::Qemu(words) => write!(formatter, "QEMU gave up: {words}"),
            Self::Program { ending, stderr } => {
                match ending {
                    Ending::Exited(code) => {
                        write!(formatter, "the program in the guest returned {code}")?
                    }
                    Ending::Signalled(signal) => {
                        write!(formatter, "signal {signal} ended the program in the guest")?
                    }
                    Ending::TimeLimit => write!(
                        formatter,
                        "the program in the guest was stopped at its time limit"
                    )?,
                    Ending::NotStarted(error) => write!(
                        formatter,
                        "the program in the guest could not be started: {error}"
                    )?,
                    Ending::LoadsEnded => write!(
                        formatter,
                        "the loads in the guest ended before the program did"
                    )?,
                }
                if stderr.is_empty() {
                    Ok(())
                } else {
                    write!(formatter, ": {stderr}")
                }
            }
            Self::Preemption {
                wanted,
                offered: Some(offered),
            } => {
                write!(
                    formatter,
                    "the kernel does not run with preempt={wanted}; it offers {offered}"
                )
            }
            Self::Preemption {
                wanted,
                offered: None,
            } => {
                write!(
                    formatter,
                    "the kernel cannot choose preempt={wanted} at boot (no PREEMPT_DYNAMIC): \
                     leave --preempt out"
                )
            }
            Self::Host(message) => formatter.write_str(message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(formatter)?;
        for line in &self.console_tail {
            write!(formatter, "\n    | {line}")?;
        }
        Ok(())
    }
}

/// Finds out from the console why a guest exported no files.
#[must_use]
pub fn from_console(console: &str) -> Cause {
    const PANIC: &str = "Kernel panic - not syncing: ";
    const OUT_OF_MEMORY: [&str; 2] = ["Out of memory", "System is deadlocked on memory"];
    if OUT_OF_MEMORY.iter().any(|words| console.contains(words)) {
        return Cause::OutOfMemory;
    }
    let words_after = |mark| {
        Some(harmless(
            console
                .split_once(mark)?
                .1
                .lines()
                .next()
                .unwrap_or_default()
                .trim(),
        ))
    };
    let panic = words_after(PANIC).map(Cause::Panic);
    panic
        .or_else(|| {
            words_after(GUEST_FAILED)
                .map(|words| Cause::Guest(format!("the guest failed: {words}")))
        })
        .unwrap_or(Cause::NoResult)
}

/// Returns the console's text. Bytes that are not text are replaced. The text is empty if the guest
/// never wrote to the console.
#[must_use]
pub fn read_console(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// Returns `line` without control characters, because they would act on the user's terminal.
fn harmless(line: &str) -> String {
    line.chars()
        .filter(|character| !character.is_control() || *character == '\t')
        .collect()
}

/// Returns the last lines that are not blank, without control characters.
#[must_use]
pub fn tail(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(harmless)
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines.split_off(lines.len().saturating_sub(TAIL_LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_in_the_kernels_words() {
        let console = "[    1.0] x\r\n[    1.2] Kernel panic - not syncing: VFS: Unable to mount \
                       root fs\r\n[    1.3] CPU: 0";
        assert_eq!(
            from_console(console),
            Cause::Panic("VFS: Unable to mount root fs".into())
        );
    }

    #[test]
    fn the_first_process_is_quoted_when_it_failed() {
        let console =
            "[    1.0] x\r\ntardy: the guest failed: no room\r\n[    1.3] reboot: Power down";
        assert_eq!(
            from_console(console),
            Cause::Guest("the guest failed: no room".into())
        );
    }

    #[test]
    fn the_words_of_a_kernel_and_of_the_first_process_do_not_act_on_a_terminal() {
        assert_eq!(
            from_console("Kernel panic - not syncing: VFS\r \x1b[2J\u{9b}m\n"),
            Cause::Panic("VFS [2Jm".into())
        );
        assert_eq!(
            from_console("tardy: the guest failed: no\x07 room\n"),
            Cause::Guest("the guest failed: no room".into())
        );
    }

    #[test]
    fn want_of_memory_is_told_even_when_it_ends_in_a_panic() {
        let console = "Out of memory: Killed process 70 (tardy)\nKernel panic - not syncing: \
                       System is deadlocked on memory";
        assert_eq!(from_console(console), Cause::OutOfMemory);
    }

    #[test]
    fn the_tail_has_the_last_lines_and_nothing_that_acts_on_a_terminal() {
        let text: String = (0..40)
            .map(|line| format!("\x1b[2Jline {line}\r\n\n"))
            .collect();
        let tail = tail(&text);
        assert_eq!(tail.len(), TAIL_LINES);
        assert_eq!(tail.last().unwrap(), "[2Jline 39");
    }

    #[test]
    fn a_boot_that_was_too_long_is_known_by_the_assertion_of_qemu() {
        let words = "../../replay/replay-internal.c:248: replay_advance_current_icount: Assertion \
                     `diff >= 0' failed.";
        assert!(Cause::Qemu(words.to_owned()).is_long_boot());
        let other = Cause::Qemu("no memory".into());
        assert!(!other.is_long_boot() && other.to_string().contains("no memory"));
    }

    #[test]
    fn a_panic_before_the_measurement_tells_nothing_of_it_and_one_behind_its_begin_is_the_kernels()
    {
        let blame = |cause: Cause, has_booted| {
            Failure {
                cause,
                console_tail: vec![],
                has_booted,
            }
            .blame()
        };
        for cause in [
            Cause::NoResult,
            Cause::Panic(String::new()),
            Cause::WallLimit { limit_s: 1 },
        ] {
            assert_eq!(blame(cause.clone(), false), Blame::CannotTell, "{cause:?}");
            assert_eq!(blame(cause.clone(), true), Blame::Kernel, "{cause:?}");
        }
        let program = Cause::Program {
            ending: Ending::Exited(2),
            stderr: String::new(),
        };
        for cause in [
            program,
            Cause::Host(String::new()),
            Cause::Qemu(String::new()),
            Cause::OutOfMemory,
        ] {
            assert_eq!(blame(cause.clone(), true), Blame::Host, "{cause:?}");
        }
        assert_eq!(
            blame(
                Cause::Preemption {
                    wanted: "lazy".into(),
                    offered: None
                },
                true
            ),
            Blame::CannotTell
        );
    }
}
