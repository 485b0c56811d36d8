//! /proc/stat: the time of each CPU by kind, and the context switches and new processes of the
//! whole machine.
//!
//! Format: Documentation/filesystems/proc.rst 1.7; fs/proc/stat.c. Times are in clock ticks, so a
//! difference between two readings can be wrong by one tick (10 ms on nearly every machine).
//! According to the document, `iowait` can decrease; so can `idle`, if the CPU was offline between
//! two readings.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::root::{Root, cpu_of_name};

/// How a CPU spent its time: since the start of the system, or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTime {
    /// Time spent in programs at normal priority, including guests.
    pub user: Nanos,
    /// Time spent in programs at lowered priority.
    pub nice: Nanos,
    /// Time spent in the kernel on behalf of programs.
    pub system: Nanos,
    /// Idle time.
    pub idle: Nanos,
    /// Idle time while a task that last ran on this CPU waits for I/O.
    pub iowait: Nanos,
    /// Time spent in interrupt handlers.
    pub irq: Nanos,
    /// Time spent in deferred interrupt work (softirqs).
    pub softirq: Nanos,
    /// Time in which the hypervisor ran something else while this CPU had work; absent before Linux
    /// 2.6.11.
    pub steal: Option<Nanos>,
    /// The part of `user` in which guests ran.
    pub guest: Option<Nanos>,
    /// The part of `nice` in which guests ran.
    pub guest_nice: Option<Nanos>,
}

impl CpuTime {
    /// Returns the time since `before`; a negative value becomes 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let grown = |after: Nanos, before: Nanos| (after - before).max(Nanos::ZERO);
        let grown_option =
            |after: Option<Nanos>, before: Option<Nanos>| Some(grown(after?, before?));
        Self {
            user: grown(self.user, before.user),
            nice: grown(self.nice, before.nice),
            system: grown(self.system, before.system),
            idle: grown(self.idle, before.idle),
            iowait: grown(self.iowait, before.iowait),
            irq: grown(self.irq, before.irq),
            softirq: grown(self.softirq, before.softirq),
            steal: grown_option(self.steal, before.steal),
            guest: grown_option(self.guest, before.guest),
            guest_nice: grown_option(self.guest_nice, before.guest_nice),
        }
    }

    /// Returns all time that was not idle, including steal time. The time in which guests ran is
    /// counted once, because `user` and `nice` already include it.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.user
            + self.nice
            + self.system
            + self.irq
            + self.softirq
            + self.steal.unwrap_or_default()
    }
}

/// Times since the start of the system, or between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    /// The times of each CPU that was online.
    pub cpus: BTreeMap<CpuId, CpuTime>,
    /// Context switches of the whole machine (`ctxt`).
    pub context_switches: Option<u64>,
    /// Processes and threads created (`processes`).
    pub forks: Option<u64>,
}

impl CpuTimes {
    /// Reads `proc/stat`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(root: &Root) -> io::Result<Self> {
        let tick = tick_length(root);
        root.read("proc/stat").map(|text| Self::parse(&text, tick))
    }

    /// Parses the text of the file. `tick` is the length of a clock tick. Unknown lines are
    /// skipped.
    #[must_use]
    pub fn parse(text: &str, tick: Nanos) -> Self {
        let mut times = Self::default();
        for entry in entries(text, tick) {
            match entry {
                StatEntry::Cpu(cpu, time) => drop(times.cpus.insert(cpu, time)),
                StatEntry::ContextSwitches(count) => times.context_switches = Some(count),
                StatEntry::Forks(count) => times.forks = Some(count),
            }
        }
        times
    }

    /// Returns the time since `before`, for the CPUs in both readings.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let grown = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            cpus: self
                .cpus
                .iter()
                .filter_map(|(cpu, time)| Some((*cpu, time.since(before.cpus.get(cpu)?))))
                .collect(),
            context_switches: grown(self.context_switches, before.context_switches),
            forks: grown(self.forks, before.forks),
        }
    }
}

/// A parsed line of /proc/stat.
pub(super) enum StatEntry {
    Cpu(CpuId, CpuTime),
    ContextSwitches(u64),
    Forks(u64),
}

/// Returns the known lines, without allocating memory.
pub(super) fn entries(text: &str, tick: Nanos) -> impl Iterator<Item = StatEntry> + '_ {
    text.split_inclusive('\n').filter_map(move |line| {
        // A last line without a line feed may be truncated within a number.
        let line = line.strip_suffix('\n')?;
        let (name, values) = line.split_once(' ')?;
        match name {
            "ctxt" => values.trim().parse().ok().map(StatEntry::ContextSwitches),
            "processes" => values.trim().parse().ok().map(StatEntry::Forks),
            _ => {
                cpu_of_name(name).and_then(|cpu| Some(StatEntry::Cpu(cpu, cpu_time(values, tick)?)))
            }
        }
    })
}

fn cpu_time(values: &str, tick: Nanos) -> Option<CpuTime> {
    let mut columns = values
        .split_ascii_whitespace()
        .map_while(|value| Some(Nanos(value.parse::<i64>().ok()?.saturating_mul(tick.get()))));
    Some(CpuTime {
        user: columns.next()?,
        nice: columns.next()?,
        system: columns.next()?,
        idle: columns.next()?,
        iowait: columns.next()?,
        irq: columns.next()?,
        softirq: columns.next()?,
        steal: columns.next(),
        guest: columns.next(),
        guest_nice: columns.next(),
    })
}

/// Returns the length of a clock tick of /proc/stat (USER_HZ): the entry AT_CLKTCK of
/// /proc/self/auxv (getauxval(3)).
///
/// If the entry cannot be read, returns 10 ms: USER_HZ is 100 in include/asm-generic/param.h, which
/// all current architectures except alpha use.
#[must_use]
pub fn tick_length(root: &Root) -> Nanos {
    const AT_CLKTCK: usize = 17;
    let mut vector = Vec::new();
    let read = root
        .open("proc/self/auxv")
        .and_then(|file| file.take(4096).read_to_end(&mut vector));
    let words: Vec<usize> = vector
        .as_chunks()
        .0
        .iter()
        .map(|bytes| usize::from_ne_bytes(*bytes))
        .collect();
    let ticks_per_second = read.ok().and_then(|_| {
        words
            .chunks_exact(2)
            .find(|pair| pair[0] == AT_CLKTCK)
            .map(|pair| pair[1])
    });
    match ticks_per_second.and_then(|ticks| i64::try_from(ticks).ok()) {
        Some(ticks @ 1..=1_000_000) => Nanos(1_000_000_000 / ticks),
        _ => Nanos::from_millis(10),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    const TICK: Nanos = Nanos::from_millis(10);

    #[test]
    fn ticks_become_nanoseconds_and_the_sum_of_all_cpus_is_left_out() {
        let read = CpuTimes::parse(
            "cpu  1 1 1 1 1 1 1 1 1 1\ncpu3 1 2 3 4 5 6 7 8 9 10\nintr 5 0\nctxt 77\nprocesses 9\n",
            TICK,
        );
        assert_eq!(read.cpus.len(), 1);
        let time = read.cpus[&CpuId(3)];
        assert_eq!(
            (time.user, time.softirq, time.steal),
            (
                Nanos::from_millis(10),
                Nanos::from_millis(70),
                Some(Nanos::from_millis(80))
            )
        );
        assert_eq!(time.guest_nice, Some(Nanos::from_millis(100)));
        assert_eq!(
            time.busy(),
            Nanos::from_millis(10 * (1 + 2 + 3 + 6 + 7 + 8))
        );
        assert_eq!((read.context_switches, read.forks), (Some(77), Some(9)));
    }

    #[test]
    fn columns_that_an_old_kernel_lacks_are_absent_and_cut_lines_are_dropped() {
        let read = CpuTimes::parse("cpu0 1 2 3 4 5 6 7\ncpu1 1 2 3\nctxt 12", TICK);
        assert_eq!(read.cpus[&CpuId(0)].steal, None);
        assert_eq!(read.cpus.len(), 1);
        assert_eq!(read.context_switches, None);
        assert_eq!(CpuTimes::parse("", TICK), CpuTimes::default());
    }

    #[test]
    fn a_difference_is_never_negative_and_leaves_out_cpus_that_came_or_went() {
        let before = CpuTimes::parse(
            "cpu0 5 0 0 0 50 0 0 1\ncpu1 5 0 0 0 0 0 0 0\nctxt 100\n",
            TICK,
        );
        let after = CpuTimes::parse(
            "cpu0 9 0 0 0 49 0 0 3\ncpu2 5 0 0 0 0 0 0 0\nctxt 140\n",
            TICK,
        );
        let delta = after.since(&before);
        assert_eq!(delta.cpus.keys().collect::<Vec<_>>(), [&CpuId(0)]);
        let time = delta.cpus[&CpuId(0)];
        assert_eq!(
            (time.user, time.iowait, time.steal),
            (
                Nanos::from_millis(40),
                Nanos::ZERO,
                Some(Nanos::from_millis(20))
            )
        );
        assert_eq!((delta.context_switches, delta.forks), (Some(40), None));
    }

    #[test]
    fn the_length_of_a_tick_comes_from_the_auxiliary_vector() {
        let vector: Vec<u8> = [6_usize, 4096, 17, 250, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(
            tick_length(&FakeRoot::new().with("proc/self/auxv", vector).root()),
            Nanos::from_millis(4)
        );
        assert_eq!(
            tick_length(&FakeRoot::new().with("proc/self/auxv", "odd").root()),
            TICK
        );
        assert_eq!(tick_length(&FakeRoot::new().root()), TICK);
    }

    #[test]
    fn times_survive_json() {
        let read = CpuTimes::parse("cpu3 1 2 3 4 5 6 7 8\nctxt 77\n", TICK);
        assert_eq!(
            serde_json::from_str::<CpuTimes>(&serde_json::to_string(&read).unwrap()).unwrap(),
            read
        );
    }
}
