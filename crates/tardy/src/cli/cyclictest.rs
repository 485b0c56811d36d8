//! `tardy cyclictest`: the options of cyclictest (rt-tests), for scripts that call it. Source:
//! cyclictest's manual in rt-tests 2.8, and its behaviour in 2.4.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_formats::export::cyclictest::{HistogramShape, Thread, Unit};
use tardy_machine::processors::Processors;
use tardy_measure::cyclictest_words::{Group, clock, cpus, duration, number};
use tardy_run::keep::KeptSamples;
use tardy_run::plan::PolicyName;
use tardy_run::request::{CpuDmaLatency, MeasuredCpus, Request};
use tardy_run::system_clock::SystemClock;

/// Length of a run without a given length; a signal can end it earlier.
const LENGTH_MAX: Nanos = Nanos::from_secs(30 * 86_400);
/// Maximum number of samples that a run stores completely without `-v` or `--tardy-out`. The output
/// needs the last sample and the numbers of cycles, which only stored samples have.
const SAMPLES_KEPT_MAX: f64 = 20e6;
/// Maximum number of measured threads.
const THREADS_MAX: usize = 4096;
/// Maximum priority of threads; the watchdog's priority is one higher.
const PRIORITY_MAX: u32 = 98;
/// Maximum number of rows of a histogram, as in cyclictest.
const BUCKETS_MAX: i64 = 1_000_000;

/// The arguments of `tardy cyclictest`.
#[derive(Debug, Clone, Args)]
#[command(
    disable_help_flag = true,
    version,
    disable_version_flag = true,
    args_override_self = true,
    infer_long_args = true,
    override_usage = "tardy cyclictest [OPTIONS OF cyclictest] [--tardy-out <FOLDER>]",
    after_help = "Prints what cyclictest prints. Threads are always bound to a CPU, and memory is \
                  always locked.
With --tardy-out the run is kept: `tardy show`, `report`, `explain` and `compare` read it.
A link to tardy named cyclictest runs this command."
)]
pub struct CyclictestArgs {
    /// Words that are no option, which cyclictest passes over.
    #[arg(hide = true)]
    pub words: Vec<String>,
    /// Keep the run in this new folder
    #[arg(long, value_name = "FOLDER")]
    pub tardy_out: Option<PathBuf>,
    /// Bind threads to the CPUs of this list in turn, or with !LIST to all other CPUs; without a
    /// list, bind thread N to CPU N
    #[arg(short = 'a', long, value_name = "CPUSET", num_args = 0..=1)]
    pub affinity: Option<Option<String>>,
    /// Make the due times of all threads coincide, or lie US microseconds apart
    #[arg(short = 'A', long, value_name = "US", num_args = 0..=1)]
    pub aligned: Option<Option<i64>>,
    /// Stop at the first latency above US microseconds; 0 never stops
    #[arg(short = 'b', long = "breaktrace", value_name = "US", value_parser = number::<i64>(0, i64::MAX))]
    pub break_above: Option<i64>,
    /// Clock: 0 for monotonic, 1 for realtime
    #[arg(short = 'c', long, value_name = "CLOCK", default_value = "0", value_parser = clock)]
    pub clock: u8,
    #[arg(long, value_name = "N", hide = true, allow_hyphen_values = true)]
    pub deepest_idle_state: Option<String>,
    /// Leave the power management as it is
    #[arg(long)]
    pub default_system: bool,
    /// Difference between the intervals of successive threads [default: 500; 0 with a histogram]
    #[arg(short = 'd', long, value_name = "US", value_parser = number::<i64>(0, 3_600_000_000))]
    pub distance: Option<i64>,
    /// Duration in seconds, or with a suffix m, h or d; 0 measures until a signal comes
    #[arg(short = 'D', long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Nanos>,
    #[arg(short = 'F', long, value_name = "PATH", hide = true)]
    pub fifo: Option<PathBuf>,
    /// Print a histogram of latencies below US
    #[arg(short = 'h', long, value_name = "US", value_parser = number::<i64>(1, BUCKETS_MAX))]
    pub histogram: Option<i64>,
    /// Like --histogram, with an added column for all threads together
    #[arg(short = 'H', long, value_name = "US", value_parser = number::<i64>(1, BUCKETS_MAX))]
    pub histofall: Option<i64>,
    /// Write the histogram to this file, instead of standard output
    #[arg(long, value_name = "PATH")]
    pub histfile: Option<PathBuf>,
    /// Interval of the first thread
    #[arg(short = 'i', long, value_name = "US", default_value = "1000", value_parser = number::<i64>(1, 3_600_000_000))]
    pub interval: i64,
    /// Write the results to this file, as JSON
    #[arg(long, value_name = "FILENAME")]
    pub json: Option<PathBuf>,
    /// The same as --default-system
    #[arg(long)]
    pub laptop: bool,
    /// Maximum C-state exit latency; a negative value means 0
    #[arg(long, value_name = "US", default_value = "0", allow_hyphen_values = true, value_parser = number::<i32>(i32::MIN.into(), i32::MAX.into()))]
    pub latency: i32,
    /// Cycles per thread; 0 measures until a signal comes
    #[arg(short = 'l', long, value_name = "LOOPS", default_value = "0", value_parser = number::<u64>(0, i64::MAX))]
    pub loops: u64,
    #[arg(long, value_name = "CPUSET", hide = true)]
    pub mainaffinity: Option<String>,
    #[arg(short = 'm', long, hide = true)]
    pub mlockall: bool,
    #[arg(short = 'M', long = "refresh_on_max", hide = true)]
    pub refresh_on_max: bool,
    /// Print times in ns
    #[arg(short = 'N', long)]
    pub nsecs: bool,
    /// With -v: print only the largest of each RED consecutive values
    #[arg(short = 'o', long, value_name = "RED", default_value = "1", value_parser = number::<u32>(1, u32::MAX.into()))]
    pub oscope: u32,
    /// Real-time priority of the threads
    #[arg(short = 'p', long, alias = "prio", value_name = "PRIO", default_value = "0", value_parser = number::<u32>(0, 99))]
    pub priority: u32,
    /// Policy: other, normal, fifo or rr [default: fifo with a priority, other without]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Make each thread's priority one lower than the previous thread's
    #[arg(long)]
    pub priospread: bool,
    /// Print a summary at the end only
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Sleep for a relative time instead of until an absolute time (probe `nanosleep`)
    #[arg(short = 'r', long)]
    pub relative: bool,
    #[arg(short = 'R', long, hide = true)]
    pub resolution: bool,
    /// Make the due times of each thread whole multiples of its interval
    #[arg(long, value_name = "US", num_args = 0..=1)]
    pub secaligned: Option<Option<i64>>,
    /// The same as --relative
    #[arg(short = 's', long)]
    pub system: bool,
    /// Run one thread on each CPU
    #[arg(short = 'S', long)]
    pub smp: bool,
    /// Print each latency above US microseconds; 0 prints none
    #[arg(long, value_name = "US", value_parser = number::<i64>(0, i64::MAX))]
    pub spike: Option<i64>,
    /// Maximum number of spikes to print
    #[arg(long, value_name = "N", default_value = "1024")]
    pub spike_nodes: usize,
    #[arg(long, hide = true)]
    pub smi: bool,
    /// Number of threads; without a number, one per CPU
    #[arg(short = 't', long, value_name = "NUM", num_args = 0..=1, value_parser = number::<u32>(0, THREADS_MAX as i64))]
    pub threads: Option<Option<u32>>,
    /// With -b: switch off the kernel's trace after tardy has written its mark into the trace
    #[arg(long)]
    pub tracemark: bool,
    #[arg(short = 'u', long, hide = true)]
    pub unbuffered: bool,
    /// Print every value, as thread:cycle:value
    #[arg(short = 'v', long)]
    pub verbose: bool,
    #[arg(long = "dbg_cyclictest", hide = true)]
    pub dbg_cyclictest: bool,
    /// Use POSIX timers and signals instead of clock_nanosleep (probe `posix-timer`)
    #[arg(short = 'x', long = "posix_timers")]
    pub posix_timers: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    pub version: Option<bool>,
}

/// The run that a command line of cyclictest requests.
#[derive(Debug)]
pub struct Setup {
    pub request: Request,
    pub threads: Vec<Thread>,
    /// Differences from cyclictest, one sentence each.
    pub notes: Vec<String>,
}

impl CyclictestArgs {
    #[must_use]
    pub fn unit(&self) -> Unit {
        if self.nsecs {
            Unit::Nanos
        } else {
            Unit::Micros
        }
    }

    /// Returns the requested histogram for `threads` threads.
    #[must_use]
    pub fn shape(&self, threads: usize) -> Option<HistogramShape> {
        let rows = self.histofall.or(self.histogram)?;
        Some(HistogramShape {
            buckets: u32::try_from(rows).unwrap_or(u32::MAX),
            has_sum: self.histofall.is_some() && threads > 1,
        })
    }

    /// Returns the latency above which the run stops; `None` without a limit above 0.
    #[must_use]
    pub fn break_above(&self) -> Option<Nanos> {
        self.break_above
            .map(Nanos::from_micros)
            .filter(|&limit| limit > Nanos::ZERO)
    }

    /// Returns the latency above which samples are listed; `None` without a limit above 0.
    #[must_use]
    pub fn spike(&self) -> Option<Nanos> {
        self.spike
            .map(Nanos::from_micros)
            .filter(|&limit| limit > Nanos::ZERO)
    }

    /// Returns the maximum C-state exit latency in us.
    #[must_use]
    pub fn latency(&self) -> i32 {
        self.latency.max(0)
    }

    /// Returns the offset of a thread's due times from those of the first thread, or from full
    /// seconds.
    fn offset(&self, place: usize, interval: Nanos) -> Option<Nanos> {
        let of_each = self
            .aligned
            .flatten()
            .map(|us| us.saturating_mul(place as i64));
        let us = of_each.or(self.secaligned.flatten())?;
        Some(Nanos(
            Nanos::from_micros(us).get().rem_euclid(interval.get()),
        ))
    }

    /// Returns whether tardy leaves the power management as it is.
    #[must_use]
    pub fn leaves_power(&self) -> bool {
        self.laptop || self.default_system
    }

    /// Returns the difference between the intervals of successive threads.
    #[must_use]
    pub fn distance(&self) -> Nanos {
        Nanos::from_micros(self.distance.unwrap_or(
            if self.histofall.or(self.histogram).is_some() {
                0
            } else {
                500
            },
        ))
    }

    /// Converts the arguments to a request for a machine with these CPUs.
    ///
    /// # Errors
    /// Returns a one-line reason if the arguments are refused.
    pub fn setup(&self, processors: &Processors) -> Result<Setup, String> {
        self.refuse()?;
        let mut notes = self.passed_over();
        let cpus = self.cpus(processors, &mut notes)?;
        let (policy, priority) = self.scheduling(cpus.len(), &mut notes)?;
        let priority_of = |place: usize| match priority {
            0 => 0,
            highest if self.priospread => highest
                .saturating_sub(u32::try_from(place).unwrap_or(u32::MAX))
                .max(1),
            same => same,
        };
        let interval_of =
            |place: usize| Nanos::from_micros(self.interval) + self.distance() * place as i64;
        let kind = match () {
            () if self.system => "nanosleep",
            () if self.posix_timers => "posix-timer",
            () if self.relative => "nanosleep",
            () => "cyclic",
        };
        let offset_of = |place: usize| self.offset(place, interval_of(place));
        let mut groups: Vec<Group> = Vec::new();
        let mut threads = Vec::new();
        for (place, &cpu) in cpus.iter().enumerate() {
            let (interval, priority) = (interval_of(place), priority_of(place));
            let offset = offset_of(place).filter(|_| kind != "nanosleep");
            let fits = |group: &&mut Group| {
                group.interval == interval
                    && group.priority == priority
                    && group.offset == offset
                    && !group.cpus.contains(cpu)
            };
            let group = match groups.iter_mut().find(fits) {
                Some(group) => group,
                None => {
                    let name = if groups.is_empty() {
                        kind.to_owned()
                    } else {
                        format!("thread-{place}")
                    };
                    groups.push(Group {
                        name,
                        interval,
                        priority,
                        offset,
                        cpus: CpuList::default(),
                    });
                    groups.last_mut().expect("one was pushed")
                }
            };
            group.cpus.insert(cpu);
            threads.push(Thread {
                probe: group.name.clone(),
                cpu,
                priority,
                interval,
            });
        }
        let shortest = groups
            .iter()
            .map(|group| group.interval)
            .min()
            .unwrap_or(Nanos::from_micros(self.interval));
        // cyclictest ends when the first thread has made all its cycles.
        let by_loops = (self.loops > 0).then(|| {
            Nanos(
                shortest
                    .get()
                    .saturating_mul(i64::try_from(self.loops).unwrap_or(i64::MAX)),
            )
        });
        let duration = self.duration.filter(|duration| duration.get() > 0);
        let is_counted = self.loops > 0
            && duration.is_none()
            && groups.iter().all(|group| group.interval == shortest);
        let length = duration
            .into_iter()
            .chain(by_loops)
            .min()
            .unwrap_or(LENGTH_MAX)
            .min(LENGTH_MAX);
        let request = Request {
            length: (!is_counted).then_some(length),
            cycles: is_counted.then_some(self.loops),
            probes: groups.iter().map(|group| group.probe(kind)).collect(),
            policy: Some(policy),
            clock: (self.clock == 1 && kind != "nanosleep").then_some(SystemClock::Realtime),
            align: (self.secaligned.is_some() && kind != "nanosleep").then_some(
                if self.clock == 1 {
                    SystemClock::Realtime
                } else {
                    SystemClock::Monotonic
                },
            ),
            aligned: self.aligned.is_some(),
            cpus: Some(MeasuredCpus::List(cpus.iter().copied().collect())),
            loads: vec!["none".to_owned()],
            keep: self.keep(length, &groups),
            cpu_dma_latency: if self.leaves_power() {
                CpuDmaLatency::Leave
            } else {
                CpuDmaLatency::Micros(self.latency())
            },
            stop_above: self.break_above(),
            tracing_off: self.tracemark && self.break_above().is_some(),
            force: true,
            ..Request::default()
        };
        Ok(Setup {
            request,
            threads,
            notes,
        })
    }

    /// Refuses unsupported arguments, before anything is measured.
    fn refuse(&self) -> Result<(), String> {
        let refused = [
            (
                self.fifo.is_some(),
                "-F: tardy writes no figures to a FIFO: give --tardy-out FOLDER, and watch the run \
                 with `tardy top FOLDER`",
            ),
            (
                self.deepest_idle_state.is_some(),
                "--deepest-idle-state: tardy limits idle states by their exit latency: give an \
                 exit latency with --latency, or with --resume-latency of `tardy run`",
            ),
            (
                self.smi,
                "--smi: this output has no column for SMIs: with --tardy-out, the run records SMIs \
                 if the machine counts them",
            ),
            (
                self.oscope > 1 && !self.verbose,
                "-o thins out the values that -v prints: add -v",
            ),
            (
                self.aligned.is_some() && self.secaligned.is_some(),
                "-A aligns due times to each other, and --secaligned aligns them to seconds: leave \
                 one of the two options out",
            ),
        ];
        refused
            .into_iter()
            .find(|(is_asked, _)| *is_asked)
            .map_or(Ok(()), |(_, why)| Err(why.to_owned()))
    }

    /// Returns a sentence for each given option that tardy ignores.
    fn passed_over(&self) -> Vec<String> {
        let passed_over = [
            (
                self.words.iter().any(|word| !word.is_empty()),
                "arguments that belong to no option are ignored, as by cyclictest",
            ),
            (
                self.smp && self.affinity.is_some(),
                "-a is ignored: -S runs a thread on each CPU",
            ),
            (
                self.smp && self.threads.is_some(),
                "-t is ignored: -S runs a thread on each CPU",
            ),
            (
                self.system && self.posix_timers,
                "-x is ignored: -s sleeps without timers",
            ),
            (
                self.mainaffinity.is_some(),
                "--mainaffinity changes nothing: the main thread sleeps until the end",
            ),
            (
                self.refresh_on_max,
                "-M changes nothing: figures are printed at the end",
            ),
            (
                self.resolution,
                "-R changes nothing: tardy checks the clock's resolution at each start, and warns \
                 of a coarse resolution",
            ),
            (
                self.unbuffered,
                "-u changes nothing: figures are printed at the end",
            ),
            (
                self.dbg_cyclictest,
                "--dbg_cyclictest changes nothing: tardy has no debug output",
            ),
        ];
        passed_over
            .into_iter()
            .filter(|(is_asked, _)| *is_asked)
            .map(|(_, what)| what.to_owned())
            .collect()
    }

    /// Returns the usable CPUs that -a lists. As in cyclictest, -a and -t have no effect with -S.
    ///
    /// # Errors
    /// Returns an error if the argument is not a CPU list.
    pub fn listed(&self, usable: &CpuList) -> Result<Option<CpuList>, String> {
        self.affinity
            .as_ref()
            .filter(|_| !self.smp)
            .and_then(Option::as_ref)
            .map(|text| cpus(text, usable))
            .transpose()
    }

    /// Returns the CPU of each thread, chosen like cyclictest does: from the list of -a, otherwise
    /// from the CPUs that the caller may use (taskset, control groups).
    fn cpus(&self, processors: &Processors, notes: &mut Vec<String>) -> Result<Vec<CpuId>, String> {
        let usable = &processors.usable;
        let list = self
            .listed(usable)?
            .unwrap_or_else(|| processors.own.clone());
        let absent = list.minus(usable);
        if list.is_empty() {
            return Err(format!(
                "-a: the list names no usable CPU: name at least one of {usable}"
            ));
        }
        if !absent.is_empty() {
            return Err(format!(
                "-a: CPUs {absent} cannot be used here: choose from {usable}"
            ));
        }
        let count = match self.threads {
            _ if self.smp => list.len(),
            Some(None | Some(0)) => processors.own.len(),
            Some(Some(count)) => count as usize,
            None => 1,
        };
        if self.affinity.is_none() && !self.smp {
            notes.push("threads are bound to CPUs in turn, as with -a".to_owned());
        }
        Ok(list
            .iter()
            .collect::<Vec<_>>()
            .into_iter()
            .cycle()
            .take(count)
            .collect())
    }

    fn scheduling(
        &self,
        threads: usize,
        notes: &mut Vec<String>,
    ) -> Result<(PolicyName, u32), String> {
        let policy = match self.policy.as_deref() {
            None if self.priority > 0 || self.priospread => PolicyName::Fifo,
            None | Some("other" | "normal") => PolicyName::Other,
            Some("fifo") => PolicyName::Fifo,
            Some("rr") => PolicyName::Rr,
            Some(name @ ("batch" | "idle")) => {
                return Err(format!(
                    "--policy={name}: probes can only use fifo, rr or other"
                ));
            }
            Some(name) => {
                return Err(format!(
                    "--policy={name}: there is no such policy: give `other`, `fifo` or `rr`"
                ));
            }
        };
        let policy = if policy == PolicyName::Other && self.priority > 0 {
            notes.push("the policy is fifo, because a priority was given".to_owned());
            PolicyName::Fifo
        } else {
            policy
        };
        if policy == PolicyName::Other {
            return Ok((policy, 0));
        }
        if self.priority > PRIORITY_MAX {
            notes.push(format!(
                "the priority is {PRIORITY_MAX} instead of {}, because the watchdog needs a higher \
                 priority to end a run that hangs",
                self.priority
            ));
        }
        if self.priority > 0 {
            return Ok((policy, self.priority.min(PRIORITY_MAX)));
        }
        let usual = u32::try_from(threads + 1)
            .unwrap_or(PRIORITY_MAX)
            .min(PRIORITY_MAX);
        notes.push(format!(
            "the real-time priority is {usual}, because no priority was given"
        ));
        Ok((policy, usual))
    }

    fn keep(&self, length: Nanos, groups: &[Group]) -> KeptSamples {
        let rate: f64 = groups
            .iter()
            .map(|group| group.cpus.len() as f64 / group.interval.get() as f64)
            .sum();
        match self.spike() {
            _ if self.verbose
                || self.tardy_out.is_some()
                || rate * length.get() as f64 <= SAMPLES_KEPT_MAX =>
            {
                KeptSamples::All
            }
            Some(limit) => KeptSamples::Tail(limit),
            None => KeptSamples::Histogram,
        }
    }
}

#[cfg(test)]
mod tests;
