//! The documents between host and guest: the job in the guest's initial file system, and the report
//! that it returns.
//!
//! Both are read by the same version of the same binary, except with a snapshot or another build of
//! the guest's binary; hence the version number.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_run::request::Request;

use super::injection::Injection;

/// Path of the job in the guest.
pub const JOB_PATH: &str = "/plan.json";
/// The folder that the guest exports: the guest's program stores its run there.
pub const OUTPUT_FOLDER: &str = "/run/out";
/// Name of the guest's kernel symbols in [`OUTPUT_FOLDER`].
pub const SYMBOLS_NAME: &str = "kallsyms";
/// The word on the kernel's command line that marks a guest of the lab; the module for known delays
/// refuses to load without it.
pub const MARK: &str = "tardy.lab=1";
/// Version of [`GuestJob`] and [`GuestReport`].
pub const VERSION: u32 = 2;

/// The job of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestJob {
    /// [`VERSION`].
    pub version: u32,
    /// The task after the system has settled.
    pub task: Task,
    /// How long the guest sleeps after its boot before it starts the job, so that the kernel's
    /// background work ends.
    pub settle: Nanos,
    /// When the guest's program is stopped, in the guest's own time from its start.
    pub time_limit: Nanos,
    /// Kernel modules in the initial file system, in the order of loading: each its path and, after
    /// a space, its parameters.
    pub modules: Vec<String>,
    /// Loads that run next to a user's program, as for `tardy load`; the request of a measurement
    /// has its own.
    #[serde(default)]
    pub loads: Vec<String>,
    /// Delays of known length that the module for them makes while the program runs.
    pub injection: Option<Injection>,
    /// Whether the kernel's symbols are exported with the program's files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hand_out_symbols: bool,
}

/// The guest's task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Measure as the request asks, and return the run, which is in [`OUTPUT_FOLDER`].
    Measure(Box<Request>),
    /// Start a program, and export the files that it leaves in [`OUTPUT_FOLDER`].
    Run(Program),
    /// Start a shell on the console.
    Shell,
    /// Stop the machine, so that the host can keep its state; then do the job that the host has
    /// left in the shared memory. Modules are loaded before.
    Pause,
}

/// A program of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its path; this binary when absent.
    pub path: Option<String>,
    pub arguments: Vec<String>,
}

/// The guest's report after its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestReport {
    /// [`VERSION`].
    pub version: u32,
    /// How the guest's program ended.
    pub ending: Ending,
    /// The guest's monotonic clock when /init started.
    pub booted_at: Nanos,
    /// When the guest's program was started.
    pub started_at: Nanos,
    /// When it ended.
    pub ended_at: Nanos,
    /// Idle time of its CPU until then, according to the kernel (/proc/uptime, to 10 ms); absent in
    /// reports of older binaries.
    #[serde(default)]
    pub idle: Option<Nanos>,
    /// Release of the kernel that ran (/proc/sys/kernel/osrelease).
    pub kernel_release: String,
    /// Its build (/proc/sys/kernel/version).
    pub kernel_version: String,
    /// Its command line (/proc/cmdline).
    pub command_line: String,
    /// Preemption models that the kernel can switch between, the current one in brackets
    /// (sched/preempt of debugfs); absent if it cannot switch.
    pub preemption: Option<String>,
    /// Processes killed for lack of memory (oom_kill of /proc/vmstat).
    pub killed_for_memory: u64,
    /// Failures that did not stop the guest: a file system that could not be mounted, a setting
    /// refused.
    pub remarks: Vec<String>,
}

/// How the guest's program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It returned this code.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It was stopped at the time limit.
    TimeLimit,
    /// It could not be started.
    NotStarted(String),
    /// The loads beside it ended before it did, so it measured something else than requested.
    LoadsEnded,
}

impl GuestJob {
    /// Returns the part of this job up to the snapshot: everything before its task.
    #[must_use]
    pub fn until_pause(&self) -> Self {
        Self {
            task: Task::Pause,
            time_limit: Nanos::ZERO,
            loads: Vec::new(),
            injection: None,
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
