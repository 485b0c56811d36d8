//! Cycles of a followed thread. A cycle lasts from a wake-up until the thread next sleeps in its
//! wait place. Its length is divided into the times during which the thread waited for a CPU, ran,
//! was preempted, and slept. [`cut`] makes cycles from stints (intervals in which a thread runs,
//! waits or sleeps). The file `cycles.json` of a run folder stores the cycles.

pub mod chains;
pub mod cut;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_sys::regular_file;

use self::chains::WakeUpChain;
use crate::loop_rules::LoopRules;

/// Name of the file in a run folder.
pub const FILE: &str = "cycles.json";
/// Name of the thread that has an idle CPU.
pub const IDLE: &str = "idle";
/// Maximum number of stored cycles over all threads. With more than 320 threads, [`cut`] exceeds
/// this number, because it stores at least ten cycles of each thread.
const WORST_MAX: usize = 3200;
/// Maximum size of the file in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reason why a thread did not run for a part of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StretchKind {
    /// The thread waited for a CPU after the wake-up that started the cycle.
    WakeUp,
    /// The thread was runnable, but another thread ran on its CPU.
    Preempted,
    /// The thread slept in a call.
    Blocked,
}

/// A wait place, which is a place in the kernel where a thread slept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WaitPlace {
    /// The system call, or another entry into the kernel, such as a page fault.
    pub call: String,
    /// The function of the kernel that waited.
    pub function: String,
}

/// A part of a cycle in which the thread did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Reason why the thread did not run.
    pub kind: StretchKind,
    /// Start of the part, relative to the start of the cycle.
    pub at_ns: Nanos,
    /// Duration of the part.
    pub length_ns: Nanos,
    /// The system call and the kernel function in which the thread slept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<WaitPlace>,
    /// For a sleep: the cause of its end. For a wait: the interrupt or softirq that had the CPU for
    /// at least half of the wait; otherwise the thread that had it longest (`idle` for an idle
    /// CPU). Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// For a wait: for how long `by` had the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ns: Option<Nanos>,
}

/// How the time of one cycle, or of several cycles, is divided. The sum of the parts equals the
/// response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shares {
    /// Time during which the thread waited for a CPU after the wake-up that started the cycle.
    pub wake_up_ns: Nanos,
    /// Time during which the thread had a CPU.
    pub running_ns: Nanos,
    /// Time during which the thread was runnable, but another thread ran on its CPU.
    pub preempted_ns: Nanos,
    /// Time during which the thread slept.
    pub blocked_ns: Nanos,
}

impl Shares {
    /// Returns the sum of all times.
    #[must_use]
    pub fn sum(&self) -> Nanos {
        [self.running_ns, self.preempted_ns, self.blocked_ns]
            .into_iter()
            .fold(self.wake_up_ns, Nanos::saturating_add)
    }

    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.wake_up_ns, other.wake_up_ns),
            (&mut self.running_ns, other.running_ns),
            (&mut self.preempted_ns, other.preempted_ns),
            (&mut self.blocked_ns, other.blocked_ns),
        ];
        for (sum, value) in pairs {
            *sum = sum.saturating_add(value);
        }
    }
}

/// A cycle of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread.
    pub name: String,
    /// Start of the cycle, on the monotonic clock: the due time of the wake-up, or, without a due
    /// time, the time of the wake-up itself.
    pub begin_ns: Nanos,
    /// Response time: from the start of the cycle to the sleep that ends it.
    pub response_ns: Nanos,
    /// How the response time is divided.
    #[serde(flatten)]
    pub shares: Shares,
    /// Parts in which the thread did not run, in chronological order; if there are many, only the
    /// longest.
    pub stretches: Vec<Stretch>,
    /// Number of parts that are left out because they were short.
    pub left_out: u64,
    /// Total duration of the parts that are left out.
    pub left_out_ns: Nanos,
}

/// How much time the cycles of one thread lost at one wait place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRow {
    /// The wait place.
    #[serde(flatten)]
    pub place: WaitPlace,
    /// Number of sleeps in this place.
    pub sleeps: u64,
    /// Total length of the sleeps in this place.
    pub sum_ns: Nanos,
    /// Longest sleep in this place.
    pub max_ns: Nanos,
}

/// How much time the cycles of one thread lost at all those wait places for which no [`PlaceRow`]
/// is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OtherPlaces {
    /// Number of sleeps.
    pub sleeps: u64,
    /// Total length of the sleeps.
    pub sum_ns: Nanos,
    /// Longest sleep.
    pub max_ns: Nanos,
}

impl OtherPlaces {
    fn is_empty(&self) -> bool {
        self.sleeps == 0
    }
}

/// The cycles of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleRow {
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread.
    pub name: String,
    /// Number of complete cycles.
    pub cycles: u64,
    /// The system call and the kernel function in which the thread sleeps between cycles; absent if
    /// the kernel does not show where threads sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in: Option<WaitPlace>,
    /// Median of the response times.
    pub median_ns: Nanos,
    /// 99th percentile of the response times.
    pub p99_ns: Nanos,
    /// Longest response time.
    pub max_ns: Nanos,
    /// How the time of all cycles together is divided.
    pub sum: Shares,
    /// Sleeps inside cycles, by wait place; the place with the largest sum comes first.
    pub blocked_in: Vec<PlaceRow>,
    /// Sleeps inside cycles at all wait places that `blocked_in` does not list. Together with
    /// `blocked_in`, they add up to the blocked time in `sum`.
    #[serde(default, skip_serializing_if = "OtherPlaces::is_empty")]
    pub other_places: OtherPlaces,
}

/// Counts of calls of the two functions between which cycles are measured. For each start, there
/// are three possibilities: the thread reached the end of the cycle, it reached another start, or a
/// loss of events cut the cycle off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Marks {
    /// Number of calls of the first function.
    pub starts: u64,
    /// Number of calls of the second function.
    pub ends: u64,
    /// Starts after which the same thread called the first function again, without an end in
    /// between.
    pub restarts: u64,
    /// Number of calls of the second function by threads in which no cycle had started.
    pub ends_without_start: u64,
}

/// The cycles of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cycles {
    /// The cycles of each thread; the thread with the longest cycle comes first.
    pub threads: Vec<CycleRow>,
    /// The longest cycles of each thread, the longest first.
    pub worst: Vec<Cycle>,
    /// The slowest chains of wake-ups whose last wake-up started a cycle.
    pub chains: Vec<WakeUpChain>,
    /// For each thread, how often it did what a real-time loop must avoid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<LoopRules>,
    /// How often the functions were called, if the cycles are the times between two functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    /// Number of cycles whose end was not measured, because events were lost or the thread changed
    /// its wait place.
    pub cut_off: u64,
    /// Whether there were more threads than tardy can follow.
    pub has_more_threads: bool,
}

impl Cycles {
    /// Adds the cycles of an earlier part of the same recording. A thread that is in both parts has
    /// a row for each part, because quantiles cannot be added up.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        self.threads.extend(earlier.threads.iter().cloned());
        self.threads
            .sort_by_key(|row| (std::cmp::Reverse(row.max_ns), row.thread));
        self.worst.extend(earlier.worst.iter().cloned());
        self.worst
            .sort_by_key(|cycle| (std::cmp::Reverse(cycle.response_ns), cycle.begin_ns));
        self.worst.truncate(WORST_MAX);
        self.chains.extend(earlier.chains.iter().cloned());
        self.chains
            .sort_by_key(|chain| std::cmp::Reverse(chain.latency_ns));
        self.chains.truncate(chains::KEPT_MAX);
        for rules in &earlier.rules {
            let is_same = |own: &&mut LoopRules| own.id == rules.id && own.thread == rules.thread;
            match self.rules.iter_mut().find(is_same) {
                Some(own) => own.add(rules),
                None => self.rules.push(rules.clone()),
            }
        }
        self.marks = match (self.marks, earlier.marks) {
            (Some(own), Some(marks)) => Some(Marks {
                starts: own.starts + marks.starts,
                ends: own.ends + marks.ends,
                restarts: own.restarts + marks.restarts,
                ends_without_start: own.ends_without_start + marks.ends_without_start,
            }),
            (own, marks) => own.or(marks),
        };
        self.cut_off += earlier.cut_off;
        self.has_more_threads |= earlier.has_more_threads;
        self
    }

    /// Converts all times to another clock, whose times are larger by `by`.
    #[must_use]
    pub fn shifted(mut self, by: Nanos) -> Self {
        let cycles = self.worst.iter_mut().map(|cycle| &mut cycle.begin_ns);
        let chains = self.chains.iter_mut().map(|chain| &mut chain.begin_ns);
        cycles
            .chain(chains)
            .for_each(|time| *time = time.saturating_add(by));
        self
    }

    /// Returns the content of the file. If the content is longer than `bytes_max`, the shortest of
    /// the stored cycles are left out first, then the threads whose longest cycles are shortest,
    /// and finally the last entries of `rules`.
    #[must_use]
    pub fn encode(mut self, bytes_max: Option<u64>) -> Vec<u8> {
        loop {
            let bytes = serde_json::to_vec(&self).expect("all keys are text");
            let is_short = bytes_max.is_none_or(|bytes_max| bytes.len() as u64 <= bytes_max);
            if !self.worst.is_empty() && !is_short {
                self.worst.truncate(self.worst.len() / 2);
            } else if !self.threads.is_empty() && !is_short {
                self.threads.truncate(self.threads.len() / 2);
                self.rules.truncate(self.rules.len() / 2);
                self.has_more_threads = true;
            } else {
                return bytes;
            }
        }
    }

    /// Reads the file in a run folder; returns `None` if the folder has no such file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is damaged.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        match regular_file::read(&folder.join(FILE), FILE_BYTES_MAX) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
