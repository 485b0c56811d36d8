//! Copies memory, with the C library's memcpy and with a simple loop.

use std::hint::black_box;

use tardy_run::cost::{CacheState, Group};

use super::memory::BLOCK_BYTES;
use crate::metric::{Metric, repeated};

/// Number of words that the loop copies in one step.
const UNROLLED: usize = 8;

/// The copy by the C library.
pub(super) const LIBC: Metric = Metric {
    name: "bcopy-libc",
    group: Group::Bandwidth,
    operation: "copy 64 MiB with memcpy",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m bcopy"),
    prepare: |_| {
        let (from, mut to) = (vec![1_u64; BLOCK_BYTES / 8], vec![2_u64; BLOCK_BYTES / 8]);
        Ok(repeated(move || {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            Ok(())
        }))
    },
};

pub(super) const OWN: Metric = Metric {
    name: "bcopy-own",
    group: Group::Bandwidth,
    operation: "copy 64 MiB in a loop, 8 words per iteration",
    bytes: Some(BLOCK_BYTES as u64),
    state: CacheState::Cold,
    lmbench: Some("bw_mem 64m fcp"),
    prepare: |_| {
        let (from, mut to) = (vec![1_u64; BLOCK_BYTES / 8], vec![2_u64; BLOCK_BYTES / 8]);
        Ok(repeated(move || {
            // The step is known only at run time, which keeps the compiler from replacing the loop
            // by memcpy.
            let step = black_box(UNROLLED);
            for (from, to) in from.chunks_exact(step).zip(to.chunks_exact_mut(step)) {
                let (Some(from), Some(to)) = (
                    from.first_chunk::<UNROLLED>(),
                    to.first_chunk_mut::<UNROLLED>(),
                ) else {
                    continue;
                };
                *to = *from;
            }
            black_box(&mut to);
            Ok(())
        }))
    },
};
