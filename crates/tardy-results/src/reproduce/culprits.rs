//! Finds the causes of late samples, for experiments that ask for causes. Each cause is listed with
//! the functions that it executed. On this machine, these functions come from kernel stacks; in the
//! lab, they come from a trace of all executed instructions.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_core::units::Nanos;

use crate::explain::Late;
use crate::explain::run::{RunExplanation, RunQuestion};
use crate::explain::source::explain_run;
use crate::explain::words;

/// Maximum number of culprits shown per kernel, largest first.
const TOLD: usize = 5;
/// Maximum number of functions that are shown for each culprit.
const FUNCTIONS: usize = 4;

/// One cause of latency on a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Culprit {
    pub kernel: String,
    /// On this machine, a culprit is a kernel stack, and this is the longest delay that it caused
    /// in one sample. In the lab, this is the latency of the sample.
    pub late_ns: u64,
    /// The holder of the CPU.
    pub who: String,
    /// Functions that the culprit executed. For stacks, the innermost function comes first. In the
    /// lab, the functions are sorted by their own time, largest first.
    pub functions: Vec<String>,
}

/// Returns the culprits in the first run of each kernel of an experiment.
pub(super) fn culprits(runs: &[(String, PathBuf)]) -> Vec<Culprit> {
    runs.iter()
        .flat_map(|(kernel, path)| of_run(kernel, path))
        .collect()
}

fn of_run(kernel: &str, path: &Path) -> Vec<Culprit> {
    let question = RunQuestion {
        worst: TOLD,
        late: Late::Above(Nanos::ZERO),
        from_outside: false,
    };
    explain_run(path, question)
        .map(|found| of_explanation(kernel, &found))
        .unwrap_or_default()
}

fn of_explanation(kernel: &str, found: &RunExplanation) -> Vec<Culprit> {
    let culprit = |late_ns, who, functions: Vec<String>| Culprit {
        kernel: kernel.to_owned(),
        late_ns,
        who,
        functions,
    };
    if !found.stacks.is_empty() {
        let shown = found.stacks.iter().take(TOLD);
        return shown
            .map(|row| {
                culprit(
                    row.max_ns,
                    crate::explain::stacks::who(row),
                    row.functions.iter().take(FUNCTIONS).cloned().collect(),
                )
            })
            .collect();
    }
    let of_sample = |story: &crate::explain::run::SampleStory| {
        let longest = story.pieces.iter().max_by_key(|piece| piece.length_ns)?;
        let executed = story
            .executed
            .iter()
            .flat_map(|executed| &executed.functions);
        let functions = executed
            .take(FUNCTIONS)
            .map(|row| row.function.clone())
            .collect();
        Some(culprit(
            story.latency_ns,
            words::holder(&longest.holder),
            functions,
        ))
    };
    found.worst.iter().filter_map(of_sample).collect()
}
