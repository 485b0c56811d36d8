//! What `tardy tune` takes.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tardy_core::units::Nanos;
use tardy_machine::checks::Profile;
use tardy_measure::request::MeasuredCpus;

use super::{choice, positive_duration};

/// `tardy tune`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP, group(ArgGroup::new("mode").required(true).args(["plan", "apply", "search", "resume"])))]
pub struct TuneArgs {
    /// Print what would be changed here, and what takes a restart; nothing is changed
    #[arg(long)]
    pub plan: bool,
    /// Change settings, run COMMAND, and put all back when it ends, however it ends
    #[arg(long, requires = "command")]
    pub apply: bool,
    /// Measure what each setting is worth on this machine under load, by an experiment
    #[arg(long)]
    pub search: bool,
    /// Go on with a search that was cut off, from its folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["settings", "only", "with", "cpus", "profile", "budget", "length", "load", "goal", "seed", "out"])]
    pub resume: Option<PathBuf>,
    /// What the machine is meant for: a setting that is good for one kind of work is bad for another
    #[arg(long, value_name = "PROFILE", default_value = "periodic", value_parser = choice::parser::<Profile>())]
    pub profile: Profile,
    /// CPUs whose tasks must not be late: a list as in 2-3, isolated, housekeeping, or all [default: the isolated ones, else all but the first]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<MeasuredCpus>,
    /// The settings of a file alone: those that a search found useful, or your own
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Only these settings
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Also these settings, which are left alone unless named, because they have a price: turbo, real-time-throttling, fair-server, smt
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "only")]
    pub with: Vec<String>,
    /// How long the search may take
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = positive_duration, help_heading = "Search")]
    pub budget: Nanos,
    /// How long each of its runs measures
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = positive_duration, help_heading = "Search")]
    pub length: Nanos,
    /// What shall become less: max, or a percentile as in 99.9
    #[arg(long, value_name = "max|PERCENT", default_value = "99.9", value_parser = goal, help_heading = "Search")]
    pub goal: Goal,
    /// A load, as for `tardy run`; repeat it to run several at the same time [default: io and memory]
    #[arg(long, value_name = "NAME", help_heading = "Search")]
    pub load: Vec<String>,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    pub seed: u64,
    /// Folder for the runs and the result [default: search-DATE-TIME]
    #[arg(long, value_name = "FOLDER", help_heading = "Search")]
    pub out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, conflicts_with = "apply")]
    pub json: bool,
    /// The program to run with the settings, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What a search wants to become less.
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
    let share = percent.map(|percent| (percent * 1e7).round() / 1e9).filter(|share| (0.5..1.0).contains(share));
    share.map(Goal::Quantile).ok_or_else(|| format!("`{text}` is neither max nor a percentile from 50 to below 100: write 99.9"))
}

impl std::fmt::Display for Goal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Max => formatter.write_str("max"),
            Self::Quantile(share) => write!(formatter, "{}", (share * 1e9).round() / 1e7),
        }
    }
}

const AFTER_HELP: &str = "Settings are named as their rows in `tardy doctor`; `tardy list checks NAME` tells why and who says so.
Old values are in a journal before anything is written. What a killed command left is put back by the next start, or by `tardy restore`.
A search makes hundreds of short runs: first all settings at once by a balanced design, then pairs of runs that differ in one setting. What it
says of all settings together holds at 95 %. Its runs stay in its folder, with best.toml for --apply and for `tardy doctor --against`.
A setting of your own, in a file for --settings:
  [[setting]]
  name = \"coalescing\"
  files = { \"/sys/class/net/eth0/napi_defer_hard_irqs\" = \"2\" }     # or: while_on = [\"program\", \"argument\"]
Exit codes: 0 done; 2 wrong use; 3 this machine cannot do it; of --apply, that of COMMAND; 130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_max_or_percentiles() {
        assert_eq!((goal("max"), goal("99.9"), goal("99.99 %")), (Ok(Goal::Max), Ok(Goal::Quantile(0.999)), Ok(Goal::Quantile(0.9999))));
        assert_eq!(goal("99.9").unwrap().to_string(), "99.9");
        for text in ["100", "30", "most", ""] {
            assert!(goal(text).is_err(), "{text}");
        }
    }
}
