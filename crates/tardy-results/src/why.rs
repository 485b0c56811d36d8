//! Shows why one kernel is slower than another: compares the code that was executed before one late
//! sample of each side, function by function.
//!
//! Both sides are watched guests (`tardy lab run --watch`). Their runs contain the code that the
//! guests executed before the worst samples.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_outside::call_difference::{FunctionDifference, PathDifference, differences};
use tardy_outside::call_tree::CallTree;
use tardy_outside::census::{CensusError, watched_runs};
use tardy_outside::late::late_samples;
use tardy_outside::store::{self, StoreError};
use tardy_run::folder::{self, FolderError};
use tardy_run::record::RunRecord;
use tardy_samples::read_series::{SeriesError, SeriesFile};

use crate::decision::kernel_name;
use crate::explain::outside::facts;

/// Which sample of each side is compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhyQuestion {
    /// Name of the phases whose samples are compared; `None` for all phases.
    pub phase: Option<String>,
    /// The compared quantile of the latencies; `None` for the largest latency.
    pub quantile: Option<f64>,
}

/// The sample of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhySide {
    /// The run folder.
    pub run: PathBuf,
    pub kernel: String,
    pub phase: String,
    pub due_ns: Nanos,
    pub latency_ns: u64,
    /// Number of samples among which the largest value, or the quantile, was found.
    pub samples: u64,
}

/// The difference between two latencies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    pub base: WhySide,
    pub new: WhySide,
    /// The compared quantile; `None` for the largest latency of each side.
    pub quantile: Option<f64>,
    /// Virtual time that one instruction takes.
    pub instruction_ns: u64,
    /// By how much the latency of the new side exceeds that of the old side. This is the sum of the
    /// differences of all functions.
    pub difference_ns: i64,
    /// The difference of each function, the largest first.
    pub functions: Vec<FunctionDifference>,
    /// For each chain of callers, the time that the last function of the chain took on each side.
    #[serde(skip)]
    pub paths: Vec<PathDifference>,
}

/// Why the samples of two folders cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    #[error(transparent)]
    Census(#[from] CensusError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Series(#[from] SeriesError),
    #[error("{} has no watched guest: measure with `tardy lab why`, or `tardy lab run --watch`", .0.display())]
    NotWatched(PathBuf),
    #[error("{} has no samples{}", path.display(), phase.as_ref().map_or_else(String::new, |phase| format!(" in a phase {phase}")))]
    NoSamples {
        path: PathBuf,
        phase: Option<String>,
    },
    #[error(
        "{}: the code executed before this sample was not kept, because {larger} samples have \
         larger latencies: measure again with --watch-worst {} or more",
        path.display(), larger + 1
    )]
    NotKept { path: PathBuf, larger: u64 },
    #[error(
        "an instruction takes {base} ns on one side and {new} ns on the other: measure both with \
         the same --instruction-time"
    )]
    Instructions { base: u64, new: u64 },
}

/// Chooses one sample in each of two folders, and compares the code that was executed before these
/// two samples.
///
/// # Errors
/// Fails with a [`WhyError`] if the samples cannot be compared.
pub fn why(base: &Path, new: &Path, question: &WhyQuestion) -> Result<Why, WhyError> {
    let (base, new) = (Chosen::find(base, question)?, Chosen::find(new, question)?);
    if base.instruction_ns != new.instruction_ns {
        return Err(WhyError::Instructions {
            base: base.instruction_ns,
            new: new.instruction_ns,
        });
    }
    let (functions, paths) = differences(&base.tree, &new.tree);
    Ok(Why {
        quantile: question.quantile,
        instruction_ns: base.instruction_ns,
        difference_ns: new.side.latency_ns.cast_signed() - base.side.latency_ns.cast_signed(),
        functions,
        paths,
        base: base.side,
        new: new.side,
    })
}

/// A sample of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    latency: u64,
    /// Index of the run.
    run: usize,
    due: Nanos,
}

struct Chosen {
    side: WhySide,
    instruction_ns: u64,
    tree: CallTree,
}

impl Chosen {
    fn find(path: &Path, question: &WhyQuestion) -> Result<Self, WhyError> {
        let runs = watched_runs(path)?;
        let mut records = Vec::with_capacity(runs.len());
        let mut places = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            let record = folder::open(run)?;
            add_places(&mut places, (index, run), &record, question)?;
            records.push(record);
        }
        if runs.is_empty() {
            return Err(WhyError::NotWatched(path.to_owned()));
        }
        places.sort_unstable();
        let Some(rank) = rank(places.len(), question.quantile) else {
            return Err(WhyError::NoSamples {
                path: path.to_owned(),
                phase: question.phase.clone(),
            });
        };
        let chosen = places[rank];
        // Chooses the first sample with this latency for which the plugin stored the executed code.
        let equal = places.partition_point(|place| place.latency < chosen.latency)
            ..places.partition_point(|place| place.latency <= chosen.latency);
        let larger = (places.len() - equal.end) as u64;
        for (index, run) in runs.iter().enumerate() {
            let dues: Vec<Nanos> = places[equal.clone()]
                .iter()
                .filter(|place| place.run == index)
                .map(|place| place.due)
                .collect();
            let record = &records[index];
            let mut found = None;
            late_samples(run, facts(record), |sample| {
                let is_chosen = sample.latency == chosen.latency && dues.contains(&sample.due());
                if is_chosen && found.is_none() {
                    found = Some((sample.due(), sample.tree));
                }
            })?;
            if let Some((due, tree)) = found {
                let phase = (0..record.phases.len()).find(|&phase| is_in(record, phase, due));
                return Ok(Self {
                    side: WhySide {
                        run: run.clone(),
                        kernel: kernel_name(&record.machine),
                        phase: phase
                            .map_or_else(String::new, |phase| record.phases[phase].name.clone()),
                        due_ns: due,
                        latency_ns: chosen.latency,
                        samples: places.len() as u64,
                    },
                    instruction_ns: store::read(run)?.map_or(1, |watched| watched.instruction_ns),
                    tree,
                });
            }
        }
        Err(WhyError::NotKept {
            path: path.to_owned(),
            larger,
        })
    }
}

/// Returns the index of a quantile in a list of `values` sorted values; `None` if there are no
/// values. The quantile is the smallest value for which at least this share of all values is less
/// than or equal to it.
fn rank(values: usize, quantile: Option<f64>) -> Option<usize> {
    let last = values.checked_sub(1)?;
    Some(quantile.map_or(last, |quantile| {
        ((values as f64 * quantile).ceil() as usize).clamp(1, values) - 1
    }))
}

fn is_in(record: &RunRecord, phase: usize, due: Nanos) -> bool {
    let (begin, end) = record.under_load(phase, None);
    (begin..end).contains(&due)
}

fn add_places(
    places: &mut Vec<Place>,
    (index, run): (usize, &Path),
    record: &RunRecord,
    question: &WhyQuestion,
) -> Result<(), WhyError> {
    let phases: Vec<usize> = (0..record.phases.len())
        .filter(|&phase| {
            let name = &record.phases[phase].name;
            question.phase.as_ref().is_none_or(|asked| asked == name)
        })
        .collect();
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| run.join("samples"));
    for series in &record.series {
        let file = SeriesFile::open(&samples.join(&series.file))?;
        let schedule = file.descriptor().schedule;
        file.read(&mut |chunk| {
            for (_, sample) in chunk.samples(&schedule) {
                if phases.iter().any(|&phase| is_in(record, phase, sample.due)) {
                    places.push(Place {
                        latency: sample.latency.0.max(0).cast_unsigned(),
                        run: index,
                        due: sample.due,
                    });
                }
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        assert_eq!(rank(0, None), None);
        assert_eq!(rank(1000, None), Some(999));
        assert_eq!(rank(1000, Some(0.5)), Some(499));
        assert_eq!(rank(1000, Some(0.999)), Some(998));
        assert_eq!(rank(3, Some(0.0001)), Some(0));
    }
}
