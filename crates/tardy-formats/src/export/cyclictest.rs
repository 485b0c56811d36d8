//! Writes a run in the format of cyclictest's output, line for line, for scripts that parse it.
//! Source: output of cyclictest 2.4 and 2.8, and their manual.

use std::fmt::Write as _;

use tardy_core::cpu::CpuId;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;

use super::ExportError;
use super::run::{ExportedRun, ExportedSeries};

/// Minimum that cyclictest prints for a thread without samples.
const NO_MINIMUM: i64 = 1_000_000;

/// A thread of the run. Threads are numbered from 0 in the order in which they are given, as in
/// cyclictest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The thread's probe. Together with `cpu`, it identifies the thread's series in the run.
    pub probe: String,
    pub cpu: CpuId,
    /// Real-time priority of the thread; 0 if the thread has none.
    pub priority: u32,
    pub interval: Nanos,
}

impl Thread {
    /// Sets to 0 the priority of each thread that, according to the run's warnings, ran as an
    /// ordinary task. Returns whether there are such threads.
    pub fn take_priorities(threads: &mut [Self], warnings: &[Warning]) -> bool {
        let is_refused = |priority: u32| {
            let is_it =
                |policy: &str| policy.rsplit(' ').next() == Some(priority.to_string().as_str());
            warnings.iter().any(|warning| matches!(warning, Warning::NoRealTimePolicy { policy, .. } if is_it(policy)))
        };
        let mut is_any = false;
        for thread in threads
            .iter_mut()
            .filter(|thread| thread.priority > 0 && is_refused(thread.priority))
        {
            thread.priority = 0;
            is_any = true;
        }
        is_any
    }
}

/// The unit of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Micros,
    /// Nanoseconds (`-N`).
    Nanos,
}

impl Unit {
    pub(super) fn of(self, nanos: i64) -> i64 {
        match self {
            Self::Micros => nanos.div_euclid(1000),
            Self::Nanos => nanos,
        }
    }

    /// Returns the unit's length in ns.
    pub(super) fn nanos(self) -> f64 {
        match self {
            Self::Micros => 1000.0,
            Self::Nanos => 1.0,
        }
    }
}

/// The histogram that `-h` or `-H` requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramShape {
    /// Number of buckets. Each is one unit wide; the first starts at 0.
    pub buckets: u32,
    /// Whether the output has a column with the sum of all threads (`-H`).
    pub has_sum: bool,
}

/// A run, and the data that cyclictest's output contains.
#[derive(Debug)]
pub struct CyclictestRun {
    threads: Vec<ThreadSamples>,
    unit: Unit,
    process: u32,
}

/// The samples of one thread.
#[derive(Debug)]
struct ThreadSamples {
    thread: Thread,
    values: Histogram,
    /// Sum of the latencies, in ns.
    sum: i128,
    /// The last latency in ns; absent if some samples are not stored.
    last: Option<i64>,
    /// The time and the latency of each stored sample.
    samples: Vec<(Nanos, i64)>,
}

impl ThreadSamples {
    fn read(thread: &Thread, series: &ExportedSeries) -> Result<Self, ExportError> {
        let mut samples = Vec::new();
        series.samples(|sample| {
            samples.push((
                sample.due.saturating_add(sample.latency),
                sample.latency.get(),
            ));
            Ok(())
        })?;
        let values = series.histogram()?;
        let mut sum = 0_i128;
        values.for_each(|value, count| sum += i128::from(value) * i128::from(count));
        let is_whole = samples.len() as u64 == values.count();
        let last = samples
            .last()
            .map(|&(_, latency)| latency)
            .filter(|_| is_whole);
        Ok(Self {
            thread: thread.clone(),
            values,
            sum,
            last,
            samples,
        })
    }

    fn average(&self) -> i64 {
        i64::try_from(self.sum / i128::from(self.values.count().max(1))).unwrap_or(i64::MAX)
    }

    /// Returns the counts by bucket, and the number of samples beyond the last bucket.
    fn buckets(&self, unit: Unit, buckets: u32) -> (Vec<u64>, u64) {
        let mut counts = vec![0; buckets as usize];
        let mut beyond = 0;
        self.values.for_each(|value, count| {
            match usize::try_from(unit.of(value).max(0))
                .ok()
                .and_then(|place| counts.get_mut(place))
            {
                Some(bucket) => *bucket += count,
                None => beyond += count,
            }
        });
        (counts, beyond)
    }
}

impl CyclictestRun {
    /// Reads the samples of `threads` in `run`.
    ///
    /// # Errors
    /// Returns [`ExportError`] if a series cannot be read or does not exist.
    pub fn read(run: &ExportedRun, threads: &[Thread], unit: Unit) -> Result<Self, ExportError> {
        let take = |thread: &Thread| {
            let is_its = |series: &&ExportedSeries| {
                series.descriptor.probe == thread.probe && series.descriptor.cpu == Some(thread.cpu)
            };
            let series = run
                .series
                .iter()
                .find(is_its)
                .ok_or_else(|| ExportError::NoProbe {
                    run: run.summary.run.clone(),
                    probe: thread.probe.clone(),
                    has: super::run::names(&run.series),
                })?;
            ThreadSamples::read(thread, series)
        };
        Ok(Self {
            threads: threads.iter().map(take).collect::<Result<_, _>>()?,
            unit,
            process: run.record.tool.process,
        })
    }

    /// Returns the final line of each thread, as `-q` prints them. cyclictest prints the kernel's
    /// ID of each thread in its line; these lines have the ID of the process instead.
    #[must_use]
    pub fn summary(&self) -> String {
        let width = if self.unit == Unit::Nanos { 8 } else { 5 };
        let line = |(number, taken): (usize, &ThreadSamples)| {
            let Thread {
                priority, interval, ..
            } = taken.thread;
            let [least, last, average, most] = [
                taken
                    .values
                    .min()
                    .map_or(NO_MINIMUM, |least| self.unit.of(least)),
                taken.last.map_or(0, |last| self.unit.of(last)),
                self.unit.of(taken.average()),
                taken.values.max().map_or(0, |most| self.unit.of(most)),
            ];
            format!(
                "T:{number:2} ({:5}) P:{priority:2} I:{} C:{:7} Min:{least:7} Act:{last:width$} \
                 Avg:{average:width$} Max:{most:8}\n",
                self.process,
                interval.get() / 1000,
                taken.values.count(),
            )
        };
        self.threads.iter().enumerate().map(line).collect()
    }

    /// Returns the output of `-h` and `-H`.
    #[must_use]
    pub fn histogram(&self, shape: HistogramShape) -> String {
        let counted: Vec<(Vec<u64>, u64)> = self
            .threads
            .iter()
            .map(|taken| taken.buckets(self.unit, shape.buckets))
            .collect();
        let with_sum = |values: Vec<u64>| {
            let sum = values.iter().sum();
            values
                .into_iter()
                .chain(shape.has_sum.then_some(sum))
                .collect::<Vec<u64>>()
        };
        let row = |head: &str, values: Vec<u64>, width: usize| {
            let cells: String = values
                .iter()
                .map(|value| format!(" {value:0width$}"))
                .collect();
            format!("# {head}:{cells}\n")
        };
        let in_unit = |value: i64| u64::try_from(self.unit.of(value).max(0)).unwrap_or_default();
        let of_each = |value: &dyn Fn(&ThreadSamples) -> i64| {
            self.threads
                .iter()
                .map(|taken| in_unit(value(taken)))
                .collect::<Vec<u64>>()
        };
        let mut text = "# Histogram\n".to_owned();
        for bucket in 0..shape.buckets as usize {
            let counts = with_sum(counted.iter().map(|(counts, _)| counts[bucket]).collect());
            let cells: Vec<String> = counts.iter().map(|count| format!("{count:06}")).collect();
            let _ = writeln!(text, "{bucket:06} {}", cells.join("\t"));
        }
        let most = of_each(&|taken| taken.values.max().unwrap_or_default());
        let most_of_all = most.iter().max().copied().filter(|_| shape.has_sum);
        text += &row(
            "Total",
            with_sum(
                counted
                    .iter()
                    .map(|(counts, _)| counts.iter().sum())
                    .collect(),
            ),
            9,
        );
        text += &row(
            "Min Latencies",
            of_each(&|taken| taken.values.min().unwrap_or_default()),
            5,
        );
        text += &row("Avg Latencies", of_each(&ThreadSamples::average), 5);
        text += &row(
            "Max Latencies",
            most.into_iter().chain(most_of_all).collect(),
            5,
        );
        text += &row(
            "Histogram Overflows",
            with_sum(counted.iter().map(|&(_, beyond)| beyond).collect()),
            5,
        );
        text += "# Histogram Overflow at cycle number:\n";
        for (number, (taken, (_, beyond))) in self.threads.iter().zip(&counted).enumerate() {
            let _ = write!(text, "# Thread {number}:");
            let is_over =
                |&(_, latency): &(Nanos, i64)| self.unit.of(latency) >= i64::from(shape.buckets);
            let cycles = taken
                .samples
                .iter()
                .enumerate()
                .filter(|(_, sample)| taken.last.is_some() && is_over(sample));
            let mut listed = 0;
            for (cycle, _) in cycles.take(shape.buckets as usize) {
                let _ = write!(text, " {cycle:05}");
                listed += 1;
            }
            if *beyond > listed {
                let _ = write!(text, " # {:05} others", beyond - listed);
            }
            text.push('\n');
        }
        text.push('\n');
        text
    }

    /// Returns the values as `-v` prints them: thread, cycle and value, in order of time. With
    /// `-o`, only the largest of each `reduction` values is printed, the first one if several are
    /// equal. Values after the last whole group are not printed.
    #[must_use]
    pub fn values(&self, reduction: usize) -> String {
        let of_thread = |(number, taken): (usize, &ThreadSamples)| {
            let line =
                move |(cycle, &(at, latency)): (usize, &(Nanos, i64))| (at, number, cycle, latency);
            let lines: Vec<_> = taken.samples.iter().enumerate().map(line).collect();
            lines
                .chunks_exact(reduction.max(1))
                .filter_map(|values| values.iter().rev().max_by_key(|value| value.3).copied())
                .collect::<Vec<_>>()
        };
        let mut values: Vec<(Nanos, usize, usize, i64)> = self
            .threads
            .iter()
            .enumerate()
            .flat_map(of_thread)
            .collect();
        values.sort_unstable();
        let mut text = String::with_capacity(values.len() * 27);
        for (_, number, cycle, latency) in values {
            let _ = writeln!(text, "{number:8}:{cycle:8}:{:8}", self.unit.of(latency));
        }
        text
    }

    /// Returns the output of `--spike`: at most `count` samples above `limit`, with their times.
    /// The result is empty if there is no such sample.
    #[must_use]
    pub fn spikes(&self, limit: Nanos, count: usize) -> String {
        let mut text = "\n".to_owned();
        let mut found = 0;
        for (number, taken) in self.threads.iter().enumerate() {
            for &(at, latency) in taken
                .samples
                .iter()
                .filter(|&&(_, latency)| latency > limit.get())
            {
                found += 1;
                if found <= count {
                    let _ = writeln!(
                        text,
                        "T:{number:2} Spike:{:8}: TS: {:12}",
                        self.unit.of(latency),
                        at.get() / 1000
                    );
                }
            }
        }
        if found == 0 {
            return String::new();
        }
        let _ = writeln!(text, "spikes = {}\n", found.min(count));
        text
    }

    /// Returns the output of `-b`: the numbers of the threads and, if the run ended at a latency
    /// above `limit`, that latency.
    #[must_use]
    pub fn broken(&self, limit: Nanos) -> String {
        let ids: String = self
            .threads
            .iter()
            .map(|_| format!(" {:05}", self.process))
            .collect();
        // The first latency above the limit ends the run, so it is the last sample and the largest.
        let value = self
            .threads
            .iter()
            .filter_map(|taken| taken.values.max())
            .max()
            .filter(|&value| value > limit.get());
        let broken = value.map_or_else(String::new, |value| {
            format!(
                "# Break thread: {}\n# Break value: {}\n",
                self.process,
                self.unit.of(value)
            )
        });
        format!("# Thread Ids:{ids}\n{broken}")
    }
}

#[cfg(test)]
mod tests {
    use tardy_core::histogram::Budget;

    use super::*;

    #[test]
    fn threads_that_run_as_ordinary_tasks_have_no_priority() {
        let thread = |priority| Thread {
            probe: "cyclic".into(),
            cpu: CpuId(0),
            priority,
            interval: Nanos::from_millis(1),
        };
        let mut threads = [thread(95), thread(9), thread(5)];
        let refused = |policy: &str| Warning::NoRealTimePolicy {
            policy: policy.into(),
            error: "Operation not permitted".into(),
        };
        let unset = Warning::CpuLatencyNotSet {
            error: "Permission denied".into(),
        };
        assert!(!Thread::take_priorities(&mut threads, &[unset]));
        assert!(Thread::take_priorities(
            &mut threads,
            &[refused("SCHED_FIFO 95"), refused("SCHED_FIFO 5")]
        ));
        assert_eq!(threads.each_ref().map(|thread| thread.priority), [0, 9, 0]);
    }

    fn taken(latencies: &[i64]) -> ThreadSamples {
        let mut values = Histogram::new(Budget::ANALYSIS);
        latencies.iter().for_each(|&latency| values.record(latency));
        ThreadSamples {
            thread: Thread {
                probe: "cyclic".into(),
                cpu: CpuId(0),
                priority: 95,
                interval: Nanos::from_micros(1000),
            },
            sum: latencies.iter().map(|&latency| i128::from(latency)).sum(),
            last: latencies.last().copied(),
            samples: latencies
                .iter()
                .enumerate()
                .map(|(place, &latency)| (Nanos(place as i64 * 1_000_000), latency))
                .collect(),
            values,
        }
    }

    fn run() -> CyclictestRun {
        CyclictestRun {
            threads: vec![taken(&[1_900, 2_000, 4_100]), taken(&[2_500])],
            unit: Unit::Micros,
            process: 7032,
        }
    }

    #[test]
    fn the_summary_has_the_columns_of_cyclictest() {
        let expected = "T: 0 ( 7032) P:95 I:1000 C:      3 Min:      1 Act:    4 Avg:    2 Max:       4\nT: \
             1 ( 7032) P:95 I:1000 C:      1 Min:      2 Act:    2 Avg:    2 Max:       2\n";
        assert_eq!(run().summary(), expected);
        let nanos = CyclictestRun {
            unit: Unit::Nanos,
            ..run()
        };
        assert!(nanos.summary().starts_with(
            "T: 0 ( 7032) P:95 I:1000 C:      3 Min:   1900 Act:    4100 Avg:    2666 Max:    \
             4100\n"
        ));
        let none = CyclictestRun {
            threads: vec![taken(&[])],
            ..run()
        };
        assert_eq!(
            none.summary(),
            "T: 0 ( 7032) P:95 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n"
        );
    }

    #[test]
    fn the_histogram_has_the_rows_of_cyclictest() {
        let expected = "# Histogram\n000000 000000\t000000\t000000\n000001 \
                        000001\t000000\t000001\n000002 000001\t000001\t000002\n# Total: 000000002 \
                        000000001 000000003\n# Min Latencies: 00001 00002\n# Avg Latencies: 00002 \
                        00002\n# Max Latencies: 00004 00002 00004\n# Histogram Overflows: 00001 \
                        00000 00001\n# Histogram Overflow at cycle number:\n# Thread 0: 00002\n# \
                        Thread 1:\n\n";
        assert_eq!(
            run().histogram(HistogramShape {
                buckets: 3,
                has_sum: true
            }),
            expected
        );
    }

    #[test]
    fn overflows_that_are_not_listed_are_counted() {
        let text = run().histogram(HistogramShape {
            buckets: 1,
            has_sum: false,
        });
        assert!(
            text.ends_with("# Thread 0: 00000 # 00002 others\n# Thread 1: 00000\n\n"),
            "{text}"
        );
    }

    #[test]
    fn values_spikes_and_what_broke_the_run_are_listed() {
        assert_eq!(
            run().values(1),
            "       0:       0:       1\n       1:       0:       2\n       0:       1:       2\n       0:       2:       4\n"
        );
        assert_eq!(run().values(2), "       0:       1:       2\n");
        assert_eq!(
            run().spikes(Nanos(2_400), 9),
            "\nT: 0 Spike:       4: TS:         2000\nT: 1 Spike:       2: TS:            \
             0\nspikes = 2\n\n"
        );
        assert_eq!(
            run().broken(Nanos(4_000)),
            "# Thread Ids: 07032 07032\n# Break thread: 7032\n# Break value: 4\n"
        );
        assert_eq!(run().broken(Nanos(5_000)), "# Thread Ids: 07032 07032\n");
        assert_eq!(run().spikes(Nanos(5_000), 9), "");
    }
}
