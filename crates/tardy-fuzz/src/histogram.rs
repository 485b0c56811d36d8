//! The reader of stored histograms must not panic on any bytes, and a histogram that is written
//! must be read back unchanged.
//!
//! The input is read twice: first as a whole file, then as a file to which magic and checksum are
//! added, because no fuzzer would guess these.

use std::path::Path;

use tardy_samples::histogram_file::{decode, encode};

/// See [`crate::Target::check`].
pub fn check(body: &[u8]) {
    let _ = decode(body);
    let mut file = b"TARDYHG1".to_vec();
    file.extend_from_slice(body);
    file.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    let Some(stored) = decode(&file) else { return };
    let again = decode(&encode(&stored.histogram, Path::new("fuzz.histogram")))
        .expect("written data can be read");
    let numbers = |stored: &tardy_samples::histogram_file::StoredHistogram| {
        let histogram = &stored.histogram;
        (histogram.count(), histogram.min(), histogram.max())
    };
    assert_eq!(numbers(&again), numbers(&stored));
}
