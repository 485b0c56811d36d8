//! The memory that a program shares with tardy: its layout, version 1, in 64-bit words. This module
//! is public only because the tool uses it; programs should not use it.
//!
//! `include/tardy.h` defines the same layout for programs in C. A test of the tool compiles a C
//! program that prints the header's offsets, and compares them with those of this module.

/// Value of the first word of the shared memory.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"TARDYAP1");
/// Number of words before the first region.
pub const HEAD_WORDS: usize = 512;
/// Index of the word with the number of regions.
pub const REGIONS: usize = 1;
/// Index of the word with the number of cycles in a ring. This number is a power of two.
pub const SLOTS: usize = 2;
/// Index of the word with the size of a region in words.
pub const REGION_WORDS: usize = 3;
/// Index of the word that counts the loops that found no free region.
pub const REFUSED: usize = 4;

/// Index in a region: its state, which is free, claimed, open or closed.
pub const STATE: usize = 0;
/// Index in a region: time between two due times in ns; 0 if the due times are not equally spaced.
pub const PERIOD: usize = 1;
/// Index in a region: ID of the thread that runs the loop.
pub const THREAD: usize = 2;
/// Index in a region: the loop's name, padded with zeros.
pub const NAME: usize = 4;
/// Number of words that hold the loop's name.
pub const NAME_WORDS: usize = 6;
/// Index in a region: number of published cycles; written by the loop.
pub const HEAD: usize = 16;
/// Index in a region: number of started cycles; written by the loop.
pub const BEGUN: usize = 17;
/// Index in a region: due time of the last started cycle. It is in this word if the number of
/// started cycles is even, otherwise in the next word.
pub const DUE: usize = 18;
/// Index in a region: number of cycles that tardy has read; written by tardy.
pub const TAIL: usize = 24;
/// Index in a region: the ring. The words of a cycle are its number from 0, its due time, its start
/// and the end of its work.
pub const RING: usize = 32;
/// Number of words that a cycle takes in the ring.
pub const SLOT_WORDS: usize = 4;

/// State: the region is not used by a loop.
pub const FREE: u64 = 0;
/// State: a loop is writing its name and period into the region.
pub const CLAIMED: u64 = 1;
/// State: a loop publishes cycles in the region.
pub const OPEN: u64 = 2;
/// State: the loop has ended, and its last cycle is published.
pub const CLOSED: u64 = 3;
/// The loop stores this value as the end of a cycle's work if it did not report that end.
pub const NEVER: i64 = i64::MIN;
