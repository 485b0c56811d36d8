//! Merges the parts (shards) of a lab experiment that several machines measured.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Moves the guests of all shards (`SHARD/VARIANT/GUEST`) into one folder (`OUT/VARIANT/GUEST`), as
/// if one machine had measured them all. Shards that do not exist are skipped.
///
/// # Errors
/// Returns an error if a folder cannot be read, made, moved or removed. After an error, guests that
/// were not moved stay in their shards.
pub fn bring_together(shards: &[PathBuf], out: &Path) -> io::Result<()> {
    for shard in shards.iter().filter(|shard| shard.exists()) {
        for variant in entries(shard)? {
            let together = out.join(variant.file_name().unwrap_or_default());
            fs::create_dir_all(&together)?;
            for guest in entries(&variant)? {
                fs::rename(&guest, together.join(guest.file_name().unwrap_or_default()))?;
            }
            fs::remove_dir(&variant)?;
        }
        fs::remove_dir(shard)?;
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_all_shards_come_into_one_folder_and_a_missing_shard_keeps_none_away() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("exp");
        let guests = [
            "a/6.1/replica-000",
            "a/6.12/replica-001",
            "b/6.1/replica-001",
        ];
        for guest in guests {
            fs::create_dir_all(out.join(guest)).unwrap();
            fs::write(out.join(guest).join("run.json"), guest).unwrap();
        }
        bring_together(&["a", "b", "c"].map(|shard| out.join(shard)), &out).unwrap();
        let read = |guest: &str| fs::read_to_string(out.join(guest).join("run.json")).unwrap();
        assert_eq!(
            ["6.1/replica-000", "6.12/replica-001", "6.1/replica-001"].map(read),
            guests
        );
        assert!(!out.join("a").exists() && !out.join("b").exists());
    }
}
