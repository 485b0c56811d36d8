//! Arguments of `tardy lab hunt`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_lab::experiment::Shard;

use super::MachineArguments;
use super::kernels::KernelArguments;
use crate::cli::positive_duration;

/// `tardy lab hunt`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Every guest starts from the same snapshot and executes several programs: lists of \
                  operations on memory, files, pipes, futexes, timers and processes (`tardy list \
                  loads operations`). The QEMU plugin records all sections. Programs with longer \
                  sections, or with new call paths of long sections, are kept and mutated.
After the search, the programs of the guest with the longest section of each new call path are \
                  reduced to those that the section needs, which then run several times. \
                  FOLDER/findings has a scenario for each finding, for \
                  `tardy lab run --scenario FILE --snapshots --watch`, and for real machines: \
                  `tardy run --scenario FILE --allow operations`.
The same command continues a stopped hunt. `--random` adds the control to the same folder: the same \
                  number of programs, all drawn at random.
Exit codes: 0 done; 2 wrong use; 3 a guest or a kernel could not run."
)]
pub struct HuntArguments {
    /// The kernel.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// How long to search, on the host's clock; the reduction of findings follows
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = positive_duration)]
    pub length: Nanos,
    /// Stop after this many rounds, even if time is left
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: Option<u32>,
    /// Seed of all programs. The programs of a round depend only on the seed and the round's number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw all programs at random, as a control of the search
    #[arg(long)]
    pub random: bool,
    /// Number of guests of a round, which learn from one another
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub guests: u32,
    /// Number of programs that each guest executes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub programs: u32,
    /// Number of new findings to reduce
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub findings: usize,
    /// Maximum number of guests to reduce a finding
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reductions: u32,
    /// How often each reproducer runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Census of the same kernel (`tardy lab sections --out FOLDER`), to compare its longest section
    #[arg(long, value_name = "FOLDER")]
    pub census: Option<PathBuf>,
    /// Divide the rounds into N parts, and search only part I. Afterwards, copy the contents of all
    /// folders into one, and run the command there without --shard
    #[arg(long, value_name = "I/N", conflicts_with = "json")]
    pub shard: Option<Shard>,
    /// Number of rounds that run at the same time [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Time on the host's clock after which a guest is stopped
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub wall_limit: Nanos,
    /// QEMU plugin that records the sections [default: tardy's own]
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// Folder for the results of all guests, and the findings
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
