//! Arguments of `tardy lab app`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_lab::atlas::Shard;

use super::MachineArguments;
use super::atlas::OptionalKernels;
use crate::cli::{positive_duration, share};

/// `tardy lab app`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The program runs unchanged: the lab copies it into the guest with the libraries \
                  that its dynamic loader finds here, at the same paths. Each guest starts the \
                  program, waits for --warm-up, and measures the program's wake-ups with `tardy \
                  attach`. If the program calls the functions of include/tardy.h, `tardy run -- \
                  PROGRAM` measures its loop instead.
Finished guests are kept in FOLDER, so the same command continues after a kill. FOLDER/KERNEL/LOAD \
                  holds the run; its folder `program` holds the output and the exit code of the \
                  program.
Exit codes: 0 every kernel meets the deadline under every load; 1 a kernel does not; 2 wrong use; \
                  3 a guest has no result; 4 undecided, for example because the program ended \
                  before the measurement."
)]
pub struct AppArguments {
    /// The program: a path, or a name that is looked up in PATH
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// Largest allowed latency, as in 500us
    #[arg(long, alias = "limit", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub deadline: Nanos,
    /// Share of wake-ups that may miss the deadline, as in 1e-6 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub misses: Option<f64>,
    /// The kernels.
    #[command(flatten)]
    pub kernels: OptionalKernels,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Loads of one column of the table: one load as for `tardy run`, several that run at the same
    /// time (as in io+fork), or none; repeat the option for several columns [default: none]
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<String>,
    /// File or folder that the program needs; it is copied into the guest, to the same path. Repeat
    /// the option for several
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Measure the wake-ups with `tardy attach`, even if the program calls the functions of
    /// include/tardy.h
    #[arg(long)]
    pub attach: bool,
    /// How long each guest measures, in the guest's time
    #[arg(long = "for", value_name = "TIME", default_value = "3s", value_parser = positive_duration)]
    pub length: Nanos,
    /// Time from the start of the program to the start of the measurement, in the guest's time; the
    /// lab extends it if the load takes longer to start
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub warm_up: Nanos,
    /// Number of guests of each kernel and load. Each guest boots a little differently
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Divide the guests into N parts, and run only part I
    #[arg(long, value_name = "I/N", conflicts_with = "json")]
    pub shard: Option<Shard>,
    /// Number of guests that run at the same time [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Time on the host's clock after which a guest is stopped
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub wall_limit: Nanos,
    /// Time on the guest's clock after which the measurement in the guest is stopped
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Nanos,
    /// Folder for the guests
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}
