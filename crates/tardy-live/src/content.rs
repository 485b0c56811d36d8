//! What a screen shows; it grows while the run lasts.

use std::collections::BTreeMap;

use tardy_core::cpu::CpuId;
use tardy_core::figures::{Figures, Shape};
use tardy_core::units::Nanos;

use crate::progress::RunProgress;
use crate::track::Track;

#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) progress: Option<RunProgress>,
    pub(crate) series: Vec<Figures>,
    tracks: Vec<Track>,
    all: Track,
}

impl Content {
    /// Adds new data: the progress of a run, and figures from about the same time.
    pub(crate) fn take(&mut self, progress: RunProgress, figures: Option<Vec<Figures>>) {
        if let Some(figures) = figures {
            self.tracks
                .resize_with(figures.len().max(self.tracks.len()), Track::default);
            for (figures, track) in figures.iter().zip(&mut self.tracks) {
                for (due, value) in figures.recent.iter() {
                    track.note(due - progress.start, value);
                    self.all.note(due - progress.start, value);
                }
            }
            self.series = figures;
        }
        self.progress = Some(progress);
    }

    /// Adds a single value of a series. Used when the view reads samples from a folder some time
    /// after they were measured.
    pub(crate) fn note(&mut self, series: usize, at: Nanos, value: Nanos) {
        self.tracks
            .resize_with(self.tracks.len().max(series + 1), Track::default);
        self.tracks[series].note(at, value);
        self.all.note(at, value);
    }

    /// Returns the time line of `series`, or of all series together.
    pub(crate) fn track(&self, series: Option<usize>) -> &Track {
        series
            .and_then(|series| self.tracks.get(series))
            .unwrap_or(&self.all)
    }

    /// Returns the distribution of the values of `series`, or of all series together.
    pub(crate) fn shape(&self, series: Option<usize>) -> Shape {
        let mut shape = Shape::default();
        let chosen = self
            .series
            .iter()
            .enumerate()
            .filter(|(place, _)| series.is_none_or(|series| series == *place));
        chosen
            .filter_map(|(_, figures)| figures.numbers.as_ref())
            .for_each(|numbers| shape.merge(&numbers.shape));
        shape
    }

    /// Returns the indices of the series in the order of their largest values, largest first.
    pub(crate) fn worst_first(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.series.len()).collect();
        places.sort_by_key(|&place| std::cmp::Reverse(max_of(&self.series[place])));
        places
    }

    /// Returns the largest value of each measured CPU; `None` if the CPU has no values yet.
    pub(crate) fn cpus(&self) -> Vec<(CpuId, Option<Nanos>)> {
        let mut cpus: BTreeMap<CpuId, Option<Nanos>> = BTreeMap::new();
        for figures in &self.series {
            if let Some(cpu) = figures.cpu {
                let largest = cpus.entry(cpu).or_default();
                *largest = (*largest).max(max_of(figures));
            }
        }
        cpus.into_iter().collect()
    }

    /// Returns whether the series belong to several probes or to several parts of a probe.
    pub(crate) fn has_several_probes(&self) -> bool {
        self.series
            .windows(2)
            .any(|two| two[0].probe != two[1].probe)
    }
}

pub(crate) fn max_of(figures: &Figures) -> Option<Nanos> {
    figures.numbers.as_ref().map(|numbers| numbers.max)
}
