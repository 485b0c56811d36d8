//! The result of `tardy lab app`, which runs a user's program on several kernels: which kernels
//! meet the deadline, by what margin, and what delayed the program on kernels that miss it.
//!
//! Each guest left a run folder, written by `tardy attach` or by `tardy run -- PROGRAM`. The
//! verdict is computed from this folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_core::verdict::Outcome;
use tardy_core::verdict::requirement::Requirement;
use tardy_sys::regular_file;

use crate::exit::Exit;
use crate::explain::Late;
use crate::explain::cycles::{Cycle, IDLE, StretchKind, explain_cycles};
use crate::explain::run::RunQuestion;
use crate::explain::source::explain_run;
use crate::explain::words::holder;
use crate::summary::read::read;

/// Name of the file that describes how a program ended.
pub const END_NAME: &str = "end.json";
/// Maximum size of this file in bytes.
const END_BYTES_MAX: u64 = 4096;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramEnding {
    /// The program exited with this code.
    Exited(i32),
    /// This signal ended the program.
    Signalled(i32),
}

/// How a program in a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    pub ending: ProgramEnding,
    /// Whether the guest asked the program to end, after the measurement.
    pub was_stopped: bool,
    /// Time from the start to the end of the program, on the guest's clock.
    pub lasted_ns: Nanos,
}

/// What measured whether the program met its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgedBy {
    /// `tardy attach`.
    Attach,
    /// The calls that the program's code makes to include/tardy.h or tardy-app.
    Calls,
}

/// What was run in all guests, and the requirement that it must meet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppQuestion {
    /// The program, as the user named it.
    pub program: String,
    pub arguments: Vec<String>,
    pub judged_by: JudgedBy,
    pub deadline_ns: Nanos,
    /// Share of wake-ups that may miss the deadline; absent if none may.
    pub misses_allowed: Option<f64>,
    /// Number of files that are copied into the guest, and their total size.
    pub files: usize,
    pub file_bytes: u64,
    pub replicas: u32,
    /// What the figures mean.
    pub meaning: String,
}

/// A guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestInput {
    pub kernel: usize,
    pub load: usize,
    pub replica: u32,
    /// Path of the guest's folder, relative to the table's folder.
    pub folder: String,
    /// The run folder, or the reason why there is none.
    pub result: Result<PathBuf, String>,
}

/// The guests from which a table is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct AppInput {
    pub question: AppQuestion,
    /// Name and package of each kernel.
    pub kernels: Vec<(String, Option<String>)>,
    /// Kernels without guests, each with the reason.
    pub absent: Vec<(String, String)>,
    pub loads: Vec<String>,
    pub guests: Vec<GuestInput>,
    /// The subfolder for the program's output in the guest's folder.
    pub output: &'static str,
}

/// The table of kernels and loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabApp {
    #[serde(flatten)]
    pub question: AppQuestion,
    pub loads: Vec<String>,
    pub kernels: Vec<AppKernel>,
    /// Kernels without guests, each with the reason.
    pub absent: Vec<(String, String)>,
}

/// A kernel and its guests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppKernel {
    pub name: String,
    pub package: Option<String>,
    /// The worst outcome under any load; absent if some guest has no result, unless another guest
    /// failed.
    pub outcome: Option<Outcome>,
    /// Largest latency under any load; absent if there are no samples.
    pub max_ns: Option<Nanos>,
    /// Deadline minus largest latency; negative if the latency exceeds the deadline.
    pub margin_ns: Option<Nanos>,
    /// The cells, in the order of the loads.
    pub cells: Vec<AppCell>,
}

/// A kernel under a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppCell {
    pub load: String,
    /// One result for each replica that has run.
    pub runs: Vec<AppRun>,
}

/// The result of one guest.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AppRun {
    pub replica: u32,
    /// Path of the guest's folder, relative to the table's folder.
    pub folder: String,
    /// The outcome; absent if the guest has no result.
    pub outcome: Option<Outcome>,
    /// The verdict as text, or the reason why there is none.
    pub sentence: String,
    pub samples: u64,
    pub misses: u64,
    pub max_ns: Option<Nanos>,
    pub margin_ns: Option<Nanos>,
    /// What delayed the program; absent if it met the deadline, or if the trace does not show it.
    pub culprit: Option<String>,
    /// How the program ended; absent if `tardy run` stopped it after the measurement.
    pub program: Option<ProgramEnd>,
}

impl LabApp {
    /// Reads all guests. A folder that cannot be read counts as a guest without a result.
    #[must_use]
    pub fn new(input: &AppInput) -> Self {
        let run = |guest: &GuestInput| AppRun {
            replica: guest.replica,
            folder: guest.folder.clone(),
            ..match &guest.result {
                Ok(path) => run(path, &input.question, input.output),
                Err(why) => AppRun {
                    sentence: why.clone(),
                    ..AppRun::default()
                },
            }
        };
        let cell = |kernel: usize, (load, name): (usize, &String)| AppCell {
            load: name.clone(),
            runs: input
                .guests
                .iter()
                .filter(|guest| (guest.kernel, guest.load) == (kernel, load))
                .map(run)
                .collect(),
        };
        let planned = input.loads.len() * input.question.replicas as usize;
        let kernel = |(index, (name, package)): (usize, &(String, Option<String>))| {
            let loads = input.loads.iter().enumerate();
            let cells: Vec<AppCell> = loads.map(|load| cell(index, load)).collect();
            let runs = || cells.iter().flat_map(|cell| &cell.runs);
            let max_ns = runs().filter_map(|run| run.max_ns).max();
            let outcomes: Vec<_> = runs().map(|run| run.outcome).collect();
            AppKernel {
                name: name.clone(),
                package: package.clone(),
                outcome: worst(&outcomes, planned),
                max_ns,
                margin_ns: max_ns.map(|max| input.question.deadline_ns - max),
                cells,
            }
        };
        Self {
            question: input.question.clone(),
            loads: input.loads.clone(),
            kernels: input.kernels.iter().enumerate().map(kernel).collect(),
            absent: input.absent.clone(),
        }
    }

    /// Returns the exit code of the command. If a kernel has no guests, or a guest has no result,
    /// the answer is incomplete, and the code is [`Exit::Machine`].
    #[must_use]
    pub fn exit(&self) -> Exit {
        let outcomes = || self.kernels.iter().map(|kernel| kernel.outcome);
        let planned = self.loads.len() * self.question.replicas as usize;
        let is_complete = |kernel: &AppKernel| {
            let runs = kernel.cells.iter().flat_map(|cell| &cell.runs);
            runs.filter(|run| run.outcome.is_some()).count() == planned
        };
        if !self.absent.is_empty() || !self.kernels.iter().all(is_complete) {
            Exit::Machine
        } else if outcomes().any(|outcome| outcome == Some(Outcome::Failed)) {
            Exit::Failed
        } else if outcomes().all(|outcome| outcome == Some(Outcome::Passed)) {
            Exit::Done
        } else {
            Exit::Inconclusive
        }
    }
}

/// Returns the worst outcome of a kernel. If a guest has no result, only a failure is certain.
fn worst(outcomes: &[Option<Outcome>], planned: usize) -> Option<Outcome> {
    let there: Vec<Outcome> = outcomes.iter().copied().flatten().collect();
    let worst = there.iter().copied().reduce(Outcome::worse)?;
    (worst == Outcome::Failed || there.len() == planned).then_some(worst)
}

/// Reads the guest in `path`.
fn run(path: &Path, question: &AppQuestion, output: &str) -> AppRun {
    let bytes = regular_file::read(&path.join(output).join(END_NAME), END_BYTES_MAX);
    let program: Option<ProgramEnd> = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let inconclusive = |sentence: String| AppRun {
        outcome: Some(Outcome::Inconclusive),
        sentence,
        program,
        ..AppRun::default()
    };
    if !path.join("run.json").exists() {
        let lasted = program.map_or_else(String::new, |end| format!(" after {}", end.lasted_ns));
        return inconclusive(format!("the program ended{lasted}, before the measurement"));
    }
    let requirement = Requirement {
        misses_allowed: question.misses_allowed,
        ..Requirement::deadline(question.deadline_ns)
    };
    let summary = match read(path, &requirement) {
        Ok(run) => run.summary(),
        Err(error) => {
            return AppRun {
                outcome: None,
                ..inconclusive(error.to_string())
            };
        }
    };
    let Some(verdict) = summary.verdict else {
        return inconclusive("the program had no wake-up".to_owned());
    };
    let judged = summary
        .probes
        .iter()
        .filter(|probe| probe.verdict.is_some());
    let max_ns = judged
        .filter_map(|probe| probe.numbers.as_ref())
        .map(|numbers| Nanos(numbers.max_ns))
        .max();
    let is_late = max_ns.is_some_and(|max| max > question.deadline_ns);
    AppRun {
        outcome: Some(verdict.outcome),
        sentence: verdict.sentence,
        samples: verdict.evidence.due_times,
        misses: verdict.evidence.misses,
        max_ns,
        margin_ns: max_ns.map(|max| question.deadline_ns - max),
        culprit: is_late.then(|| culprit(path, question)).flatten(),
        program,
        ..AppRun::default()
    }
}

/// Returns what delayed the program, according to the run folder.
fn culprit(path: &Path, question: &AppQuestion) -> Option<String> {
    match question.judged_by {
        JudgedBy::Attach => {
            let cycles = explain_cycles(path, None, usize::MAX).ok()??;
            let longest = cycles
                .worst
                .iter()
                .max_by_key(|cycle| cycle.shares.wake_up_ns)?;
            wake_up(longest).filter(|_| longest.shares.wake_up_ns > question.deadline_ns)
        }
        JudgedBy::Calls => {
            let late = RunQuestion {
                worst: 1,
                late: Late::Above(question.deadline_ns),
                from_outside: false,
            };
            let found = explain_run(path, late).ok()?;
            Some(holder(&found.holders.first()?.holder))
        }
    }
}

/// A cycle begins with a wake-up, after which the thread may have to wait for the CPU. Names the
/// thread that had the CPU longest during this wait.
fn wake_up(cycle: &Cycle) -> Option<String> {
    let stretch = cycle
        .stretches
        .iter()
        .filter(|stretch| stretch.kind == StretchKind::WakeUp)
        .max_by_key(|stretch| stretch.length_ns)?;
    let by = stretch.by.clone()?;
    Some(if by == IDLE {
        "the CPU was idle".to_owned()
    } else {
        by
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_worst_kernel_and_a_missing_guest_makes_the_answer_incomplete() {
        let table = |outcomes: &[Option<Outcome>]| {
            let run = |outcome: &Option<Outcome>| AppRun {
                outcome: *outcome,
                ..AppRun::default()
            };
            let cells = vec![AppCell {
                load: "none".to_owned(),
                runs: outcomes.iter().map(run).collect(),
            }];
            let kernel = AppKernel {
                name: "6.1".to_owned(),
                package: None,
                outcome: worst(outcomes, 2),
                max_ns: None,
                margin_ns: None,
                cells,
            };
            LabApp {
                question: AppQuestion {
                    program: "x".to_owned(),
                    arguments: Vec::new(),
                    judged_by: JudgedBy::Calls,
                    deadline_ns: Nanos(1),
                    misses_allowed: None,
                    files: 1,
                    file_bytes: 1,
                    replicas: 2,
                    meaning: String::new(),
                },
                loads: vec!["none".to_owned()],
                kernels: vec![kernel],
                absent: Vec::new(),
            }
        };
        use Outcome::{Failed, Inconclusive, Passed};
        for (outcomes, kernel, exit) in [
            (&[Some(Passed), Some(Passed)][..], Some(Passed), Exit::Done),
            (&[Some(Passed), Some(Failed)], Some(Failed), Exit::Failed),
            (
                &[Some(Passed), Some(Inconclusive)],
                Some(Inconclusive),
                Exit::Inconclusive,
            ),
            (
                &[Some(Inconclusive), Some(Failed)],
                Some(Failed),
                Exit::Failed,
            ),
            (&[Some(Passed), None], None, Exit::Machine),
            (&[Some(Failed), None], Some(Failed), Exit::Machine),
            (&[Some(Passed)], None, Exit::Machine),
        ] {
            let table = table(outcomes);
            assert_eq!(table.kernels[0].outcome, kernel, "{outcomes:?}");
            assert_eq!(table.exit(), exit, "{outcomes:?}");
        }
        let mut absent = table(&[Some(Passed), Some(Passed)]);
        absent
            .absent
            .push(("6.12".to_owned(), "no package".to_owned()));
        assert_eq!(absent.exit(), Exit::Machine);
    }
}
