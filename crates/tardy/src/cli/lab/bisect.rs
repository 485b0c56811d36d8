//! Arguments of `tardy lab bisect`.

use clap::Args;
use tardy_core::units::Nanos;
use tardy_lab::kernel::KernelSource;

use super::{MachineArguments, MeasureArguments};

/// `tardy lab bisect`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Each kernel is tested as by `tardy lab check`. A kernel is bad if a latency is \
                  above the limit in any replica, or if the kernel panics or hangs after it has \
                  booted. Kernels that do not boot, or lack the preemption model, are skipped.
Exit codes: 0 found; 1 the kernel GOOD is bad, or the kernel BAD is good; 2 wrong use; 3 \
                  inconclusive on this machine."
)]
pub struct BisectArguments {
    /// A kernel without the delay, written as for --kernel of `tardy lab run`
    #[arg(value_name = "GOOD")]
    pub good: KernelSource,
    /// A later kernel with the delay
    #[arg(value_name = "BAD")]
    pub bad: KernelSource,
    /// Kernels between GOOD and BAD, oldest first [default: those in the package sources with
    /// versions between the two]
    #[arg(long, value_name = "KERNEL", num_args = 1..)]
    pub among: Vec<KernelSource>,
    /// Largest latency allowed in the phases under load, or in all phases if none is under load
    #[arg(long, value_name = "TIME")]
    pub limit: Nanos,
    /// Preemption model of all kernels (none, voluntary, full, lazy) [default: each kernel's own]
    #[arg(long, value_name = "MODEL")]
    pub preempt: Option<String>,
    /// Number of guests of each kernel; one bad guest makes the kernel bad
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// The measurement.
    #[command(flatten)]
    pub measure: MeasureArguments,
}
