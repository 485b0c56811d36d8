//! The options of `tardy run`, each defined once.
//!
//! A row has the help, the field of [`Request`], the definition, and how to find the value in a
//! [`Plan`]: from the plan's fields (`plan`) or only from [`Plan::asked`] (`asked`). If an option
//! is not part of the experiment, its row gives the reason instead (`no`). The rows are the source
//! of the command line, the help, the manual page, the completions, the keys of files with
//! defaults, the text of a plan, and the command that repeats a run.

mod of_plan;
pub mod option;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tardy_core::cpu::{CpuList, ParseCpuListError};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;

use crate::keep::KeptSamples;
use crate::plan::request::option::{Bytes, Definition, Form, OptionValue, Part, RunOption, Tuning};
use crate::plan::{Plan, PolicyName};
use crate::system_clock::SystemClock;
use crate::threshold::ThresholdAction;
use crate::tracing::ExplainLevel;

const PROBES: &str = "Probes";
/// Heading of the options that other commands accept, too.
pub const DEADLINE: &str = "Deadline";
const LOADS: &str = "Loads";
const LATE: &str = "Late samples";
const STORAGE: &str = "Storage";
const MACHINE: &str = "Machine";

/// Name of the label that `--tune` adds to a run. The label's text is the names of the changed
/// settings.
pub const TUNED: &str = "tuned";

/// Makes [`Request`] and [`OPTIONS`] from the rows.
macro_rules! options {
    ($(
        $(#[doc = $help:literal])+
        $field:ident: $type:ty =
            { $($key:ident: $value:expr),+ $(,)? }, $part:ident($($from:expr)?);
    )+) => {
        /// The user's request, not yet compared with the machine. If a field has no value, the
        /// scenario's value is used, or else the default.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Request {
            $( $(#[doc = $help])+ pub $field: $type, )+
        }

        /// The options, in the order of the help.
        pub const OPTIONS: &[RunOption] = &[$( RunOption {
            help: &[$($help),+],
            definition: Definition { $($key: $value,)+ ..Definition::PLAIN },
            kind: <$type as OptionValue>::KIND,
            is_path: <$type as OptionValue>::IS_PATH,
            choices: <$type as OptionValue>::choices,
            part: part!($part, $field $(, $from)?),
            take: |request, word| OptionValue::set(&mut request.$field, word),
            values: |request| OptionValue::values(&request.$field),
            copy: |from, to| to.$field = from.$field.clone(),
        } ),+];
    };
}

macro_rules! part {
    (plan, $field:ident, $from:expr) => {
        Part::Plan(|plan, request| request.$field = read_from(plan, $from))
    };
    (asked, $field:ident) => {
        Part::Asked
    };
    (no, $field:ident, $why:expr) => {
        Part::No($why)
    };
}

fn read_from<T>(plan: &Plan, read: impl FnOnce(&Plan) -> T) -> T {
    read(plan)
}

options! {
    /// Your own program to measure, with its arguments (probe `app`)
    ///
    /// The program's loop reports its cycles through include/tardy.h (C) or crates/tardy-app
    /// (Rust).
    program: Vec<String> = { name: "program", value: "PROGRAM", form: Form::Trailing },
        plan(of_plan::program);
    /// Scenario to follow: a built-in one (`tardy scenarios`) or a file
    ///
    /// The default is an idle phase, then loads one by one, then all of them together.
    scenario: Option<String> = {
        name: "scenario", value: "NAME|FILE", conflicts: &["load"], is_shown: true,
    }, plan(of_plan::scenario);
    /// Total measuring time; the phases of a scenario are scaled to it
    length: Option<Nanos> = {
        name: "for", value: "TIME", can_begin_with_dash: true, is_kept: true, is_shown: true,
    }, plan(of_plan::length);
    /// Measure N cycles of each probe thread in every phase, instead of a fixed time
    ///
    /// With --load, each thread measures N cycles without load, and then N cycles under the load. A
    /// cycle is one period (gtod: one read of each clock; oslat: one interval between two reads).
    cycles: Option<u64> = {
        name: "cycles", value: "N", range: Some((1, 10_000_000_000)), conflicts: &["for"],
        is_shown: true,
    }, plan(of_plan::cycles);
    /// Measure until SIGINT (Ctrl-C) or SIGTERM (`systemctl stop`); the run is then complete
    ///
    /// Without --load, no load runs. With --load, the load starts after an idle phase of 10 s.
    /// `tardy show FOLDER` shows the samples so far at any time.
    until_stopped: bool = {
        name: "until-stopped", conflicts: &["for", "cycles", "scenario", "on"], is_shown: true,
    }, plan(|plan| plan.until_stopped);
    /// Continue the run in the folder --out after a reboot, kill or stop; start a run if there is
    /// none
    ///
    /// Needs --until-stopped, --disk and --out, and takes no loads. Earlier samples are folded into
    /// hourly histograms. The interruption is reported, and does not count as measuring time.
    resume: bool = {
        name: "resume", needs: &["until-stopped", "disk", "out"], conflicts: &["load", "spool", "explain"],
    }, no("the option continues an existing run");
    /// Only print what would be done and changed
    dry_run: bool = { name: "dry-run" }, no("a dry run measures nothing");
    /// Change settings for the run, and restore them afterwards: the settings that `tardy tune
    /// --plan` prints, or those in FILE
    tune: Option<Tuning> = {
        name: "tune", value: "FILE", bare: Some(""), conflicts: &["dry-run"],
    }, asked();
    /// Print nothing while measuring
    quiet: bool = { name: "quiet", form: Form::Long(Some('q')) },
        no("the option affects only the display");
    /// Print progress on one line instead of the live view
    ///
    /// The live view needs a terminal. After a SIGKILL, the command `reset` restores the terminal.
    no_live: bool = { name: "no-live" }, no("the option affects only the display");
    /// Serve metrics at this port while the run lasts, for readers such as Prometheus
    ///
    /// With PORT, only this machine can connect; with ADDRESS:PORT, every machine that reaches that
    /// address. For port 9877, http://127.0.0.1:9877/metrics returns the current distributions,
    /// misses, losses, phase and loads as OpenMetrics.
    metrics: Option<String> = { name: "metrics", value: "[ADDRESS:]PORT" },
        no("the option affects only the display");
    /// Print every table and warning, not only what fits on a screen
    full: bool = { name: "full", conflicts: &["json"] }, no("the option affects only the display");
    /// Print the summary as JSON
    json: bool = { name: "json" }, no("the option affects only the display");
    /// Probe to measure with, as in usleep:period=200us:priority=80 (`tardy list probes`) [default:
    /// cyclic]
    ///
    /// Repeat the option to run several probes at once; all times are on one clock. Give two probes
    /// of the same kind different names with name=.
    probes: Vec<String> = { name: "probe", value: "NAME[:VALUES]", group: PROBES, is_shown: true },
        plan(of_plan::probes);
    /// Time between two wake-ups [default: 1ms]
    period: Option<Nanos> = {
        name: "period", value: "TIME", can_begin_with_dash: true, group: PROBES, is_shown: true,
    }, plan(of_plan::period);
    /// CPUs to measure: a list such as 1-3,6, or isolated, housekeeping, all
    ///
    /// Isolated CPUs are those of isolcpus=, nohz_full= or an isolated cpuset partition; all others
    /// are housekeeping CPUs. The default is the isolated CPUs. If there are none, or if this
    /// process may not use all housekeeping CPUs (taskset, cpuset), the default is all CPUs that it
    /// may run on.
    cpus: Option<MeasuredCpus> = {
        name: "cpus", value: "CPUS", group: PROBES, is_in_files: true, is_shown: true,
    }, plan(|plan| Some(MeasuredCpus::List(plan.measured_cpus.clone())));
    /// Scheduling policy of the probes [default: fifo]
    policy: Option<PolicyName> = {
        name: "policy", value: "POLICY", group: PROBES, is_kept: true, is_shown: true,
    }, plan(of_plan::policy);
    /// Real-time priority of the probes [default: 95]
    ///
    /// Priority 99 is that of the kernel's watchdog. It needs --force, and --cpus must leave out a
    /// CPU.
    priority: Option<u32> = {
        name: "priority", value: "N", range: Some((1, 99)), group: PROBES, is_shown: true,
    }, plan(of_plan::priority);
    /// Clock for the timers of probes that can choose one [default: monotonic]
    ///
    /// Stored times are always those of CLOCK_MONOTONIC.
    clock: Option<SystemClock> = {
        name: "clock", value: "CLOCK", group: PROBES, is_kept: true, is_shown: true,
    }, plan(of_plan::clock);
    /// Align due times to whole multiples of the period on this clock, identically on all CPUs
    ///
    /// The due times are then those of a TSN schedule with base time 0. If a probe has offset=, the
    /// offset is added to its due times.
    align: Option<SystemClock> = { name: "align", value: "CLOCK", group: PROBES, is_shown: true },
        plan(of_plan::align);
    /// Let the due times of all CPUs coincide instead of staggering them
    aligned: bool = { name: "aligned", group: PROBES }, plan(|plan| plan.aligned);
    /// Delay each due time by a random time below TIME (TIME is at most half a period)
    dither: Option<Nanos> = {
        name: "dither", value: "TIME", can_begin_with_dash: true, group: PROBES,
    }, plan(of_plan::dither);
    /// Seed of all random numbers; stored in the run
    seed: Option<u64> = { name: "seed", value: "N", group: PROBES, is_shown: true },
        plan(|plan| Some(plan.seed));
    /// Deadline: the largest allowed latency, as in 200us
    ///
    /// A wake-up with a larger latency is a miss. A skipped period is a miss if the late wake-up
    /// came more than the deadline after the due time of that period.
    deadline: Option<Nanos> = {
        name: "deadline", value: "TIME", can_begin_with_dash: true, conflicts: &["window"],
        group: DEADLINE, is_in_files: true, is_shown: true,
    }, plan(of_plan::deadline);
    /// Range of allowed latencies, as in -111us..+111us, for work that must be neither early nor
    /// late
    window: Option<Window> = {
        name: "window", value: "FROM..TO", can_begin_with_dash: true, group: DEADLINE,
        is_shown: true,
    }, plan(|plan| plan.window.filter(|window| window.earliest.is_some()));
    /// Share of samples that may miss the deadline, as in 1e-6 [default: 0]
    ///
    /// The verdict rests on one-sided 95 % bounds of the share of misses on all CPUs together.
    misses: Option<f64> = {
        name: "misses", value: "SHARE", can_begin_with_dash: true, group: DEADLINE,
        is_in_files: true, is_shown: true,
    }, plan(|plan| plan.misses_allowed);
    /// Number of periods that late wake-ups may skip [default: as many as --misses allows]
    ///
    /// Without --misses, the default is 0 if the deadline is at most a period; with a longer
    /// deadline, there is no limit.
    skipped: Option<u64> = {
        name: "skipped", value: "N", can_begin_with_dash: true, group: DEADLINE,
        is_in_files: true, is_shown: true,
    }, plan(|plan| plan.skipped_allowed);
    /// Load to run after an idle phase, or `none` (`tardy list loads`); repeat the option to run
    /// several together
    loads: Vec<String> = {
        name: "load", value: "NAME", group: LOADS, is_kept: true, is_shown: true,
    },
        plan(of_plan::loads);
    /// CPUs that loads run on: measured, other, all, or a list [default: all but isolated ones]
    load_cpus: Option<LoadCpus> = {
        name: "load-cpus", value: "CPUS", group: LOADS, is_in_files: true, is_kept: true,
        is_shown: true,
    }, plan(of_plan::load_cpus);
    /// Loads of the scenario to allow although they disturb people, run commands or can do harm
    allow: Vec<String> = {
        name: "allow", value: "LOAD,...", separator: Some(','), group: LOADS,
    }, asked();
    /// Control group for the loads
    load_cgroup: Option<PathBuf> = {
        name: "load-cgroup", value: "FOLDER", group: LOADS, is_in_files: true,
    }, plan(|plan| plan.load_cgroup.clone());
    /// Record the kernel's trace and find the cause of each late sample (as root); `tardy explain
    /// RUN` shows the causes
    ///
    /// Latencies are then those of a traced run: do not compare them with those of an untraced run.
    /// --explain=stacks also records the kernel functions that were running. Each recording takes
    /// tens of microseconds, so use such a run only to find the code that causes delays; `tardy
    /// compare` refuses such a run. --explain=timerlat also runs the kernel's tracer timerlat, and
    /// reports how far tardy and timerlat agree on timerlat's wake-ups. `tardy compare` refuses
    /// such a run too.
    explain: ExplainLevel = { name: "explain", value: "LEVEL", bare: Some("events"), group: LATE },
        plan(of_plan::explain);
    /// With --explain: keep the whole trace, not only the parts around the worst samples
    ///
    /// The whole trace takes about 1 GB per hour and CPU at 1 kHz.
    keep_trace: bool = { name: "keep-trace", needs: &["explain"], group: LATE },
        plan(|plan| plan.keep_trace);
    /// Stop at the first latency above TIME, and mark that latency in the kernel's trace
    stop_above: Option<Nanos> = {
        name: "stop-above", value: "TIME", can_begin_with_dash: true, group: LATE,
    }, plan(|plan| plan.stop_above);
    /// Action at the first latency above --stop-above or --deadline: trace, shell=COMMAND,
    /// signal=PID, signal,num=N,pid=PID, or continue
    ///
    /// trace keeps the kernel's trace of that latency, as --explain does. signal=PID sends SIGTERM;
    /// signal,num=10,pid=1234 sends any signal by its number. As in rtla, pid=parent is the process
    /// that started tardy. With continue, the run does not stop, and the actions are repeated at
    /// each new maximum. Repeat the option for several actions.
    on_threshold: Vec<ThresholdAction> = { name: "on-threshold", value: "ACTION", group: LATE },
        plan(|plan| plan.on_threshold.clone());
    /// Stop at the first latency above US microseconds and keep the kernel's trace of it, as
    /// cyclictest does
    ///
    /// `-b 200` is short for `--stop-above 200us --on-threshold trace`.
    break_above: Option<u32> = {
        name: "break-above", value: "US", form: Form::Short('b'),
        range: Some((1, u32::MAX as u64)), conflicts: &["stop-above", "on-threshold"],
        group: LATE,
    }, no("the option is short for --stop-above and --on-threshold");
    /// With --stop-above: also switch off the kernel's tracing, so that the trace ends with that
    /// latency
    tracing_off: bool = { name: "tracing-off", needs: &["stop-above"], group: LATE },
        plan(|plan| plan.tracing_off);
    /// New folder for the run [default: named after the time]
    out: Option<PathBuf> = { name: "out", value: "FOLDER", group: STORAGE },
        no("each run has its own folder");
    /// Label to keep with the run: a name and a text, as in board=imx8-07; repeat the option for
    /// several labels
    labels: Vec<Label> = { name: "label", value: "NAME=TEXT", group: STORAGE, is_shown: true },
        plan(of_plan::labels);
    /// Samples to store: all, tail:TIME (latencies of at least TIME), or histogram (no single
    /// samples); every sample is counted
    keep: KeptSamples = {
        name: "keep", value: "WHAT", default: Some("all"), group: STORAGE, is_in_files: true,
    }, plan(|plan| plan.keep);
    /// Disk budget of the folder, as in 2GiB; beyond it, the oldest samples are folded into hourly
    /// histograms
    ///
    /// Counts, misses and the largest latency still cover the whole run; single samples are kept as
    /// far back as the budget allows. With --explain, a quarter of the budget is for explanations:
    /// the newest ones, and the worst of all older ones.
    disk: Option<Bytes> = {
        name: "disk", value: "SIZE", conflicts: &["keep", "spool", "keep-trace", "break-above"],
        group: STORAGE, is_shown: true,
    }, plan(|plan| plan.disk.map(Bytes));
    /// Folder in memory for the samples during the run, to spare flash storage; the samples are
    /// moved to --out at the end
    spool: Option<PathBuf> = { name: "spool", value: "FOLDER", group: STORAGE, is_in_files: true },
        plan(|plan| plan.spool.clone());
    /// Maximum C-state exit latency in us (/dev/cpu_dma_latency), or `leave` to set none
    cpu_dma_latency: CpuDmaLatency = {
        name: "cpu-dma-latency", value: "US|leave", default: Some("0"),
        can_begin_with_dash: true, group: MACHINE, is_in_files: true,
    }, plan(of_plan::cpu_dma_latency);
    /// Maximum C-state exit latency of the measured CPUs only, in us (pm_qos_resume_latency_us;
    /// restored at the end)
    resume_latency: Option<u32> = {
        name: "resume-latency", value: "US", conflicts: &["cpu-dma-latency"], group: MACHINE,
    }, plan(|plan| plan.resume_latency_us);
    /// Move interrupts off the measured CPUs for the run (restored at the end)
    move_irqs: bool = {
        name: "move-irqs", alias: Some("steer-irqs"), group: MACHINE,
    }, asked();
    /// Control group for the measuring threads; its cpuset limits --cpus
    ///
    /// The group must be a threaded group below tardy's own group, or a group of cgroup version 1.
    probe_cgroup: Option<PathBuf> = {
        name: "probe-cgroup", value: "FOLDER", group: MACHINE, is_in_files: true,
    }, plan(|plan| plan.probe_cgroup.clone());
    /// Accept priority 99, and a period that may be too short for this machine
    ///
    /// --cpus must leave out a CPU, so that the machine can still be used.
    force: bool = { name: "force", group: MACHINE }, asked();
}

impl Request {
    /// Returns a request that resolves to `plan`, including the values that were random or chosen
    /// by tardy.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut request = Self::default();
        for option in OPTIONS {
            if let Part::Plan(set) = option.part {
                set(plan, &mut request);
            }
            if !option.values(&plan.asked).is_empty() {
                (option.copy)(&plan.asked, &mut request);
            }
        }
        request
    }

    /// Returns the words that give the request on a command line, after `tardy run`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let (behind, before): (Vec<_>, Vec<_>) = OPTIONS
            .iter()
            .partition(|option| option.definition.form == Form::Trailing);
        let words = before.into_iter().chain(behind);
        words.flat_map(|option| option.words(self)).collect()
    }

    /// Returns the words of those options that the text of a plan does not show.
    #[must_use]
    pub fn words_not_shown(&self) -> Vec<String> {
        let options = OPTIONS.iter().filter(|option| !option.definition.is_shown);
        let options = options.filter(|option| option.definition.form != Form::Trailing);
        options.flat_map(|option| option.words(self)).collect()
    }

    /// Returns those options of this request that [`Request::of`] cannot find in the fields of
    /// `plan`. Only [`Plan::asked`] can store them.
    #[must_use]
    pub fn not_in(&self, plan: &Plan) -> Self {
        let (found, mut missing) = (Self::of(plan), Self::default());
        for option in OPTIONS {
            let is_kept = option.definition.is_kept || matches!(option.part, Part::Asked);
            let values = option.values(self);
            if is_kept && !values.is_empty() && values != option.values(&found) {
                (option.copy)(self, &mut missing);
            }
        }
        missing
    }

    /// Returns whether the request contains no options.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the requirement by which the run is judged.
    #[must_use]
    pub fn requirement(&self) -> Requirement {
        Requirement {
            window: self.window.or(self.deadline.map(Window::deadline)),
            misses_allowed: self.misses,
            skipped_allowed: self.skipped,
        }
    }

    /// Returns the latency above which actions are performed: the value of `stop_above` or, if it
    /// is not set but there are actions, the deadline.
    #[must_use]
    pub fn threshold(&self) -> Option<Nanos> {
        let deadline = self
            .requirement()
            .window
            .map(|window| window.latest)
            .filter(|_| !self.on_threshold.is_empty());
        self.stop_above.or(deadline)
    }

    /// Returns the latency above which measuring threads stop.
    #[must_use]
    pub fn stops_above(&self) -> Option<Nanos> {
        self.threshold()
            .filter(|_| !self.on_threshold.contains(&ThresholdAction::Continue))
    }

    /// Replaces the option that is short for other options (`-b`) by those options.
    #[must_use]
    pub fn spelled_out(mut self) -> Self {
        if let Some(micros) = self.break_above.take() {
            self.stop_above = Some(Nanos::from_micros(micros.into()));
            self.on_threshold = vec![ThresholdAction::Trace];
        }
        self
    }
}

/// Serialises the requested values by the names of the options.
impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = OPTIONS.iter();
        let given: BTreeMap<&str, Vec<String>> = options
            .map(|option| (option.definition.name, option.values(self)))
            .filter(|(_, values)| !values.is_empty())
            .collect();
        given.serialize(serializer)
    }
}

/// Deserialises the requested values. Ignores options of a newer tool.
impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut given = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
        let mut request = Self::default();
        for option in OPTIONS {
            for value in given.remove(option.definition.name).unwrap_or_default() {
                option
                    .take(&mut request, Some(value.as_ref()))
                    .map_err(serde::de::Error::custom)?;
            }
        }
        Ok(request)
    }
}

/// A name and a text that are stored with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The label's name.
    pub name: String,
    /// The label's text.
    pub text: String,
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.name, self.text)
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, text)) if !name.trim().is_empty() => Ok(Self {
                name: name.trim().to_owned(),
                text: text.to_owned(),
            }),
            _ => Err(format!(
                "`{text}` is not a label: write NAME=TEXT, such as board=imx8-07"
            )),
        }
    }
}

/// What to do about C-states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuDmaLatency {
    /// Leave C-states unchanged.
    Leave,
    /// Request at most this latency in us from power management.
    Micros(i32),
}

impl Default for CpuDmaLatency {
    fn default() -> Self {
        Self::Micros(0)
    }
}

impl fmt::Display for CpuDmaLatency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leave => formatter.write_str("leave"),
            Self::Micros(micros) => micros.fmt(formatter),
        }
    }
}

/// Which CPUs are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasuredCpus {
    /// The CPUs isolated by `isolcpus=` or `nohz_full=`.
    Isolated,
    /// The housekeeping CPUs.
    Housekeeping,
    /// All CPUs that this process may use.
    All,
    /// The listed CPUs.
    List(CpuList),
}

/// Which CPUs loads run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadCpus {
    /// The measured CPUs.
    Measured,
    /// The CPUs that are not measured.
    Other,
    /// All CPUs that this process may use, including isolated ones.
    All,
    /// The listed CPUs.
    List(CpuList),
}

impl FromStr for MeasuredCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "isolated" => Self::Isolated,
            "housekeeping" => Self::Housekeeping,
            "all" => Self::All,
            list => Self::List(list.parse().map_err(|error: ParseCpuListError| {
                format!("{error}; or isolated, housekeeping, all")
            })?),
        })
    }
}

impl FromStr for LoadCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "measured" => Self::Measured,
            "other" => Self::Other,
            "all" => Self::All,
            list => {
                Self::List(list.parse().map_err(|error: ParseCpuListError| {
                    format!("{error}; or measured, other, all")
                })?)
            }
        })
    }
}

impl FromStr for CpuDmaLatency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "leave" {
            return Ok(Self::Leave);
        }
        let micros = text.parse::<i32>().ok().filter(|&micros| micros >= 0);
        micros.map(Self::Micros).ok_or_else(|| {
            format!("`{text}` is neither `leave` nor a number of microseconds: write 0 or `leave`")
        })
    }
}

impl fmt::Display for MeasuredCpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolated => formatter.write_str("isolated"),
            Self::Housekeeping => formatter.write_str("housekeeping"),
            Self::All => formatter.write_str("all"),
            Self::List(list) => list.fmt(formatter),
        }
    }
}

impl fmt::Display for LoadCpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured => formatter.write_str("measured"),
            Self::Other => formatter.write_str("other"),
            Self::All => formatter.write_str("all"),
            Self::List(list) => list.fmt(formatter),
        }
    }
}
