//! Arguments of `tardy cost`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_results::cost::reference::Reference;

use super::on::OnArgs;
use super::{choice, positive_duration};

/// `tardy cost`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CostArgs {
    /// A whole program to measure instead of services or a command.
    #[command(subcommand)]
    pub whole: Option<CostWhole>,
    /// Metric or group of metrics (`tardy list costs`); repeat the option for several [default:
    /// all]
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub metric: Vec<String>,
    /// Number of rounds in which each metric is prepared and measured; the result is the smallest
    /// of the rounds' medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "command")]
    pub rounds: u32,
    /// Number of trials per metric and round, or of runs of the command [default: 11 trials, 3
    /// runs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub trials: Option<u32>,
    /// Number of uncounted runs of the command before the first trial, to fill caches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000), requires = "command", conflicts_with = "metric")]
    pub warm_up: u32,
    /// Length of a trial; all operations that fit into a trial are timed together
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = trial_length, conflicts_with = "command")]
    pub trial_length: Nanos,
    /// CPU to measure on [default: the last CPU that this process may use]
    #[arg(long, value_name = "CPU", conflicts_with = "command")]
    pub cpu: Option<u32>,
    #[command(flatten)]
    pub shared: CostSharedArgs,
    /// Command to time as a whole, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Experiments with whole programs.
#[derive(Debug, Subcommand)]
pub enum CostWhole {
    /// Measure the elapsed, user and system time of several kernel builds (mckenney2009)
    Build(BuildArgs),
}

/// `tardy cost build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Kernel source to build: a clean tree, an archive of such a tree, or `package` for the
    /// distribution's source in /usr/src
    #[arg(long, value_name = "TREE|package", default_value = "package")]
    pub source: PathBuf,
    /// Number of builds, each into an empty folder
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: u32,
    /// Number of parallel jobs (make -j) [default: twice the CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub jobs: Option<u32>,
    /// Make target that writes the configuration
    #[arg(long, value_name = "TARGET", default_value = "defconfig", value_parser = ["defconfig", "tinyconfig", "allnoconfig", "allmodconfig", "allyesconfig"])]
    pub config: String,
    #[command(flatten)]
    pub shared: CostSharedArgs,
}

impl BuildArgs {
    /// Returns the kernel tree or archive; `None` for the distribution's package.
    #[must_use]
    pub fn tree(&self) -> Option<PathBuf> {
        (self.source.as_os_str() != "package").then(|| self.source.clone())
    }
}

/// Arguments that all kinds of costs have.
#[derive(Debug, Clone, Args)]
pub struct CostSharedArgs {
    /// Folder for the run [default: named after the time]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the published numbers of this paper beside your own
    #[arg(long, alias = "reference", value_name = "PAPER", value_parser = choice::parser::<Reference>())]
    pub paper: Option<Reference>,
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
    /// Print nothing while measuring
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub on: OnArgs,
}

impl CostArgs {
    /// Returns the arguments that all kinds of costs have.
    #[must_use]
    pub fn shared(&self) -> &CostSharedArgs {
        match &self.whole {
            Some(CostWhole::Build(build)) => &build.shared,
            None => &self.shared,
        }
    }

    /// Returns the CPU to measure on.
    #[must_use]
    pub fn cpu(&self) -> Option<CpuId> {
        self.cpu.map(CpuId)
    }
}

/// Parses the length of a trial. It must be long compared with the clock's resolution, and short
/// enough that the default metrics take only minutes.
fn trial_length(text: &str) -> Result<Nanos, String> {
    let length = positive_duration(text)?;
    if (Nanos::from_micros(10)..=Nanos::from_secs(60)).contains(&length) {
        return Ok(length);
    }
    Err(format!(
        "`{text}` is not a length of a trial: write a time from 10us to 60s"
    ))
}
