//! One sample of a run: the N-th worst, or one with a given index in its series.

use std::path::Path;
use std::str::FromStr;

use tardy_core::sample::Sample;
use tardy_core::series::Meaning;
use tardy_core::units::Nanos;
use tardy_run::folder::{self, FolderError};
use tardy_samples::read_series::{SeriesError, SeriesFile};

/// Selects a sample of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleChoice {
    /// The sample with the N-th largest latency of all series, counted from 1.
    Worst(usize),
    At(SamplePlace),
}

/// A sample given by its series and its number in the series, from 0. Written as `SERIES:NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplePlace {
    /// Name of the series' file in `samples/`, without its ending.
    pub series: String,
    pub number: usize,
}

impl FromStr for SamplePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.rsplit_once(':').and_then(|(series, number)| {
            Some(Self {
                series: series.to_owned(),
                number: number.parse().ok()?,
            })
        });
        parts.ok_or_else(|| {
            format!("`{text}` does not name a sample: write SERIES:NUMBER, as in cyclic.cpu0:17")
        })
    }
}

/// The chosen sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenSample {
    /// Name of the series' file in `samples/`, without its ending.
    pub series: String,
    /// Number of the sample in its series, from 0.
    pub number: usize,
    pub due: Nanos,
    pub latency: Nanos,
    /// Due time relative to the start of the run.
    pub since_start: Nanos,
    /// The phase in which the sample was due.
    pub phase: Option<String>,
}

/// Why the chosen sample does not exist.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Series(#[from] SeriesError),
    #[error(
        "the run has only {samples} samples with a latency, not {asked}: choose a smaller --worst"
    )]
    TooFew { samples: usize, asked: usize },
    #[error("the run has no sample {}:{}: its series are {}", place.series, place.number, known.join(", "))]
    NotThere {
        place: SamplePlace,
        /// Each series with the number of its samples.
        known: Vec<String>,
    },
}

/// Returns the chosen sample of the run in `folder`.
///
/// # Errors
/// Fails with a [`ChoiceError`] if the run cannot be read or has no such sample.
pub fn chosen_sample(folder: &Path, choice: &SampleChoice) -> Result<ChosenSample, ChoiceError> {
    let record = folder::open(folder)?;
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| folder.join("samples"));
    let mut found: Vec<(usize, usize, Sample)> = Vec::new();
    let mut known = Vec::new();
    for (series, of_run) in record.series.iter().enumerate() {
        let file = SeriesFile::open(&samples.join(&of_run.file))?;
        let descriptor = file.descriptor();
        if !matches!(descriptor.meaning, Meaning::Lateness { .. }) || descriptor.unit != "ns" {
            continue;
        }
        let mut number = 0;
        let name = name(&of_run.file);
        file.read(&mut |chunk| {
            for (_, sample) in chunk.samples(&descriptor.schedule) {
                let is_asked = match choice {
                    SampleChoice::Worst(_) => true,
                    SampleChoice::At(place) => place.series == name && place.number == number,
                };
                if is_asked {
                    found.push((series, number, sample));
                }
                number += 1;
            }
        })?;
        known.push(format!("{name} ({number} samples)"));
    }
    let rank = match choice {
        SampleChoice::Worst(rank) => rank.saturating_sub(1),
        SampleChoice::At(_) => 0,
    };
    found.sort_by_key(|&(_, _, sample)| std::cmp::Reverse(sample.latency));
    let Some(&(series, number, sample)) = found.get(rank) else {
        return Err(match choice {
            SampleChoice::Worst(asked) => ChoiceError::TooFew {
                samples: found.len(),
                asked: *asked,
            },
            SampleChoice::At(place) => ChoiceError::NotThere {
                place: place.clone(),
                known,
            },
        });
    };
    let phase = record.phases.iter().find(|phase| {
        phase.begin_ns <= sample.due && phase.end_ns.is_none_or(|end| sample.due < end)
    });
    Ok(ChosenSample {
        series: name(&record.series[series].file).to_owned(),
        number,
        due: sample.due,
        latency: sample.latency,
        since_start: sample.due - record.started.monotonic_ns,
        phase: phase.map(|phase| phase.name.clone()),
    })
}

fn name(file: &str) -> &str {
    file.strip_suffix(".series").unwrap_or(file)
}
