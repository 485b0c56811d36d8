//! The input of an exporter: a run's record, its summary, its samples and its counts by value.

use std::path::{Path, PathBuf};

use tardy_core::cpu::CpuId;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::sample::Sample;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_results::summary::model::{SeriesSummary, Summary};
use tardy_results::summary::read::SummaryError;
use tardy_results::summary::summarize::summarize;
use tardy_run::folder;
use tardy_run::record::{PhaseRecord, RunRecord};
use tardy_samples::histogram_file;
use tardy_samples::read_series::{SeriesError, SeriesFile};

use super::ExportError;

/// A run to export.
#[derive(Debug)]
pub struct ExportedRun {
    /// The run's `run.json`.
    pub record: RunRecord,
    pub summary: Summary,
    /// The run's series, in the order of their names.
    pub series: Vec<ExportedSeries>,
}

#[derive(Debug)]
pub struct ExportedSeries {
    pub descriptor: Descriptor,
    file: SeriesFile,
    path: PathBuf,
}

impl ExportedRun {
    /// Reads the run in `path`, without its samples. If `probe` is given, the series of other
    /// probes are left out.
    ///
    /// # Errors
    /// Returns [`ExportError`] if the run cannot be read, is of another kind, or has no such probe.
    pub fn open(
        path: &Path,
        requirement: &Requirement,
        probe: Option<&str>,
    ) -> Result<Self, ExportError> {
        let record = folder::open(path).map_err(SummaryError::Folder)?;
        let mut summary = summarize(path, requirement)?;
        let samples = record
            .samples_folder
            .clone()
            .unwrap_or_else(|| path.join("samples"));
        let mut series = Vec::new();
        for entry in &record.series {
            let path = samples.join(&entry.file);
            let file = SeriesFile::open(&path)?;
            series.push(ExportedSeries {
                descriptor: file.descriptor().clone(),
                file,
                path,
            });
        }
        series.sort_by_key(|series| {
            (
                series.descriptor.probe.clone(),
                series.descriptor.cpu,
                series.descriptor.copy,
            )
        });
        if let Some(probe) = probe {
            let has = names(&series);
            series.retain(|series| series.descriptor.probe == probe);
            summary.series.retain(|series| series.probe == probe);
            summary.probes.retain(|summary| summary.probe == probe);
            summary
                .loads
                .iter_mut()
                .for_each(|load| load.probes.retain(|(name, _)| name == probe));
            if series.is_empty() {
                return Err(ExportError::NoProbe {
                    run: path.display().to_string(),
                    probe: probe.to_owned(),
                    has,
                });
            }
        }
        Ok(Self {
            record,
            summary,
            series,
        })
    }

    /// Checks that the run has one probe.
    ///
    /// # Errors
    /// Returns [`ExportError::OneProbe`].
    pub fn one_probe(&self, format: &'static str) -> Result<(), ExportError> {
        let is_one = self
            .series
            .windows(2)
            .all(|pair| pair[0].descriptor.probe == pair[1].descriptor.probe);
        if is_one {
            Ok(())
        } else {
            Err(ExportError::OneProbe {
                format,
                has: names(&self.series),
            })
        }
    }

    /// Checks that the run stored samples.
    ///
    /// # Errors
    /// Returns [`ExportError::NoSamples`].
    pub fn needs_samples(&self) -> Result<(), ExportError> {
        let stored: u64 = self
            .summary
            .series
            .iter()
            .map(|series| series.counts.stored())
            .sum();
        if stored > 0 {
            Ok(())
        } else {
            Err(ExportError::NoSamples(self.summary.run.clone()))
        }
    }

    /// Returns the summary of a series.
    #[must_use]
    pub fn summary_of(&self, series: &ExportedSeries) -> Option<&SeriesSummary> {
        let Descriptor {
            probe, cpu, copy, ..
        } = &series.descriptor;
        self.summary
            .series
            .iter()
            .find(|summary| summary.probe == *probe && summary.cpu == *cpu && summary.copy == *copy)
    }

    /// Returns the name of each phase, and the interval (on the run's clock) in which all its loads
    /// worked on `cpu`.
    pub(super) fn phases(&self, cpu: Option<CpuId>) -> Vec<(Nanos, Nanos, &str)> {
        let phases = self.record.phases.iter().enumerate();
        let span = |(index, phase)| {
            let (begin, end) = self.record.under_load(index, cpu);
            let phase: &PhaseRecord = phase;
            (begin, end, phase.name.as_str())
        };
        phases.map(span).collect()
    }
}

impl ExportedSeries {
    /// Calls `visit` with each sample, in order.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the first error that `visit` returns.
    pub fn samples(
        &self,
        mut visit: impl FnMut(Sample) -> std::io::Result<()>,
    ) -> Result<(), ExportError> {
        let mut failed = None;
        self.file.read(&mut |chunk| {
            for (_, sample) in chunk.samples(&self.descriptor.schedule) {
                if failed.is_none() {
                    failed = visit(sample).err();
                }
            }
        })?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns the counts by value, from the series' histogram file if some samples were not
    /// stored.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn histogram(&self) -> Result<Histogram, SeriesError> {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        self.file.read(&mut |chunk| {
            chunk
                .latency
                .iter()
                .for_each(|&latency| histogram.record(latency))
        })?;
        Ok(histogram_file::of_all(&self.path, &self.file, [&histogram]).unwrap_or(histogram))
    }

    /// Returns the number of samples in the series' file.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn stored(&self) -> Result<u64, SeriesError> {
        let mut samples = 0;
        self.file
            .read(&mut |chunk| samples += chunk.latency.len() as u64)?;
        Ok(samples)
    }

    /// Returns the number of the series' CPU as text; empty if its thread was unbound.
    #[must_use]
    pub fn cpu_text(&self) -> String {
        self.descriptor
            .cpu
            .map_or_else(String::new, |CpuId(cpu)| cpu.to_string())
    }

    /// If the probe has several unbound threads, returns the number of the series' thread as text;
    /// otherwise returns an empty text.
    #[must_use]
    pub fn copy_text(&self) -> String {
        self.descriptor
            .copy
            .map_or_else(String::new, |copy| copy.to_string())
    }
}

pub(super) fn names(series: &[ExportedSeries]) -> String {
    let mut names: Vec<&str> = series
        .iter()
        .map(|series| series.descriptor.probe.as_str())
        .collect();
    names.dedup();
    names.join(", ")
}
