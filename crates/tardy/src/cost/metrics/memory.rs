//! Reading and writing memory, every word of a block that no cache holds.

use std::hint::black_box;

use crate::cost::metric::{CacheState, Group, Metric, repeated};

/// Larger than the caches of most processors that real-time systems run on; LMbench's own summary uses at most half the memory.
pub(super) const BLOCK_BYTES: usize = 64 << 20;

/// Reading.
pub(super) const READ: Metric = Metric {
    name: "memory-read",
    group: Group::Bandwidth,
    operation: "sum of 64 MiB, word by word",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m frd"),
    prepare: |_| {
        let block = vec![1_u64; BLOCK_BYTES / 8];
        Ok(repeated(move || {
            black_box(block.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)));
            Ok(())
        }))
    },
};

/// Writing.
pub(super) const WRITE: Metric = Metric {
    name: "memory-write",
    group: Group::Bandwidth,
    operation: "writing 64 MiB, word by word",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m fwr"),
    prepare: |_| {
        let mut block = vec![1_u64; BLOCK_BYTES / 8];
        let mut value = 1_u64;
        Ok(repeated(move || {
            value = value.wrapping_add(1);
            // A value of eight bytes that the compiler cannot know keeps this from becoming memset.
            block.fill(black_box(value));
            black_box(&mut block);
            Ok(())
        }))
    },
};
