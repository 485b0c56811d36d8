//! An atlas is a table of kernels and loads. Each cell has the latencies of several runs of the
//! same kernel under the same load (replicas). The atlas also lists changes from one release to the
//! next.

mod changes;

use std::path::PathBuf;

use serde::Serialize;
use tardy_core::cpu::CpuList;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_machine::facts::{CompiledPreemption, KernelFacts};

use crate::summary::read::{LoadedRun, read};

pub use changes::{Change, Statistic};

/// A kernel as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInput {
    /// Name of the kernel in tables.
    pub name: String,
    /// The package that contains the kernel.
    pub package: Option<String>,
    /// Words that are added to the kernel's command line. Kernels with different command-line words
    /// are not compared.
    pub words: Vec<String>,
}

/// One replica of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellInput {
    pub kernel: usize,
    pub load: usize,
    /// The run folder, or the reason why there is none.
    pub result: Result<PathBuf, CellFailure>,
}

/// Why a replica has no samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellFailure {
    pub words: String,
    /// Whether the kernel itself failed. If not, the kernel works, but the load or the probe cannot
    /// run on it.
    pub is_of_kernel: bool,
}

/// The runs from which an atlas is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtlasInput {
    /// A sentence that states what the numbers mean.
    pub meaning: String,
    pub kernels: Vec<KernelInput>,
    /// Kernels that are missing in the atlas, each with the reason.
    pub absent: Vec<(String, String)>,
    pub loads: Vec<String>,
    pub replicas: u32,
    /// The replicas that have a run or failed, sorted by kernel, replica number and load.
    pub cells: Vec<CellInput>,
}

/// A table of kernels and loads, and the changes from one release to the next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Atlas {
    pub meaning: String,
    pub replicas: u32,
    /// Time between two wake-ups of the probe. A delay that is shorter can fall between two
    /// wake-ups and stay unseen.
    pub period_ns: Option<Nanos>,
    pub kernels: Vec<AtlasKernel>,
    /// Kernels that are missing in the atlas, each with the reason.
    pub absent: Vec<(String, String)>,
    pub loads: Vec<String>,
    /// The cells, by kernel and load.
    pub cells: Vec<Vec<AtlasCell>>,
    /// Changes between releases, largest first.
    pub changes: Vec<Change>,
    /// Number of pairs of cells that were compared.
    pub compared: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AtlasKernel {
    pub name: String,
    pub package: Option<String>,
    pub words: Vec<String>,
    /// The release from `uname -r`; `None` if no run records it.
    pub release: Option<String>,
    /// The preemption model: none, voluntary, full, lazy or rt. For an RT kernel whose model is not
    /// full, the value is `rt-` and that model, such as rt-lazy.
    pub model: Option<String>,
}

/// A cell of the table: a kernel under a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AtlasCell {
    /// Number of replicas with samples.
    pub runs: u32,
    /// Why the other replicas have no samples.
    pub failures: Vec<CellFailure>,
    /// The latencies; absent if there are no samples.
    pub numbers: Option<CellNumbers>,
}

/// The measured latencies of a cell, for all replicas together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellNumbers {
    pub samples: u64,
    pub median_ns: Nanos,
    pub p99_ns: Nanos,
    pub p999_ns: Nanos,
    pub max_ns: Nanos,
    /// The 99.9 % quantile of the latencies of each replica.
    pub p999_of_runs_ns: Vec<Nanos>,
    /// The largest latency of each replica.
    pub max_of_runs_ns: Vec<Nanos>,
}

/// The runs of a cell, collected one by one.
struct CellRuns {
    together: Histogram,
    p999: Vec<Nanos>,
    max: Vec<Nanos>,
    failures: Vec<CellFailure>,
}

impl Atlas {
    /// Reads all runs. A run that cannot be read counts as failed.
    #[must_use]
    pub fn new(input: AtlasInput) -> Self {
        let AtlasInput {
            meaning,
            kernels,
            absent,
            loads,
            replicas,
            cells,
        } = input;
        let row = |kernel: KernelInput| AtlasKernel {
            name: kernel.name,
            package: kernel.package,
            words: kernel.words,
            release: None,
            model: None,
        };
        let mut kernels: Vec<AtlasKernel> = kernels.into_iter().map(row).collect();
        let mut period_ns = None;
        let mut table: Vec<Vec<AtlasCell>> = Vec::new();
        for (row, kernel) in kernels.iter_mut().enumerate() {
            let of_load = |load: usize| {
                let of_cell = cells
                    .iter()
                    .filter(|cell| (cell.kernel, cell.load) == (row, load));
                gather(of_cell, kernel, &mut period_ns)
            };
            table.push((0..loads.len()).map(of_load).collect());
        }
        let (changes, compared) = changes::changes(&kernels, &loads, &table);
        Self {
            meaning,
            replicas,
            period_ns,
            kernels,
            absent,
            loads,
            cells: table,
            changes,
            compared,
        }
    }

    /// Returns the number of replicas with a result (samples or a failure), and the number of
    /// planned replicas.
    #[must_use]
    pub fn complete(&self) -> (usize, usize) {
        let of_cell = |cell: &AtlasCell| cell.runs as usize + cell.failures.len();
        let there = self.cells.iter().flatten().map(of_cell).sum();
        (
            there,
            self.kernels.len() * self.loads.len() * self.replicas as usize,
        )
    }
}

fn gather<'a>(
    cells: impl Iterator<Item = &'a CellInput>,
    kernel: &mut AtlasKernel,
    period: &mut Option<Nanos>,
) -> AtlasCell {
    let mut gathered = CellRuns {
        together: Histogram::new(Budget::ANALYSIS),
        p999: Vec::new(),
        max: Vec::new(),
        failures: Vec::new(),
    };
    for cell in cells {
        match &cell.result {
            Err(failure) => gathered.failures.push(failure.clone()),
            Ok(folder) => match read(folder, &Requirement::default()) {
                Err(error) => gathered.fail(error.to_string()),
                Ok(run) => {
                    let facts = &run.record.machine.kernel;
                    kernel.release = kernel.release.take().or_else(|| facts.release.clone());
                    kernel.model = kernel.model.take().or_else(|| model(facts));
                    *period = period.or_else(|| {
                        run.series
                            .first()
                            .map(|series| series.descriptor().schedule.period())
                    });
                    gathered.add(&run);
                }
            },
        }
    }
    gathered.finish()
}

impl CellRuns {
    /// Adds a run. The samples under load are in the run's last phase, because an idle phase
    /// precedes a named load.
    fn add(&mut self, run: &LoadedRun) {
        let phase = run.record.phases.last().map(|phase| phase.name.as_str());
        let probe = run.probes().first().copied();
        let (Some(phase), Some(probe)) = (phase, probe) else {
            return self.fail("the run has no phase".to_owned());
        };
        let latency = run.of_load(probe, phase, &CpuList::default()).latency;
        match (quantile(&latency, 0.999), latency.max()) {
            (Some(p999), Some(max)) => {
                self.p999.push(p999);
                self.max.push(Nanos(max));
                self.together.merge(&latency);
            }
            _ => self.fail("the run has no sample".to_owned()),
        }
    }

    fn fail(&mut self, words: String) {
        self.failures.push(CellFailure {
            words,
            is_of_kernel: false,
        });
    }

    fn finish(self) -> AtlasCell {
        let together = &self.together;
        let numbers = || {
            Some(CellNumbers {
                samples: together.count(),
                median_ns: quantile(together, 0.5)?,
                p99_ns: quantile(together, 0.99)?,
                p999_ns: quantile(together, 0.999)?,
                max_ns: Nanos(together.max()?),
                p999_of_runs_ns: self.p999.clone(),
                max_of_runs_ns: self.max.clone(),
            })
        };
        AtlasCell {
            runs: u32::try_from(self.max.len()).unwrap_or(u32::MAX),
            numbers: numbers(),
            failures: self.failures,
        }
    }
}

/// Returns the quantile of the latencies at the fraction `share`.
fn quantile(latency: &Histogram, share: f64) -> Option<Nanos> {
    let samples = latency.count();
    let rank = ((share * samples as f64).ceil() as u64).clamp(1, samples.max(1));
    latency.values_at(&[rank])[0].map(Nanos)
}

/// Returns the preemption model as a value of `preempt=`; `None` if it is unknown. For an RT
/// kernel, this is `rt`; if its model is not full, it is `rt-` and the model.
fn model(kernel: &KernelFacts) -> Option<String> {
    let preemption = kernel.preemption.as_ref()?;
    let mode = preemption.mode.as_deref();
    if preemption.compiled == CompiledPreemption::RealTime {
        return Some(match mode {
            None | Some("full") => "rt".to_owned(),
            Some(mode) => format!("rt-{mode}"),
        });
    }
    Some(
        match (preemption.compiled, mode) {
            (_, Some(mode)) => mode,
            (CompiledPreemption::Full, None) => "full",
            (CompiledPreemption::Lazy, None) => "lazy",
            // Distributions whose kernels are built without full or lazy preemption use
            // PREEMPT_VOLUNTARY.
            (CompiledPreemption::VoluntaryOrNone, None) => "voluntary",
            _ => return None,
        }
        .to_owned(),
    )
}
