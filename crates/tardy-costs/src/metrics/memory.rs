//! Reads and writes every word of a block of memory that is larger than most caches.
//!
//! As in LMbench (bw_mem frd, fwr), words have 4 bytes and are read or written one by one, in
//! portions of 512 bytes. The words are atomic because compilers neither merge relaxed loads and
//! stores nor turn them into vector instructions.
//!
//! LMbench writes each portion from its end to its start, with one chain of assignments; this
//! module writes it from start to end. On an EPYC, portions that were written from the start
//! reached 20 GB/s. Portions that were written from the end reached only 3 or 13 GB/s, depending on
//! the length of the instructions.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, repeated};

/// Size of the block: larger than the caches of most CPUs of real-time systems. LMbench's own
/// summary uses a block of at most half the machine's memory.
pub(super) const BLOCK_BYTES: usize = 64 << 20;

/// Number of words that are read or written as one portion.
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
