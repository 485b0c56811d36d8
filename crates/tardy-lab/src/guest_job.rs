//! The documents that host and guest exchange: the job in the guest's initial file system, and the
//! report that the guest returns.
//!
//! Usually the same binary runs on both sides. If the guest starts from a snapshot, or has another
//! build of the binary, the documents may have different versions, so each contains a version
//! number.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_run::request::Request;

use super::injection::Injection;

/// Path of the job in the guest.
pub const JOB_PATH: &str = "/plan.json";
/// Path of a user's scenario in the guest.
pub const SCENARIO_PATH: &str = "/scenario.toml";
/// The guest's folder that is exported to the host; the guest's program stores its run there.
pub const OUTPUT_FOLDER: &str = "/run/out";
/// Name of the file in [`OUTPUT_FOLDER`] to which the guest copies its kernel symbols
/// (/proc/kallsyms).
pub const SYMBOLS_NAME: &str = "kallsyms";
/// Name of a folder in [`OUTPUT_FOLDER`] and in the run folder. The folder contains the output and
/// the exit status of a user's program ([`Task::App`], or [`Task::Measure`] of a program).
pub const APP_NAME: &str = "program";
/// The folder in which the guest collects the output and the exit status of a user's program.
pub const APP_FOLDER: &str = "/run/program";
/// The word on the kernel's command line that marks a guest of the lab; the module that injects
/// known delays refuses to load without this word.
pub const MARK: &str = "tardy.lab=1";
/// Version of [`GuestJob`] and [`GuestReport`].
pub const VERSION: u32 = 2;

/// The job of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestJob {
    /// Version of the document: [`VERSION`].
    pub version: u32,
    /// What the guest does after it has slept for `settle`.
    pub task: Task,
    /// How long the guest sleeps after its boot before it starts the job. In this time, the kernel
    /// completes its background work.
    pub settle: Nanos,
    /// Time limit of the guest's program, in the guest's time, counted from the program's start.
    pub time_limit: Nanos,
    /// Kernel modules in the initial file system, in the order of loading. Each module is a path,
    /// optionally followed by a space and parameters.
    pub modules: Vec<String>,
    /// Kernel modules that loads need, as in `modules`. They are loaded after the pause: loading
    /// nfsv4 takes 1.4 thousand million instructions, and QEMU resumes no machine that has executed
    /// more than 2^31 (`replay_advance_current_icount`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_modules: Vec<String>,
    /// Loads that run while a user's program runs, in the syntax of `tardy load`. For a measurement
    /// this is empty, because the request names the loads.
    #[serde(default)]
    pub loads: Vec<String>,
    /// Delays of known length that the module in `inject/` makes while the guest's program runs.
    pub injection: Option<Injection>,
    /// Whether the guest exports the kernel's symbols together with the program's files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hand_out_symbols: bool,
    /// Text of the user's scenario, which the guest writes to [`SCENARIO_PATH`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

/// What the guest does after it has slept for [`GuestJob::settle`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Measure what the request asks for, and export the run in [`OUTPUT_FOLDER`].
    Measure(Box<Request>),
    /// Start a program, and export the files that it leaves in [`OUTPUT_FOLDER`].
    Run(Program),
    /// Start a user's program, and let `tardy attach` measure its wake-ups.
    App(App),
    /// Start a shell on the console.
    Shell,
    /// Load the modules and stop the machine, so that the host can save the machine's state. After
    /// that, do the job that the host has written into the shared memory.
    Pause,
}

/// A program that the guest starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Path of the program in the guest; absent if the program is tardy itself.
    pub path: Option<String>,
    pub arguments: Vec<String>,
}

/// A user's program, and how `tardy attach` measures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    pub command: AppCommand,
    /// Time from the start of the program to the start of the measurement.
    pub warm_up: Nanos,
    /// Arguments of `tardy attach`, except the process ID.
    pub attach: Vec<String>,
}

/// How to start a user's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCommand {
    /// Path of the program in the guest.
    pub path: String,
    /// The name with which the user called the program.
    pub name: String,
    pub arguments: Vec<String>,
    /// The folder in which the program starts; the guest makes it if it does not exist.
    pub folder: String,
}

/// What the guest reports after its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestReport {
    /// Version of the document: [`VERSION`].
    pub version: u32,
    /// How the guest's program ended.
    pub ending: Ending,
    /// When /init had mounted the kernel's file systems, on the guest's monotonic clock.
    pub booted_at: Nanos,
    /// When the guest's program was started.
    pub started_at: Nanos,
    /// When the guest's program ended.
    pub ended_at: Nanos,
    /// The CPU's cycle counter, read before the clock reads of `started_at` and `ended_at`; absent
    /// in reports of older binaries. On amd64 the cycle counter counts the virtual time in ns,
    /// because QEMU's counter runs at 1 GHz.
    #[serde(default)]
    pub cycle_counts: Option<(u64, u64)>,
    /// How long the guest's CPU was idle up to `ended_at`, according to the kernel (/proc/uptime,
    /// exact to 10 ms); absent in reports of older binaries.
    #[serde(default)]
    pub idle: Option<Nanos>,
    /// Release of the kernel that ran (/proc/sys/kernel/osrelease).
    pub kernel_release: String,
    /// Build of the kernel (/proc/sys/kernel/version).
    pub kernel_version: String,
    /// Command line of the kernel (/proc/cmdline).
    pub command_line: String,
    /// Preemption models that the kernel can switch between, with the current one in parentheses
    /// (sched/preempt of debugfs); absent if the kernel cannot switch.
    pub preemption: Option<String>,
    /// Number of processes that the kernel killed because memory was short (oom_kill of
    /// /proc/vmstat).
    pub killed_for_memory: u64,
    /// Failures after which the guest continued, such as a file system that could not be mounted,
    /// or a refused setting.
    pub remarks: Vec<String>,
}

/// How the guest's program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The program exited with this code.
    Exited(i32),
    /// This signal ended the program.
    Signalled(i32),
    /// At the time limit, the guest ended the program.
    TimeLimit,
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// The loads ended before the program, so the measurement differs from the request.
    LoadsEnded,
}

impl GuestJob {
    /// Returns a job that contains only what the guest needs before its snapshot: this job without
    /// its task, time limit, loads with their modules, delays and scenario.
    #[must_use]
    pub fn until_pause(&self) -> Self {
        Self {
            task: Task::Pause,
            time_limit: Nanos::ZERO,
            late_modules: Vec::new(),
            loads: Vec::new(),
            injection: None,
            scenario: None,
            ..self.clone()
        }
    }
}

impl GuestReport {
    /// Returns the active preemption model, if the kernel reports it.
    #[must_use]
    pub fn current_preemption(&self) -> Option<&str> {
        let text = self.preemption.as_deref()?;
        text.split_whitespace()
            .find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))
    }
}
