//! The files that store a series' delays in a run with `--disk`. Two files contain the explanations
//! of the newest samples. A third file contains the explanations of the worst older samples.
//!
//! When `SERIES.delays` is full, it is renamed to `SERIES.delays.older`. Before that, the
//! explanations of the worst samples in the previous `SERIES.delays.older` are moved to
//! `SERIES.delays.worst`. So the largest latency of the whole run always has an explanation.

use std::io;
use std::path::{Path, PathBuf};

use foldhash::HashMap;

use super::{DelayHolder, DelayReader, Encoder, FILE_MAGIC, SampleDelay};
use crate::reserved_file;

/// When old explanations are dropped, those of the worst samples are kept, for at most this many
/// samples.
const WORST: usize = 1000;

/// The limits on a series' files of delays.
#[derive(Debug)]
pub(super) struct Bound {
    current: PathBuf,
    /// Maximum size of all files of the series together, in bytes.
    bytes: u64,
    /// Number of explanations that have been dropped.
    pub(super) given_way: u64,
}

/// Returns the files of a series in chronological order. `current` is the newest of them.
pub(super) fn files(current: &Path) -> [PathBuf; 3] {
    let beside = |name| {
        let mut path = current.as_os_str().to_owned();
        path.push(name);
        PathBuf::from(path)
    };
    [beside(".worst"), beside(".older"), current.to_owned()]
}

impl Bound {
    pub(super) fn new(current: &Path, bytes: u64) -> Self {
        Self {
            current: current.to_owned(),
            bytes,
            given_way: 0,
        }
    }

    /// Returns the size at which the newest file is full: 3/10 of the limit. Two files of this size
    /// can exist. The file with the explanations of the worst samples takes at most 1/10 of the
    /// limit. This file is replaced as a whole, so for a moment two copies of it exist.
    pub(super) fn file_bytes(&self) -> u64 {
        self.bytes * 3 / 10
    }

    pub(super) fn path(&self) -> &Path {
        &self.current
    }

    /// Copies the explanations of the worst samples from the older file to the third file. Then
    /// replaces the older file with the newest one.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let [worst, older, current] = files(&self.current);
        if older.exists() {
            let mut there = vec![older.clone(), worst.clone()];
            there.retain(|file| file.exists());
            let mut reader = DelayReader::of(there)?;
            let mut kept = Worst::default();
            while let Some(chunk) = reader.next_chunk()? {
                let count = chunk.samples.len() as u64;
                let before = kept.samples.len() as u64;
                kept.take(chunk.samples, &chunk.holders);
                self.given_way += count + before - kept.samples.len() as u64;
            }
            let most = usize::try_from(self.bytes / 10).unwrap_or(usize::MAX);
            let (file, dropped) = kept.encode(most);
            self.given_way += dropped;
            reserved_file::replace_in_memory(&worst, &file)?;
        }
        std::fs::rename(&current, &older)
    }
}

/// The worst samples so far, each with its latency, and their holders.
#[derive(Default)]
struct Worst {
    samples: Vec<(u64, SampleDelay)>,
    holders: Vec<DelayHolder>,
    places: HashMap<DelayHolder, usize>,
}

impl Worst {
    fn take(&mut self, samples: Vec<SampleDelay>, holders: &[DelayHolder]) {
        let least = match self.samples.last() {
            Some((latency, _)) if self.samples.len() == WORST => *latency,
            _ => 0,
        };
        for mut sample in samples {
            let latency = sample.sum();
            if latency < least {
                continue;
            }
            for piece in &mut sample.pieces {
                let holder = &holders[piece.holder];
                piece.holder = match self.places.get(holder) {
                    Some(&place) => place,
                    None => {
                        self.places.insert(holder.clone(), self.holders.len());
                        self.holders.push(holder.clone());
                        self.holders.len() - 1
                    }
                };
            }
            self.samples.push((latency, sample));
        }
        self.samples
            .sort_by_key(|(latency, sample)| (std::cmp::Reverse(*latency), sample.due));
        self.samples.truncate(WORST);
    }

    /// Returns a file of at most `bytes_max` bytes, and the number of samples that did not fit.
    fn encode(mut self, bytes_max: usize) -> (Vec<u8>, u64) {
        let all = self.samples.len();
        loop {
            let mut in_time: Vec<&SampleDelay> =
                self.samples.iter().map(|(_, sample)| sample).collect();
            in_time.sort_by_key(|sample| sample.due);
            let mut encoder = Encoder::default();
            for sample in in_time {
                encoder.push(sample, &self.holders);
            }
            let mut file = FILE_MAGIC.to_vec();
            if encoder.samples > 0 {
                file.extend(encoder.finish());
            }
            if file.len() <= bytes_max || self.samples.is_empty() {
                return (file, (all - self.samples.len()) as u64);
            }
            self.samples.truncate(self.samples.len() / 2);
        }
    }
}
