//! Arguments of `tardy advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tardy_advise::task::{Task, WorkKind};
use tardy_core::bytes::parse_bytes;
use tardy_core::units::Nanos;

use super::{choice, positive_duration, share};

/// `tardy advise`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AdviseArgs {
    /// Runs that measured latencies, completions or costs on one or more kernels; or folders of
    /// runs
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Judge by the published numbers of this paper, instead of by runs
    #[arg(long, alias = "from", value_name = "PAPER", value_enum, conflicts_with_all = ["runs", "work", "deadline", "period", "kind", "misses", "utilisation", "memory", "throughput_only", "barriers", "virtual"])]
    pub paper: Option<AdviseSource>,
    #[command(flatten)]
    pub task: TaskArgs,
    /// Probe whose samples give the verdict [default: a probe that times completions, else a probe
    /// that measures latency]
    #[arg(long, value_name = "NAME", conflicts_with = "paper")]
    pub probe: Option<String>,
    /// Draw the curves of total delay into this .svg or .png file, or write their numbers into this
    /// .csv file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the advice as JSON
    #[arg(long)]
    pub json: bool,
}

/// The work that must be in time.
#[derive(Debug, Clone, Args)]
pub struct TaskArgs {
    /// Time that an undisturbed unit of work takes on the kernel with the highest throughput, as in
    /// 100us
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub work: Option<Nanos>,
    /// Time from the due time of a unit until the unit must be done, as in 250us
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub deadline: Option<Nanos>,
    /// Time between two units of work, as in 1ms
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub period: Option<Nanos>,
    /// Main activity of the work
    #[arg(long, value_name = "KIND", value_parser = choice::parser::<WorkKind>())]
    pub kind: Option<WorkKind>,
    /// Share of units that may be late, as in 1e-6 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub misses: Option<f64>,
    /// Total share of CPU time of all work, as in 40%
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub utilisation: Option<f64>,
    /// Total memory of all work, as in 512MiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_hyphen_values = true)]
    pub memory: Option<u64>,
    /// Whether only throughput counts, not the time at which each unit is done
    #[arg(long, value_name = "yes|no", value_parser = yes_no, num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub throughput_only: Option<bool>,
    /// Whether parallel threads of the work wait for each other at barriers
    #[arg(long, value_name = "yes|no", value_parser = yes_no, num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub barriers: Option<bool>,
    /// Whether the work will run on a virtual machine [default: as the machine of the runs; without
    /// runs, as this machine]
    #[arg(long = "virtual", id = "virtual", value_name = "yes|no", value_parser = yes_no)]
    pub is_virtual: Option<bool>,
}

const AFTER_HELP: &str = "tardy judges work by measured completion times if a run has them (from \
                          the probe `work`), otherwise by measured latencies and a model. The \
                          verdict states which of the two it used.
With several kernels, the verdict is about the recommended kernel. Without --work and --deadline, \
                          `tardy advise` asks questions about the work if it runs on a terminal.
Exit codes: 0 the work met the deadline, or no deadline was given; 1 the work was late; 2 wrong \
                          use or bad input; 4 inconclusive: too few samples, a degraded set-up, \
                          virtual time, or no run.";

/// A publication whose numbers replace runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdviseSource {
    /// "Real Time" vs. "Real Fast": kernel builds and latencies of two kernels, 2008 and 2009
    Mckenney2009,
}

impl TaskArgs {
    /// Returns the task that the arguments describe.
    #[must_use]
    pub fn task(&self) -> Task {
        Task {
            work_ns: self.work,
            deadline_ns: self.deadline,
            period_ns: self.period,
            kind: self.kind,
            misses: self.misses,
            utilisation: self.utilisation,
            memory_bytes: self.memory,
            is_throughput_only: self.throughput_only,
            has_barriers: self.barriers,
            is_virtual: self.is_virtual,
        }
    }
}

/// Parses a size with its unit.
///
/// # Errors
/// Returns a sentence with the expected form.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text.trim())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("`{text}` is not a size: write a number and a unit, as in 512MiB"))
}

/// Parses `yes` or `no`.
///
/// # Errors
/// Returns a sentence with the expected form.
pub fn yes_no(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err(format!("`{text}` is not an answer: write yes or no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sizes_and_answers_are_read_or_refused_with_what_to_write() {
        assert_eq!((share("40%"), share("0.4")), (Ok(0.4), Ok(0.4)));
        assert_eq!((bytes("512MiB"), yes_no("Y")), (Ok(512 << 20), Ok(true)));
        for error in [share("40"), share("-1%"), share("nan"), share("%")] {
            assert!(error.unwrap_err().contains("or 0.1%"));
        }
        assert!(
            bytes("512").unwrap_err().contains("512MiB")
                && bytes("0B").is_err()
                && yes_no("perhaps").is_err()
        );
    }
}
