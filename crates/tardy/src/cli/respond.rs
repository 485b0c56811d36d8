//! Arguments of `tardy respond`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_probes::link::Link;
use tardy_run::keep::KeptSamples;

use super::positive_duration;

/// The arguments of `tardy respond`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "On the machine that is measured:            tardy respond udp:0.0.0.0
On the machine that asks:                   tardy run --load none --probe response:udp:board7
Answers only with a shared secret:          tardy respond udp:0.0.0.0 --secret FILE, and --probe \
                  response:secret=FILE:udp:board7
Over two serial ports, RTS and CTS crossed: tardy respond serial:/dev/ttyS0, and --probe \
                  response:serial:/dev/ttyS0
The responder's own late wake-ups:          tardy show FOLDER

Over udp, the responder answers one run at a time. It accepts another run after 5 s of silence of \
                  the first, or after 200 ms of silence if both runs come from the same address. \
                  Other datagrams are counted but not answered. An answer has as many bytes as its \
                  stimulus. In each 100 ms, the responder accepts at most 5000 datagrams, \
                  including at most 1000 that it does not answer. Beyond these limits, the \
                  responder sleeps until the 100 ms are over."
)]
pub struct RespondArgs {
    /// Link on which the stimuli arrive, as in udp:0.0.0.0 or serial:/dev/ttyS0 (`tardy list
    /// links`)
    #[arg(value_name = "LINK")]
    pub link: Link,
    /// File with a secret that the asking machine must also have, as in `--probe
    /// response:secret=FILE:udp:HOST` (udp only)
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Real-time priority (SCHED_FIFO), 1 to 98
    #[arg(long, value_name = "N", default_value = "95", value_parser = clap::value_parser!(u32).range(1..=98))]
    pub priority: u32,
    /// Answer as an ordinary task
    #[arg(long, conflicts_with = "priority")]
    pub ordinary: bool,
    /// CPU to answer on [default: any]
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// How long to answer [default: until a signal comes]
    #[arg(long = "for", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Option<Nanos>,
    /// New folder for a run with the responder's late wake-ups [default: named after the time]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Samples to store: all, tail:TIME (latencies of at least TIME), or histogram (no single
    /// samples); every sample is counted
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub keep: KeptSamples,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
