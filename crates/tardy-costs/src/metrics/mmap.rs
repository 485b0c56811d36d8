//! Maps a file, writes to some of its pages, and unmaps the file.

use tardy_run::cost::{CacheState, Group};
use tardy_sys::mapping::Mapping;

use super::big_file::{FILE_BYTES, big_file};
use crate::metric::{Metric, repeated};

/// The first tenth of the mapping is written, with one write per 16 KiB.
const TOUCHED_BYTES: usize = FILE_BYTES / 10;
const STEP_BYTES: usize = 16 << 10;

pub(super) const METRIC: Metric = Metric {
    name: "mmap",
    group: Group::FileAndMemory,
    operation: "map a file of 64 MiB, write every 16 KiB in its first tenth, and unmap it",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_mmap 64m FILE"),
    prepare: |place| {
        let file = big_file(place)?;
        Ok(repeated(move || {
            Mapping::shared(&file, FILE_BYTES)?.touch_every(0, TOUCHED_BYTES, STEP_BYTES);
            Ok(())
        }))
    },
};
