//! The interface between readers and the consumers of their data.

use std::io;

use tardy_core::cpu::{CPU_MAX, CpuId};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::sample::Record;
use tardy_core::series::{ClockKind, Descriptor, Meaning, Schedule};
use tardy_core::units::Nanos;
use tardy_machine::facts::MachineFacts;
use tardy_run::imported::{Overflow, StatedTotals};

use super::text::{NEAR_TIME, is_near};
use super::{ImportError, Source};

/// Maximum number of samples. Sums of counts up to this limit are exact in floating point.
const SAMPLES_MAX: u64 = 1 << 53;

/// A consumer of imported data.
pub trait Sink {
    /// Opens a series of samples. The returned number identifies it in later calls.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn open(&mut self, descriptor: Descriptor) -> io::Result<usize>;

    /// Adds a record to a series.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn push(&mut self, series: usize, record: Record) -> io::Result<()>;

    /// Records the totals that the other tool states for a series of samples.
    fn state(&mut self, series: usize, stated: StatedTotals);

    /// Adds a series that has only a histogram, or only stated totals.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn whole(
        &mut self,
        descriptor: Descriptor,
        histogram: &Histogram,
        stated: StatedTotals,
    ) -> io::Result<()>;
}

/// The content of an imported file, except its series.
#[derive(Debug, Clone, Default)]
pub struct ImportedRun {
    /// Name of the tool that wrote the file, and the tool's version if stated.
    pub tool: String,
    pub command_line: Option<String>,
    /// Start of the run, in ns since 1970.
    pub started: Option<Nanos>,
    /// Length of the run.
    pub length: Option<Nanos>,
    /// The facts about the machine that the file states.
    pub machine: MachineFacts,
    /// Caveats, shown before the numbers.
    pub notes: Vec<String>,
    /// Why larger latencies than the known maximum may have occurred; absent if that is impossible.
    pub maximum_unsure: Option<String>,
    /// Whether only the order of the samples is known.
    pub has_no_times: bool,
}

/// A series that a tool counted by buckets.
#[derive(Debug, Clone)]
pub struct BucketSeries {
    pub probe: &'static str,
    /// Name of the quantity that a value measures.
    pub quantity: &'static str,
    /// Number of the CPU, or of the thread if only that is known.
    pub cpu: Option<u32>,
    /// Time between two due times; absent if unknown.
    pub period: Option<Nanos>,
    /// Whether the thread rests for this period after each wake-up, instead of waking up on a
    /// schedule.
    pub is_event: bool,
    /// Value of each bucket in ns, and its count.
    pub buckets: Vec<(i64, u64)>,
    /// The totals that the tool states.
    pub stated: StatedTotals,
    /// Whether the tool truncates its mean to whole units; the mean of the buckets is then more
    /// exact.
    pub is_mean_cut: bool,
}

impl BucketSeries {
    /// Makes a series without buckets.
    #[must_use]
    pub fn new(probe: &'static str, quantity: &'static str, cpu: Option<u32>) -> Self {
        Self {
            probe,
            quantity,
            cpu,
            period: None,
            is_event: false,
            buckets: Vec::new(),
            stated: StatedTotals::default(),
            is_mean_cut: false,
        }
    }

    /// Returns the number of samples in the buckets.
    #[must_use]
    pub fn in_buckets(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Returns a stated time of this series that readers of runs would refuse, if there is one.
    /// Formats that know the line of such a time report it earlier, with the line.
    fn far_time(&self) -> Option<f64> {
        let StatedTotals {
            min_ns,
            max_ns,
            mean_ns,
            resolution_ns,
            overflow,
            ..
        } = self.stated;
        let stated = [
            self.period,
            min_ns,
            max_ns,
            Some(resolution_ns),
            overflow.map(|overflow| overflow.from_ns),
        ];
        let whole = stated
            .into_iter()
            .flatten()
            .map(Nanos::get)
            .chain(self.buckets.iter().map(|&(value, _)| value));
        whole
            .map(|nanos| nanos as f64)
            .chain(mean_ns)
            .find(|&nanos| !is_near(nanos))
    }

    /// Counts the samples of buckets of `width` at the last whole `unit` of each bucket, or at the
    /// maximum if that is smaller, so that no percentile looks better than it was.
    pub(super) fn count_at_ends(&mut self, width: i64, unit: i64) {
        let max = self.stated.max_ns.map_or(i64::MAX, Nanos::get);
        for (bucket, _) in &mut self.buckets {
            let end = bucket.saturating_add(width - unit);
            *bucket = end.min(max.max(*bucket));
        }
        self.stated.resolution_ns = Nanos(unit);
        self.stated.below_ns = Nanos(width - unit);
    }

    /// Records samples beyond the buckets, at or above `from_ns`. These samples are counted at the
    /// maximum, so that no percentile looks better than it was.
    pub fn overflow(&mut self, samples: u64, from_ns: i64) {
        if samples > 0 {
            let from_ns = Nanos(from_ns)
                .max(self.stated.min_ns.unwrap_or(Nanos::MIN))
                .min(self.stated.max_ns.unwrap_or(Nanos::MAX));
            self.stated.overflow = Some(Overflow { samples, from_ns });
        }
    }

    /// Replaces a truncated mean by the mean of the buckets, if the two agree and the samples
    /// beyond the buckets cannot change the mean by a whole unit.
    fn prefer_mean_of_buckets(&mut self) {
        let overflow = self.stated.overflow.map_or((0, 0, 0), |overflow| {
            let at = self.stated.max_ns.unwrap_or(overflow.from_ns).get();
            (
                overflow.samples,
                at,
                at.saturating_sub(overflow.from_ns.get()),
            )
        });
        let samples = self.in_buckets() as f64 + overflow.0 as f64;
        let sum: f64 = self
            .buckets
            .iter()
            .map(|&(value, count)| value as f64 * count as f64)
            .sum();
        let unknown = overflow.2 as f64 * overflow.0 as f64 / samples;
        let unit = self.stated.resolution_ns.get() as f64;
        let mean = (sum + overflow.1 as f64 * overflow.0 as f64) / samples;
        let agrees = self
            .stated
            .mean_ns
            .is_none_or(|stated| (mean - stated).abs() <= unit + unknown);
        if samples > 0.0 && unknown < unit && agrees {
            // One of the samples beyond the buckets is the maximum. The others were counted at the
            // maximum but may be smaller, so the computed mean may be too high. If they can explain
            // the difference, the mean becomes the nearest value that agrees with the stated mean,
            // which is truncated towards 0.
            let others = overflow.0.saturating_sub(1) as f64 / (overflow.0.max(1) as f64);
            let within = |stated: f64| {
                let least = if stated < 0.0 { stated - unit } else { stated };
                let nearest = mean.clamp(least, stated + unit);
                if nearest >= mean - unknown * others {
                    nearest
                } else {
                    mean
                }
            };
            self.stated.mean_ns = Some(self.stated.mean_ns.map_or(mean, within));
        }
    }

    /// Corrects the rows by the totals that the file states, without lowering any number. Samples
    /// that are in no row are counted at the maximum, and a stated maximum beyond the rows becomes
    /// one of the samples. Returns a note for each difference.
    fn reconcile(&mut self) -> Vec<String> {
        let notes = self.reconcile_rows();
        if self.is_mean_cut {
            self.prefer_mean_of_buckets();
        }
        notes
    }

    fn reconcile_rows(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let rows = self
            .in_buckets()
            .saturating_add(self.stated.overflow.map_or(0, |overflow| overflow.samples));
        if self.buckets.is_empty() {
            return notes;
        }
        match self.stated.samples {
            Some(stated) if stated > rows => {
                notes.push(format!(
                    "the file states {stated} samples, but its rows hold {rows}: the missing \
                     samples may lie anywhere up to the maximum, and get the value of the maximum"
                ));
                let from_ns = self.stated.min_ns.unwrap_or_default();
                let beside = self.stated.overflow.map_or(0, |overflow| overflow.samples);
                self.stated.overflow = Some(Overflow {
                    samples: beside.saturating_add(stated - rows),
                    from_ns,
                });
            }
            Some(stated) if stated < rows => {
                notes.push(format!(
                    "the file states {stated} samples, but its rows hold {rows}: tardy uses all \
                     samples in the rows"
                ));
                self.stated.samples = Some(rows);
            }
            _ => {}
        }
        let width = self.stated.resolution_ns.get().max(1);
        let top = self.buckets.iter_mut().filter(|(_, count)| *count > 0);
        let (Some(max), Some(top)) = (self.stated.max_ns, top.max_by_key(|(value, _)| *value))
        else {
            return notes;
        };
        let end = Nanos(top.0.saturating_add(width));
        if max.get() < top.0 {
            notes.push(format!(
                "the file states a maximum of {max}, but its row for {} has samples: the row is \
                 used",
                Nanos(top.0)
            ));
            self.stated.max_ns = None;
        } else if self.stated.overflow.is_none() && max.get() > top.0 {
            if max >= end {
                notes.push(format!(
                    "the file states a largest value of {max}, but its rows end at {}: one sample \
                     gets the value of the stated maximum, and others may lie beyond the rows",
                    Nanos(top.0)
                ));
            }
            top.1 -= 1;
            self.buckets.push((max.get(), 1));
        }
        notes
    }

    /// Passes the series to the sink.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn hand_over(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        self.buckets
            .iter()
            .for_each(|&(value, count)| histogram.record_many(value, count));
        if let Some(overflow) = self.stated.overflow {
            let at = self.stated.max_ns.unwrap_or(overflow.from_ns);
            histogram.record_many(at.get(), overflow.samples);
        }
        let period = self.period.unwrap_or_default();
        let schedule = match period.get() {
            1.. if !self.is_event => Schedule::Grid {
                period,
                start: Nanos::ZERO,
                dither: Nanos::ZERO,
            },
            _ => Schedule::Event { request: period },
        };
        sink.whole(
            descriptor(self.probe, self.quantity, self.cpu, schedule),
            &histogram,
            self.stated,
        )
    }

    /// Returns the note about samples beyond the buckets, if any; `is_probe_named` adds the probe's
    /// name.
    #[must_use]
    pub fn overflow_note(&self, is_probe_named: bool) -> Option<String> {
        let overflow = self.stated.overflow?;
        let probe = if is_probe_named {
            format!(" of {}", self.probe)
        } else {
            String::new()
        };
        let cpu = self.cpu.map_or_else(String::new, |cpu| {
            format!("{} CPU {cpu}", if is_probe_named { "," } else { " of" })
        });
        let (samples, lie, them) = match overflow.samples {
            1 => ("sample", "has no bucket in the file: it lies", "it"),
            _ => ("samples", "have no bucket in the file: they lie", "them"),
        };
        let (count, from) = (overflow.samples, overflow.from_ns);
        let (where_to, shown) = match self.stated.max_ns {
            Some(max) => (format!("between {from} and {max}"), max),
            None => (
                format!("at or above {from} (how far above is unknown)"),
                from,
            ),
        };
        Some(format!(
            "{count} {samples}{probe}{cpu} {lie} {where_to}; charts show {them} at {shown}"
        ))
    }

    /// Returns the note that the tool does not count the due times that a long latency skipped;
    /// `is_probe_named` adds the probe's name.
    #[must_use]
    pub fn skipped_note(&self, is_probe_named: bool) -> Option<String> {
        let period = self
            .period
            .filter(|period| *period > Nanos::ZERO && self.stated.skipped.is_none())?;
        let max = self.stated.max_ns?;
        let probe = if is_probe_named {
            format!("{}, ", self.probe)
        } else {
            String::new()
        };
        let cpu = self
            .cpu
            .map_or_else(String::new, |cpu| format!("CPU {cpu}: "));
        let period = (max >= period).then(|| period.exact())?;
        Some(format!(
            "{probe}{cpu}the largest value, {max}, is longer than the interval of {period}: due \
             times were skipped, and the tool's output does not count them"
        ))
    }
}

/// Renumbers all series of a probe in order if two of them have the same CPU, or if a CPU number is
/// too large, because each series needs a unique name.
fn number_anew(series: &mut [BucketSeries], imported: &mut ImportedRun) {
    let mut names: Vec<(&str, Option<u32>)> = series
        .iter()
        .map(|counted| (counted.probe, counted.cpu))
        .collect();
    names.sort_unstable();
    let is_above_all = names
        .iter()
        .any(|(_, cpu)| cpu.is_some_and(|cpu| cpu > CPU_MAX));
    if is_above_all || names.windows(2).any(|pair| pair[0] == pair[1]) {
        let why = if is_above_all {
            "the CPU numbers are too large"
        } else {
            "several series belong to one CPU"
        };
        imported
            .notes
            .push(format!("{why}: the series are numbered in their order"));
        for (index, counted) in series.iter_mut().enumerate() {
            counted.cpu = u32::try_from(index).ok();
        }
    }
}

/// Returns the totals of those samples that `total` covers but `parts` do not, because rows were
/// omitted; `None` if there are no such samples. If the counts show none, but the maximum of
/// `total` exceeds the maxima of all parts, one such sample is assumed.
pub(super) fn missing_from_rows(
    total: &StatedTotals,
    parts: &[StatedTotals],
) -> Option<StatedTotals> {
    let of_parts = parts.iter().filter_map(|part| part.samples);
    let counted = of_parts.fold(0, u64::saturating_add);
    let others = total.samples.unwrap_or(0).saturating_sub(counted);
    let is_beyond = total.max_ns > parts.iter().filter_map(|part| part.max_ns).max();
    let min_ns = total.min_ns.filter(|_| others > 1).or(total.max_ns);
    let sum = |stated: &StatedTotals| Some(stated.mean_ns? * stated.samples? as f64);
    let of_parts: Option<f64> = parts.iter().map(sum).sum();
    let mean = sum(total).zip(of_parts).filter(|_| others > 0);
    let mean = mean.map(|(sum, of_parts)| (sum - of_parts) / others as f64);
    let mean = mean.or(total.max_ns.map(|max| max.get() as f64));
    (others > 0 || is_beyond).then(|| StatedTotals {
        samples: Some(others.max(1)),
        min_ns,
        // The stated means are rounded, so the mean computed from them may lie outside the range of
        // the values.
        mean_ns: mean.map(|mean| {
            let least = min_ns.map_or(mean, |min| min.get() as f64);
            let most = total.max_ns.map_or(mean, |max| max.get() as f64);
            mean.max(least).min(most)
        }),
        ..*total
    })
}

/// Name of the quantity for wake-up latencies. [`descriptor`] treats all quantities as gaps, except
/// this one, [`ROUND_TRIP`] and [`INTERVAL_ERROR`].
pub(super) const LATENCY: &str = "latency";

/// Name of the quantity for times from the cause of an event to the answer.
pub(super) const ROUND_TRIP: &str = "round trip";

/// Name of the quantity for differences between the interval of two wake-ups and the period.
pub(super) const INTERVAL_ERROR: &str = "interval error";

/// A note for tools that state no distribution.
pub(super) const EXTREMES_NOTE: &str = "only extremes and mean are known: there are no percentiles";

/// A note for tools that state extremes without a number of samples.
pub(super) const UNCOUNTED_NOTE: &str =
    "the number of samples is unknown: only the smallest and the largest sample are counted";

/// Returns a note which states that the samples of buckets of this width were counted at the ends
/// of the buckets ([`BucketSeries::count_at_ends`]).
pub(super) fn wide_note(width: i64) -> String {
    format!(
        "buckets are up to {} wide: a sample gets the value at the end of its bucket, or the \
         maximum if the maximum is smaller",
        Nanos(width)
    )
}

/// Returns the descriptor of an imported series.
#[must_use]
pub fn descriptor(probe: &str, quantity: &str, cpu: Option<u32>, schedule: Schedule) -> Descriptor {
    let plain = Descriptor::latency(probe, cpu.map(CpuId), ClockKind::Hardware, schedule);
    let meaning = match quantity {
        LATENCY | ROUND_TRIP => plain.meaning,
        INTERVAL_ERROR => Meaning::IntervalError {
            has_own_clock: false,
        },
        _ => Meaning::Gap { least: Nanos::ZERO },
    };
    Descriptor {
        quantity: quantity.to_owned(),
        meaning,
        ..plain
    }
}

/// Corrects all series by the totals that the file states, and passes them to the sink. Adds notes,
/// and the length of the run, to `imported`.
///
/// # Errors
/// Returns [`ImportError::Expected`] if there are no samples, or too many series or samples, or a
/// time is too large; returns [`ImportError::Unwritable`] if writing fails.
pub fn hand_over_all(
    series: &mut [BucketSeries],
    imported: &mut ImportedRun,
    source: &Source,
    sink: &mut dyn Sink,
) -> Result<(), ImportError> {
    if series.len() > CPU_MAX as usize {
        return Err(source.expected(
            1,
            format!("at most {CPU_MAX} series"),
            &series.len().to_string(),
        ));
    }
    number_anew(series, imported);
    for counted in series.iter_mut() {
        let cpu = counted
            .cpu
            .map_or_else(String::new, |cpu| format!("CPU {cpu}: "));
        let notes = counted.reconcile();
        imported
            .notes
            .extend(notes.into_iter().map(|note| cpu.clone() + &note));
    }
    if series
        .iter()
        .all(|counted| counted.stated.samples.unwrap_or(0) == 0 && counted.in_buckets() == 0)
        && series.iter().all(|counted| counted.stated.max_ns.is_none())
    {
        return Err(source.expected(1, "at least one sample", "none in the whole file"));
    }
    for counted in series.iter() {
        let overflow = counted
            .stated
            .overflow
            .map_or(0, |overflow| overflow.samples);
        let beside = overflow
            .saturating_add(counted.stated.lost)
            .saturating_add(counted.stated.skipped.unwrap_or(0));
        let samples = counted.in_buckets().saturating_add(beside);
        if samples.max(counted.stated.samples.unwrap_or(0)) > SAMPLES_MAX {
            return Err(source.expected(
                1,
                "fewer samples in a series than 2^53",
                &samples.to_string(),
            ));
        }
        if let Some(far) = counted.far_time() {
            return Err(source.expected(1, NEAR_TIME, &format!("{far} ns")));
        }
    }
    for counted in series.iter_mut() {
        if let (Some(min), Some(max)) = (counted.stated.min_ns, counted.stated.max_ns)
            && min > max
        {
            let cpu = counted
                .cpu
                .map_or_else(String::new, |cpu| format!("CPU {cpu}: "));
            imported.notes.push(format!(
                "{cpu}the file states a minimum of {min} and a maximum of {max}, which is smaller: \
                 neither is used"
            ));
            (counted.stated.min_ns, counted.stated.max_ns) = (None, None);
        }
    }
    let has_probes = series.windows(2).any(|pair| pair[0].probe != pair[1].probe);
    for counted in series.iter() {
        // A series without samples is left out. In the run, it would make the misses of its probe
        // unknown.
        if counted.stated.samples == Some(0) && counted.in_buckets() == 0 {
            let name = match counted.cpu {
                Some(cpu) => format!("CPU {cpu} of {}", counted.probe),
                None => counted.probe.to_owned(),
            };
            imported.notes.push(format!("{name} has no samples"));
            continue;
        }
        counted
            .hand_over(sink)
            .map_err(|error| ImportError::Unwritable {
                path: source.path.clone(),
                error,
            })?;
        imported.notes.extend(counted.overflow_note(has_probes));
        imported.notes.extend(counted.skipped_note(has_probes));
        if let (Some(samples), Some(period), false) =
            (counted.stated.samples, counted.period, counted.is_event)
        {
            let periods = samples.saturating_add(counted.stated.skipped.unwrap_or(0));
            let length = Nanos(
                period
                    .get()
                    .saturating_mul(i64::try_from(periods).unwrap_or(i64::MAX)),
            );
            imported.length = Some(imported.length.map_or(length, |known| known.max(length)));
        }
    }
    Ok(())
}
