//! The input of the checks. An input can be absent, unreadable or unknown, and each of these gives
//! a different result.
//!
//! If a file is missing from a mounted /proc, /sys, debugfs or tracefs, the kernel lacks the
//! feature. If the file system is not mounted, a missing file proves nothing.

use std::cell::OnceCell;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;

use tardy_core::cpu::CpuList;

use super::{Profile, State};
use crate::facts::MachineFacts;
use crate::hardware_latency::{DetectorError, HardwareLatency};
use crate::kernel_configuration::KernelConfiguration;
use crate::program::Program;
use crate::root::Root;
use crate::tasks::{self, Task};
use crate::watch::WatchDelta;

/// Why this machine's files are not read.
pub(super) const NOT_HERE: &str = "the run was recorded on another machine, or on this machine \
                                   before its last restart: run tardy doctor on the machine of \
                                   the run";
/// File systems that may be unmounted, or hidden from this user. A missing file there does not
/// prove that the kernel lacks a feature.
const MOUNTED: [(&str, &str); 4] = [
    (
        "sys/kernel/debug/",
        "debugfs is not mounted on /sys/kernel/debug, or this user cannot access it",
    ),
    (
        "sys/kernel/tracing/",
        "tracefs is not mounted on /sys/kernel/tracing, or this user cannot access it",
    ),
    ("proc/", "/proc is not mounted"),
    ("sys/", "/sys is not mounted"),
];
/// Maximum number of files that [`CheckInput::refused`] tries to read for one pattern. A pattern
/// can match a file for each CPU.
const TRIED_MAX: usize = 256;
/// The number of the error ESRCH (errno-base.h). Reading a task's file returns this error if the
/// task has ended since its folder was listed.
const ESRCH: i32 = 3;

/// The input of the checks.
#[derive(Debug)]
pub struct CheckInput<'a> {
    /// The facts of a run or of this machine.
    pub facts: &'a MachineFacts,
    /// The machine's files; absent if the facts are from another machine or an earlier boot.
    pub root: Option<&'a Root>,
    /// The CPUs of interest, on which the real-time tasks run.
    pub cpus: &'a CpuList,
    /// The purpose of the machine.
    pub profile: Profile,
    /// The user's real-time program, if one was named.
    pub program: Option<&'a Program>,
    /// By how much counters increased during an interval, if the command watches them.
    pub watched: Option<&'a WatchDelta>,
    /// The result of the kernel's hardware latency detector, or why it did not run, if the user
    /// requested it.
    pub detected: Option<&'a Result<HardwareLatency, DetectorError>>,
    tasks: OnceCell<Vec<Task>>,
    configuration: OnceCell<Option<KernelConfiguration>>,
}

impl<'a> CheckInput<'a> {
    /// Makes the input for a machine with the profile `periodic`.
    #[must_use]
    pub fn new(facts: &'a MachineFacts, root: Option<&'a Root>, cpus: &'a CpuList) -> Self {
        let (tasks, configuration) = (OnceCell::new(), OnceCell::new());
        Self {
            facts,
            root,
            cpus,
            profile: Profile::default(),
            program: None,
            watched: None,
            detected: None,
            tasks,
            configuration,
        }
    }

    /// Returns the words of the kernel's command line.
    pub(super) fn command_line(&self) -> Option<Vec<&str>> {
        Some(
            self.facts
                .kernel
                .command_line
                .as_deref()?
                .split_whitespace()
                .collect(),
        )
    }

    /// Returns whether the kernel's command line has this word; unknown if the command line is
    /// unknown.
    pub(super) fn has_parameter(&self, parameter: &str) -> Result<bool, State> {
        self.command_line()
            .map(|words| words.contains(&parameter))
            .ok_or_else(|| State::unknown("/proc/cmdline cannot be read"))
    }

    /// Returns the value of the last parameter on the kernel's command line with this name, such as
    /// `isolcpus=`; empty if the parameter has no value.
    pub(super) fn parameter(&self, name: &str) -> Result<Option<&str>, State> {
        let line = self
            .facts
            .kernel
            .command_line
            .as_deref()
            .ok_or_else(|| State::unknown("/proc/cmdline cannot be read"))?;
        let value = |word: &'a str| match word.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (word == name).then_some(""),
        };
        Ok(line.split_whitespace().rev().find_map(value))
    }

    /// Returns the root of the machine's files.
    pub(super) fn root(&self) -> Result<&'a Root, State> {
        self.root.ok_or_else(|| State::unknown(NOT_HERE))
    }

    /// Returns the content of a file of the machine. If the file is missing from a mounted file
    /// system, the check does not apply. If the file cannot be read, the result of the check is
    /// unknown.
    pub(super) fn text(&self, path: &str) -> Result<String, State> {
        match self.root()?.read(path) {
            Ok(text) => Ok(text
                .trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => match self.unmounted(path) {
                Some(missing) => Err(State::unknown(missing)),
                None => Err(State::none(format!("there is no /{path}"))),
            },
            Err(error) => Err(State::unknown(unreadable(path, &error))),
        }
    }

    /// Works like [`Self::text`], but returns `None` if the file does not exist.
    pub(super) fn optional(&self, path: &str) -> Result<Option<String>, State> {
        match self.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(State::NotApplicable { .. }) => Ok(None),
            Err(state) => Err(state),
        }
    }

    /// Returns the content of a file of the machine as a number.
    pub(super) fn number(&self, path: &str) -> Result<i64, State> {
        let text = self.text(path)?;
        text.parse()
            .map_err(|_| State::unknown(format!("/{path} contains no number")))
    }

    /// Returns the path and the content of each file that matches a pattern. Unreadable files are
    /// left out; [`Self::refused`] reports them.
    pub(super) fn texts(&self, pattern: &str) -> Result<Vec<(String, String)>, State> {
        let root = self.root()?;
        let found: Vec<_> = root
            .matching(pattern)
            .into_iter()
            .filter_map(|path| Some((path.clone(), root.text(&path)?)))
            .collect();
        match self.unmounted(pattern) {
            Some(missing) if found.is_empty() => Err(State::unknown(missing)),
            _ => Ok(found),
        }
    }

    /// Works like [`Self::texts`] for each CPU of interest. The number of the CPU replaces `CPU` in
    /// the pattern.
    pub(super) fn of_each_cpu(&self, pattern: &str) -> Result<Vec<(String, String)>, State> {
        let cpus = self.cpus.iter();
        let each = cpus
            .map(|cpu| self.texts(&pattern.replace("CPU", &cpu.to_string())))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(each.into_iter().flatten().collect())
    }

    /// Returns all tasks of the machine.
    pub(super) fn tasks(&self) -> Result<&[Task], State> {
        let root = self.root()?;
        let tasks = self.tasks.get_or_init(|| tasks::read(root));
        if tasks.is_empty() {
            Err(State::unknown("/proc/PID/task/TID/stat cannot be read"))
        } else {
            Ok(tasks)
        }
    }

    /// Returns the kernel's build configuration.
    pub(super) fn configuration(&self) -> Result<&KernelConfiguration, State> {
        let root = self.root()?;
        let read = || KernelConfiguration::read(root, self.facts.kernel.release.as_deref());
        let missing = || {
            State::unknown(
                "the kernel's configuration cannot be read (/boot/config-*, /lib/modules/*/config, \
                 /proc/config.gz)",
            )
        };
        self.configuration
            .get_or_init(read)
            .as_ref()
            .ok_or_else(missing)
    }

    /// Returns the online CPUs that are not of interest.
    pub(super) fn other_cpus(&self) -> Option<CpuList> {
        self.facts
            .processors
            .online
            .as_ref()
            .map(|online| online.minus(self.cpus))
    }

    /// Returns the CPUs to isolate: the CPUs of interest. If these are all online CPUs, one of them
    /// is left out.
    pub(super) fn to_isolate(&self) -> CpuList {
        let is_everywhere =
            self.cpus.len() > 1 && self.other_cpus().is_some_and(|others| others.is_empty());
        self.cpus.iter().skip(usize::from(is_everywhere)).collect()
    }

    /// Returns the numbers of the CPUs of interest, in the syntax of a shell's `for`.
    pub(super) fn cpus_in_words(&self) -> String {
        self.cpus
            .iter()
            .map(|cpu| cpu.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the CPUs that are not of interest as a list, or a placeholder if there are none.
    pub(super) fn others(&self) -> String {
        self.other_cpus()
            .filter(|others| !others.is_empty())
            .map_or_else(|| "OTHERS".to_owned(), |others| others.to_string())
    }

    /// Returns a message about the first file of a check that exists but cannot be read, or whose
    /// file system is not mounted. If a check lists alternatives (`a|b`), one readable file
    /// suffices, and it is no error if none exists.
    pub(super) fn refused(&self, reads: &[&str]) -> Option<String> {
        let root = self.root?;
        if root.is_empty("proc") && root.is_empty("sys") {
            return Some("/proc and /sys are not mounted".to_owned());
        }
        reads.iter().find_map(|alternatives| {
            let mut first = None;
            for pattern in alternatives.split('|') {
                let found = root.matching(pattern);
                let failed = found
                    .iter()
                    .take(TRIED_MAX)
                    .find_map(|path| Some(unreadable(path, &try_to_read(root, path).err()?)));
                match failed.or_else(|| {
                    self.unmounted(pattern)
                        .filter(|_| found.is_empty())
                        .map(str::to_owned)
                }) {
                    Some(failed) => first = first.or(Some(failed)),
                    None if found.is_empty() => {}
                    None => return None,
                }
            }
            first
        })
    }

    /// Returns a message if the file system of `path` is not mounted.
    fn unmounted(&self, path: &str) -> Option<&'static str> {
        let root = self.root?;
        let (folder, missing) = MOUNTED
            .iter()
            .find(|(folder, _)| path.starts_with(folder))?;
        root.is_empty(folder.trim_end_matches('/'))
            .then_some(*missing)
    }
}

/// Opens and reads a file. A device is only opened, because the effect of reading depends on its
/// driver.
fn try_to_read(root: &Root, path: &str) -> io::Result<()> {
    let read = root.open(path).and_then(|mut file| {
        if !file.metadata()?.file_type().is_char_device() {
            let _ = file.read(&mut [0; 64])?;
        }
        Ok(())
    });
    match read {
        Err(error)
            if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn unreadable(path: &str, error: &io::Error) -> String {
    let reason = match error.kind() {
        ErrorKind::PermissionDenied => "only root may read it".to_owned(),
        _ => error.to_string(),
    };
    format!("/{path} cannot be read: {reason}")
}
