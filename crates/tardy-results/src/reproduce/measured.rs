//! The runs of a paper's experiments, by experiment and kernel, and the quantities computed from
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tardy_core::sample::Sample;
use tardy_core::summary::accumulator::PhaseSpan;
use tardy_core::summary::cell::Cell;
use tardy_core::total_delay::{Crossover, crossover};
use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::Warning;
use tardy_machine::facts::{CompiledPreemption, KernelFacts};
use tardy_papers::claim::Paper;
use tardy_papers::experiment::kernel_name;
use tardy_papers::quantity::{Quantity, QuantitySource, Statistic};
use tardy_run::folder;
use tardy_run::record::{PhaseRecord, RunKind, RunRecord};
use tardy_samples::backlog;
use tardy_samples::read_series::SeriesFile;
use tardy_statistics::estimate::Estimate;

use super::LoadAmount;
use crate::cost::summary::{CostSummary, of_record};
use crate::statistics::observed::observed;
use crate::statistics::preset::Preset;
use crate::summary::read::{LoadedRun, SeriesData, read};

/// The name by which a quantity refers to the whole run, including samples that were counted but
/// not stored.
const WHOLE: &str = "run";
/// The name by which a quantity refers to the last phase with load. In the run, the name of that
/// phase consists of the names of its loads.
const LOADED: &str = "load";

/// Returns the path of the file that states why a step has no folder. A step is an experiment, or a
/// part of one, such as `koolwal-cyclictest/1-of-4`.
#[must_use]
pub fn why_file(folder: &Path, step: &str) -> PathBuf {
    folder.join(format!("{}.why", step.replace('/', "-")))
}

/// Returns the reasons why steps of an experiment have no folder, each reason once.
fn reasons(folder: &Path, experiment: &str) -> BTreeSet<String> {
    let is_part = |text: &str| {
        text.strip_prefix('-')
            .and_then(|part| part.split_once("-of-"))
            .is_some_and(|(number, of)| number.parse::<u32>().is_ok() && of.parse::<u32>().is_ok())
    };
    let is_of_experiment = |name: &str| {
        name.strip_prefix(experiment)
            .and_then(|rest| rest.strip_suffix(".why"))
            .is_some_and(|rest| rest.is_empty() || is_part(rest))
    };
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_of_experiment(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .collect()
}

/// Why a quantity has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// All runs of a paper's experiments.
pub struct PaperRuns {
    /// The runs, by experiment and kernel; within a kernel, in the order of replicas.
    runs: BTreeMap<(String, String), Vec<Run>>,
    /// Pairs of the name of an experiment and a reason why a run of it is missing.
    unreadable: Vec<(String, String)>,
}

enum Run {
    Latencies(Box<LoadedRun>),
    Costs(Box<CostSummary>),
}

impl PaperRuns {
    /// Reads the experiments below `folder`. Each experiment has a folder, which contains a run, or
    /// a folder of runs for each kernel.
    #[must_use]
    pub fn read(paper: &Paper, folder: &Path) -> Self {
        let mut found = Self {
            runs: BTreeMap::new(),
            unreadable: Vec::new(),
        };
        for experiment in &paper.experiments {
            for why in reasons(folder, &experiment.name) {
                found.unreadable.push((experiment.name.clone(), why));
            }
            for path in runs_below(&folder.join(&experiment.name)) {
                match run(&path) {
                    Ok((kernel, run)) => found
                        .runs
                        .entry((experiment.name.clone(), kernel))
                        .or_default()
                        .push(run),
                    Err(error) => found.unreadable.push((experiment.name.clone(), error)),
                }
            }
        }
        found
    }

    /// Returns the kernels of an experiment, each with the number of its replicas.
    #[must_use]
    pub fn kernels(&self, experiment: &str) -> Vec<(String, usize)> {
        let of_experiment = self.runs.iter().filter(|((name, _), _)| name == experiment);
        of_experiment
            .map(|((_, kernel), runs)| (kernel.clone(), runs.len()))
            .collect()
    }

    /// Returns the loads that ran in each run of an experiment, with the amount of their work.
    #[must_use]
    pub fn loads(&self, experiment: &str) -> Vec<LoadAmount> {
        let of_run = |record: &RunRecord| {
            let mut operations: BTreeMap<String, u64> = BTreeMap::new();
            for work in &record.load_work {
                *operations.entry(work.load.clone()).or_default() += work.operations;
            }
            operations
        };
        let runs: Vec<_> = self.latency_records(experiment).map(of_run).collect();
        let loads: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
        let least = |load: &String| {
            let of_runs = runs
                .iter()
                .map(|run| run.get(load).copied().unwrap_or_default());
            LoadAmount {
                load: load.clone(),
                least_operations: of_runs.min().unwrap_or_default(),
            }
        };
        loads.into_iter().map(least).collect()
    }

    /// Returns the records of an experiment's runs, except runs that measured costs.
    fn latency_records(&self, experiment: &str) -> impl Iterator<Item = &RunRecord> {
        let of_experiment = self
            .runs
            .iter()
            .filter(move |((name, _), _)| name == experiment);
        let runs = of_experiment.flat_map(|(_, runs)| runs);
        runs.filter_map(|run| match run {
            Run::Latencies(run) => Some(&run.record),
            Run::Costs(_) => None,
        })
    }

    /// Returns whether no run of an experiment was made on another architecture than amd64.
    #[must_use]
    pub fn is_on_amd64(&self, experiment: &str) -> bool {
        self.latency_records(experiment).all(|record| {
            let architecture = record.machine.kernel.architecture.as_deref();
            architecture.is_none_or(|name| name == "x86_64")
        })
    }

    /// Returns how the runs deviate from the experiment.
    #[must_use]
    pub fn remarks(&self, experiment: &str) -> Vec<String> {
        let unreadable = self
            .unreadable
            .iter()
            .filter(|(name, _)| name == experiment)
            .map(|(_, error)| error.clone());
        let mut remarks: Vec<String> = unreadable.collect();
        for ((_, kernel), runs) in self.runs.iter().filter(|((name, _), _)| name == experiment) {
            let latencies = runs.iter().filter_map(|run| {
                if let Run::Latencies(run) = run {
                    Some(run)
                } else {
                    None
                }
            });
            for warning in latencies
                .flat_map(|run| &run.record.warnings)
                .filter(|warning| matches!(warning, Warning::LoadAbsent { .. }))
            {
                let remark = format!("{kernel}: {warning}");
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
        }
        remarks
    }

    /// Returns the first run of each kernel of an experiment below `folder`.
    #[must_use]
    pub fn first_runs(experiment: &str, folder: &Path) -> Vec<(String, PathBuf)> {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for path in runs_below(&folder.join(experiment)) {
            let Ok(record) = folder::open(&path) else {
                continue;
            };
            let kernel = kernel_of(&record);
            if record.kind != RunKind::Cost && !found.iter().any(|(known, _)| *known == kernel) {
                found.push((kernel, path));
            }
        }
        found
    }

    /// Returns the number of replicas that measured a quantity.
    #[must_use]
    pub fn replicas(&self, quantity: &Quantity, experiment: &str) -> usize {
        self.runs
            .get(&key(quantity, experiment))
            .map_or(0, Vec::len)
    }

    /// Returns the value of a quantity in one replica.
    ///
    /// # Errors
    /// If there is no value, returns the reason as an error.
    pub fn value(
        &self,
        quantity: &Quantity,
        experiment: &str,
        replica: usize,
    ) -> Result<f64, Refusal> {
        let key = key(quantity, experiment);
        let run = self
            .runs
            .get(&key)
            .and_then(|runs| runs.get(replica))
            .ok_or_else(|| self.absent(&key))?;
        match (&quantity.of, run) {
            (QuantitySource::Cost { metric }, Run::Costs(costs)) => {
                let found = costs.metrics.iter().find(|found| found.name == *metric);
                found.map(|found| found.cost).ok_or_else(|| {
                    let left_out = costs.left_out.iter().find(|left| left.name == *metric);
                    let why = left_out.map_or(String::new(), |left| format!(": {}", left.reason));
                    Refusal(format!(
                        "{metric} was not measured on the kernel {}{why}",
                        key.1
                    ))
                })
            }
            (QuantitySource::CostsWithin { percent, than }, Run::Costs(costs)) => {
                let other = (key.0.clone(), than.clone());
                let runs = self.runs.get(&other);
                let run = runs.and_then(|runs| runs.get(replica));
                match run.ok_or_else(|| self.absent(&other))? {
                    Run::Costs(others) => costs_within(costs, others, *percent)
                        .ok_or_else(|| Refusal("the kernels have no service in common".into())),
                    Run::Latencies(_) => Err(of_another_kind(&other)),
                }
            }
            (of, Run::Latencies(run)) => self.of_latencies(of, run, &key, replica),
            _ => Err(of_another_kind(&key)),
        }
    }

    /// Returns the value of a quantity that is computed from samples.
    fn of_latencies(
        &self,
        of: &QuantitySource,
        run: &LoadedRun,
        key: &(String, String),
        replica: usize,
    ) -> Result<f64, Refusal> {
        let of_cell = |cell: &Cell, phase: &str, statistic| {
            worth(cell, statistic).ok_or_else(|| {
                Refusal(format!(
                    "there is no sample in the phase {phase} on the kernel {}",
                    key.1
                ))
            })
        };
        match of {
            QuantitySource::Phase {
                phase,
                probe,
                statistic,
            } => of_cell(&cell(run, phase, probe.as_deref())?, phase, *statistic),
            QuantitySource::Backlog { phase, statistic } => {
                of_cell(&backlog(run, phase)?, phase, *statistic)
            }
            QuantitySource::Tenths { phase } => typical_max_of_tenths(run, phase),
            QuantitySource::Period { probe } => period(run, probe),
            QuantitySource::Interval {
                phase,
                probe,
                statistic,
            } => {
                let error = of_cell(&cell(run, phase, Some(probe))?, phase, *statistic)?;
                Ok(period(run, probe)? + error)
            }
            QuantitySource::Crossover {
                percent,
                fast,
                phase,
                statistic,
            } => {
                let of_kernel = |kernel: &str| {
                    let quantity = Quantity {
                        experiment: None,
                        kernel: kernel.to_owned(),
                        of: QuantitySource::Phase {
                            phase: phase.clone(),
                            probe: None,
                            statistic: *statistic,
                        },
                    };
                    self.value(&quantity, &key.0, replica).map(Estimate::exact)
                };
                let slowdown = Estimate::exact(percent / 100.0);
                match crossover(of_kernel(fast)?, of_kernel(&key.1)?, slowdown) {
                    Crossover::At { work_ns, .. } => Ok(work_ns),
                    _ => Err(Refusal(format!(
                        "the kernel {} does not start work sooner than {fast}",
                        key.1
                    ))),
                }
            }
            QuantitySource::Cost { .. } | QuantitySource::CostsWithin { .. } => {
                Err(of_another_kind(key))
            }
        }
    }

    fn absent(&self, (experiment, kernel): &(String, String)) -> Refusal {
        let kernels: Vec<String> = self
            .kernels(experiment)
            .into_iter()
            .map(|(kernel, _)| kernel)
            .collect();
        Refusal(
            match (
                kernels.is_empty(),
                self.unreadable.iter().find(|(name, _)| name == experiment),
            ) {
                (_, Some((_, error))) => error.clone(),
                (true, None) => format!("there is no run of {experiment}"),
                (false, None) => format!(
                    "a kernel of the kind {kernel} is needed; measured kernels: {}",
                    kernels.join(", ")
                ),
            },
        )
    }
}

fn key(quantity: &Quantity, experiment: &str) -> (String, String) {
    (
        quantity
            .experiment
            .clone()
            .unwrap_or_else(|| experiment.to_owned()),
        quantity.kernel.clone(),
    )
}

fn of_another_kind((experiment, _): &(String, String)) -> Refusal {
    Refusal(format!(
        "the folder of {experiment} holds runs of another kind"
    ))
}

/// Compares the costs of the services that were measured in both runs. A service passes if its cost
/// in `costs` is at most `percent` higher than in `others`. Returns the share of services that
/// pass; `None` if no service was measured in both runs.
fn costs_within(costs: &CostSummary, others: &CostSummary, percent: f64) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = costs
        .metrics
        .iter()
        .filter_map(|ours| {
            let other = others
                .metrics
                .iter()
                .find(|other| other.name == ours.name)?;
            Some((ours.cost, other.cost))
        })
        .collect();
    share_within(&pairs, percent)
}

fn share_within(pairs: &[(f64, f64)], percent: f64) -> Option<f64> {
    let limit = 1.0 + percent / 100.0;
    let within = pairs
        .iter()
        .filter(|(ours, other)| *ours <= other * limit)
        .count();
    (!pairs.is_empty()).then(|| within as f64 / pairs.len() as f64)
}

/// Returns the runs below `folder`, in the order of replicas.
fn runs_below(folder: &Path) -> Vec<PathBuf> {
    if folder.exists() {
        folder::folders(folder)
    } else {
        Vec::new()
    }
}

/// Reads a run and the name of its kernel.
fn run(path: &Path) -> Result<(String, Run), String> {
    // Texts about a folder contain only its name, so they do not depend on where the folder is.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let record =
        folder::open(path).map_err(|_| format!("{name}: the guest or the run left no result"))?;
    let kernel = kernel_of(&record);
    let run = match record.kind {
        RunKind::Cost => of_record(path, record)
            .map(|costs| Run::Costs(Box::new(costs)))
            .map_err(|error| error.to_string())?,
        _ => read(path, &Requirement::default())
            .map(|run| Run::Latencies(Box::new(run)))
            .map_err(|error| error.to_string())?,
    };
    Ok((kernel, run))
}

fn kernel_of(record: &RunRecord) -> String {
    name_of(&record.machine.kernel)
}

/// Returns the name by which claims refer to a kernel: its preemption model, with a mark if the
/// kernel is older than Linux 6, and one if its timers expire only at ticks.
fn name_of(kernel: &KernelFacts) -> String {
    let mode = match &kernel.preemption {
        Some(preemption) if preemption.compiled == CompiledPreemption::RealTime => "rt",
        Some(preemption) => preemption
            .mode
            .as_deref()
            .unwrap_or(match preemption.compiled {
                CompiledPreemption::Full => "full",
                CompiledPreemption::Lazy => "lazy",
                // Distributions whose kernels are built without full or lazy preemption use
                // PREEMPT_VOLUNTARY.
                CompiledPreemption::VoluntaryOrNone => "voluntary",
                _ => "unknown",
            }),
        None => "unknown",
    };
    let major: Option<u32> = kernel
        .release
        .as_deref()
        .and_then(|release| release.split('.').next()?.parse().ok());
    kernel_name(
        mode,
        major.is_some_and(|major| major < 6),
        kernel.high_resolution_timers == Some(false),
    )
}

fn cell(run: &LoadedRun, phase: &str, probe: Option<&str>) -> Result<Cell, Refusal> {
    let probes = run.probes();
    let probe = match probe {
        Some(probe) => probes.iter().copied().find(|name| *name == probe),
        None => probes.first().copied(),
    };
    let probe = probe.ok_or_else(|| Refusal("the probe did not run".to_owned()))?;
    if phase == WHOLE {
        return Ok(run.of_probe(probe));
    }
    let found = &run.record.phases[phase_index(run, phase)?];
    let absent = run
        .record
        .warnings
        .iter()
        .find(|warning| matches!(warning, Warning::LoadAbsent { .. }));
    match absent {
        // If the only load of a phase could not run, the phase would look like an idle phase.
        Some(absent) if found.loads.is_empty() && !matches!(phase, "idle" | "no-load") => {
            Err(Refusal(absent.to_string()))
        }
        _ => Ok(run.of_load(probe, &found.name, &tardy_core::cpu::CpuList::default())),
    }
}

fn phase_index(run: &LoadedRun, phase: &str) -> Result<usize, Refusal> {
    let is_meant =
        |found: &PhaseRecord| found.name == phase || (phase == LOADED && !found.loads.is_empty());
    let index = run.record.phases.iter().rposition(is_meant);
    index.ok_or_else(|| Refusal(format!("the run has no phase {phase}")))
}

/// Returns the series of the first probe, each with the time in which it was in a phase under that
/// phase's loads. Refuses a run that lacks the phase or its loads.
fn of_first_probe<'a>(
    run: &'a LoadedRun,
    phase: &str,
) -> Result<impl Iterator<Item = (&'a SeriesData, PhaseSpan)>, Refusal> {
    cell(run, phase, None)?;
    let index = phase_index(run, phase)?;
    let probe = run.probes().first().copied();
    let series = run.series.iter();
    let of_probe = series.filter(move |series| Some(&*series.descriptor().probe) == probe);
    Ok(of_probe.map(move |series| {
        let (begin, end) = run.record.under_load(index, series.descriptor().cpu);
        (series, PhaseSpan { begin, end })
    }))
}

/// Returns the median (the fifth of ten) of the largest latencies, in ns, in the ten equal parts of
/// a phase.
fn typical_max_of_tenths(run: &LoadedRun, phase: &str) -> Result<f64, Refusal> {
    let mut maxima = [i64::MIN; 10];
    for (series, span) in of_first_probe(run, phase)? {
        let schedule = series.descriptor().schedule;
        SeriesFile::open(series.file())
            .and_then(|file| {
                file.read(&mut |chunk| {
                    let samples = chunk.samples(&schedule).map(|(_, sample)| sample);
                    add_to_tenths(&mut maxima, samples, span);
                })
            })
            .map_err(|error| Refusal(error.to_string()))?;
    }
    if maxima.contains(&i64::MIN) {
        return Err(Refusal(format!(
            "a tenth of the phase {phase} has no sample"
        )));
    }
    maxima.sort_unstable();
    Ok(maxima[4] as f64)
}

/// Raises the largest latencies, in ns, in the ten equal parts of `span` to those of `samples`.
fn add_to_tenths(maxima: &mut [i64; 10], samples: impl Iterator<Item = Sample>, span: PhaseSpan) {
    let length = i128::from((span.end - span.begin).get());
    for sample in samples.filter(|sample| (span.begin..span.end).contains(&sample.due)) {
        let since = i128::from((sample.due - span.begin).get());
        let part = &mut maxima[(since * 10 / length) as usize];
        *part = sample.latency.get().max(*part);
    }
}

/// Returns how late the first probe's wake-ups in a phase are, relative to a schedule that skips no
/// period.
fn backlog(run: &LoadedRun, phase: &str) -> Result<Cell, Refusal> {
    if run.record.machine.kernel.high_resolution_timers != Some(false) {
        return Err(Refusal(
            "the kernel's timers do not fire on ticks, so a late sleep returns at once".to_owned(),
        ));
    }
    let mut together = Cell::default();
    for (series, span) in of_first_probe(run, phase)? {
        let found = SeriesFile::open(series.file())
            .and_then(|file| backlog::read(&file, span))
            .map_err(|error| Refusal(error.to_string()))?;
        together.merge_counts(&found);
    }
    Ok(together)
}

/// Returns the nominal time between the events of a probe, in ns.
fn period(run: &LoadedRun, probe: &str) -> Result<f64, Refusal> {
    let of_probe = |series: &&SeriesData| series.descriptor().probe == probe;
    let series = run.series.iter().find(of_probe);
    let series = series.ok_or_else(|| Refusal("the probe did not run".to_owned()))?;
    Ok(series.descriptor().schedule.period().get() as f64)
}

/// Returns the value of a statistic: a time in ns, a share between 0 and 1, or a number of samples.
/// `None` if there are no samples.
fn worth(cell: &Cell, statistic: Statistic) -> Option<f64> {
    let latency = &cell.latency;
    let samples = latency.count();
    let (min, max) = (latency.min()?, latency.max()?);
    Some(match statistic {
        Statistic::Max => max as f64,
        Statistic::Min => min as f64,
        Statistic::Range => (max - min) as f64,
        Statistic::Magnitude => max.max(-min) as f64,
        Statistic::Samples => samples as f64,
        Statistic::Mean => mean(cell),
        Statistic::StandardDeviation => {
            let (mean, mut squares) = (mean(cell), 0.0);
            latency
                .for_each(|value, count| squares += (value as f64 - mean).powi(2) * count as f64);
            (squares / samples as f64).sqrt()
        }
        Statistic::Quantile(share) => latency
            .values_at(&[((share * samples as f64).ceil() as u64).clamp(1, samples)])[0]?
            as f64,
        Statistic::BucketMedian => {
            let median = latency.values_at(&[samples.div_ceil(2)])[0]?;
            let width = Preset::Williams2002.bucket().get();
            (median.div_euclid(width) * width + width / 2) as f64
        }
        Statistic::BucketMode => {
            observed(latency, Preset::Williams2002.bucket(), &[])?.mode_middle_ns as f64
        }
        Statistic::Below(limit) => 1.0 - latency.above(limit - 1) as f64 / samples as f64,
    })
}

fn mean(cell: &Cell) -> f64 {
    cell.sum as f64 / cell.latency.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::units::Nanos;

    #[test]
    fn statistics_are_those_of_the_samples() {
        let mut cell = Cell::default();
        for value in [-40_000, 10_000, 20_000, 30_000] {
            cell.latency.record(value);
            cell.sum += i128::from(value);
        }
        let of = |text: &str| worth(&cell, text.parse().unwrap()).unwrap();
        assert_eq!(
            [of("min"), of("max"), of("range"), of("magnitude")],
            [-40_000.0, 30_000.0, 70_000.0, 40_000.0]
        );
        assert_eq!(
            [of("mean"), of("samples"), of("p50"), of("p100")],
            [5_000.0, 4.0, 10_000.0, 30_000.0]
        );
        assert_eq!([of("<20us"), of("<20001ns")], [0.5, 0.75]);
        assert_eq!([of("bucket-median"), of("bucket-mode")], [50_000.0; 2]);
        // The population standard deviation: the root of the mean of 45^2, 5^2, 15^2 and 25^2.
        assert!((of("sd") - 26_925.824).abs() < 0.001, "{}", of("sd"));
        assert_eq!(worth(&Cell::default(), Statistic::Max), None);
    }

    #[test]
    fn each_tenth_of_a_phase_has_its_largest_latency() {
        let sample = |due: i64| Sample {
            due: Nanos(due),
            latency: Nanos(1_000 - due),
            ..Sample::default()
        };
        let span = PhaseSpan {
            begin: Nanos(100),
            end: Nanos(200),
        };
        let mut maxima = [i64::MIN; 10];
        add_to_tenths(&mut maxima, (0..300).map(sample), span);
        assert_eq!(maxima, [900, 890, 880, 870, 860, 850, 840, 830, 820, 810]);
    }

    /// In the published table of koolwal2009, too, more than half of the services are within a
    /// tenth.
    #[test]
    fn services_within_a_percentage_are_counted_up_to_the_limit() {
        let pairs = [
            (110.0, 100.0),
            (111.0, 100.0),
            (50.0, 100.0),
            (300.0, 100.0),
        ];
        assert_eq!(share_within(&pairs, 10.0), Some(0.5));
        assert_eq!(share_within(&[], 10.0), None);
        let of_paper = ["koolwal2009_lmbench", "koolwal2009_lmbench_cut"]
            .iter()
            .flat_map(|name| tardy_papers::published::find(name).unwrap().rows())
            .map(|row| {
                let [rt, full] = [row[4], row[3]].map(|cell| cell.parse::<f64>().unwrap());
                if row[1] == "MB/s" {
                    (1.0 / rt, 1.0 / full)
                } else {
                    (rt, full)
                }
            });
        let of_paper: Vec<(f64, f64)> = of_paper.collect();
        assert_eq!(share_within(&of_paper, 10.0), Some(14.0 / 27.0));
    }

    #[test]
    fn kernels_are_named_by_model_age_and_timers() {
        let named = |json: serde_json::Value| name_of(&serde_json::from_value(json).unwrap());
        let of = |release: &str, compiled: &str, mode: Option<&str>, highres: Option<bool>| {
            let preemption = serde_json::json!({"compiled": compiled, "mode": mode});
            named(
                serde_json::json!({"release": release, "preemption": preemption, "high_resolution_timers": highres}),
            )
        };
        assert_eq!(
            of("6.1.0-56-amd64", "dynamic", Some("none"), Some(true)),
            "none"
        );
        assert_eq!(
            of("6.1.0-56-amd64", "dynamic", Some("voluntary"), Some(false)),
            "voluntary+ticks"
        );
        assert_eq!(
            of("6.1.0-56-rt-amd64", "real-time", Some("full"), None),
            "rt"
        );
        assert_eq!(
            of("5.10.0-30-amd64", "voluntary-or-none", None, None),
            "older-voluntary"
        );
        assert_eq!(named(serde_json::json!({})), "unknown");
    }
}
