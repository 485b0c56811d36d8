//! The host must not panic on any guest memory. An archive in that memory must not contain a path
//! that leads out of its folder.
//!
//! The input is read as the memory, and then as the archive alone, because no fuzzer would guess
//! the archive's checksum.

use std::path::Component;

use tardy_lab::cpio::{Entry, read};
use tardy_lab::exchange::{is_paused, receive};
use tardy_lab::provenance::sample_digest;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let _ = is_paused(bytes);
    if let Ok(archive) = receive(bytes) {
        unpacked(archive);
    }
    unpacked(bytes);
}

fn unpacked(archive: &[u8]) {
    let Ok(entries) = read(archive) else { return };
    let is_inside = |entry: &Entry<'_>| {
        entry
            .path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    assert!(entries.iter().all(is_inside));
    assert!(
        entries
            .iter()
            .filter_map(|entry| entry.content)
            .map(<[u8]>::len)
            .sum::<usize>()
            <= archive.len()
    );
    let _ = sample_digest(&entries);
}
