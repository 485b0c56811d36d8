//! Times page faults in a mapped file whose pages are in the page cache, and in memory that was
//! never touched.

use std::fs::File;
use std::hint::black_box;
use std::io;

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};

use super::big_file::{FILE_BYTES, big_file};
use crate::metric::{Metric, Place, Unavailable, Work, share};

pub(super) const FILE: Metric = Metric {
    name: "page-fault",
    group: Group::FileAndMemory,
    operation: "read each page of a mapped, cached file for the first time, in mixed order; pages \
                that the kernel maps in the same fault (fault-around) count too",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_pagefault FILE"),
    prepare: file,
};

/// Page faults in new memory.
pub(super) const NEW: Metric = Metric {
    name: "page-fault-new",
    group: Group::FileAndMemory,
    operation: "write for the first time to a page of new memory, which the kernel clears",
    bytes: None,
    state: CacheState::Cold,
    lmbench: None,
    prepare: |_| Ok(Box::new(NewPages)),
};

const PAGES: usize = FILE_BYTES / PAGE_BYTES;
/// Distance, in pages, from a touched page to the next touched page. The distance is odd and the
/// number of pages is a power of two, so each page is visited once.
const STRIDE: usize = 6_151;
/// Maximum number of pages in one mapping of new memory, which is touched and then unmapped.
const NEW_PAGES: usize = 1024;

struct FilePages {
    file: File,
}

fn file(place: &Place) -> Result<Box<dyn Work>, Unavailable> {
    Ok(Box::new(FilePages {
        file: big_file(place)?,
    }))
}

impl Work for FilePages {
    /// Touches all pages of the file repeatedly. Subtracts the time of mapping and unmapping
    /// without a touch.
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let passes = operations.div_ceil(PAGES as u64);
        let mut took = 0;
        for _ in 0..passes {
            let begin = clock::monotonic();
            let mapping = Mapping::shared(&self.file, FILE_BYTES)?;
            let mut page = 0;
            for _ in 0..PAGES {
                black_box(mapping.sum(page * PAGE_BYTES, page * PAGE_BYTES + 8));
                page = (page + STRIDE) % PAGES;
            }
            drop(mapping);
            let middle = clock::monotonic();
            drop(Mapping::shared(&self.file, FILE_BYTES)?);
            took += middle - begin - (clock::monotonic() - middle);
        }
        Ok(share(Nanos(took), operations, passes * PAGES as u64))
    }
}

struct NewPages;

impl Work for NewPages {
    /// Times only the touches, not the mapping and unmapping.
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let (mut took, mut left) = (0, operations);
        while left > 0 {
            let pages = left.min(NEW_PAGES as u64) as usize;
            let mut memory = Mapping::anonymous(pages * PAGE_BYTES)?;
            // Kernels without huge pages refuse this call, and have small pages anyway.
            let _ = memory.forbid_huge_pages();
            let begin = clock::monotonic();
            memory.touch(0, pages * PAGE_BYTES);
            took += clock::monotonic() - begin;
            left -= pages as u64;
        }
        Ok(Nanos(took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_read_once() {
        let mut seen = vec![false; PAGES];
        let mut page = 0;
        for _ in 0..PAGES {
            assert!(!std::mem::replace(&mut seen[page], true));
            page = (page + STRIDE) % PAGES;
        }
        assert_eq!(page, 0);
    }
}
