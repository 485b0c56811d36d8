//! The histogram of a series whose samples are not all kept: `PROBE.cpuN.histogram` beside the series file.
//!
//! ```text
//! "TARDYHG1"  body  u32 CRC-32 of the body, little-endian
//! body        varints: entries, how many values are coarse, then for each entry in ascending order:
//!             difference to the value before (folded), count
//! ```
//! History: 1 (2026-11): first.

use std::path::Path;

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::varint::{self, Reader};
use tardy_sys::regular_file;

const MAGIC: &[u8; 8] = b"TARDYHG1";
/// Largest file that is believed, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A histogram as it was stored.
#[derive(Debug, Clone)]
pub struct StoredHistogram {
    /// All samples of the series.
    pub histogram: Histogram,
    /// How many of them are known to 1/64 only.
    pub coarse: u64,
}

/// The bytes of the file.
#[must_use]
pub fn encode(histogram: &Histogram) -> Vec<u8> {
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
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&body);
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes
}

/// Reads the file; `None` where it is not there, or damaged.
#[must_use]
pub fn read(path: &Path) -> Option<StoredHistogram> {
    decode(&regular_file::read(path, FILE_BYTES_MAX).ok()?)
}

fn decode(bytes: &[u8]) -> Option<StoredHistogram> {
    let (body, crc) = bytes.strip_prefix(MAGIC)?.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::new(body);
    let (entries, coarse) = (reader.take()?, reader.take()?);
    let mut histogram = Histogram::new(Budget::ANALYSIS);
    let mut value = 0_i64;
    for _ in 0..entries {
        value = value.wrapping_add(reader.take_signed()?);
        histogram.record_many(value, reader.take()?);
    }
    Some(StoredHistogram { histogram, coarse })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_a_round_trip_and_damage_is_noticed() {
        let mut histogram = Histogram::new(Budget::RECORDER);
        [-5, 7, 7, 12_000, 90_000_000].iter().for_each(|&value| histogram.record(value));
        let bytes = encode(&histogram);
        let read = decode(&bytes).unwrap();
        assert_eq!((read.histogram.count(), read.histogram.min(), read.histogram.max(), read.coarse), (5, Some(-5), Some(90_000_000), 0));
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {position}");
        }
    }
}
