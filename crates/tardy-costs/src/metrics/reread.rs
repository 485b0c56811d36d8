//! Rereads a file that is in the page cache, and adds up its content. One metric reads the file
//! with read(2), the other through a mapping.

use std::fs::File;
use std::hint::black_box;

use tardy_run::cost::{CacheState, Group};
use tardy_sys::mapping::Mapping;

use super::big_file::{FILE_BYTES, PORTION_BYTES, big_file};
use crate::metric::{Metric, Place, Unavailable, Work, repeated};

/// Rereads with read(2).
pub(super) const FILE: Metric = Metric {
    name: "file-reread",
    group: Group::Bandwidth,
    operation: "read and add up 64 KiB of a file of 64 MiB in the page cache",
    bytes: Some(PORTION_BYTES as u64),
    state: CacheState::Warm,
    lmbench: Some("bw_file_rd 64m io_only FILE"),
    prepare: |place| reading(big_file(place)?),
};

/// Rereads the file through a mapping.
pub(super) const MAPPED: Metric = Metric {
    name: "mmap-reread",
    group: Group::Bandwidth,
    operation: "add up 64 KiB of a mapped file of 64 MiB in the page cache",
    bytes: Some(PORTION_BYTES as u64),
    state: CacheState::Warm,
    lmbench: Some("bw_mmap_rd 64m mmap_only FILE"),
    prepare: mapped,
};

fn reading(file: File) -> Result<Box<dyn Work>, Unavailable> {
    let mut at = 0;
    let mut buffer =
        Mapping::anonymous(PORTION_BYTES).map_err(Unavailable::system("map memory"))?;
    Ok(repeated(move || {
        buffer.fill_from(&file, at as i64, PORTION_BYTES)?;
        black_box(buffer.sum(0, PORTION_BYTES));
        at = (at + PORTION_BYTES) % FILE_BYTES;
        Ok(())
    }))
}

fn mapped(place: &Place) -> Result<Box<dyn Work>, Unavailable> {
    let mapping = Mapping::shared(&big_file(place)?, FILE_BYTES)
        .map_err(Unavailable::system("map a file"))?;
    // All pages are mapped before the timing starts, because the metric page-fault measures page
    // faults.
    black_box(mapping.sum(0, FILE_BYTES));
    let mut at = 0;
    Ok(repeated(move || {
        black_box(mapping.sum(at, at + PORTION_BYTES));
        at = (at + PORTION_BYTES) % FILE_BYTES;
        Ok(())
    }))
}
