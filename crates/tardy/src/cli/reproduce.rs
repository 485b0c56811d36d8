//! Arguments of `tardy reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tardy_lab::architecture::Architecture;
use tardy_lab::experiment::Shard;
use tardy_papers::experiment::{Extent, Place};

/// `tardy reproduce`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 every experiment that can run here has run (a claim that does not \
                  hold is a result, not a failure); 3 an experiment could not run (the \
                  report states which, and why)."
)]
pub struct ReproduceArgs {
    /// Paper whose claims are tested
    #[arg(value_name = "PAPER", value_enum)]
    pub paper: PaperArgument,
    /// Run on this machine's kernel, or on the distribution's kernels in emulated machines, whose
    /// runs repeat to the last digit
    #[arg(long, value_enum, default_value_t = PlaceArgument::Local)]
    pub on: PlaceArgument,
    /// Architecture of the guests in the lab: amd64 or arm64 [default: this machine's]
    #[arg(long)]
    pub arch: Option<Architecture>,
    /// Static tardy binary for --arch
    #[arg(long, value_name = "FILE", requires = "arch")]
    pub guest_binary: Option<PathBuf>,
    /// Run for minutes in total (the default), instead of the papers' hours and days
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Run as long as the papers' experiments
    #[arg(long)]
    pub full: bool,
    /// Guests per kernel in the lab; a claim holds if its rule holds in every guest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: Option<u32>,
    /// Run only this part of the steps, as in 2/8 (the second of eight parts); other machines run the
    /// rest. Then copy the contents of all folders into one, and use --report-only
    #[arg(long, value_name = "NUMBER/OF", conflicts_with = "report_only")]
    pub shard: Option<Shard>,
    /// Folder for runs and report; finished steps in it are not repeated [default: named
    /// after the time]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the commands of all unfinished steps and an estimate of their time, without running them
    #[arg(long)]
    pub dry_run: bool,
    /// Run nothing: test the claims on the runs in the folder of --out
    #[arg(long, requires = "out", conflicts_with = "dry_run")]
    pub report_only: bool,
    /// If a claim does not hold and the reason is unknown, repeat its experiment in guests that the
    /// QEMU plugin watches, and name the functions that caused the largest latencies
    #[arg(long, conflicts_with = "report_only")]
    pub trace: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print nothing while experiments run
    #[arg(long)]
    pub quiet: bool,
}

/// The paper whose claims are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PaperArgument {
    /// Timer resolution and non-preemptible sections of Linux 2.4
    #[value(name = "abeni2002")]
    Abeni,
    /// Scheduler latency of Linux 2.4, measured with realfeel
    #[value(name = "williams2002")]
    Williams,
    /// Real time or real fast
    #[value(name = "mckenney2009")]
    Mckenney,
    /// PREEMPT_RT on an AMD Geode LX, both editions of the paper
    #[value(name = "koolwal2009")]
    Koolwal,
    /// All of them
    All,
}

impl PaperArgument {
    /// Returns whether the argument selects the paper with this name.
    #[must_use]
    pub fn means(self, paper: &str) -> bool {
        self == Self::All
            || self
                .to_possible_value()
                .is_some_and(|value| value.get_name() == paper)
    }
}

/// `--on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlaceArgument {
    /// This machine
    Local,
    /// Emulated machines (needs QEMU)
    Lab,
}

impl ReproduceArgs {
    /// Returns where the experiments run.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.on {
            PlaceArgument::Local => Place::Local,
            PlaceArgument::Lab => Place::Lab,
        }
    }

    /// Returns how long the experiments run.
    #[must_use]
    pub fn extent(&self) -> Extent {
        if self.full {
            Extent::Full
        } else {
            Extent::Quick
        }
    }

    /// Returns the number of guests of each kernel.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.replicas.unwrap_or(if self.full { 10 } else { 1 })
    }
}
