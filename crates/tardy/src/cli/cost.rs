//! What `tardy cost` takes.

use std::path::PathBuf;

use clap::Args;
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::positive_duration;
use crate::cost::reference::Reference;

/// `tardy cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// A metric or a group of metrics, as in `tardy list costs`; repeat it for several [default: all]
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub metric: Vec<String>,
    /// How often each metric is prepared and measured anew; the figure is the least of the rounds' medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "command")]
    pub rounds: u32,
    /// Trials of each metric in a round, or runs of the command [default: 11; of a command 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub trials: Option<u32>,
    /// Length of a trial: so many operations are put into it
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = trial_length, conflicts_with = "command")]
    pub trial_length: Nanos,
    /// Processor to measure on [default: the last one allowed]
    #[arg(long, value_name = "CPU", conflicts_with = "command")]
    pub cpu: Option<u32>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub shared: CostSharedArgs,
    /// A command to time as a whole, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What every kind of cost takes.
#[derive(Debug, Clone, Args)]
pub struct CostSharedArgs {
    /// Folder for the run [default: named after the time]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Published numbers to print beside one's own
    #[arg(long, value_name = "PAPER", value_enum)]
    pub reference: Option<Reference>,
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
    /// Say nothing while measuring
    #[arg(long)]
    pub quiet: bool,
}

impl CostArgs {
    /// The processor.
    #[must_use]
    pub fn cpu(&self) -> Option<CpuId> {
        self.cpu.map(CpuId)
    }
}

/// Long against the clock, and short enough that the default set of metrics ends within minutes.
fn trial_length(text: &str) -> Result<Nanos, String> {
    let length = positive_duration(text)?;
    if (Nanos::from_micros(10)..=Nanos::from_secs(60)).contains(&length) {
        return Ok(length);
    }
    Err(format!("`{text}` is no length of a trial: write a time from 10us to 60s"))
}
