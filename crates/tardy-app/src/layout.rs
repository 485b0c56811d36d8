//! Layout of the memory shared with tardy, in words of 64 bits, version 1. `include/tardy.h` is its
//! counterpart for programs in C; a test of the tool compares the two. Not for users: the tool
//! reads it from here.
//!
//! The shared-memory layout is defined in one place, `tardy_app::layout`. The tool reads it from
//! there. A C program prints the header's offsets and the two are compared.

/// In the first word.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"TARDYAP1");
/// Words before the first region.
pub const HEAD_WORDS: usize = 512;
/// Index of the number of regions.
pub const REGIONS: usize = 1;
/// Index of the number of cycles in a ring, a power of two.
pub const SLOTS: usize = 2;
/// Index of the number of words per region.
pub const REGION_WORDS: usize = 3;
/// Index of the number of loops that found no free region.
pub const REFUSED: usize = 4;

/// Place in a region: free, claimed, open or closed.
pub const STATE: usize = 0;
/// Place in a region: time between two due times in ns, 0 if they form no grid.
pub const PERIOD: usize = 1;
/// Place in a region: number of the loop's thread.
pub const THREAD: usize = 2;
/// Index in a region: the loop's name, padded with zeros.
pub const NAME: usize = 4;
/// Number of words of the name.
pub const NAME_WORDS: usize = 6;
/// Index in a region: number of published cycles; written by the loop.
pub const HEAD: usize = 16;
/// Place in a region: cycles started.
pub const BEGUN: usize = 17;
/// Place in a region: due time of the cycle started last, at this place or the next, by whether the
/// cycles started are even.
pub const DUE: usize = 18;
/// Place in a region: cycles taken; written by tardy.
pub const TAIL: usize = 24;
/// Index in a region: the ring. For each cycle: its number from 0, due time, start, end of its
/// work.
pub const RING: usize = 32;
/// Number of words of a cycle.
pub const SLOT_WORDS: usize = 4;

/// State: nobody's.
pub const FREE: u64 = 0;
/// State: a loop fills it in.
pub const CLAIMED: u64 = 1;
/// State: a loop is there.
pub const OPEN: u64 = 2;
/// State: the last cycle was written.
pub const CLOSED: u64 = 3;
/// Value of an unreported end of work.
pub const NEVER: i64 = i64::MIN;
