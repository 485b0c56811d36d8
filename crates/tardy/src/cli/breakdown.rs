//! Arguments of `tardy breakdown`.

use std::path::PathBuf;

use clap::Args;

/// `tardy breakdown`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BreakdownArgs {
    /// Runs that isolate the sources of latency, such as one run with and one run without
    /// high-resolution timers; or folders of runs, as the lab makes them
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "`tardy run --scenario abeni2002-split` isolates the three sources as \
                          far as possible in one boot.
To measure with and without high-resolution timers, boot twice, for instance in the lab. The lab's \
                          virtual time shows the length of code paths, not the speed of a machine:
  tardy lab run --kernel debian:6.1 --cmdline 'highres=off nohz=off' --kernel debian:6.1 --cmdline \
                          highres=on --scenario abeni2002-split --out timers
  tardy breakdown timers
Exit codes: 0 at least one source was isolated; 2 wrong use, or a folder that is not a run; 4 no \
                          phase of any run isolated a source.";
