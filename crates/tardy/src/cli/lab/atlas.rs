//! Arguments of `tardy lab atlas`.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use tardy_core::units::Nanos;
use tardy_lab::atlas::Shard;

use super::MachineArguments;
use super::kernels::KernelArguments;

/// `tardy lab atlas`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "A cell is one kernel with one preemption model, under one load, in one replica. \
                  Cells are kept in FOLDER/cells and reused: the same command continues after a \
                  kill, and more kernels, loads or replicas add to the table. Two `tardy lab \
                  atlas` commands on one folder share the work. Without a shared folder, give each \
                  machine its own --shard, copy all cells into one folder, and run the command on \
                  that folder once without --shard.
Without --kernel, the atlas in FOLDER is only shown."
)]
pub struct AtlasArguments {
    /// The kernels.
    #[command(flatten)]
    pub kernels: OptionalKernels,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Loads of one column of the table: one load as for `tardy run`, several that run at the same
    /// time (as in io+fork), or none; repeat the option for several columns [default: none, and
    /// eleven loads that take different paths through the kernel]
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
    /// Number of replicas of each cell. Each replica boots a little differently and has its own
    /// seed; a repeated replica gives the same samples
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Length of each run in the guest's time, including an idle phase at the start (a third of the
    /// length, at most 10s)
    #[arg(long = "for", value_name = "TIME", default_value = "3s")]
    pub length: Nanos,
    /// Seed of the first replica's probes; the seed of each further replica is one higher
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Divide the cells into N parts, and make only part I
    #[arg(long, value_name = "I/N", requires = "kernel")]
    pub shard: Option<Shard>,
    /// Number of guests that run at the same time [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Time on the host's clock after which a guest is stopped
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub wall_limit: Nanos,
    /// Time on the guest's clock after which the program in the guest is stopped
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Nanos,
    /// Folder for the cells and the report
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the tables as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print the tables as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Further arguments for `tardy run` in the guests
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Kernels, or none.
#[derive(Debug, Clone, Default)]
pub struct OptionalKernels(pub KernelArguments);

impl Args for OptionalKernels {
    fn augment_args(command: Command) -> Command {
        let command = KernelArguments::augment_args(command);
        let command = command.mut_arg("kernel", |kernel| {
            kernel.required(false).help(
                "A kernel: bzImage, vmlinuz, .deb, build tree, or debian:VERSION[-rt]; repeat it \
                 for several",
            )
        });
        command.mut_arg("preempt", |preempt| {
            preempt.help(
                "Preemption models for the --kernel before this option, or for every kernel if \
                 this option comes first; each model makes a row [default: all that the \
                 kernel offers]",
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionalKernels {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        KernelArguments::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
