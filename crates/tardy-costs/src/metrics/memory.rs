//! Reading and writing memory, every word of a block that no cache holds.
//!
//! As in LMbench (bw_mem frd, fwr), words have 4 bytes and are moved one by one, 512 bytes after
//! the other. They are atomic because a compiler neither merges relaxed loads and stores nor makes
//! vectors of them. Unlike LMbench, whose one chain of assignments writes each 512 bytes from their
//! end, writing goes upwards: downwards, the length of the instructions alone made it run at 3 or
//! at 13 GB/s on an EPYC, against 20 GB/s upwards.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, repeated};

/// Larger than the caches of most CPUs that real-time systems run on; LMbench's own summary uses at
/// most half the memory.
pub(super) const BLOCK_BYTES: usize = 64 << 20;

/// Words that are read or written in one go.
const WORDS: usize = 128;

pub(super) const READ: Metric = Metric {
    name: "memory-read",
    group: Group::Bandwidth,
    operation: "add up 64 MiB, one 4-byte word at a time",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m frd"),
    prepare: |_| {
        let block = block();
        Ok(repeated(move || {
            let sum = |sum: u32, word: &AtomicU32| sum.wrapping_add(word.load(Ordering::Relaxed));
            black_box(portions(&block).fold(0, |so_far, words| words.iter().fold(so_far, sum)));
            Ok(())
        }))
    },
};

pub(super) const WRITE: Metric = Metric {
    name: "memory-write",
    group: Group::Bandwidth,
    operation: "write 64 MiB, one 4-byte word at a time",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m fwr"),
    prepare: |_| {
        let block = block();
        Ok(repeated(move || {
            for words in portions(&block) {
                words
                    .iter()
                    .for_each(|word| word.store(1, Ordering::Relaxed));
            }
            black_box(&block);
            Ok(())
        }))
    },
};

fn block() -> Vec<AtomicU32> {
    (0..BLOCK_BYTES / size_of::<AtomicU32>())
        .map(|_| AtomicU32::new(1))
        .collect()
}

fn portions(block: &[AtomicU32]) -> impl Iterator<Item = &[AtomicU32; WORDS]> {
    block
        .chunks_exact(WORDS)
        .filter_map(|words| words.first_chunk())
}
