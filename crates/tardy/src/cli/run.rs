//! `tardy run`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::units::Nanos;
use tardy_measure::request::{CpuDmaLatency, LoadCpus, MeasuredCpus, Request};
use tardy_probes::probe::ProbeSpec;
use tardy_probes::probe::request::ProbeRequestError;
use tardy_run::keep::Keep;
use tardy_run::plan::PolicyName;
use tardy_run::system_clock::SystemClock;
use tardy_run::threshold::ThresholdAction;
use tardy_run::tracing::Explain;

use super::{DeadlineArgs, choice, positive_duration};

/// The arguments of `tardy run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  tardy run                                           53 s: idle, then under load, on every CPU
  tardy run --scenario abeni2002 --out timeline
  tardy run --cycles 50000 --load io                  50,000 samples a CPU idle, and 50,000 under the load
  tardy run --for 1h --cpus 1-3 --deadline 200us --out board7
  tardy run --for 10m --probe cyclic -- ./my_loop     a loop of yours, beside a probe, under the usual loads
  tardy run --for 10s --load none --probe cyclic --probe nanosleep
  tardy run --for 10m --explain --out board7          then: tardy explain board7")]
pub struct RunArgs {
    /// Scenario to follow: a built-in one (`tardy scenarios`) or a file; by default idle, each cheap load, then all
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "loads")]
    pub scenario: Option<String>,
    /// How long to measure in all; the phases of a scenario are stretched to it
    #[arg(long = "for", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Option<Nanos>,
    /// Measure N cycles of each probe thread in every phase, in place of a time: N under each load of a scenario, or N idle and N under --load; without both N
    /// idle ones. A cycle is a period, for gtod a read of each clock, for oslat an interval between two reads
    #[arg(long, value_name = "N", conflicts_with = "length", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub cycles: Option<u64>,
    /// Probe to measure with, as in usleep:period=200us:priority=80; repeat it for several at once, also of one kind (name= tells them apart), on one
    /// clock (`tardy list probes`) [default: cyclic]
    #[arg(long = "probe", value_name = "NAME[:VALUES]")]
    pub probes: Vec<String>,
    /// Time between two wake-ups [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub period: Option<Nanos>,
    /// CPUs to measure: a list as in 1-3,6, isolated (by isolcpus= or nohz_full=), housekeeping (the others), or all; by default the isolated ones,
    /// and where there are none all that this process runs on
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<MeasuredCpus>,
    /// Scheduling policy of the probes [default: fifo]
    #[arg(long, value_name = "POLICY", value_parser = choice::parser::<PolicyName>())]
    pub policy: Option<PolicyName>,
    /// Real-time priority of the probes; 99, the watchdog's own, needs --force and a CPU left out with --cpus [default: 95]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub priority: Option<u32>,
    #[command(flatten)]
    pub deadline: DeadlineArgs,
    /// Load to run after an idle phase; repeat it for several together; `none` for none (`tardy list loads`)
    #[arg(long = "load", value_name = "NAME")]
    pub loads: Vec<String>,
    /// CPUs that loads run on: measured, other, all, or a list; by default all but isolated ones
    #[arg(long, value_name = "CPUS")]
    pub load_cpus: Option<LoadCpus>,
    /// Loads of a built-in scenario that can disturb people or do harm, and shall run all the same
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Folder for the run, which must not exist; named after the time by default
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Samples to store: all, tail:TIME (those at least so late), or histogram (none); all are counted
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub keep: Keep,
    /// Folder in memory to write to while measuring; moved to --out at the end (for flash storage)
    #[arg(long, value_name = "FOLDER")]
    pub spool: Option<PathBuf>,
    /// Deepest sleep of idle CPUs: wake-up latency in us for /dev/cpu_dma_latency, or `leave`
    #[arg(long, value_name = "US|leave", allow_hyphen_values = true, default_value = "0")]
    pub cpu_dma_latency: CpuDmaLatency,
    /// In its place the same for the measured CPUs alone, in us (pm_qos_resume_latency_us; put back at the end)
    #[arg(long, value_name = "US", conflicts_with = "cpu_dma_latency")]
    pub resume_latency: Option<u32>,
    /// Control group for the measuring threads: a threaded one below the tool's own, or one of version 1; its cpuset bounds --cpus
    #[arg(long, value_name = "FOLDER")]
    pub probe_cgroup: Option<PathBuf>,
    /// Control group for the loads
    #[arg(long, value_name = "FOLDER")]
    pub load_cgroup: Option<PathBuf>,
    /// Move interrupts off the measured CPUs for the run (put back at its end)
    #[arg(long, alias = "steer-irqs")]
    pub move_irqs: bool,
    /// Let due times of all CPUs coincide instead of staggering them
    #[arg(long)]
    pub aligned: bool,
    /// Clock that the probes' timers are set on, for those that can choose; stored times stay those of CLOCK_MONOTONIC [default: monotonic]
    #[arg(long, value_name = "CLOCK", value_parser = choice::parser::<SystemClock>())]
    pub clock: Option<SystemClock>,
    /// Put due times on whole multiples of the period of this clock: monotonic, realtime or tai (as a TSN schedule with base time 0; a probe's offset= comes on
    /// top), the same for all CPUs
    #[arg(long, value_name = "CLOCK", value_parser = choice::parser::<SystemClock>())]
    pub align: Option<SystemClock>,
    /// Move each due time by a random time up to this, at most half a period
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub dither: Option<Nanos>,
    /// Seed of everything random; stored in the run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Stop at the first latency above this, and mark it in the kernel's trace
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub stop_above: Option<Nanos>,
    /// With --stop-above: also switch off the kernel's tracing, so that the trace ends there
    #[arg(long, requires = "stop_above")]
    pub tracing_off: bool,
    /// Do this at the first latency above --stop-above, or above --deadline: trace (keep the kernel's trace of it, as --explain does), shell=COMMAND,
    /// signal=PID (SIGTERM), continue (do not stop; then again at each larger latency); repeat it for several
    #[arg(long, value_name = "ACTION")]
    pub on_threshold: Vec<ThresholdAction>,
    /// As cyclictest's: stop at the first latency above so many us, and keep the kernel's trace of it (--stop-above TIME --on-threshold trace)
    #[arg(short = 'b', value_name = "US", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["stop_above", "on_threshold"])]
    pub break_above: Option<u32>,
    /// Record the kernel's trace and find who made each sample late; `tardy explain RUN` tells (as root; latencies are then those of a traced run)
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "events", value_parser = choice::parser::<Explain>())]
    pub explain: Option<Explain>,
    /// With --explain: keep all of the trace, not only what surrounds the worst samples (1 GB an hour and CPU at 1 kHz)
    #[arg(long, requires = "explain")]
    pub keep_trace: bool,
    /// Accept a period that this machine may not keep up with, and priority 99; a CPU must be left out with --cpus
    #[arg(long)]
    pub force: bool,
    /// Only say what would be done and changed
    #[arg(long)]
    pub dry_run: bool,
    /// Say nothing while measuring
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Program of yours whose loop is measured, with its arguments: the probe `app` (see include/tardy.h, crates/tardy-app)
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// A text that is no request for a probe.
#[derive(Debug, thiserror::Error)]
#[error("--probe {asked}: {error}")]
pub struct BadProbe {
    asked: String,
    error: Box<ProbeRequestError>,
}

impl RunArgs {
    /// What is asked for; where the run goes, and what is said meanwhile, is the command's alone.
    ///
    /// # Errors
    /// Where a text is no request for a probe.
    pub fn request(&self) -> Result<Request, BadProbe> {
        let probe = |text: &String| ProbeSpec::parse(text).map_err(|error| BadProbe { asked: text.clone(), error: Box::new(error) });
        Ok(Request {
            scenario: self.scenario.clone(),
            length: self.length,
            cycles: self.cycles,
            probes: self.probes.iter().map(probe).collect::<Result<_, _>>()?,
            program: self.program.clone(),
            period: self.period,
            policy: self.policy,
            priority: self.priority,
            dither: self.dither,
            clock: self.clock,
            align: self.align,
            aligned: self.aligned,
            cpus: self.cpus.clone(),
            loads: self.loads.clone(),
            load_cpus: self.load_cpus.clone(),
            allow: self.allow.clone(),
            requirement: self.deadline.requirement(),
            keep: self.keep,
            spool: self.spool.clone(),
            cpu_dma_latency: self.cpu_dma_latency,
            resume_latency: self.resume_latency,
            probe_cgroup: self.probe_cgroup.clone(),
            load_cgroup: self.load_cgroup.clone(),
            move_irqs: self.move_irqs,
            seed: self.seed,
            stop_above: self.stop_above.or(self.break_above.map(|us| Nanos::from_micros(us.into()))),
            tracing_off: self.tracing_off,
            on_threshold: if self.break_above.is_some() { vec![ThresholdAction::Trace] } else { self.on_threshold.clone() },
            explain: self.explain.unwrap_or_default(),
            keep_trace: self.keep_trace,
            force: self.force,
        })
    }
}

#[cfg(test)]
mod tests;
