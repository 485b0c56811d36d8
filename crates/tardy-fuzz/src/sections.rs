//! The readers of a watched guest's sections must not panic on any recording: the census, the late
//! samples, and `tardy explain`.
//!
//! The input consists of outside.json, a NUL byte, and the uncompressed stream of the QEMU plugin.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use tardy_outside::census::census;
use tardy_outside::late::late_samples;
use tardy_outside::store::FOLDER;
use tardy_trace::explain::Facts;

use crate::place;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let place = place::folder();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let (description, stream) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::none());
    let packed = encoder
        .write_all(stream)
        .and_then(|()| encoder.finish())
        .expect("a vector takes everything");
    let folder = place.path().join(FOLDER);
    place::write(&folder.join("outside.json"), description);
    place::write(&folder.join("sections"), &packed);
    match census(place.path()) {
        Ok(census) => drop((census.longest_places(), census.by_place())),
        Err(error) => drop(error.to_string()),
    }
    let _ = late_samples(place.path(), Facts::default(), |sample| {
        let sum = |sample: &tardy_samples::delays::SampleDelay| sample.sum();
        let _: Vec<u64> = sample.delay.samples.iter().map(sum).collect();
        let _ = sample.due();
    });
}
