//! The histogram of all samples of a series, if only some of the samples are stored individually.
//! It is the file `PROBE.cpuN.histogram` next to the series file.
//!
//! ```text
//! "TARDYHG1"  body  u32 CRC-32 of the body, little-endian
//! body        varints: entries, how many values are coarse, then for each entry in ascending order:
//!             difference to the value before (folded), count;
//!             CRC-32 of the file's name, absent in files of older tools
//! ```
//! Version 1 dates from 2026-11. The CRC-32 of the file's name was added later in 2026-11. A reader
//! compares it, so that it can refuse the file of another series.

use std::path::Path;

use tardy_core::accounting::COUNT_MAX;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::varint::{self, Reader};
use tardy_sys::regular_file;

use crate::file_name_mark::mark;
use crate::read_series::SeriesFile;

const MAGIC: &[u8; 8] = b"TARDYHG1";
/// Maximum size of a file that readers accept, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A histogram read from its file.
#[derive(Debug, Clone)]
pub struct StoredHistogram {
    /// Counts of all samples of the series.
    pub histogram: Histogram,
    /// Number of samples whose value is known only with a precision of 1/64.
    pub coarse: u64,
    mark: Option<u64>,
}

/// Encodes the histogram for the file at `path`.
#[must_use]
pub fn encode(histogram: &Histogram, path: &Path) -> Vec<u8> {
    let mut entries = Vec::new();
    histogram.for_each(|value, count| entries.push((value, count)));
    let mut body = Vec::new();
    varint::put(&mut body, entries.len() as u64);
    varint::put(&mut body, histogram.coarse());
    let mut previous = 0_i64;
    for (value, count) in entries {
        varint::put_signed(&mut body, value.wrapping_sub(previous));
        varint::put(&mut body, count);
        previous = value;
    }
    varint::put(&mut body, mark(path));
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&body);
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes
}

/// Encodes the histogram in at most `bytes_max` bytes, if possible. If necessary, the precision of
/// the values is reduced.
#[must_use]
pub fn encode_within(histogram: &Histogram, path: &Path, bytes_max: usize) -> Vec<u8> {
    let (mut bytes, mut values) = (encode(histogram, path), 1 << 16);
    while bytes.len() > bytes_max && values > 0 {
        values /= 2;
        let mut coarse = Histogram::new(Budget { pages: 0, values });
        coarse.merge(histogram);
        bytes = encode(&coarse, path);
    }
    bytes
}

/// Reads the file; returns `None` if it is missing or damaged, or belongs to another series.
#[must_use]
pub fn read(path: &Path) -> Option<StoredHistogram> {
    decode(&regular_file::read(path, FILE_BYTES_MAX).ok()?).filter(|stored| {
        stored
            .mark
            .is_none_or(|mark_there| mark_there == mark(path))
    })
}

/// Returns the counts of all samples of the series in `path`, which is open as `series`; `None` if
/// every sample is stored individually. `kept` contains the counts of the individually stored
/// samples.
#[must_use]
pub fn of_all<'a>(
    path: &Path,
    series: &SeriesFile,
    kept: impl IntoIterator<Item = &'a Histogram>,
) -> Option<Histogram> {
    let kept: Vec<&Histogram> = kept.into_iter().collect();
    let earlier = series.hours().filter(|hours| hours.samples > 0);
    let known = kept.iter().map(|kept| kept.count()).sum::<u64>()
        + earlier.map_or(0, |hours| hours.samples);
    let stored =
        read(&path.with_extension("histogram")).filter(|stored| stored.histogram.count() > known);
    stored.map(|stored| stored.histogram).or_else(|| {
        let mut all = earlier?.latency();
        kept.iter().for_each(|kept| all.merge(kept));
        Some(all)
    })
}

/// Decodes the bytes of a file; `None` if they are damaged.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<StoredHistogram> {
    let (body, crc) = bytes.strip_prefix(MAGIC)?.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::new(body);
    let (entries, coarse) = (reader.take()?, reader.take()?);
    let mut histogram = Histogram::new(Budget::ANALYSIS);
    let (mut value, mut left) = (0_i64, COUNT_MAX);
    for _ in 0..entries {
        value = value.wrapping_add(reader.take_signed()?);
        let count = reader.take()?;
        left = left.checked_sub(count)?;
        histogram.record_many(value, count);
    }
    Some(StoredHistogram {
        histogram,
        coarse,
        mark: reader.take(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_a_round_trip_and_damage_is_noticed() {
        let mut histogram = Histogram::new(Budget::RECORDER);
        [-5, 7, 7, 12_000, 90_000_000]
            .iter()
            .for_each(|&value| histogram.record(value));
        let bytes = encode(&histogram, Path::new("cyclic.cpu0.histogram"));
        let read = decode(&bytes).unwrap();
        assert_eq!(
            (
                read.histogram.count(),
                read.histogram.min(),
                read.histogram.max(),
                read.coarse
            ),
            (5, Some(-5), Some(90_000_000), 0)
        );
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {position}");
        }
    }

    #[test]
    fn counts_that_no_series_reaches_are_damage() {
        let file = |counts: &[u64]| {
            let mut body = Vec::new();
            [counts.len() as u64, 0]
                .iter()
                .for_each(|&number| varint::put(&mut body, number));
            for &count in counts {
                varint::put_signed(&mut body, 7);
                varint::put(&mut body, count);
            }
            let checksum = crc32fast::hash(&body).to_le_bytes();
            [&MAGIC[..], &body, &checksum].concat()
        };
        assert_eq!(
            decode(&file(&[COUNT_MAX - 1, 1]))
                .unwrap()
                .histogram
                .count(),
            COUNT_MAX
        );
        assert!(
            decode(&file(&[COUNT_MAX, 1])).is_none()
                && decode(&file(&[u64::MAX, u64::MAX])).is_none()
        );
    }
}
