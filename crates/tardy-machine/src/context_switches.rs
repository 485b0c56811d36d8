//! Context switches of each CPU, as far as the kernel reports them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;

use super::root::{Root, cpu_of_name};

/// Where the counts come from; the source decides which switches are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchSource {
    /// Switches to tasks other than the idle task: the ninth number of the `cpuN` lines of
    /// /proc/schedstat (Documentation/scheduler/sched-stats.rst; `rq_sched_info_arrive` in
    /// kernel/sched/stats.h). The file requires CONFIG_SCHEDSTATS.
    Schedstat,
    /// All switches, including those to the idle task: `nr_switches` in
    /// /sys/kernel/debug/sched/debug (before Linux 5.13, in /proc/sched_debug).
    SchedDebug,
    /// A source that this version of tardy does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Context switches since the start of the system, or between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextSwitches {
    /// Where the counts were read.
    pub source: SwitchSource,
    /// The number of switches on each CPU that was online.
    pub cpus: BTreeMap<CpuId, u64>,
}

/// Maximum size of the debug file in bytes. The file has about 150 bytes for each task.
const DEBUG_BYTES_MAX: u64 = 64 << 20;

impl ContextSwitches {
    /// Reads the first available source; `None` if there is none.
    ///
    /// When somebody reads the debug file, the kernel takes the run-queue lock of one CPU after the
    /// other, with interrupts off (`print_cfs_rq` in kernel/sched/debug.c). So read the file only
    /// before and after a measurement.
    #[must_use]
    pub fn read(root: &Root) -> Option<Self> {
        let schedstat = root
            .read("proc/schedstat")
            .ok()
            .and_then(|text| Self::parse_schedstat(&text));
        schedstat.or_else(|| {
            ["sys/kernel/debug/sched/debug", "proc/sched_debug"]
                .iter()
                .find_map(|path| {
                    let file = root.open(path).ok()?;
                    Self::parse_debug(BufReader::new(file.take(DEBUG_BYTES_MAX))).ok()?
                })
        })
    }

    fn parse_schedstat(text: &str) -> Option<Self> {
        const TIMESLICES: usize = 8;
        let cpus = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((
                cpu_of_name(words.next()?)?,
                words.nth(TIMESLICES)?.parse().ok()?,
            ))
        });
        Self::from_counts(SwitchSource::Schedstat, cpus.collect())
    }

    fn parse_debug(text: impl BufRead) -> io::Result<Option<Self>> {
        let mut cpus = BTreeMap::new();
        let mut current = None;
        for line in text.split(b'\n') {
            // Names of tasks can contain any bytes, so a line may not be UTF-8.
            let line = line?;
            let Ok(line) = std::str::from_utf8(&line) else {
                continue;
            };
            if let Some(header) = line.strip_prefix("cpu#") {
                current = header
                    .split(|c: char| !c.is_ascii_digit())
                    .next()
                    .and_then(|number| number.parse().ok())
                    .map(CpuId);
            } else if let Some((name, count)) = line.split_once(':')
                && name.trim() == ".nr_switches"
                && let (Some(cpu), Ok(count)) = (current, count.trim().parse())
            {
                cpus.insert(cpu, count);
            }
        }
        Ok(Self::from_counts(SwitchSource::SchedDebug, cpus))
    }

    fn from_counts(source: SwitchSource, cpus: BTreeMap<CpuId, u64>) -> Option<Self> {
        (!cpus.is_empty()).then_some(Self { source, cpus })
    }

    /// Returns by how much the counts increased since `before`, for the CPUs in both readings;
    /// `None` if their sources differ.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        if self.source != before.source {
            return None;
        }
        let grown = self
            .cpus
            .iter()
            .filter_map(|(cpu, after)| Some((*cpu, after.saturating_sub(*before.cpus.get(cpu)?))));
        Some(Self {
            source: self.source,
            cpus: grown.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    const SCHEDSTAT: &str = "version 17\ntimestamp 4295\ncpu0 0 0 50 20 30 10 999 888 41\ndomain0 \
                             MC 3 1 2 3\ncpu1 0 0 5 2 3 1 9 8 7\n";
    const DEBUG: &str = "Sched Debug Version: v0.11, 6.18\n\ncpu#0, 2596.150 MHz\n  .nr_running   \
                         : 0\n  .nr_switches                   : 132224\nrunnable tasks:\n S a \
                         .nr_switches: 5\ncpu#3\n  .nr_switches : 12\n";

    #[test]
    fn schedstat_is_preferred_because_it_takes_no_lock() {
        let fake = FakeRoot::new()
            .with("proc/schedstat", SCHEDSTAT)
            .with("sys/kernel/debug/sched/debug", DEBUG);
        let read = ContextSwitches::read(&fake.root()).unwrap();
        assert_eq!(
            read,
            ContextSwitches {
                source: SwitchSource::Schedstat,
                cpus: BTreeMap::from([(CpuId(0), 41), (CpuId(1), 7)])
            }
        );
    }

    #[test]
    fn the_debug_file_is_read_where_there_is_no_schedstat() {
        let fake = FakeRoot::new().with("proc/sched_debug", DEBUG);
        let read = ContextSwitches::read(&fake.root()).unwrap();
        assert_eq!(
            read,
            ContextSwitches {
                source: SwitchSource::SchedDebug,
                cpus: BTreeMap::from([(CpuId(0), 132_224), (CpuId(3), 12)])
            }
        );
    }

    #[test]
    fn empty_cut_and_missing_files_give_nothing() {
        for text in ["", "version 15\ncpu0 1 2 3\n", "cpu"] {
            assert_eq!(
                ContextSwitches::read(&FakeRoot::new().with("proc/schedstat", text).root()),
                None,
                "{text}"
            );
        }
        assert_eq!(ContextSwitches::read(&FakeRoot::new().root()), None);
    }

    #[test]
    fn readings_of_different_sources_are_not_subtracted() {
        let of = |source, count| ContextSwitches {
            source,
            cpus: BTreeMap::from([(CpuId(0), count)]),
        };
        assert_eq!(
            of(SwitchSource::Schedstat, 9).since(&of(SwitchSource::SchedDebug, 2)),
            None
        );
        assert_eq!(
            of(SwitchSource::Schedstat, 9).since(&of(SwitchSource::Schedstat, 2)),
            Some(of(SwitchSource::Schedstat, 7))
        );
    }

    #[test]
    fn a_source_of_a_later_version_does_not_break_reading() {
        let read: ContextSwitches =
            serde_json::from_str(r#"{"source":"perf","cpus":{"0":5}}"#).unwrap();
        assert_eq!(read.source, SwitchSource::Unknown);
    }
}
