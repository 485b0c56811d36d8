//! Collects the data of charts: the numbers of a run's summary, and the result of one pass over its
//! samples. All charts use the same data, which is read once.

use std::path::Path;

use tardy_core::histogram::Histogram;
use tardy_core::series::Descriptor;
use tardy_core::summary::dependence::Dependence;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;
use tardy_outside::census::{Group as Sections, census, is_watched};
use tardy_results::explain::Late;
use tardy_results::explain::cycles::{CycleExplanation, explain_cycles};
use tardy_results::explain::run::{RunExplanation, RunQuestion};
use tardy_results::explain::source::explain_run;
use tardy_results::statistics;
use tardy_results::statistics::read::{
    Question, Statistics, TailReaders, side_by_side, statistics_of, tail_readers,
};
use tardy_results::statistics::tail::CurvePoint;
use tardy_results::summary::model::Summary;
use tardy_results::summary::read::{LoadedRun, SeriesData, SummaryError, read};
use tardy_run::record::{RunKind, RunRecord};
use tardy_samples::read_series::{SeriesError, SeriesFile};
use tardy_samples::sweep::{Division, SeriesExtract, sweep, sweep_with};
use tardy_samples::tail::TailReader;

use super::cpu_map::CpuMap;
use super::model::Span;

/// Number of CPUs that get a separate colour in a chart. If there are more CPUs, each of the worst
/// CPUs gets a separate colour, and the others share one.
pub const LANES_MAX: usize = 7;
/// Number of worst samples of an explained run that are shown in full.
const STORIES: usize = 5;

/// Why a run has no data for charts.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder, or a series in it, cannot be read.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// The folder contains costs, not latencies.
    #[error("{0} holds costs of operations, not latencies: see `tardy show {0}`")]
    Cost(String),
}

/// How detailed the collected data are.
#[derive(Debug, Clone)]
pub struct Detail {
    /// Number of time intervals for which the smallest and the largest latency are collected,
    /// summed over all drawn CPUs.
    pub columns: usize,
    /// Maximum number of samples that are drawn one by one; more samples are drawn as cells of a
    /// grid.
    pub points: usize,
    /// Parameters of the statistics, including the tail model; `None` if no statistics are needed.
    pub statistics: Option<Question>,
}

/// Maximum number of cycles of a followed program that are listed, the longest first.
const CYCLES_MAX: usize = 5;

#[derive(Debug)]
pub struct RunData {
    /// Name of the run: the name of its folder.
    pub name: String,
    /// Path of the run's folder, as given.
    pub folder: String,
    /// The contents of the run's `run.json`.
    pub record: RunRecord,
    /// The summary that `tardy show` prints.
    pub summary: Summary,
    pub probes: Vec<ProbeData>,
    /// The statistics of the run, if requested.
    pub statistics: Option<Statistics>,
    /// The causes of late samples, if the run was explained and statistics were requested.
    pub explanation: Option<RunExplanation>,
    /// Cycles of the threads that `tardy attach` followed, if statistics were requested.
    pub cycles: Option<CycleExplanation>,
    /// Sections of the kernel by load, if the run was watched and statistics were requested.
    pub watched: Vec<Sections>,
}

/// Samples that have a property in common, such as a load or a CPU.
#[derive(Debug, Clone)]
pub struct Group {
    /// Name of the group in legends.
    pub name: String,
    /// The property that the samples of the group have in common.
    pub what: GroupKind,
    /// The latencies of the samples.
    pub histogram: Histogram,
    /// How the samples depend on each other.
    pub dependence: Dependence,
    /// The part of the tail model's curve that lies above the model's threshold; empty if there is
    /// no model or if a check refused it.
    pub model: Vec<CurvePoint>,
}

/// The property that the samples of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// The samples share only the probe.
    All,
    Load,
    /// The samples share the probe and the CPU.
    Processor,
}

/// One series over time, or the combination of several series.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Name of the lane on axes, such as its CPU.
    pub name: String,
    /// The samples of the lane, in the reduced form that charts use.
    pub swept: SeriesExtract,
}

/// The data of one probe of a run.
#[derive(Debug)]
pub struct ProbeData {
    /// Name of the probe in the run.
    pub probe: String,
    /// Name of the quantity that a value measures.
    pub quantity: String,
    /// The first group contains all samples. If there are several loads, a group for each load
    /// follows. If there are several CPUs, a group for each of the [`LANES_MAX`] worst CPUs
    /// follows.
    pub groups: Vec<Group>,
    /// The CPUs over time, worst CPU first.
    pub lanes: Vec<Lane>,
    /// The largest latency of each CPU over time, by CPU number.
    pub map: CpuMap,
    /// Time from the start of the run to its last wake-up, in s.
    pub length: f64,
    /// The phases of the run, in s from its start.
    pub spans: Vec<Span>,
    /// The largest latency: its due time in s from the start of the run, and its value in ns.
    pub worst: Option<(f64, i64)>,
    /// Whether some samples were not stored. If so, charts over time lack these samples.
    pub is_partial: bool,
    /// The window of values that meet the deadline; absent if the probe cannot miss a deadline.
    pub window: Option<Window>,
}

impl ProbeData {
    /// Returns the group of all samples.
    #[must_use]
    pub fn all(&self) -> &Group {
        &self.groups[0]
    }

    /// Returns whether the probe has samples that can be drawn over time.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.length > 0.0 && self.lanes.iter().any(|lane| lane.swept.samples > 0)
    }
}

impl RunData {
    /// Reads the run in `path`. The run is judged against `requirement` or, if none is given,
    /// against the window that was set when the run was made.
    ///
    /// # Errors
    /// Fails with a [`DataError`] if the folder or one of its series cannot be read, or if it
    /// contains costs.
    pub fn read(
        path: &Path,
        requirement: &Requirement,
        detail: &Detail,
    ) -> Result<Self, DataError> {
        let run = read(path, requirement)?;
        if run.record.kind == RunKind::Cost {
            return Err(DataError::Cost(path.display().to_string()));
        }
        let summary = run.summary();
        let probes = run.probes();
        // One pass over the samples collects the data for both the charts over time and the tail
        // models.
        let mut tails = detail
            .statistics
            .as_ref()
            .map_or_else(TailReaders::new, |question| tail_readers(&run, question));
        let over_time = |probe: &&str| over_time(&run, probe, detail, &mut tails);
        let over_time: Vec<OverTime> = probes.iter().map(over_time).collect::<Result<_, _>>()?;
        let statistics = detail
            .statistics
            .as_ref()
            .map(|question| statistics_of(&run, question, &tails));
        let one = |(probe, over_time): (&&str, OverTime)| {
            probe_data(&run, &summary, statistics.as_ref(), probe, over_time)
        };
        let data: Vec<ProbeData> = probes.iter().zip(over_time).map(one).collect();
        let explained = || {
            explain_run(
                path,
                RunQuestion {
                    worst: STORIES,
                    late: Late::Worst,
                    from_outside: false,
                },
            )
            .ok()
        };
        let is_explained = run.record.tracing.is_some() || is_watched(path);
        let explanation = statistics
            .as_ref()
            .filter(|_| is_explained)
            .and_then(|_| explained());
        // If the cycles cannot be read, the run is shown without them.
        let cycles = statistics
            .as_ref()
            .and_then(|_| explain_cycles(path, None, CYCLES_MAX).ok().flatten());
        let watched = if statistics.is_some() && is_watched(path) {
            census(path).map_or_else(|_| Vec::new(), |census| census.groups)
        } else {
            Vec::new()
        };
        let name = path
            .file_name()
            .or(path.components().next_back().map(|last| last.as_os_str()));
        Ok(Self {
            name: name.map_or_else(
                || path.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
            folder: path.display().to_string(),
            probes: data,
            // If the explanations cannot be read, the run is shown without them.
            explanation,
            cycles,
            watched,
            statistics,
            record: run.record,
            summary,
        })
    }

    /// Returns the probe named `name`, if it has samples.
    #[must_use]
    pub fn probe(&self, name: &str) -> Option<&ProbeData> {
        self.probes
            .iter()
            .find(|probe| probe.probe == name)
            .filter(|probe| probe.all().histogram.count() > 0)
    }

    /// Returns a short name of the kernel, for captions.
    #[must_use]
    pub fn kernel(&self) -> String {
        self.record
            .machine
            .kernel
            .release
            .clone()
            .unwrap_or_else(|| "unknown kernel".to_owned())
    }
}

/// The samples of a probe over time.
struct OverTime {
    length: Nanos,
    lanes: Vec<Lane>,
    map: CpuMap,
}

fn over_time(
    run: &LoadedRun,
    probe: &str,
    detail: &Detail,
    tails: &mut TailReaders,
) -> Result<OverTime, DataError> {
    let start = run.record.started.monotonic_ns;
    let length = run.last_wake().map_or(Nanos::ZERO, |last| last - start);
    let series = worst_first(run, probe);
    let division = Division {
        start,
        length,
        columns: columns_each(detail, series.len()),
        points: detail.points,
    };
    let mut map = CpuMap::new(
        &series
            .iter()
            .filter_map(|read| read.descriptor().cpu)
            .collect(),
    );
    let mut lanes: Vec<Lane> = Vec::new();
    let count = series.len();
    let add = |index: usize, read: &SeriesData, swept: SeriesExtract| {
        if let Some(cpu) = read.descriptor().cpu {
            map.add(cpu, &swept.columns);
        }
        match lanes.get_mut(LANES_MAX) {
            // If there is only one more series than there are colours, it gets its own line in
            // grey.
            Some(rest) if index > LANES_MAX => {
                rest.swept.add_beside(&swept);
                rest.name = format!("{} others", count - LANES_MAX);
            }
            _ => lanes.push(Lane {
                name: series_name(read),
                swept,
            }),
        }
    };
    sweep_all(&series, division, tails, add).map_err(SummaryError::from)?;
    Ok(OverTime { length, lanes, map })
}

/// Reads all series in one pass, with as many threads as there are CPUs. Several series are read in
/// parallel. If there are fewer series than CPUs, parts of one series are also read in parallel,
/// unless the series needs a tail model. `add` gets the results in the order of `series`. At most
/// one result per CPU is in memory at a time.
fn sweep_all(
    series: &[&SeriesData],
    division: Division,
    tails: &mut TailReaders,
    mut add: impl FnMut(usize, &SeriesData, SeriesExtract),
) -> Result<(), SeriesError> {
    let threads = SeriesFile::threads() as usize;
    for (place, some) in series.chunks(threads).enumerate() {
        let mut readers: Vec<(&SeriesData, Option<TailReader>)> = some
            .iter()
            .map(|read| (*read, tails.remove(read.file())))
            .collect();
        let swept = side_by_side(readers.iter_mut(), |(read, tail)| match tail {
            None if series.len() < threads => sweep(read.file(), division),
            tail => sweep_with(read.file(), division, tail.as_mut()),
        });
        for (index, swept) in swept.into_iter().enumerate() {
            add(place * threads + index, some[index], swept?);
        }
        tails.extend(
            readers
                .into_iter()
                .filter_map(|(read, tail)| Some((read.file().to_owned(), tail?))),
        );
    }
    Ok(())
}

fn probe_data(
    run: &LoadedRun,
    summary: &Summary,
    statistics: Option<&Statistics>,
    probe: &str,
    over_time: OverTime,
) -> ProbeData {
    let OverTime { length, lanes, map } = over_time;
    let start = run.record.started.monotonic_ns;
    let all = run.of_probe(probe);
    let worst = all
        .worst
        .map(|worst| ((worst.due - start).as_secs_f64(), worst.latency.get()));
    let series: Vec<_> = run
        .series
        .iter()
        .filter(|read| read.descriptor().probe == probe)
        .collect();
    let is_partial = series.iter().any(|read| read.counts().unstored > 0);
    ProbeData {
        probe: probe.to_owned(),
        quantity: series
            .first()
            .map_or_else(String::new, |read| read.descriptor().quantity.clone()),
        groups: groups(run, summary, statistics, probe, all.latency),
        lanes,
        map,
        length: length.as_secs_f64(),
        spans: summary
            .phases
            .iter()
            .map(|phase| Span {
                name: phase.name.clone(),
                begin: phase.begin_ns.as_secs_f64(),
                end: phase.end_ns.as_secs_f64().min(length.as_secs_f64()),
            })
            .collect(),
        worst,
        is_partial,
        window: run
            .window()
            .filter(|_| series.iter().any(|read| read.is_judged())),
    }
}

fn columns_each(detail: &Detail, series: usize) -> usize {
    detail.columns / series.clamp(1, LANES_MAX + 1)
}

fn groups(
    run: &LoadedRun,
    summary: &Summary,
    statistics: Option<&Statistics>,
    probe: &str,
    all: Histogram,
) -> Vec<Group> {
    let mut groups = vec![Group {
        name: "all samples".to_owned(),
        what: GroupKind::All,
        histogram: all,
        dependence: run.dependence_of_probe(probe),
        model: Vec::new(),
    }];
    if summary.loads.len() > 1 {
        for load in &summary.loads {
            let histogram = run.of_load(probe, &load.name, &load.not_stressed).latency;
            let dependence = run.dependence_of_load(probe, &load.name, &load.not_stressed);
            groups.push(Group {
                name: load.name.clone(),
                what: GroupKind::Load,
                histogram,
                dependence,
                model: Vec::new(),
            });
        }
    }
    let series = worst_first(run, probe);
    match series.as_slice() {
        // A tail model describes one series. Several series together are a mixture, which has no
        // model.
        [one] => groups[0].model = model(statistics, one),
        several => {
            for read in several.iter().take(LANES_MAX) {
                let (name, what, histogram) = (
                    series_name(read),
                    GroupKind::Processor,
                    read.whole().latency.clone(),
                );
                let dependence = Dependence::of(&[read.whole()]);
                groups.push(Group {
                    name,
                    what,
                    histogram,
                    dependence,
                    model: model(statistics, read),
                });
            }
        }
    }
    groups.retain(|group| group.what == GroupKind::All || group.histogram.count() > 0);
    groups
}

/// Returns the curve of a series' tail model, if no check refused the model.
fn model(statistics: Option<&Statistics>, read: &SeriesData) -> Vec<CurvePoint> {
    let Descriptor {
        probe, cpu, copy, ..
    } = read.descriptor();
    let is_same = |group: &&statistics::read::Group| {
        !group.is_together && (&group.probe, group.cpu, group.copy) == (probe, *cpu, *copy)
    };
    let group = statistics.and_then(|statistics| statistics.groups.iter().find(is_same));
    group
        .and_then(|group| group.tail.as_ref()?.model.as_ref())
        .map_or_else(Vec::new, |model| model.curve.clone())
}

fn worst_first<'a>(run: &'a LoadedRun, probe: &str) -> Vec<&'a SeriesData> {
    let mut series: Vec<&SeriesData> = run
        .series
        .iter()
        .filter(|read| read.descriptor().probe == probe)
        .collect();
    series.sort_by_key(|read| {
        (
            std::cmp::Reverse(read.whole().latency.max()),
            read.descriptor().cpu,
            read.descriptor().copy,
        )
    });
    series
}

/// Returns a name for a series: its CPU or, if its thread was not bound to a CPU, the number of its
/// copy.
fn series_name(read: &SeriesData) -> String {
    let descriptor = read.descriptor();
    match (descriptor.cpu, descriptor.copy) {
        (Some(cpu), _) => format!("CPU {cpu}"),
        (None, Some(copy)) => format!("copy {copy}"),
        (None, None) => "no fixed CPU".to_owned(),
    }
}
