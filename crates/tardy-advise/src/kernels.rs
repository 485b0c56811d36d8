//! Groups the given runs by kernel and machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::series::ClockKind;
use tardy_machine::facts::{CompiledPreemption, MachineFacts, Preemption};
use tardy_run::folder::{self, FolderError, folders};
use tardy_run::record::{RunKind, RunRecord};

use tardy_results::cost::summary::{CostSummary, CostSummaryError, of_record};
use tardy_results::decision::{PreemptionModel, kernel_name};

/// Why runs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A cost run cannot be read.
    #[error(transparent)]
    Cost(#[from] CostSummaryError),
}

/// A run that measured latencies or completions. Its samples are read only when needed.
#[derive(Debug, Clone)]
pub struct LatencyRun {
    pub folder: PathBuf,
    /// The contents of its `run.json`.
    pub record: RunRecord,
}

/// All runs that were made on one kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Name of the kernel, which consists of its release and its preemption model. If several
    /// kernels have the same release and model, the host and the command line follow in parentheses
    /// and, if the time is virtual, a note about that.
    pub name: String,
    /// Whether the kernel has PREEMPT_RT; absent if the runs do not record it.
    pub is_real_time: Option<bool>,
    /// The clock on which the times of the runs are based.
    pub clock: ClockKind,
    /// The machine of the first run.
    pub machine: MachineFacts,
    /// The runs that measured latencies or completions.
    pub runs: Vec<LatencyRun>,
    /// Runs of costs.
    pub costs: Vec<CostSummary>,
}

/// Facts that are equal for all runs of the same kernel on the same machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    host: Option<String>,
    release: Option<String>,
    version: Option<String>,
    command_line: Option<String>,
    preemption: Option<Preemption>,
    is_virtual_time: bool,
}

impl Identity {
    fn of(record: &RunRecord) -> Self {
        let MachineFacts {
            host_name, kernel, ..
        } = &record.machine;
        Self {
            host: host_name.clone(),
            release: kernel.release.clone(),
            version: kernel.version.clone(),
            command_line: kernel.command_line.as_deref().map(without_lab_words),
            // The preemption mode can change while the system runs, so it is part of the identity.
            preemption: kernel.preemption.clone(),
            is_virtual_time: record.clock == ClockKind::Virtual,
        }
    }
}

/// Reads run folders, or folders that contain run folders, in the given order.
///
/// # Errors
/// Returns [`ReadError`].
pub fn read(paths: &[PathBuf]) -> Result<Vec<Kernel>, ReadError> {
    let mut kernels: Vec<(Identity, Kernel)> = Vec::new();
    for path in paths.iter().flat_map(|path| folders(path)) {
        let record = folder::open(&path)?;
        let identity = Identity::of(&record);
        let at = kernels
            .iter()
            .position(|(known, _)| *known == identity)
            .unwrap_or_else(|| {
                kernels.push((identity, Kernel::new(&record)));
                kernels.len() - 1
            });
        let kernel = &mut kernels[at].1;
        if record.kind == RunKind::Cost {
            kernel.costs.push(of_record(&path, record)?);
        } else {
            kernel.runs.push(LatencyRun {
                folder: path,
                record,
            });
        }
    }
    let mut kernels: Vec<Kernel> = kernels.into_iter().map(|(_, kernel)| kernel).collect();
    tell_apart(&mut kernels);
    Ok(kernels)
}

impl Kernel {
    /// Returns the kernel's preemption model; `None` if its runs do not record it.
    #[must_use]
    pub fn model(&self) -> Option<PreemptionModel> {
        PreemptionModel::of(self.machine.kernel.preemption.as_ref())
    }

    fn new(record: &RunRecord) -> Self {
        let kernel = &record.machine.kernel;
        let is_real_time =
            kernel
                .preemption
                .as_ref()
                .and_then(|preemption| match preemption.compiled {
                    CompiledPreemption::Unknown => None,
                    compiled => Some(compiled == CompiledPreemption::RealTime),
                });
        Self {
            name: kernel_name(&record.machine),
            is_real_time,
            clock: record.clock,
            machine: record.machine.clone(),
            runs: Vec::new(),
            costs: Vec::new(),
        }
    }
}

/// Returns a command line without the words that start with `tardy.`. The lab adds such words for
/// each guest; without them, replicas count as runs of the same kernel.
fn without_lab_words(command_line: &str) -> String {
    let is_own = |word: &&str| !word.starts_with("tardy.");
    let words: Vec<&str> = command_line.split_whitespace().filter(is_own).collect();
    words.join(" ")
}

/// Adds distinguishing facts to the names of kernels that have the same name.
fn tell_apart(kernels: &mut [Kernel]) {
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    for (index, kernel) in kernels.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == names[index]).count() == 1 {
            continue;
        }
        let host = kernel
            .machine
            .host_name
            .as_deref()
            .unwrap_or("unknown host");
        let line = kernel
            .machine
            .kernel
            .command_line
            .as_deref()
            .map_or_else(|| "unknown command line".to_owned(), without_lab_words);
        let time = if kernel.clock == ClockKind::Virtual {
            ", virtual time"
        } else {
            ""
        };
        kernel.name = format!("{} ({host}, {line}{time})", names[index]);
    }
}
