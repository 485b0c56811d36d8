//! Arguments of `tardy tune`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tardy_core::units::Nanos;
use tardy_machine::checks::Profile;
use tardy_run::request::MeasuredCpus;

use super::lab::MachineArguments;
use super::lab::atlas::OptionalKernels;
use super::on::OnArgs;
use super::{choice, positive_duration};

/// `tardy tune`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, group(ArgGroup::new("mode").required(true).args(["plan", "apply", "search", "resume"])))]
pub struct TuneArgs {
    /// Print which settings would change here, and which need a restart, without changing them
    #[arg(long)]
    pub plan: bool,
    /// Change settings, run COMMAND, and restore the settings afterwards, even if COMMAND fails
    #[arg(long, requires = "command")]
    pub apply: bool,
    /// Measure the effect of each setting on this machine under load, by an experiment
    #[arg(long)]
    pub search: bool,
    /// Continue an interrupted search from its folder; to continue a search with --lab, repeat its
    /// command instead
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["lab", "settings", "only", "with", "cpus", "profile", "budget", "length", "load", "goal", "seed", "out", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Purpose of the machine: a setting that is good for one purpose can be bad for another
    #[arg(long, value_name = "PROFILE", default_value = "periodic", value_parser = choice::parser::<Profile>())]
    pub profile: Profile,
    /// CPUs whose tasks must not be late: a list such as 2-3, or one of isolated, housekeeping and
    /// all [default: the isolated ones, else all but the first]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<MeasuredCpus>,
    /// Use only the settings of a file: those that a search found useful, or your own
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Change or search only these settings
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Also change these settings, which have drawbacks and are otherwise left alone: turbo,
    /// real-time-throttling, fair-server, ext-server, smt
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        conflicts_with = "only"
    )]
    pub with: Vec<String>,
    /// How long the search may take
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = positive_duration, help_heading = "Search")]
    pub budget: Nanos,
    /// How long each run of the search measures [default: 5s; in the lab 3s, the first third idle]
    #[arg(long = "for", value_name = "TIME", value_parser = positive_duration, help_heading = "Search")]
    pub length: Option<Nanos>,
    /// Metric to minimise: max or a percentile; in the lab max or 99.9 [default: 99.9; in the lab
    /// max]
    #[arg(long, value_name = "max|PERCENT", value_parser = goal, help_heading = "Search")]
    pub goal: Option<Goal>,
    /// A load, as for `tardy run`; repeat the option for several loads, which run at the same time,
    /// or in the lab one after the other [default: io and memory; in the lab, the loads of
    /// abeni2002]
    #[arg(long, value_name = "NAME", help_heading = "Search")]
    pub load: Vec<String>,
    /// Only print the plan of the search: the number of runs, the settings to try, and the time
    /// needed
    #[arg(long, requires = "search", help_heading = "Search")]
    pub dry_run: bool,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    pub seed: u64,
    /// Folder for the runs and the result [default: search-DATE-TIME]
    #[arg(long, value_name = "FOLDER", help_heading = "Search")]
    pub out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, conflicts_with = "apply")]
    pub json: bool,
    /// --lab and what belongs to it
    #[command(flatten)]
    pub lab_search: LabSearch,
    /// The program to run with the settings, and its arguments; with --lab, further arguments for
    /// `tardy run` in the guests
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    #[command(flatten)]
    pub on: OnArgs,
}

/// A search in virtual time.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Search in the lab")]
#[command(mut_args(|arg| if OF_THE_LAB.contains(&arg.get_id().as_str()) { arg.requires("lab") } else { arg }))]
pub struct LabSearch {
    /// Measure the exact effect of parameters on the kernel command line, and of other kernels, in
    /// guests of the lab; this machine stays unchanged
    #[arg(long, requires_all = ["search", "kernel"], conflicts_with_all = ["settings", "only", "with", "cpus", "profile", "budget", "apply"])]
    pub lab: bool,
    /// The first kernel is the one that all others are compared with
    #[command(flatten)]
    pub kernels: OptionalKernels,
    /// Parameters to try together on the first kernel's command line; repeat the option to try
    /// others [default: thirteen parameters from tuning guides, and the opposite of each]
    #[arg(long, value_name = "WORDS", requires = "lab")]
    pub word: Vec<String>,
    /// Number of guests of each setting under each load [default: one more than the minimum needed
    /// to decide]
    #[arg(long, value_name = "N", requires = "lab", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: Option<u32>,
    /// Number of guests that run at the same time [default: one per CPU]
    #[arg(long, value_name = "N", requires = "lab")]
    pub jobs: Option<usize>,
    /// The guests' machine
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// The metric that a search minimises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The largest latency of a run.
    Max,
    /// A percentile of a run, as a share below 1.
    Quantile(f64),
}

fn goal(text: &str) -> Result<Goal, String> {
    if text.eq_ignore_ascii_case("max") {
        return Ok(Goal::Max);
    }
    let percent: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
    let share = percent
        .map(|percent| (percent * 1e7).round() / 1e9)
        .filter(|share| (0.5..1.0).contains(share));
    share.map(Goal::Quantile).ok_or_else(|| {
        format!(
            "`{text}` is neither max nor a percentile from 50 to below 100: write one of \
             these, such as 99.9"
        )
    })
}

impl std::fmt::Display for Goal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Max => formatter.write_str("max"),
            Self::Quantile(share) => write!(formatter, "{}", (share * 1e9).round() / 1e7),
        }
    }
}

/// Arguments that require `--lab`.
const OF_THE_LAB: [&str; 9] = [
    "kernel",
    "preempt",
    "cmdline",
    "arch",
    "instruction_time",
    "memory",
    "shared",
    "accel",
    "guest_binary",
];

const AFTER_HELP: &str = "A setting has the name of its row in `tardy doctor`; `tardy list checks \
                          NAME` gives its reason and its source.
Old values are journaled before anything is written. If tardy is killed, its next start or `tardy \
                          restore` restores the old values.
A search makes hundreds of short runs. The search first varies all settings at once in a balanced \
                          design, then makes pairs of runs that differ in one setting. All \
                          statements of a search about settings hold jointly at 95 % confidence. \
                          The runs stay in the search's folder, with best.toml for --apply and for \
                          `tardy doctor --against`.
With --lab, the search compares each parameter and each further kernel with the unchanged first \
                          kernel, under each load separately. At the end, it tries together all \
                          parameters that lower the metric of --goal. Finished runs stay in the \
                          folder, so the same command continues the search after a kill.
Your own setting, in a file for --settings:
  [[setting]]
  name = \"coalescing\"
  files = { \"/sys/class/net/eth0/napi_defer_hard_irqs\" = \"2\" }     # or: while_on = \
                          [\"program\", \"argument\"], words = [\"preempt=full\"]
Exit codes: 0 done; 2 wrong use; 3 this machine cannot do it; 130 interrupted; with --apply, the \
                          exit code of COMMAND.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_max_or_percentiles() {
        assert_eq!(
            (goal("max"), goal("99.9"), goal("99.99 %")),
            (
                Ok(Goal::Max),
                Ok(Goal::Quantile(0.999)),
                Ok(Goal::Quantile(0.9999))
            )
        );
        assert_eq!(goal("99.9").unwrap().to_string(), "99.9");
        for text in ["100", "30", "most", ""] {
            assert!(goal(text).is_err(), "{text}");
        }
    }
}
