//! The command line: one definition per flag, from which parser, help and manual page are derived.
//! Parsing has no side effects; [`tardy_measure::plan`] resolves a request for this machine.

pub mod advise;
pub mod attach;
pub mod breakdown;
pub mod choice;
pub mod compare;
pub mod complete;
pub mod configuration;
pub mod cost;
pub mod cyclictest;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod generated;
pub mod history;
pub mod import;
pub mod lab;
pub mod load;
pub mod on;
mod options;
pub mod plot;
pub mod purposes;
pub mod renamed;
pub mod reproduce;
pub mod respond;
pub mod run;
pub mod suggest;
pub mod tune;

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_results::cost::reference::Reference;
use tardy_results::statistics::preset::Preset;
use tardy_run::option::RunOption;
pub use tardy_run::option::{positive_duration, share};
use tardy_run::request::{DEADLINE, OPTIONS};

/// Measures whether a Linux system is on time.
#[derive(Debug, Parser)]
#[command(name = "tardy", version, about, long_about = LONG_ABOUT, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "Measures whether a Linux system is on time: how late tasks start, under \
                          which load, and whether a deadline holds.
Every sample is kept and accounted for. A run is a folder, and tardy computes everything it shows \
                          from that folder.";

const EXIT_CODES: &str = "Exit codes: 0 done, and any verdict passed; 1 a verdict failed; 2 wrong \
                          use or bad input; 3 this machine cannot do what was asked; 4 \
                          inconclusive (too few samples for --misses, degraded set-up, samples \
                          lost or not stored); 130 interrupted: the samples so far are kept.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure how late tasks start on this machine
    Run(Box<run::RunArgs>),
    /// Measure the cost of kernel services, or the duration of a command
    Cost(Box<cost::CostArgs>),
    /// Measure as cyclictest does, with its options and its output
    Cyclictest(Box<cyclictest::CyclictestArgs>),
    /// Fetch the result of a --on command after its connection broke
    Fetch(on::FetchArgs),
    /// Watch a run that another process measures
    Top(TopArgs),
    /// Show the summary of a run again, from its folder
    Show(ShowArgs),
    /// Show which numbers got better or worse between runs
    ///
    /// Also shows how the machines differ.
    Compare(Box<compare::CompareArgs>),
    /// Find the builds that made latency worse, over all boards
    History(history::HistoryArgs),
    /// Judge whether work meets its deadline, and which kernel suits it
    Advise(Box<advise::AdviseArgs>),
    /// Check whether this machine is set up for real time
    ///
    /// Findings are sorted, the worst first.
    Doctor(doctor::DoctorArgs),
    /// Change system settings, or measure the effect of each setting
    ///
    /// Settings change only while COMMAND or a search runs, and are then restored.
    Tune(Box<tune::TuneArgs>),
    /// Convert the output of other tools to runs
    Import(Box<import::ImportArgs>),
    /// Write a run in the format of another tool
    Export(Box<export::ExportArgs>),
    /// Draw a chart of runs as SVG or PNG
    Plot(plot::PlotArgs),
    /// Write one HTML page about runs: verdict, charts, numbers
    Report(plot::ReportArgs),
    /// Split latency into its sources: timer, scheduler, kernel sections
    ///
    /// The sources are timer resolution, scheduling jitter and non-preemptible sections of the
    /// kernel. Each source is measured in phases that isolate it from the other sources.
    #[command(alias = "split")]
    Breakdown(breakdown::BreakdownArgs),
    /// Measure the wake-up latency of a running program
    ///
    /// The program need not be modified or restarted.
    Attach(attach::AttachArgs),
    /// Show what delayed the late samples of a run
    Explain(explain::ExplainArgs),
    /// Run loads alone, without measuring
    Load(load::LoadArguments),
    /// Answer another machine that measures the round trip
    Respond(respond::RespondArgs),
    /// List, print and check scenarios
    #[command(alias = "scenario")]
    Scenarios(ScenariosArgs),
    /// Boot kernels in QEMU, and measure in each of them
    ///
    /// Time is counted in instructions, so that a repeated run gives the same samples.
    Lab(Box<lab::Lab>),
    /// Repeat the papers' experiments and test their claims
    Reproduce(reproduce::ReproduceArgs),
    /// List probes, loads, costs, checks and links
    List(ListArgs),
    /// Clean up after a killed command
    ///
    /// Restores settings, and removes scratch folders and spooled samples.
    Restore(RestoreArgs),
    /// Print the manual page of a command
    Man(generated::ManArgs),
    /// Print the completions of a shell
    Completions(generated::CompletionsArgs),
    /// Print the JSON schema of a command's --json output
    Schema(generated::SchemaArgs),
}

/// A deadline, with the allowed misses and skipped periods.
#[derive(Debug, Clone)]
pub struct DeadlineArgs {
    /// The requirement that a run is judged by.
    pub requirement: Requirement,
}

impl DeadlineArgs {
    fn options() -> impl Iterator<Item = &'static RunOption> {
        OPTIONS
            .iter()
            .filter(|option| option.definition.group == DEADLINE)
    }

    /// Returns whether any of these arguments was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.requirement != Requirement::default()
    }
}

impl Args for DeadlineArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        options::with_options(command, Self::options())
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DeadlineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let requirement = options::request(matches, Self::options())?.requirement();
        Ok(Self { requirement })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `tardy top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Folder of a run; for a folder of runs, the newest run is shown [default: the current folder]
    ///
    /// The folder may be a copy that is updated while the run grows. A finished run is shown in its
    /// final state.
    #[arg(
        value_name = "RUN|FOLDER",
        default_value = ".",
        hide_default_value = true
    )]
    pub run: PathBuf,
}

/// `tardy show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Folder made by `tardy run`, `tardy cost` or `tardy lab sections`; a folder of runs is shown
    /// as one table, a row per run
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Print the kernel's sections with IRQs or preemption off, for a lab run with --watch or a
    /// folder of such runs
    #[arg(long)]
    pub sections: bool,
    /// Print every table and warning, not only what fits on a screen
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
    /// For a `tardy cost` run: print the published numbers of this paper beside the run's
    #[arg(long, alias = "reference", value_name = "PAPER", value_parser = choice::parser::<Reference>())]
    pub paper: Option<Reference>,
    /// Also print all statistics: observed values, bounds, and a model of the largest samples (the
    /// tail) if no check rejects the model
    ///
    /// Bounds of percentiles are two-sided at 95 %; bounds of shares are one-sided at 95 %.
    #[arg(long)]
    pub statistics: bool,
    #[command(flatten)]
    pub deadline: DeadlineArgs,
    #[command(flatten)]
    pub questions: StatisticsArgs,
}

/// The options of `--statistics`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Statistics")]
pub struct StatisticsArgs {
    /// Use the buckets and limits of this paper, instead of --bucket and --limits
    #[arg(long, value_name = "PAPER", value_parser = choice::parser::<Preset>(), requires = "statistics", conflicts_with_all = ["limits", "bucket"])]
    pub preset: Option<Preset>,
    /// Count the samples below and above these latencies, as in 50us,200us [default: round
    /// latencies from the median to the maximum]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = positive_duration, requires = "statistics")]
    pub limits: Vec<Nanos>,
    /// Width of the buckets in which samples are counted; the most frequent value (mode) is the
    /// middle of the fullest bucket
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = positive_duration, requires = "statistics")]
    pub bucket: Nanos,
    /// Predict the maximum latency of a run of this length, from a model fitted to the largest
    /// samples (the tail)
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive_duration, requires = "statistics")]
    pub horizon: Nanos,
    /// Clock rate of the CPUs in MHz, for OSADL's rule of thumb that the worst latency is about
    /// 10^5 clock cycles [default: as the machine reports]
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u32).range(1..=100_000), requires = "statistics")]
    pub mhz: Option<u32>,
    /// Also print models of the tail that a check rejected, each marked as rejected; for inspection
    /// only
    #[arg(long, requires = "statistics")]
    pub show_refused: bool,
}

impl StatisticsArgs {
    /// Converts the arguments to the question for the statistics.
    #[must_use]
    pub fn question(&self) -> tardy_results::statistics::read::Question {
        let limits = self
            .preset
            .map_or_else(|| self.limits.clone(), Preset::limits);
        let question = tardy_results::statistics::read::Question {
            limits,
            bucket: self.preset.map_or(self.bucket, Preset::bucket),
            horizon: self.horizon,
            series_max: usize::MAX,
            mhz: self.mhz.map(f64::from),
            show_refused: self.show_refused,
        };
        question.with_limits_in_order()
    }
}

/// `tardy list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// List to print [default: the names of all lists]
    #[arg(value_enum)]
    pub what: Option<ListKind>,
    /// Entries of the list to describe in full
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Describe every entry in full
    #[arg(long)]
    pub full: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// The lists that the command can print.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ListKind {
    /// Ways to cause a wake-up and time it
    Probes,
    /// Ways to stress the system
    Loads,
    /// Services whose cost can be measured
    Costs,
    /// Settings that `doctor` and `advise` check
    Checks,
    /// Links that the probe `response` measures and `tardy respond` answers
    Links,
}

/// `tardy scenarios`, also as `tardy scenario`.
#[derive(Debug, Args)]
pub struct ScenariosArgs {
    /// Action; without one, the built-in scenarios are listed
    #[command(subcommand)]
    pub verb: Option<ScenariosVerb>,
}

/// The actions on scenarios.
#[derive(Debug, Subcommand)]
pub enum ScenariosVerb {
    /// Print the text of a built-in scenario, as a start for your own
    Show {
        /// Name of the scenario
        name: String,
    },
    /// Check a scenario file; errors name the line and the key
    Check {
        /// Scenario file to check
        file: PathBuf,
    },
}

/// `tardy restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Only print what would be restored
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub on: on::OnArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
