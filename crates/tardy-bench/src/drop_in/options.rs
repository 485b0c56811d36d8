//! The table of `cargo xtask drop-in` (options.txt): every option of any packaged cyclictest, with
//! the command lines to try and the expected result.
//!
//! A row is `NAME: same`, `NAME: differs: REASON` or `NAME: refused: REASON`. Below it, an indented
//! line for each trial has the facts to compare and the command line.

use std::sync::LazyLock;

/// The result of a row for one version of cyclictest, from the mildest to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// This version lacks the option.
    Absent,
    Same,
    Differs,
    Refused,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Absent => "",
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Refused => "refused",
        }
    }
}

/// A row of the table: an option, or a way to call cyclictest that is not about one option.
#[derive(Debug)]
pub(super) struct Row {
    /// The option's name in `--help`, without dashes, or a description of the trial.
    pub(super) name: &'static str,
    /// The worst result over all versions. If it is another one, the task fails.
    pub(super) expected: Verdict,
    /// Why the result differs, or why the option is refused.
    pub(super) reason: &'static str,
    pub(super) trials: Vec<Trial>,
}

/// The facts to compare, besides the exit code and the lines of every output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Output,
    /// Like `Output`, but a failure is expected as a refusal.
    Refusal,
    /// Only the exit code, because the text differs between programs.
    Exit,
    /// Priority and CPUs of the threads of real-time priority 70 to 80, while they measure.
    Threads,
    /// The output after this signal, which is sent while threads measure.
    Signal(i32),
}

/// The CPUs that the caller allows the program to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    All,
    /// CPU 1, set by taskset.
    Taskset,
    /// CPU 1, set by a cpuset.
    Cpuset,
}

/// A command line that both programs run.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) line: &'static str,
    pub(super) look: Look,
    pub(super) allowed: Allowed,
}

/// All rows. Those about options come first, in the order of `--help`.
pub(super) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let mut rows: Vec<Row> = Vec::new();
    for line in include_str!("options.txt").lines() {
        match line.strip_prefix("    ") {
            Some(trial) => {
                let row = rows.last_mut().expect("a trial follows its row");
                row.trials.push(trial_of(trial));
            }
            None => rows.push(row_of(line)),
        }
    }
    rows
});

fn row_of(line: &'static str) -> Row {
    let mut parts = line.splitn(3, ": ");
    let name = parts.next().unwrap_or_default();
    let (expected, reason) = match (parts.next(), parts.next()) {
        (Some("same"), None) => (Verdict::Same, ""),
        (Some("differs"), Some(reason)) => (Verdict::Differs, reason),
        (Some("refused"), Some(reason)) => (Verdict::Refused, reason),
        _ => panic!("options.txt has the row `{line}`"),
    };
    Row {
        name,
        expected,
        reason,
        trials: Vec::new(),
    }
}

fn trial_of(text: &'static str) -> Trial {
    let (look, line) = text.split_once(' ').unwrap_or((text, ""));
    let signal = || look.strip_prefix("signal=")?.parse().ok();
    let (look, allowed) = match look {
        "output" => (Look::Output, Allowed::All),
        "refusal" => (Look::Refusal, Allowed::All),
        "exit" => (Look::Exit, Allowed::All),
        "threads" => (Look::Threads, Allowed::All),
        "taskset" => (Look::Threads, Allowed::Taskset),
        "cpuset" => (Look::Threads, Allowed::Cpuset),
        _ => match signal() {
            Some(signal) => (Look::Signal(signal), Allowed::All),
            None => panic!("options.txt has the trial `{text}`"),
        },
    };
    Trial {
        line,
        look,
        allowed,
    }
}

/// Returns the long names of the options in the `--help` of cyclictest. Lines with more indentation
/// belong to the option above.
pub(super) fn of_help(help: &str) -> Vec<String> {
    const INDENT_MAX: usize = 16;
    let long = |line: &str| {
        let indent: usize = line
            .chars()
            .take_while(|letter| letter.is_whitespace())
            .map(|letter| if letter == '\t' { 8 } else { 1 })
            .sum();
        let text = line.trim_start();
        if indent > INDENT_MAX || !text.starts_with('-') {
            return None;
        }
        let (_, name) = text.split_once("--")?;
        let end = name.find(|letter: char| !letter.is_ascii_lowercase() && !"-_".contains(letter));
        Some(name[..end.unwrap_or(name.len())].to_owned())
    };
    let mut names: Vec<String> = help.lines().filter_map(long).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_lists_its_options_by_their_long_names() {
        let help = "cyclictest V 2.40\nUsage:\n-a [CPUSET] --affinity     Run thread\n              \
                    \u{20}            -a 2 pins --x\n-F       --fifo=<path>     create\n\t --histfile=<path> \
                    dump\n\t\t\t   --no option\n-M       --refresh_on_max  delay\n-t       --threads  \
                    one\n-t [NUM] --threads=NUM     number\n-x\t --posix_timers    use\n";
        assert_eq!(
            of_help(help),
            [
                "affinity",
                "fifo",
                "histfile",
                "refresh_on_max",
                "threads",
                "posix_timers"
            ]
        );
    }

    #[test]
    fn rows_have_names_of_their_own_and_trials() {
        for (place, row) in ROWS.iter().enumerate() {
            assert!(!row.trials.is_empty(), "{}", row.name);
            assert!(
                ROWS[..place].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
        }
    }
}
