//! Stores a digest of the samples of each unwatched guest in the cache; the digest of the guest's
//! inputs is the key. When a guest with the same inputs runs watched, its samples are compared with
//! this digest.

use std::fs;
use std::path::PathBuf;

use super::cache::{Cache, write_whole};
use super::machine::Accelerator;
use super::provenance::Provenance;

/// Name of the cache's folder with the digests.
const FOLDER: &str = "samples";

/// The samples of a watched guest differ from those that the same guest had when it was not
/// watched.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "with --watch, the guest's samples ({found}) differ from those without --watch ({kept}): \
     either watching changed the guest, or this QEMU does not repeat runs exactly. Run the guest \
     with --watch --verify-repeatable; if both runs are equal, remove {}", path.display()
)]
pub struct OtherSamples {
    found: String,
    kept: String,
    path: PathBuf,
}

/// Stores the digest of an unwatched guest's samples. Errors are ignored.
pub(super) fn keep(cache: &Cache, provenance: &Provenance) {
    if let Some(digests) = Digests::of(provenance) {
        digests.keep(cache);
    }
}

/// If the same guest has run unwatched before, compares the samples of the watched guest with those
/// of that run.
///
/// # Errors
/// Returns [`OtherSamples`].
pub(super) fn compare(cache: &Cache, provenance: &Provenance) -> Result<(), OtherSamples> {
    Digests::of(provenance).map_or(Ok(()), |digests| digests.compare(cache))
}

#[derive(Debug, Clone, Copy)]
struct Digests<'a> {
    inputs: &'a str,
    samples: &'a str,
}

impl<'a> Digests<'a> {
    /// Returns the digests of a guest; `None` if it has no samples, or if it used the host's clock,
    /// with which no run repeats exactly.
    fn of(provenance: &'a Provenance) -> Option<Self> {
        let samples = provenance
            .sample_digest
            .as_ref()
            .filter(|_| provenance.inputs.machine.accelerator == Accelerator::Tcg)?;
        Some(Self {
            inputs: provenance.input_digest.as_str(),
            samples: samples.as_str(),
        })
    }

    fn place(self, cache: &Cache) -> Option<PathBuf> {
        Some(cache.folder(FOLDER).ok()?.join(self.inputs))
    }

    fn keep(self, cache: &Cache) {
        if let Some(path) = self.place(cache) {
            write_whole(&path, self.samples.as_bytes()).ok();
        }
    }

    fn compare(self, cache: &Cache) -> Result<(), OtherSamples> {
        let Some(path) = self.place(cache) else {
            return Ok(());
        };
        match fs::read_to_string(&path) {
            Ok(kept) if kept != self.samples => Err(OtherSamples {
                found: self.samples.to_owned(),
                kept,
                path,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_guest_with_other_samples_than_unwatched_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let guest = |inputs, samples| Digests { inputs, samples };
        assert_eq!(
            guest("a", "3").compare(&cache),
            Ok(()),
            "the cache is empty"
        );
        guest("a", "3").keep(&cache);
        assert_eq!(guest("a", "3").compare(&cache), Ok(()));
        assert_eq!(guest("b", "4").compare(&cache), Ok(()), "another guest");
        let error = guest("a", "4").compare(&cache).unwrap_err().to_string();
        assert!(
            error.contains("watching changed the guest") && error.contains("--verify-repeatable"),
            "{error}"
        );
    }
}
