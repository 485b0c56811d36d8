//! What `tardy advise` takes.

use clap::{Args, ValueEnum};

/// `tardy advise`.
#[derive(Debug, Clone, Args)]
pub struct AdviseArgs {
    /// Published numbers to draw conclusions from
    #[arg(long, value_name = "PAPER", value_enum, required = true)]
    pub from: AdviseSource,
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdviseSource {
    /// "Real Time" vs. "Real Fast": kernel builds and latencies of two kernels, 2008 and 2009
    Mckenney2009,
}
