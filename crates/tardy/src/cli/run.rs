//! `tardy run`.

use std::path::PathBuf;

use clap::Args;
use tardy_core::bytes::parse_bytes;
use tardy_core::units::Nanos;
use tardy_measure::request::{CpuDmaLatency, LoadCpus, MeasuredCpus, Request};
use tardy_probes::probe::ProbeSpec;
use tardy_probes::probe::request::ProbeRequestError;
use tardy_run::keep::KeptSamples;
use tardy_run::plan::PolicyName;
use tardy_run::system_clock::SystemClock;
use tardy_run::threshold::ThresholdAction;
use tardy_run::tracing::ExplainLevel;

use super::on::OnArgs;
use super::{DeadlineArgs, choice, positive_duration};

/// The arguments of `tardy run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  tardy run                                 53 s: idle, then under load, on every CPU
  tardy run --scenario abeni2002 --out timeline
  tardy run --cycles 50000 --load io        50,000 samples a CPU idle, 50,000 under load
  tardy run --for 1h --cpus 1-3 --deadline 200us --out board7
  tardy run --until-stopped --metrics 9877 --out board7
  tardy run --for 10m -- ./my_loop          your own loop, under the usual loads
  tardy run --for 10s --load none --probe cyclic --probe nanosleep
  tardy run --for 10m --explain --out board7; tardy explain board7
  tardy run --for 10m --deadline 200us --on ssh://root@arm1 --on ssh://root@x86 --out rack

Defaults of --cpus, --load-cpus, --deadline, --misses, --skipped, --keep, --spool, --cpu-dma-latency, --probe-cgroup and --load-cgroup
can stand in /etc/tardy.toml and ~/.config/tardy.toml, as in cpus = \"1-3\"; labels below [labels].")]
pub struct RunArgs {
    /// Program of yours whose loop is measured, with its arguments (probe `app`)
    ///
    /// The loop tells its cycles through include/tardy.h (C) or crates/tardy-app (Rust).
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
    /// Scenario to follow: a built-in one (`tardy scenarios`) or a file
    ///
    /// By default an idle phase, each cheap load alone, and all of them together.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "loads")]
    pub scenario: Option<String>,
    /// How long to measure in all; the phases of a scenario are stretched to it
    #[arg(long = "for", value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true)]
    pub length: Option<Nanos>,
    /// Measure N cycles of each probe thread in every phase, in place of a time
    ///
    /// With --load: N idle, and N under the load. A cycle is a period; for gtod a read of each
    /// clock, for oslat an interval between two reads.
    #[arg(long, value_name = "N", conflicts_with = "length", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub cycles: Option<u64>,
    /// Measure until SIGINT (Ctrl-C) or SIGTERM (`systemctl stop`) ends the run, which is then
    /// complete
    ///
    /// Without a load, or with --load after 10 s idle. `tardy show FOLDER` shows what is there at
    /// any time.
    #[arg(long, conflicts_with_all = ["length", "cycles", "scenario", "on"])]
    pub until_stopped: bool,
    /// Go on with the run in --out after a reboot, a kill or a stop; begin it where there is none
    ///
    /// Needs --until-stopped, --disk and --out, and takes no loads. The samples so far become
    /// histograms by hour; the gap is reported and not counted.
    #[arg(long, requires_all = ["until_stopped", "disk", "out"], conflicts_with_all = ["loads", "spool"])]
    pub resume: bool,
    /// Only say what would be done and changed
    #[arg(long)]
    pub dry_run: bool,
    /// Measure with the settings that `tardy tune --plan` prints, or with those of a file, and put
    /// them back afterwards
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "dry_run")]
    pub tune: Option<Option<PathBuf>>,
    /// Say nothing while measuring
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the progress in a line, in place of the live view
    ///
    /// The live view needs a terminal. If something kills the tool with SIGKILL meanwhile, the
    /// command `reset` puts the terminal back.
    #[arg(long)]
    pub no_live: bool,
    /// Answer readers of metrics at this port, such as Prometheus, while the run lasts
    ///
    /// PORT is open to this machine alone, ADDRESS:PORT to whoever reaches that address.
    /// http://127.0.0.1:9877/metrics then has the distributions, misses, losses, phase and loads of
    /// that moment as OpenMetrics.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub metrics: Option<String>,
    /// Print every table and warning, not only what fits a screen
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,

    /// Probe to measure with, as in usleep:period=200us:priority=80 (`tardy list probes`) [default:
    /// cyclic]
    ///
    /// Repeat it for several at once, on one clock. Two of a kind are told apart by name=.
    #[arg(long = "probe", value_name = "NAME[:VALUES]", help_heading = PROBES)]
    pub probes: Vec<String>,
    /// Time between two wake-ups [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true, help_heading = PROBES)]
    pub period: Option<Nanos>,
    /// CPUs to measure: a list such as 1-3,6, or isolated, housekeeping, all
    ///
    /// Isolated CPUs are those of isolcpus= or nohz_full=, housekeeping ones the others. By default
    /// the isolated ones; if there are none, all that this process may run on.
    #[arg(long, value_name = "CPUS", help_heading = PROBES)]
    pub cpus: Option<MeasuredCpus>,
    /// Scheduling policy of the probes [default: fifo]
    #[arg(long, value_name = "POLICY", value_parser = choice::parser::<PolicyName>(), help_heading = PROBES)]
    pub policy: Option<PolicyName>,
    /// Real-time priority of the probes [default: 95]
    ///
    /// 99 is the priority of the kernel's watchdog: it needs --force, and a CPU left out with --cpus.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99), help_heading = PROBES)]
    pub priority: Option<u32>,
    /// Clock that the probes' timers are set on, if the probe can choose [default: monotonic]
    ///
    /// Stored times are always those of CLOCK_MONOTONIC.
    #[arg(long, value_name = "CLOCK", value_parser = choice::parser::<SystemClock>(), help_heading = PROBES)]
    pub clock: Option<SystemClock>,
    /// Put due times on whole multiples of the period of this clock, the same on all CPUs
    ///
    /// This is a TSN schedule with base time 0. A probe's offset= is added to it.
    #[arg(long, value_name = "CLOCK", value_parser = choice::parser::<SystemClock>(), help_heading = PROBES)]
    pub align: Option<SystemClock>,
    /// Let the due times of all CPUs coincide instead of staggering them
    #[arg(long, help_heading = PROBES)]
    pub aligned: bool,
    /// Move each due time by a random time up to this, at most half a period
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true, help_heading = PROBES)]
    pub dither: Option<Nanos>,
    /// Seed of everything random; stored in the run
    #[arg(long, value_name = "N", help_heading = PROBES)]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub deadline: DeadlineArgs,

    /// Load to run after an idle phase, or `none` (`tardy list loads`); repeat it for several
    /// together
    #[arg(long = "load", value_name = "NAME", help_heading = LOADS)]
    pub loads: Vec<String>,
    /// CPUs that loads run on: measured, other, all, or a list [default: all but isolated ones]
    #[arg(long, value_name = "CPUS", help_heading = LOADS)]
    pub load_cpus: Option<LoadCpus>,
    /// Run these loads of a built-in scenario too, although they disturb people or can do harm
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', help_heading = LOADS)]
    pub allow: Vec<String>,
    /// Control group for the loads
    #[arg(long, value_name = "FOLDER", help_heading = LOADS)]
    pub load_cgroup: Option<PathBuf>,

    /// Record the kernel's trace and find who made each sample late (as root; then
    /// `tardy explain RUN`)
    ///
    /// Latencies are then those of a traced run: do not compare them with those of an untraced run. --explain=stacks
    /// also records which functions of the kernel were under way: that takes up to tens of
    /// microseconds each time, so such a run is for finding code, and `tardy compare` refuses it. --explain=timerlat
    /// also runs the kernel's tracer of that name, and says how far both agree on its wake-ups.
    /// `tardy compare` refuses such a run too.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "events", value_parser = choice::parser::<ExplainLevel>(), help_heading = LATE)]
    pub explain: Option<ExplainLevel>,
    /// With --explain: keep all of the trace, not only what surrounds the worst samples
    ///
    /// That is about 1 GB an hour and CPU at 1 kHz.
    #[arg(long, requires = "explain", help_heading = LATE)]
    pub keep_trace: bool,
    /// Stop at the first latency above this, and mark it in the kernel's trace
    #[arg(long, value_name = "TIME", value_parser = positive_duration, allow_hyphen_values = true, help_heading = LATE)]
    pub stop_above: Option<Nanos>,
    /// At the first latency above --stop-above, or above --deadline: trace, shell=COMMAND,
    /// signal=PID, signal,num=N,pid=PID, continue
    ///
    /// trace keeps the kernel's trace of it, as --explain does. signal=PID sends SIGTERM;
    /// signal,num=10,pid=1234 any signal by its number, and pid=parent means whoever started tardy,
    /// as in rtla. continue does not stop, and acts again at each larger latency. Repeat it for
    /// several actions.
    #[arg(long, value_name = "ACTION", help_heading = LATE)]
    pub on_threshold: Vec<ThresholdAction>,
    /// As cyclictest: stop at the first latency above US microseconds, and keep the kernel's trace
    /// of it
    ///
    /// The same as --stop-above TIME --on-threshold trace.
    #[arg(short = 'b', value_name = "US", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["stop_above", "on_threshold"], help_heading = LATE)]
    pub break_above: Option<u32>,
    /// With --stop-above: also switch off the kernel's tracing, so that the trace ends there
    #[arg(long, requires = "stop_above", help_heading = LATE)]
    pub tracing_off: bool,

    /// Folder for the run, which must not exist [default: named after the time]
    #[arg(long, value_name = "FOLDER", help_heading = STORAGE)]
    pub out: Option<PathBuf>,
    /// Name and text to keep with the run, as in board=imx8-07; repeat it for several
    #[arg(long = "label", value_name = "NAME=TEXT", value_parser = label, help_heading = STORAGE)]
    pub labels: Vec<(String, String)>,
    /// Samples to store: all, tail:TIME (those of TIME and later), or histogram (none); all are
    /// counted
    #[arg(long, value_name = "WHAT", default_value = "all", help_heading = STORAGE)]
    pub keep: KeptSamples,
    /// Bytes that the folder may take, as in 2GiB: the oldest samples then give way to histograms
    /// by hour
    ///
    /// All counts, misses and the largest latency stay those of the whole run; single samples are
    /// kept as far back as there is room.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["keep", "spool", "explain", "break_above"], help_heading = STORAGE)]
    pub disk: Option<u64>,
    /// Folder in memory to write to while measuring; it is moved to --out at the end (for flash
    /// storage)
    #[arg(long, value_name = "FOLDER", help_heading = STORAGE)]
    pub spool: Option<PathBuf>,

    /// Longest wake-up of idle CPUs to allow, in us (/dev/cpu_dma_latency), or `leave`
    #[arg(long, value_name = "US|leave", allow_hyphen_values = true, default_value = "0", help_heading = MACHINE)]
    pub cpu_dma_latency: CpuDmaLatency,
    /// The same for the measured CPUs alone, in us (pm_qos_resume_latency_us; put back at the end)
    #[arg(long, value_name = "US", conflicts_with = "cpu_dma_latency", help_heading = MACHINE)]
    pub resume_latency: Option<u32>,
    /// Move interrupts off the measured CPUs for the run (put back at the end)
    #[arg(long, alias = "steer-irqs", help_heading = MACHINE)]
    pub move_irqs: bool,
    /// Control group for the measuring threads; its cpuset bounds --cpus
    ///
    /// A threaded one below the tool's own, or one of version 1.
    #[arg(long, value_name = "FOLDER", help_heading = MACHINE)]
    pub probe_cgroup: Option<PathBuf>,
    /// Accept priority 99, and a period that this machine may not keep up with
    ///
    /// A CPU must be left out with --cpus, so that the machine can still be used.
    #[arg(long, help_heading = MACHINE)]
    pub force: bool,

    #[command(flatten)]
    pub on: OnArgs,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, text)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), text.to_owned()))
        }
        _ => Err(format!(
            "`{text}` is no label: write it as in board=imx8-07"
        )),
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text)
        .ok_or_else(|| format!("`{text}` is no size: write it with its unit, as in 2GiB"))
}

const PROBES: &str = "Probes";
const LOADS: &str = "Loads";
const LATE: &str = "Late samples";
const STORAGE: &str = "Storage";
const MACHINE: &str = "Machine";

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
        let probe = |text: &String| {
            ProbeSpec::parse(text).map_err(|error| BadProbe {
                asked: text.clone(),
                error: Box::new(error),
            })
        };
        Ok(Request {
            scenario: self.scenario.clone(),
            length: self.length,
            cycles: self.cycles,
            until_stopped: self.until_stopped,
            resume: self.resume,
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
            disk: self.disk,
            spool: self.spool.clone(),
            cpu_dma_latency: self.cpu_dma_latency,
            resume_latency: self.resume_latency,
            probe_cgroup: self.probe_cgroup.clone(),
            load_cgroup: self.load_cgroup.clone(),
            move_irqs: self.move_irqs,
            seed: self.seed,
            stop_above: self
                .stop_above
                .or(self.break_above.map(|us| Nanos::from_micros(us.into()))),
            tracing_off: self.tracing_off,
            on_threshold: if self.break_above.is_some() {
                vec![ThresholdAction::Trace]
            } else {
                self.on_threshold.clone()
            },
            explain: self.explain.unwrap_or_default(),
            keep_trace: self.keep_trace,
            force: self.force,
        })
    }
}

#[cfg(test)]
mod tests;
